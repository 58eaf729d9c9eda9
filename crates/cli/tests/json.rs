//! The JSON that commands print has the fields that `docs/json.md` describes.

mod common;

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
    let check = |title: &str, arguments: &[&str], input: &str| {
        let output = semfocus_with_input(arguments, input);
        assert_eq!(output.code, 0, "{title}: {}", output.stderr);
        let value: Value = serde_json::from_str(&output.stdout).unwrap();
        assert!(output.stdout.starts_with("{\n  \"schema\": 1,\n"), "{title}: {}", output.stdout);
        let fields = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let entries = value.get("list").map_or(Vec::new(), |list| fields(&list[0]));
        let section = section(title);
        for field in fields(&value).iter().chain(&entries).filter(|field| *field != "schema") {
            assert!(section.contains(&format!("`{field}`")), "docs/json.md, {title}: `{field}` is missing");
        }
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
}
