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
        let expects_speed = experiment.expectations().any(|e| e.mechanism == "topk:5");
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
        experiment.changes_to_claim().iter().map(ToString::to_string).collect()
    };
    assert_eq!(changed(&request(&[], None)), [""; 0], "more seeds are no other experiment");
    assert_eq!(changed(&request(&["data.length=8"], None)), ["data.length 8 instead of 10"]);
    assert_eq!(changed(&request(&[], Some(&["full", "topk:5"]))), ["2 mechanisms instead of 4"]);
    let experiment = Experiment::resolve(&request(&["data.length=8"], None), &AnyName).unwrap();
    let stored = Experiment::from_toml("again", &experiment.to_toml()).unwrap();
    assert_eq!(stored.changed, experiment.changed);
}

#[test]
fn every_preset_is_resumed_by_its_folder() {
    for (number, preset) in presets().iter().enumerate() {
        let whole = Request { experiment: preset.name.clone(), ..Request::default() };
        let experiment = Experiment::resolve(&whole, &AnyName).unwrap();
        // The baseline and one more mechanism, which leaves expectations without their mechanisms.
        let fewer = experiment.mechanisms.iter().take(2).cloned().collect();
        let fewer = Request { mechanisms: Some(fewer), ..whole.clone() };
        let requests = if experiment.mechanisms.is_empty() { vec![whole] } else { vec![whole, fewer] };
        for request in requests {
            let run = Experiment::resolve(&request, &AnyName).unwrap();
            let resumed = resolve(&format!("resume-{number}"), &run.to_toml())
                .unwrap_or_else(|error| panic!("{} cannot be resumed: {error}", preset.name));
            assert_eq!(resumed.to_toml(), run.to_toml(), "{}", preset.name);
            assert_eq!(resumed.changes_to_claim(), run.changes_to_claim(), "{}", preset.name);
        }
    }
}

#[test]
fn an_edited_copy_says_what_it_has_now() {
    let request = Request { experiment: "even-pairs".to_owned(), ..Request::default() };
    let text = Experiment::resolve(&request, &AnyName).unwrap().to_toml();
    let epochs = |experiment: &Experiment| {
        let about = experiment.reduced.iter().find(|difference| difference.to_string().contains("training.epochs"));
        about.map(ToString::to_string)
    };
    let (before, after) = ("epochs = 16", "epochs = 12");
    assert!(text.contains(before), "{text}");
    assert_eq!(
        epochs(&resolve("copy", &text.replace(before, after)).unwrap()).unwrap(),
        epochs(&resolve("same", &text).unwrap()).unwrap().replace("epochs 16", "epochs 12")
    );
    assert_eq!(epochs(&resolve("full", &text.replace(before, "epochs = 100")).unwrap()), None, "nothing is reduced");
}

#[test]
fn another_task_has_no_claim() {
    let request = |overrides: &[&str]| Request {
        experiment: "even-pairs".to_owned(),
        overrides: overrides.iter().map(|&text| text.to_owned()).collect(),
        ..Request::default()
    };
    let usual = Experiment::resolve(&request(&[]), &AnyName).unwrap();
    assert!(!usual.claim.is_empty() && !usual.reduced.is_empty() && usual.expectations().count() > 0);
    let other = Experiment::resolve(&request(&["task=parity"]), &AnyName).unwrap();
    assert_eq!((other.claim.as_str(), other.reduced.len(), other.expectations().count()), ("", 0, 0));
    assert!(other.changed.iter().any(|change| change.to_string() == "task parity instead of even-pairs"));
}

#[test]
fn more_mechanisms_do_not_uncheck_a_claim() {
    let usual =
        Experiment::resolve(&Request { experiment: "parity".to_owned(), ..Request::default() }, &AnyName).unwrap();
    let more = [&usual.mechanisms[..], &["topk:2".to_owned()]].concat();
    let request = Request { experiment: "parity".to_owned(), mechanisms: Some(more), ..Request::default() };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    assert_eq!((experiment.changed.len(), experiment.changes_to_claim()), (1, Vec::new()));
}

#[test]
fn several_mistakes_are_shown_at_once_and_in_order() {
    let error = resolve(
        "several",
        "task = \"parity\"\n[model]\nblocks = -1\nheds = 2\n[train]\nepochs = 3\n[grid]\ntopk.k = [1, 2]\n",
    )
    .unwrap_err();
    let places: Vec<usize> = ["mine.toml:3:", "mine.toml:4:", "mine.toml:5:", "mine.toml:8:"]
        .into_iter()
        .map(|place| error.find(place).unwrap_or_else(|| panic!("{place} is missing: {error}")))
        .collect();
    assert!(places.is_sorted(), "{error}");
    for help in ["did you mean `[training]`?", "did you mean `model.heads`?", "mechanisms = [\"full\", \"topk:1\""] {
        assert!(error.contains(help), "{help}: {error}");
    }
}

#[test]
fn a_file_of_another_kind_is_refused_clearly() {
    let folder = std::env::temp_dir().join(format!("semfocus-kinds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let message = |name: &str, contents: &[u8]| {
        std::fs::write(folder.join(name), contents).unwrap();
        let request = Request { experiment: folder.join(name).to_str().unwrap().to_owned(), ..Request::default() };
        Experiment::resolve(&request, &AnyName).unwrap_err().to_string()
    };
    assert!(message("y.yaml", b"task: parity\n").contains("ends in .toml"));
    assert!(message("binary.toml", &[0xff, 0xfe, 0]).contains("it is not text"));
    std::fs::remove_dir_all(&folder).unwrap();
    let request = Request { experiment: "/dev/zero".to_owned(), ..Request::default() };
    assert!(Experiment::resolve(&request, &AnyName).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn a_data_file_is_an_experiment() {
    let folder = std::env::temp_dir().join(format!("semfocus-data-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["films.csv", "films.tsv", "films.jsonl"] {
        let path = folder.join(name);
        std::fs::write(&path, "").unwrap();
        let request = Request { experiment: path.to_str().unwrap().to_owned(), ..Request::default() };
        let experiment = Experiment::resolve(&request, &AnyName).unwrap();
        assert_eq!((experiment.name.as_str(), experiment.seeds.len()), ("films", 5));
        assert_eq!(experiment.mechanisms, ["full", "topk:5"]);
        assert_eq!((experiment.claim.as_str(), experiment.changed.len()), ("", 0));
        let settings = experiment.settings_at(&[], "full", 1).unwrap();
        assert_eq!(settings.task, path.to_str().unwrap());
        let resumed = resolve("data", &experiment.to_toml()).unwrap();
        assert_eq!(resumed.to_toml(), experiment.to_toml());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
