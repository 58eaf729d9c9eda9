//! Findings about the causes of a speed-up, on invented runs.

use semfocus_analysis::evidence::causes::{CONTROLS, CauseFinding, Causes, RULES, Role, ShareFinding, controls};
use semfocus_analysis::evidence::claim::Answer;
use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_core::{AnyName, Experiment, Request, study};
use semfocus_fixture::{self as fixture, Fixture, Scratch};
use semfocus_store::State;

const EPOCHS: usize = 40;

const MECHANISMS: [&str; 14] = [
    "full",
    "topk:5",
    "topk:9",
    "oracle:5",
    "fixedk:5",
    "banded:5",
    "shuffledk:5",
    "hashk:5",
    "frozenk:5",
    "stk:5",
    "gradk:5",
    "maskedk:5",
    "temperature:entropy=5",
    "matchedgrad:5",
];

/// A run in which every trial reaches the target in the epoch that `epoch` gives for its mechanism and the number of its seed, or
/// never.
fn causes(
    name: &str,
    mechanisms: &[&str],
    seeds: usize,
    epoch: impl Fn(&str, usize) -> Option<usize>,
) -> Option<Causes> {
    let scratch = Scratch::new(&format!("causes-{name}"));
    let request = Request {
        experiment: "even-pairs".to_owned(),
        scale: Some(semfocus_core::Scale::Full),
        mechanisms: Some(mechanisms.iter().map(|&mechanism| mechanism.to_owned()).collect()),
        seeds: Some(seeds),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    let store = fixture::store(scratch.path(), &experiment, |trial| {
        let seed = study::SEEDS.iter().position(|seed| *seed == trial.seed).unwrap();
        let at = epoch(&trial.mechanism, seed);
        let records = (1..=EPOCHS).map(|epoch| fixture::jump(epoch, at, 0.99)).collect();
        Some(Fixture { records, state: State::Finished, probes: Vec::new() })
    });
    let evidence = Evidence::read(&store.unwrap(), GOAL).unwrap();
    Causes::new(&evidence.points[0], None)
}

/// Slow and fast trials, which vary a little from seed to seed and from mechanism to mechanism.
fn slow(mechanism: &str, seed: usize) -> Option<usize> {
    Some(28 + (3 * seed + mechanism.len()) % 7)
}

fn fast(mechanism: &str, seed: usize) -> Option<usize> {
    Some(6 + (seed + mechanism.len()) % 2)
}

/// What the study's explanation predicts: only mechanisms that choose keys by learned scores of this input are fast.
fn as_claimed(mechanism: &str, seed: usize) -> Option<usize> {
    match mechanism {
        "topk:5" | "topk:9" | "oracle:5" | "stk:5" | "maskedk:5" => fast(mechanism, seed),
        "banded:5" => None,
        _ => slow(mechanism, seed),
    }
}

fn finding(causes: &Causes, explanation: &str) -> (CauseFinding, String) {
    let judged = causes.explanations.iter().find(|judged| judged.explanation == explanation);
    let judged = judged.unwrap_or_else(|| panic!("nothing about {explanation}"));
    (judged.finding, judged.words.clone())
}

#[test]
fn the_claim_is_supported_where_it_holds() {
    let causes = causes("claimed", &MECHANISMS, 8, as_claimed).unwrap();
    assert_eq!((causes.reference.as_str(), causes.seeds), ("topk:5", 8), "it has more controls than topk:9");
    assert_eq!(causes.claim.answer, Answer::Supported, "{:?}", causes.claim);
    for (explanation, expected, words) in [
        ("knowing where to look", CauseFinding::Supported, "enough by itself (oracle:5)"),
        ("sparsity of any kind", CauseFinding::Excluded, "not enough by itself (fixedk:5, hashk:5)"),
        ("reach", CauseFinding::Excluded, "not enough by itself (fixedk:5)"),
        (
            "input dependence",
            CauseFinding::Part,
            "not enough by itself (hashk:5); the speed-up is lost without it (shuffledk:5)",
        ),
        ("learned choice", CauseFinding::Supported, "the speed-up is lost without it (frozenk:5)"),
        (
            "sparse forward pass",
            CauseFinding::Supported,
            "enough by itself (stk:5); the speed-up is lost without it (gradk:5)",
        ),
        (
            "sparse gradient",
            CauseFinding::Excluded,
            "not enough by itself (gradk:5); the speed-up remains without it (stk:5)",
        ),
        ("renormalisation", CauseFinding::Excluded, "the speed-up remains without it (maskedk:5)"),
        ("sharpness", CauseFinding::Excluded, "not enough by itself (temperature:entropy=5)"),
        ("larger gradients of scores", CauseFinding::Excluded, "not enough by itself (matchedgrad:5)"),
    ] {
        assert_eq!(finding(&causes, explanation), (expected, words.to_owned()), "{explanation}");
    }
    assert!(
        !causes.explanations.iter().any(|judged| judged.explanation == "hard cut at k keys"),
        "no control, no word"
    );
    let banded = causes.controls.iter().find(|measured| measured.mechanism == "banded:5").unwrap();
    assert_eq!(
        (banded.kept, banded.reached, banded.share_interval.unwrap().low),
        (ShareFinding::Less, 0, f64::NEG_INFINITY)
    );
}

#[test]
fn the_claim_is_not_supported_where_simpler_explanations_are_enough() {
    let cases: [(&[&str], &str); 4] = [
        (&["fixedk:5"], "few keys are enough, whichever they are (fixedk:5)"),
        (&["temperature:entropy=5"], "sharp attention over all keys is enough (temperature:entropy=5)"),
        (&["matchedgrad:5"], "larger gradients of the scores are enough (matchedgrad:5)"),
        (&["frozenk:5", "shuffledk:5"], "the choice of keys need not depend on the input (shuffledk:5)"),
    ];
    for (also_fast, reason) in cases {
        let epoch = |mechanism: &str, seed: usize| match also_fast.contains(&mechanism) {
            true => fast(mechanism, seed),
            false => as_claimed(mechanism, seed),
        };
        let causes = causes("against", &MECHANISMS, 8, epoch).unwrap();
        assert_eq!(causes.claim.answer, Answer::NotSupported, "{also_fast:?}: {:?}", causes.claim);
        assert!(causes.claim.reason.contains(reason), "{also_fast:?}: {}", causes.claim.reason);
    }
    // Being told the relevant keys does not help.
    let epoch = |mechanism: &str, seed| match mechanism {
        "oracle:5" => slow(mechanism, seed),
        _ => as_claimed(mechanism, seed),
    };
    let causes = causes("told", &MECHANISMS, 8, epoch).unwrap();
    assert_eq!(causes.claim.answer, Answer::NotSupported);
    assert!(
        causes
            .claim
            .reason
            .starts_with("attention that is told the relevant keys does not have the speed-up (oracle:5)")
    );
}

#[test]
fn nothing_is_said_that_the_seeds_do_not_decide() {
    // About half of the speed-up, from a fifth to four fifths of it.
    let epoch = |mechanism: &str, seed: usize| match mechanism {
        "oracle:5" => Some([8, 24, 14, 11, 19, 14][seed % 6]),
        _ => as_claimed(mechanism, seed),
    };
    let found = causes("between", &MECHANISMS, 6, epoch).unwrap();
    let oracle = &found.controls[0];
    assert_eq!((oracle.mechanism.as_str(), oracle.kept), ("oracle:5", ShareFinding::Undecided));
    assert!(oracle.share_interval.unwrap().contains(0.5) && oracle.share.unwrap().value() > 0.3, "{oracle:?}");
    assert_eq!(found.claim.answer, Answer::Undecided);
    assert_eq!(found.claim.reason, "not decided: knowing where to look");
    let words = "cannot be decided with these seeds (oracle:5)".to_owned();
    assert_eq!(finding(&found, "knowing where to look"), (CauseFinding::Undecided, words));
    // Top-k attention is no faster: there is nothing to explain.
    let found = causes("equal", &MECHANISMS, 8, slow).unwrap();
    assert!(found.no_shares.as_ref().unwrap().contains("there is no speed-up to explain"), "{:?}", found.no_shares);
    assert_eq!((found.claim.answer, found.controls[0].share), (Answer::Undecided, None));
    // Three seeds cannot show anything.
    let found = causes("few", &MECHANISMS, 3, as_claimed).unwrap();
    assert!(found.no_shares.unwrap().contains("at least four seeds"));
}

#[test]
fn runs_without_controls_have_nothing_to_explain() {
    assert_eq!(causes("patterns", &["full", "topk:5", "banded:5", "block:5"], 5, as_claimed), None);
    assert_eq!(causes("size", &["full", "topk:5", "oracle:9"], 5, as_claimed), None);
    assert_eq!(causes("baseline", &["topk:5", "oracle:5"], 5, as_claimed), None);
    assert_eq!(
        causes("any", &["full", "topk:5", "sparsemax", "entmax"], 5, as_claimed),
        None,
        "no control with the same k"
    );
}

#[test]
fn the_top_k_attention_that_is_faster_is_explained() {
    // `topk:3` comes first and has more controls, but there is nothing to explain.
    let mechanisms = ["full", "topk:3", "oracle:3", "fixedk:3", "topk:5", "oracle:5"];
    let found = causes("faster", &mechanisms, 6, as_claimed).unwrap();
    assert_eq!((found.reference.as_str(), found.no_shares), ("topk:5", None));
    let none = causes("none", &mechanisms, 6, slow).unwrap();
    assert_eq!(none.reference, "topk:3", "without a speed-up, the one with the most controls");
}

#[test]
fn rules_are_about_controls_and_explanations_that_exist() {
    for explanation in &RULES.explanation {
        assert!(explanation.tests().any(|(_, test)| test.handicap.is_none()), "{} can be judged", explanation.name);
        for (_, test) in explanation.tests() {
            assert!(CONTROLS.iter().any(|control| control.name == test.control), "{}", test.control);
        }
    }
    for control in CONTROLS.iter() {
        let mut tests = RULES.explanation.iter().flat_map(|explanation| explanation.tests());
        let judges = tests.any(|(_, test)| test.control == control.name);
        assert_eq!(judges, control.name != "antioracle", "{}", control.name);
    }
    for required in &RULES.required {
        let explanation =
            RULES.explanation.iter().find(|explanation| explanation.name == required.explanation).unwrap();
        let mut tests = explanation.tests();
        assert!(tests.any(|(role, test)| role == required.role && test.handicap.is_none()), "{}", required.explanation);
    }
}

/// `docs/causes.md` has the same tables.
#[test]
fn the_page_says_what_the_rules_are() {
    let page = include_str!("../../../docs/causes.md");
    for control in CONTROLS.iter() {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}", control.name)));
        let row = row.unwrap_or_else(|| panic!("{} is missing", control.name));
        assert!(row.ends_with(&format!("| {} | {} |", control.does, control.isolates)), "{row}");
    }
    for explanation in &RULES.explanation {
        let row = page.lines().find(|line| line.starts_with(&format!("| {} |", explanation.name)));
        let row = row.unwrap_or_else(|| panic!("{} is missing", explanation.name));
        let side = |role: Role| -> String {
            let tests = explanation.tests().filter(|(of, _)| *of == role);
            let name = |(_, test): (Role, &controls::Test)| match test.handicap {
                Some(_) => format!("(`{}`)", test.control),
                None => format!("`{}`", test.control),
            };
            tests.map(name).collect::<Vec<_>>().join(", ")
        };
        let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(
            columns[1..],
            [explanation.because.as_str(), &side(Role::Alone), &side(Role::Without)],
            "{}",
            explanation.name
        );
    }
    for controls::Required { explanation, role, keeps, otherwise } in &RULES.required {
        let role = if *role == Role::Alone { "alone" } else { "without" };
        assert!(
            page.contains(&format!("| *{explanation}*, {role}: {} | {otherwise} |", keeps.name())),
            "{explanation}"
        );
    }
}
