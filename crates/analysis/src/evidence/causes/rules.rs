//! From shares to statements: the explanations, which controls speak about them, and what follows. `docs/causes.md` has the
//! same tables in words.

use serde::Serialize;

use super::MeasuredControl;
use crate::evidence::claim::Answer;

/// Whether a control keeps more or less than half of the speed-up, as the interval of its share says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareFinding {
    /// The interval lies above one half.
    Most,
    /// The interval lies below one half.
    Less,
    /// The interval contains one half.
    Undecided,
}

impl ShareFinding {
    /// As it is written in tables.
    pub fn name(self) -> &'static str {
        match self {
            ShareFinding::Most => "most",
            ShareFinding::Less => "less",
            ShareFinding::Undecided => "undecided",
        }
    }
}

/// How a control is related to an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has what the explanation names, and not the rest of what top-k attention does.
    Alone,
    /// It does what top-k attention does, but for what the explanation names.
    Without,
}

/// A control and what it says about an explanation.
#[derive(Debug)]
pub struct Test {
    /// Its name in [`CONTROLS`](super::CONTROLS).
    pub control: &'static str,
    /// How it is related to the explanation.
    pub role: Role,
    /// Why it may lose the speed-up for another reason. Then it counts only if it keeps most of it.
    pub handicap: Option<&'static str>,
}

const fn alone(control: &'static str) -> Test {
    Test { control, role: Role::Alone, handicap: None }
}

const fn without(control: &'static str) -> Test {
    Test { control, role: Role::Without, handicap: None }
}

impl Test {
    const fn but(self, handicap: &'static str) -> Self {
        Test { handicap: Some(handicap), ..self }
    }
}

/// Something that could be the cause of the speed-up.
#[derive(Debug)]
pub struct Explanation {
    /// What is named as the cause.
    pub name: &'static str,
    /// The explanation as a sentence.
    pub because: &'static str,
    /// The controls that speak about it.
    pub tests: &'static [Test],
}

const NO_REACH: &str = "it does not reach all keys";
const LACKS_MORE: &str = "it lacks more than this";
const NOISE: &str = "its choice is noise";
const OPPOSITE: &str = "it keeps the keys that the model wants least";
const NOT_MATCHED: &str = "it does not begin as sharp as top-k";
const BEGINS_DENSE: &str = "it begins with most keys";

/// All explanations, in the order in which they are judged.
pub static EXPLANATIONS: [Explanation; 12] = [
    Explanation {
        name: "knowing where to look",
        because: "It attends to the keys that determine the answer.",
        tests: &[alone("oracle")],
    },
    Explanation {
        name: "sparsity of any kind",
        because: "It keeps few keys, whichever they are.",
        tests: &[
            alone("fixedk"),
            alone("hashk"),
            alone("randomk").but(NOISE),
            alone("bottomk").but(OPPOSITE),
            alone("banded").but(NO_REACH),
            alone("block").but(NO_REACH),
            without("temperature").but(LACKS_MORE),
            without("ssmax").but(LACKS_MORE),
            without("matchedgrad").but(LACKS_MORE),
        ],
    },
    Explanation {
        name: "reach",
        because: "Its few keys may be anywhere, unlike those of a band or a block.",
        tests: &[alone("fixedk"), without("banded").but(LACKS_MORE), without("block").but(LACKS_MORE)],
    },
    Explanation {
        name: "input dependence",
        because: "Its choice of keys depends on the input.",
        tests: &[
            alone("hashk"),
            without("shuffledk"),
            without("fixedk").but(LACKS_MORE),
            without("banded").but(NO_REACH),
            without("block").but(NO_REACH),
        ],
    },
    Explanation {
        name: "choice by content",
        because: "It chooses keys by their content, learned or not.",
        tests: &[alone("frozenk"), without("hashk"), without("fixedk").but(LACKS_MORE), without("randomk").but(NOISE)],
    },
    Explanation {
        name: "learned choice",
        because: "It learns which keys to choose.",
        tests: &[
            without("frozenk"),
            without("hashk").but(LACKS_MORE),
            without("fixedk").but(LACKS_MORE),
            without("randomk").but(NOISE),
        ],
    },
    Explanation {
        name: "sparse forward pass",
        because: "Its output is computed from few keys.",
        tests: &[alone("stk"), without("gradk")],
    },
    Explanation {
        name: "sparse gradient",
        because: "Its gradient goes to few scores.",
        tests: &[alone("gradk"), without("stk")],
    },
    Explanation {
        name: "renormalisation",
        because: "The weights of its few keys are scaled up to a sum of 1.",
        tests: &[without("maskedk")],
    },
    Explanation {
        name: "sharpness",
        because: "Its attention is sharp from the beginning; sparsity is not needed.",
        tests: &[alone("temperature"), alone("ssmax").but(NOT_MATCHED)],
    },
    Explanation {
        name: "larger gradients of scores",
        because: "With fewer keys each weight is larger, and so is the gradient of each score.",
        tests: &[alone("matchedgrad")],
    },
    Explanation {
        name: "hard cut at k keys",
        because: "It keeps a fixed number of keys and drops all others, instead of fading them out.",
        tests: &[without("sparsemax"), without("entmax").but(BEGINS_DENSE), without("topp").but(BEGINS_DENSE)],
    },
];

