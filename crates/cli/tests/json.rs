//! The JSON that commands print has the fields that `docs/json.md` describes.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{SMALL, Scratch, semfocus, semfocus_with_input, trials};
use serde_json::Value;

#[test]
fn every_field_is_documented() {
    let page = include_str!("../../../docs/json.md");
    let section = |title: &str| {
        let (_, rest) = page.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section on {title}"));
        rest.split("\n## ").next().unwrap().to_owned()
    };
    let scratch = Scratch::new("json");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let run = ["run", &file, "-o", &dir, "--epochs", "2", "--json", "--quiet"];
    let mut printed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut check = |title: &str, arguments: &[&str], input: &str| {
        let output = semfocus_with_input(arguments, input);
        assert_eq!(output.code, 0, "{title}: {}", output.stderr);
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        assert!(output.stdout.starts_with("{\n  \"schema\": 1,\n"), "{title}: {}", output.stdout);
        let entries = value.get("list").map_or(&[][..], |list| list.as_array().unwrap());
        let section = section(title);
        for object in [&value].into_iter().chain(entries) {
            for field in object.as_object().unwrap().keys().filter(|field| *field != "schema") {
                assert!(section.contains(&format!("`{field}`")), "docs/json.md, {title}: `{field}` is missing");
            }
        }
        add_fields(&value, printed.entry(title.to_owned()).or_default());
    };
    check("run", &run, "");
    check("run", &[&run[..], &["--dry-run"]].concat(), "");
    let trial = trials(&dir)[0].to_str().unwrap().to_owned();
    check("compare", &["compare", &dir, "--json"], "");
    let file = scratch.file("controls.toml", &SMALL.replace("\"topk:", "\"randomk:3\", \"topk:"));
    let controls = scratch.path("controls");
    assert_eq!(semfocus(&["run", &file, "-o", &controls, "--epochs", "1", "--quiet"]).code, 0);
    check("explain", &["explain", &controls, "--json"], "");
    check("status", &["status", &dir, "--json"], "");
    // Without a submission; tests/slurm.rs has some.
    check("slurm status", &["slurm", "status", &dir, "--json"], "");
    check("status without a run", &["status", &scratch.path(""), "--json"], "");
    check("show", &["show", &trial, "--json"], "");
    check("report", &["report", &dir, "--json"], "");
    check("verify", &["verify", &dir, "--json"], "");
    check("predict", &["predict", &trial, "--json"], "0 1 1\n");
    check("predict", &["predict", &trial, "--per-token", "--json"], "0 1 1\n");
    check("probe", &["probe", &dir, "--samples", "5", "--json"], "");
    check("landscape", &["landscape", &dir, "--grid", "3", "--samples", "10", "--json"], "");
    check("sharpness", &["sharpness", &dir, "--samples", "10", "--probes", "2", "--json"], "");
    check("evaluate", &["evaluate", &dir, "data.length=12", "--samples", "10", "--json"], "");
    let statistics = ["--full-dispersion", "8.6", "--dispersion", "3.5", "--separation", "0.02", "--sink", "0.2"];
    let numbers = ["--dispersion", "2", "--kept-dispersion", "1", "--separation", "0.1"];
    check("theory stability", &[&["theory", "stability", "--json"], &numbers[..]].concat(), "");
    check("theory check", &[&["theory", "check", "--json"], &statistics[..]].concat(), "");
    check("bench", &["bench", "--seconds", "0", "--length", "8", "--mechanisms", "full", "--json"], "");
    check("data audit", &["data", "audit", "parity", "--train", "50", "--held-out", "20", "--json"], "");
    check("data show", &["data", "show", "parity", "--json"], "");
    for list in ["settings", "mechanisms", "tasks", "experiments"] {
        check(&format!("list {list}"), &["list", list, "--json"], "");
    }
    let line = semfocus(&["data", "generate", "parity", "-n", "1", "--json"]).stdout;
    assert!(serde_json::from_str::<Value>(&line).unwrap().get("schema").is_none());
    // The other way round: what the page names is a field that was printed, at any depth.
    let name = regex::Regex::new("`([a-z][a-z0-9_]*)`").unwrap();
    let unknown = printed.iter().map(|(title, printed)| {
        let section = section(title);
        let named: BTreeSet<&str> = name.captures_iter(&section).map(|found| found.get(1).unwrap().as_str()).collect();
        let unknown: Vec<&str> = named.into_iter().filter(|name| !printed.contains(*name)).collect();
        (title.as_str(), unknown.join(" "))
    });
    let unknown: Vec<(&str, String)> = unknown.filter(|(_, names)| !names.is_empty()).collect();
    let expected: Vec<(&str, String)> =
        NOT_PRINTED.iter().map(|(title, names)| (*title, (*names).to_owned())).collect();
    assert_eq!(unknown, expected, "docs/json.md: no field has these names");
}

/// Words on the page that are not fields, such as the names of commands, and fields that need what this test does not have: a
/// trial that failed or began with stored weights, a speed-up, a task with several questions, a model of a text, a submission to a
/// cluster.
const NOT_PRINTED: &[(&str, &str)] = &[
    ("compare", "null run"),
    ("data show", "at class distribution distributions questions weight"),
    ("explain", "kind null value"),
    ("predict", "after line next null piece probability text"),
    ("run", "compare message"),
    ("show", "null trial weights"),
    (
        "slurm status",
        "cluster command cpus elapsed_seconds folder job jobs node null open_tasks reason report_job report_state states status \
         submitted task tasks time_seconds workers",
    ),
    ("status without a run", "compare"),
];

/// The names of all fields of a value and of the values in it.
fn add_fields(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            names.insert(name.clone());
            add_fields(value, names);
        }),
        Value::Array(values) => values.iter().for_each(|value| add_fields(value, names)),
        _ => {}
    }
}
