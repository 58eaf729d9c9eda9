//! How mechanisms are written and read, and what a wrong one is answered.

use semfocus_nn::{Family, MechanismInfo, Named, Registry, Spec};

fn parse(text: &str) -> Result<Spec, String> {
    Registry::standard().parse(text).map(|attention| attention.spec).map_err(|error| error.to_string())
}

fn message(text: &str) -> String {
    parse(text).expect_err("wrong spec")
}

#[test]
fn printing_and_parsing_round_trip() {
    for text in ["full", "banded:5", "banded:9+g1", "block:5", "block:9+g3", "topk:1", "bottomk:5", "randomk:1000000"] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
    let spec = Spec { first: Some(5.into()), globals: 3, ..Spec::new("banded") };
    assert_eq!(parse("banded:5+g3"), Ok(spec));
}

#[test]
fn every_example_of_the_registry_can_be_parsed() {
    let registry = Registry::standard();
    for info in registry.iter() {
        let example = info.example();
        assert_eq!(registry.parse(&example.to_string()).unwrap().spec, example);
        if info.allows_globals {
            assert_eq!(registry.parse(&format!("{example}+g2")).unwrap().spec.globals, 2);
        }
    }
}

#[test]
fn other_spellings_are_printed_in_one_way() {
    assert_eq!(parse(" topk:5 ").unwrap().to_string(), "topk:5");
    assert_eq!(parse("topk:005").unwrap().to_string(), "topk:5");
    assert_eq!(parse("topk:k=5").unwrap().to_string(), "topk:5");
    assert_eq!(parse("topk:5.0").unwrap().to_string(), "topk:5");
    assert_eq!(parse("topk:ties=random,k=5").unwrap().to_string(), "topk:5,ties=random");
    assert_eq!(parse("topk:5,ties=first").unwrap().to_string(), "topk:5", "defaults are left out");
    assert_eq!(parse("moba:k=2,block=8").unwrap().to_string(), "moba:block=8,k=2");
    assert_eq!(parse("entmax:1.50").unwrap().to_string(), "entmax");
    assert_eq!(parse("entmax:alpha=learned").unwrap().to_string(), "entmax:learned");
    assert_eq!(parse("bigbird:r=5,w=3").unwrap().to_string(), "bigbird:r=5");
}

#[test]
fn values_that_are_wrong() {
    let count = "(the number of kept keys)";
    assert_eq!(message("topk:0"), format!("`k` in `topk:0` must be at least 1 {count}, e.g. `topk:5`"));
    for wrong in ["x", "", "-1", "2.5", "5:6", "1e3"] {
        assert_eq!(
            message(&format!("topk:{wrong}")),
            format!("`{wrong}` in `topk:{wrong}` is not a whole number {count}; write for instance `topk:5`")
        );
    }
    assert_eq!(message("topk"), format!("`topk` needs `k` {count}, e.g. `topk:5`"));
    assert_eq!(message("banded"), "`banded` needs `w` (the width of the band), e.g. `banded:5`");
    assert_eq!(message("full:5"), "`full` takes no values; write `full`");
    assert_eq!(message("banded:5,6"), "`6` in `banded:5,6` has no key; `banded` takes `w`, e.g. `banded:5`");
    assert_eq!(message("banded:5,w=6"), "`banded:5,w=6` gives `w` twice; write for instance `banded:5`");
    assert_eq!(message("banded:width=6"), "`banded` has no value `width`; it takes `w`, e.g. `banded:5`");
    assert_eq!(message("moba:8"), "`8` in `moba:8` has no key; `moba` takes `block` and `k`, e.g. `moba:block=8,k=2`");
    assert_eq!(message("moba:k=2"), "`moba` needs `block` (the number of keys in a block), e.g. `moba:block=8,k=2`");
    let values = ["topk:5,ties=last", "entmax:learnt", "topp:1.5", "temperature:3,entropy=5"].map(message);
    insta::assert_snapshot!("values-refused", values.join("\n"));
    for huge in ["topk:1000001", "topk:99999999999999999999999999"] {
        let limit = "must be at most 1000000 (the number of kept keys; values above the length of the sequence make no difference)";
        assert_eq!(message(huge), format!("`k` in `{huge}` {limit}, e.g. `topk:5`"));
    }
}