/// The study's claim about the cause.
pub const CLAIM: &str = "top-k attention learns faster because it focuses on semantically relevant keys";

/// What has to be so for [`CLAIM`] to hold: the explanation, the side of it, what the controls on this side have to keep, and what it
/// means if they do the opposite.
pub static REQUIRED: [(&str, Role, ShareFinding, &str); 6] = [
    (
        "knowing where to look",
        Role::Alone,
        ShareFinding::Most,
        "attention that is told the relevant keys does not have the speed-up",
    ),
    ("input dependence", Role::Without, ShareFinding::Less, "the choice of keys need not depend on the input"),
    ("learned choice", Role::Without, ShareFinding::Less, "the choice of keys need not be learned"),
    ("sparsity of any kind", Role::Alone, ShareFinding::Less, "few keys are enough, whichever they are"),
    ("sharpness", Role::Alone, ShareFinding::Less, "sharp attention over all keys is enough"),
    ("larger gradients of scores", Role::Alone, ShareFinding::Less, "larger gradients of the scores are enough"),
];

/// What the controls say about an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CauseFinding {
    /// It is enough by itself, or the speed-up is lost without it.
    Supported,
    /// The speed-up is lost without it, but it is not enough by itself.
    Part,
    /// It is enough by itself, but the speed-up remains without it.
    OneOfSeveral,
    /// It is not enough by itself, or the speed-up remains without it.
    Excluded,
    /// The seeds do not decide.
    Undecided,
}

impl CauseFinding {
    /// As it is written in sentences.
    pub fn name(self) -> &'static str {
        match self {
            CauseFinding::Supported => "supported",
            CauseFinding::Part => "a part of it",
            CauseFinding::OneOfSeveral => "one of several",
            CauseFinding::Excluded => "excluded",
            CauseFinding::Undecided => "undecided",
        }
    }

    /// From what the controls on both sides keep; none if there are none on a side.
    pub fn new(alone: Option<ShareFinding>, without: Option<ShareFinding>) -> Self {
        use ShareFinding::{Less, Most, Undecided};
        match (alone, without) {
            (Some(Most), Some(Most)) => CauseFinding::OneOfSeveral,
            (Some(Less), Some(Less)) => CauseFinding::Part,
            (Some(Most), _) | (_, Some(Less)) => CauseFinding::Supported,
            (Some(Less), _) | (_, Some(Most)) => CauseFinding::Excluded,
            (Some(Undecided) | None, Some(Undecided) | None) => CauseFinding::Undecided,
        }
    }
}

/// What a control says about an explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Speaks {
    /// As the experiment names it.
    pub mechanism: String,
    /// How it is related to the explanation.
    pub role: Role,
    /// What it keeps of the speed-up.
    pub kept: ShareFinding,
    /// Why it counts only if it keeps most of the speed-up, if that is so.
    pub handicap: Option<&'static str>,
}

impl Speaks {
    /// Whether it decides something.
    fn counts(&self) -> bool {
        self.kept == ShareFinding::Most || (self.kept == ShareFinding::Less && self.handicap.is_none())
    }
}

/// An explanation and what the controls of a run say about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// What is named as the cause.
    pub explanation: &'static str,
    /// The explanation as a sentence.
    pub because: &'static str,
    /// What the controls say.
    pub finding: CauseFinding,
    /// Why, in words.
    pub words: String,
    /// The controls of this run that speak about it.
    pub controls: Vec<Speaks>,
}

/// All explanations about which the run has a control.
pub(super) fn judge(measured: &[MeasuredControl]) -> Vec<Judged> {
    let of = |explanation: &'static Explanation| {
        let speaks = |test: &'static Test| {
            let of_control = measured.iter().filter(move |measured| measured.control.name == test.control);
            of_control.map(|measured| Speaks {
                mechanism: measured.mechanism.clone(),
                role: test.role,
                kept: measured.kept,
                handicap: test.handicap,
            })
        };
        let controls: Vec<Speaks> = explanation.tests.iter().flat_map(speaks).collect();
        let finding = CauseFinding::new(side(&controls, Role::Alone), side(&controls, Role::Without));
        let words = words(finding, &controls);
        (!controls.is_empty()).then_some(Judged {
            explanation: explanation.name,
            because: explanation.because,
            finding,
            words,
            controls,
        })
    };
    EXPLANATIONS.iter().filter_map(of).collect()
}

