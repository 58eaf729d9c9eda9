//! From shares to statements: the explanations, which controls speak about them, and what follows. `docs/causes.md` has the
//! same tables in words.

use serde::Serialize;

use super::MeasuredControl;
use super::controls::{Explanation, RULES, Required, Role, ShareFinding, Test};
use crate::evidence::claim::Answer;

/// The study's claim about the cause.
pub const CLAIM: &str = "top-k attention learns faster because it focuses on semantically relevant keys";

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
        let speaks = |(role, test): (Role, &'static Test)| {
            let of_control = measured.iter().filter(move |measured| measured.control.name == test.control);
            of_control.map(move |measured| Speaks {
                mechanism: measured.mechanism.clone(),
                role,
                kept: measured.kept,
                handicap: test.handicap.as_deref(),
            })
        };
        let controls: Vec<Speaks> = explanation.tests().flat_map(speaks).collect();
        let finding = CauseFinding::new(side(&controls, Role::Alone), side(&controls, Role::Without));
        let words = words(finding, &controls);
        (!controls.is_empty()).then_some(Judged {
            explanation: &explanation.name,
            because: &explanation.because,
            finding,
            words,
            controls,
        })
    };
    RULES.explanation.iter().filter_map(of).collect()
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

/// Judges [`CLAIM`] by what is required.
pub(super) fn judge_claim(judged: &[Judged]) -> Claimed {
    let (mut against, mut open) = (Vec::new(), Vec::new());
    for Required { explanation, role, keeps: wanted, otherwise } in &RULES.required {
        let (role, wanted, name) = (*role, *wanted, explanation.as_str());
        let controls = judged.iter().find(|judged| judged.explanation == name).map(|judged| &judged.controls[..]);
        match controls.and_then(|controls| side(controls, role)) {
            Some(kept) if kept == wanted => (),
            Some(ShareFinding::Undecided) | None => open.push(name),
            Some(_) => {
                let is_cause = |s: &&Speaks| s.role == role && s.kept != wanted && s.counts();
                let names: Vec<&str> =
                    controls.unwrap_or_default().iter().filter(is_cause).map(|s| s.mechanism.as_str()).collect();
                against.push(format!("{otherwise} ({})", names.join(", ")));
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
