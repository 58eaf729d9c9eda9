//! `[expect]` tables: how they are read, what is refused and where, and that presets have them.

use semfocus_core::experiment::presets;
use semfocus_core::{AnyName, Experiment, Request, Scale};

fn resolve(name: &str, text: &str) -> Result<Experiment, String> {
    let folder = std::env::temp_dir().join(format!("semfocus-expect-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("mine.toml");
    std::fs::write(&file, text).unwrap();
    let request = Request { experiment: file.to_str().unwrap().to_owned(), ..Request::default() };
    let found = Experiment::resolve(&request, &AnyName).map_err(|error| error.to_string());
    std::fs::remove_dir_all(&folder).unwrap();
    found
}

fn written(experiment: &Experiment) -> Vec<String> {
    experiment.expectations().map(ToString::to_string).collect()
}

const HEAD: &str = "task = \"parity\"\nmechanisms = [\"full\", \"topk:5\", \"block:5\"]\n[expect]\n";

#[test]
fn a_table_survives_the_store() {
    let text = format!("{HEAD}\"topk:5\" = [\"faster\", \"not worse\"]\n\"block:5\" = \"not  faster\"\n");
    let experiment = resolve("store", &text).unwrap();
    assert_eq!(written(&experiment), ["topk:5 faster", "topk:5 not worse", "block:5 not faster"]);
    let again = Experiment::from_toml("again", &experiment.to_toml()).unwrap();
    let mut found = written(&again);
    found.sort();
    assert_eq!(found, ["block:5 not faster", "topk:5 faster", "topk:5 not worse"]);
}

#[test]
fn mistakes_are_shown_where_they_are() {
    for (name, line, message) in [
        ("outcome", "\"topk:5\" = \"fastr\"", "did you mean `faster`?"),
        ("absent", "\"topk:7\" = \"faster\"", "`topk:7` is not among the mechanisms"),
        ("baseline", "\"full\" = \"faster\"", "nothing is expected of it"),
        ("spelling", "\"Top 5\" = \"faster\"", "is not a mechanism"),
        ("twice", "\"topk:5\" = [\"faster\", \"not faster\"]", "together with its opposite"),
        ("number", "\"topk:5\" = 2.0", "expected an outcome"),
    ] {
        let error = resolve(name, &format!("{HEAD}{line}\n")).unwrap_err();
        assert!(error.contains(message), "{name}: {error}");
        assert!(error.contains("mine.toml:4"), "{name} has a place: {error}");
    }
    let error = resolve("text", "task = \"parity\"\nexpect = \"faster\"\n").unwrap_err();
    assert!(error.contains("`expect` is a table") && error.contains("mine.toml:2"), "{error}");
}

#[test]
fn what_a_base_expects_is_not_inherited() {
    let experiment = resolve("base", "base = \"even-pairs\"\n").unwrap();
    assert_eq!((experiment.expectations().count(), experiment.claim.as_str()), (0, ""));
}

#[test]
fn every_preset_says_what_it_expects() {
    for preset in presets() {
        // At smaller scales the effect need not show.
        let request = Request { experiment: preset.name.clone(), scale: Some(Scale::Full), ..Request::default() };
        let experiment = Experiment::resolve(&request, &AnyName).unwrap();
        // Figures and tables about models or the theory are not about speed.
        let is_about_speed = experiment.after.measurements.is_empty() && !experiment.after.regions;
        let expects_speed = experiment.expectations().any(|e| e.to_string() == "topk:5 faster");
        assert_eq!(expects_speed, is_about_speed, "{}", preset.name);
        assert!(experiment.changed.is_empty());
    }
}

#[test]
fn the_command_line_changes_the_experiment() {
    let request = |overrides: &[&str], mechanisms: Option<&[&str]>| Request {
        experiment: "parity".to_owned(),
        overrides: overrides.iter().map(|&text| text.to_owned()).collect(),
        mechanisms: mechanisms.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
        seeds: Some(7),
        ..Request::default()
    };
    let changed = |request: &Request| -> Vec<String> {
        let experiment = Experiment::resolve(request, &AnyName).unwrap();
        experiment.changes_to_claim().into_iter().map(str::to_owned).collect()
    };
    assert_eq!(changed(&request(&[], None)), [""; 0], "more seeds are no other experiment");
    assert_eq!(changed(&request(&["data.length=8"], None)), ["data.length 8 instead of 10"]);
    assert_eq!(changed(&request(&[], Some(&["full", "topk:5"]))), ["2 mechanisms instead of 4"]);
    let experiment = Experiment::resolve(&request(&["data.length=8"], None), &AnyName).unwrap();
    let stored = Experiment::from_toml("again", &experiment.to_toml()).unwrap();
    assert_eq!(stored.changed, experiment.changed);
}