#[test]
fn schedules_are_written_in_the_usual_spelling() {
    let registry = Registry::standard();
    let read = |text: &str| registry.schedule(text).map(|schedule| schedule.to_string()).map_err(|e| e.to_string());
    assert_eq!(read("topk:05").unwrap(), "topk:5");
    assert_eq!(read(" full@0, topk:05/full@10 ").unwrap(), "full@0,topk:5/full@10");
    let refused = ["full@0,tpok:5@10", "topk:5/topk:05", "topk:0"].map(|text| read(text).unwrap_err());
    insta::assert_snapshot!("schedules-refused", refused.join("\n"));
    assert_eq!(
        registry.parse("full/topk:5").unwrap_err().to_string(),
        "`full/topk:5` changes between blocks or during training, which is not possible here; write one mechanism"
    );
}

#[test]
fn names_that_are_wrong() {
    let meant = |text: &str| message(text).split("did you mean ").nth(1).map(str::to_owned);
    assert_eq!(message("tpok:5"), "unknown attention mechanism `tpok`; did you mean `topk:5`?");
    assert_eq!(message("TOPK:5"), "unknown attention mechanism `TOPK`; did you mean `topk:5`?");
    assert_eq!(meant("tpok:7").unwrap(), "`topk:7`?");
    assert_eq!(meant("tpok").unwrap(), "`topk:5`?", "completed by the usual size");
    assert_eq!(meant("tpok:0").unwrap(), "`topk:5`?", "a suggestion is always valid");
    assert_eq!(meant("ful:3").unwrap(), "`full`?");
    assert_eq!(meant("band:9+g1"), Some("`banded:9+g1`?".to_owned()));
    assert_eq!(meant("blok:9+g0"), Some("`block:9`?".to_owned()));
    let names: Vec<String> = Registry::standard().iter().map(|info| format!("`{}`", info.name)).collect();
    let known = format!("known are {} and {}", names[..names.len() - 1].join(", "), names[names.len() - 1]);
    assert_eq!(message("longformer"), format!("unknown attention mechanism `longformer`; {known}"));
    assert_eq!(message(":5"), format!("unknown attention mechanism ``; {known}"));
    assert_eq!(message("  "), format!("no attention mechanism given; {known}"));
    assert_eq!(message(""), format!("no attention mechanism given; {known}"));
}

#[test]
fn global_tokens_that_are_wrong() {
    assert_eq!(message("full+g1"), "`full` takes no global tokens: it already attends to all tokens; write `full`");
    assert_eq!(message("topk:5+g1"), "`topk` takes no global tokens; only `banded` and `block` do, e.g. `banded:5+g1`");
    assert_eq!(
        message("banded:5+g0"),
        "the number of global tokens in `banded:5+g0` must be between 1 and 1000; for none write `banded:5`"
    );
    assert_eq!(
        message("banded:5+g1001"),
        "the number of global tokens in `banded:5+g1001` must be between 1 and 1000; for none write `banded:5`"
    );
    for wrong in ["x", "g", "", "1", "gx", "g1+g2", "G1"] {
        assert_eq!(
            message(&format!("banded:5+{wrong}")),
            format!(
                "`+{wrong}` in `banded:5+{wrong}` is not a number of global tokens; write for instance `banded:5+g1`"
            )
        );
    }
}

#[test]
fn the_registry_says_which_family() {
    let registry = Registry::standard();
    let family = |text: &str| registry.parse(text).unwrap().info.family;
    assert_eq!(family("full"), Family::Baseline);
    assert_eq!(family("banded:5+g1"), Family::InputAgnostic);
    assert_eq!(family("block:5"), Family::InputAgnostic);
    assert_eq!(family("topk:5"), Family::InputDependent);
    assert_eq!(family("bottomk:5"), Family::Control);
    assert_eq!(family("randomk:5"), Family::Control);
    assert_eq!(
        Family::InputAgnostic.to_string(),
        serde_json::to_value(Family::InputAgnostic).unwrap().as_str().unwrap()
    );
}

#[test]
#[should_panic(expected = "`topk` is the name of another attention mechanism already")]
fn a_name_is_registered_once() {
    let registry = Registry::standard();
    let topk = registry.get("topk").unwrap().clone();
    let _ = registry.with(topk);
}

#[test]
fn the_documentation_has_every_mechanism() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mechanisms.md")).unwrap();
    for info in Registry::standard().iter() {
        let MechanismInfo { family, formula, source, isolates, .. } = &info;
        let form = info.form().replace('|', "\\|");
        let formula = formula.replace('|', "\\|");
        let row = format!("| `{form}` | {family} | {formula} | {isolates} | {source} |");
        assert!(page.contains(&row), "docs/mechanisms.md lacks the row\n{row}");
    }
}
