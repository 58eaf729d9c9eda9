//! `semfocus list mechanisms`, as a user sees it.

mod common;

use common::semfocus;

#[test]
fn table_names_every_mechanism_within_80_columns() {
    let output = semfocus(&["list", "mechanisms"]);
    assert_eq!(output.code, 0);
    let text = output.stdout;
    let (table, count) = text.trim_end().rsplit_once("\n\n").unwrap();
    let starts: Vec<&str> = table.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(count, format!("{} mechanisms", starts.len() - 1));
    let forms: Vec<&str> = starts.iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    let listed: serde_json::Value = serde_json::from_str(&semfocus(&["list", "mechanisms", "--json"]).stdout).unwrap();
    let listed = listed["list"].as_array().unwrap().iter().map(|entry| entry["form"].as_str().unwrap());
    assert_eq!(forms, ["mechanism"].into_iter().chain(listed).collect::<Vec<_>>());
    for form in ["full", "topk:k[,ties=random]", "moba:block=8,k=2", "entmax[:alpha|learned]", "bigbird[:w=3,g=2,r=3]"]
    {
        assert!(forms.contains(&form), "{form}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
    assert!(output.stderr.is_empty());
}

#[test]
fn json_has_all_fields() {
    let entries: serde_json::Value = serde_json::from_str(&semfocus(&["list", "mechanisms", "--json"]).stdout).unwrap();
    let find =
        |name: &str| entries["list"].as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap().clone();
    let expected = serde_json::json!({
        "form": "topk:k[,ties=random]",
        "example": "topk:5",
        "name": "topk",
        "family": "input-dependent",
        "summary": "the k keys with the highest scores: semantic focus",
        "formula": "p = softmax of z over the k highest z",
        "isolates": "semantic focus: a choice by the scores at hand",
        "source": "Gupta et al., Memory-efficient Transformers via Top-k Attention, 2021",
        "parameters": [{
            "name": "k", "meaning": "the number of kept keys", "whole": true, "min": 1, "max": 1_000_000, "words": [],
            "required": true, "default": null, "example": 5, "keyed": false,
        }, {
            "name": "ties", "meaning": "which of equal scores go first", "whole": false, "min": 1, "max": 0,
            "words": ["first", "random"], "required": false, "default": "first", "example": "first", "keyed": true,
        }],
        "allows_globals": false,
        "fast_form": true,
    });
    assert_eq!(find("topk"), expected);
    assert_eq!(find("full")["parameters"], serde_json::json!([]));
    assert_eq!(find("full")["family"], "baseline");
    assert_eq!(find("banded")["allows_globals"], true);
    assert_eq!(find("randomk")["family"], "control");
}

#[test]
fn wrong_usage_exits_with_2_and_talks_on_stderr() {
    for arguments in [&["list"][..], &["list", "mechanism"], &["list", "mechanisms", "--jsn"], &[]] {
        let output = semfocus(arguments);
        assert_eq!(output.code, 2);
        assert!(output.stdout.is_empty());
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn lists_can_be_searched() {
    let found = |arguments: &[&str], field: &str| -> Vec<String> {
        let output = semfocus(&[&["list"], arguments, &["--json"]].concat());
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
        let value: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        value["list"].as_array().unwrap().iter().map(|entry| entry[field].as_str().unwrap().to_owned()).collect()
    };
    let lr = found(&["settings", "lr"], "path");
    assert_eq!(lr[0], "training.learning_rate", "a name from elsewhere");
    assert!(lr[1..].iter().all(|path| path.starts_with("training.lr_factor.")), "{lr:?}");
    let rates = found(&["settings", "LEARNING RATE"], "path");
    assert!(rates.contains(&"training.decay".to_owned()), "in the meaning, in any capitals: {rates:?}");
    let topk = found(&["mechanisms", "topk"], "name");
    assert!(topk.contains(&"topk".to_owned()) && !topk.contains(&"banded".to_owned()), "{topk:?}");
    assert_eq!(found(&["mechanisms", "bandde"], "name"), ["banded"], "a slip");
    assert_eq!(found(&["tasks", "parity"], "name"), ["parity"]);
    let nothing = semfocus(&["list", "settings", "quicksilver"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (1, ""));
    assert_eq!(nothing.stderr, "error: no setting has `quicksilver` in its name or description\n");
}