/// What the controls on one side of an explanation keep together. One that keeps most is enough; that less is kept takes all
/// controls without a handicap.
fn side(controls: &[Speaks], role: Role) -> Option<ShareFinding> {
    let mut on_side = controls.iter().filter(|speaks| speaks.role == role).peekable();
    on_side.peek()?;
    let on_side: Vec<&Speaks> = on_side.collect();
    let mut fair = on_side.iter().filter(|speaks| speaks.handicap.is_none()).peekable();
    Some(match () {
        () if on_side.iter().any(|speaks| speaks.kept == ShareFinding::Most) => ShareFinding::Most,
        () if fair.peek().is_some() && fair.all(|speaks| speaks.kept == ShareFinding::Less) => ShareFinding::Less,
        () => ShareFinding::Undecided,
    })
}

fn words(finding: CauseFinding, controls: &[Speaks]) -> String {
    let names = |role: Role, kept: ShareFinding| {
        let wanted = controls.iter().filter(|s| s.role == role && s.kept == kept && s.counts());
        wanted.map(|speaks| speaks.mechanism.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (alone, without) = (side(controls, Role::Alone), side(controls, Role::Without));
    let of_alone = match alone {
        Some(ShareFinding::Most) => format!("enough by itself ({})", names(Role::Alone, ShareFinding::Most)),
        Some(ShareFinding::Less) => format!("not enough by itself ({})", names(Role::Alone, ShareFinding::Less)),
        _ => String::new(),
    };
    let of_without = match without {
        Some(ShareFinding::Most) => {
            format!("the speed-up remains without it ({})", names(Role::Without, ShareFinding::Most))
        }
        Some(ShareFinding::Less) => {
            format!("the speed-up is lost without it ({})", names(Role::Without, ShareFinding::Less))
        }
        _ => String::new(),
    };
    match (finding, of_alone.is_empty(), of_without.is_empty()) {
        (CauseFinding::Undecided, ..) => undecided(controls),
        (_, false, false) => format!("{of_alone}; {of_without}"),
        _ => of_alone + &of_without,
    }
}

fn undecided(controls: &[Speaks]) -> String {
    let list = |wanted: fn(&&Speaks) -> bool| -> String {
        controls.iter().filter(wanted).map(|speaks| speaks.mechanism.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (open, handicapped) = (
        list(|speaks| speaks.kept == ShareFinding::Undecided && speaks.handicap.is_none()),
        list(|speaks| speaks.handicap.is_some()),
    );
    match open.is_empty() {
        false => format!("cannot be decided with these seeds ({open})"),
        true => format!("no control decides it: {handicapped} may lose the speed-up for another reason"),
    }
}

/// What the controls say about [`CLAIM`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claimed {
    /// The claim.
    pub claim: &'static str,
    /// What the controls say.
    pub answer: Answer,
    /// Why, in words.
    pub reason: String,
}

/// Judges [`CLAIM`] by [`REQUIRED`].
pub(super) fn judge_claim(judged: &[Judged]) -> Claimed {
    let (mut against, mut open) = (Vec::new(), Vec::new());
    for &(name, role, wanted, opposite) in &REQUIRED {
        let controls = judged.iter().find(|judged| judged.explanation == name).map(|judged| &judged.controls[..]);
        match controls.and_then(|controls| side(controls, role)) {
            Some(kept) if kept == wanted => (),
            Some(ShareFinding::Undecided) | None => open.push(name),
            Some(_) => {
                let is_cause = |s: &&Speaks| s.role == role && s.kept != wanted && s.counts();
                let names: Vec<&str> =
                    controls.unwrap_or_default().iter().filter(is_cause).map(|s| s.mechanism.as_str()).collect();
                against.push(format!("{opposite} ({})", names.join(", ")));
            }
        }
    }
    let (answer, reason) = match (against.is_empty(), open.is_empty()) {
        (false, _) => (Answer::NotSupported, against.join("; ")),
        (true, false) => (Answer::Undecided, format!("not decided: {}", open.join(", "))),
        (true, true) => {
            let reason = "attention that is told the relevant keys has most of the speed-up; it is lost where the choice \
                          of keys does not depend on the input or is not learned; and sparsity of any kind, sharpness \
                          and larger gradients are not enough";
            (Answer::Supported, reason.to_owned())
        }
    };
    Claimed { claim: CLAIM, answer, reason }
}
