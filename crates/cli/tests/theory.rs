//! `semfocus theory`, as a user and a script see it.

mod common;

use common::transcript::Transcript;
use common::{Scratch, semfocus};

#[test]
fn conditions_have_the_fields_that_scripts_rely_on() {
    let statistics =
        ["--full-dispersion", "8.61", "--dispersion", "3.51", "--separation", "0.016", "--sink", "0.2", "--json"];
    let output = semfocus(&[&["theory", "check"], &statistics[..]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert!((report["w_lhs"].as_f64().unwrap() - 0.970).abs() < 5e-4, "{report}");
    assert!((report["x_lhs"].as_f64().unwrap() - 0.898).abs() < 5e-4, "{report}");
    assert_eq!((report["w_holds"].as_bool(), report["x_holds"].as_bool()), (Some(true), Some(true)));
}

#[test]
fn senseless_statistics_are_explained() {
    let scratch = Scratch::new("theory-refused");
    let mut messages = Transcript::new(&scratch);
    let statistics = ["--full-dispersion", "0", "--dispersion", "1", "--separation", "1", "--sink", "1"];
    messages.refuse(1, &[&[&["theory", "check"], &statistics[..]].concat()]);
    let numbers = ["theory", "stability", "--dispersion", "2", "--kept-dispersion", "1"];
    for separation in ["--separation=-1", "--separation=nan"] {
        messages.refuse(1, &[&[&numbers[..], &[separation]].concat()]);
    }
    let swapped = ["theory", "stability", "--dispersion", "1", "--kept-dispersion", "2", "--separation", "1"];
    messages.refuse(1, &[&swapped]);
    messages.check("theory-refused");
}

#[test]
fn regions_are_written_as_csv() {
    let scratch = Scratch::new("regions");
    let dir = scratch.path("regions");
    let output = semfocus(&["theory", "regions", "-o", &dir]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for figure in ["regions-w", "regions-x"] {
        for kind in ["svg", "png", "pdf"] {
            assert!(std::path::Path::new(&dir).join(format!("{figure}.{kind}")).is_file(), "{figure}.{kind}");
        }
    }
    let text = std::fs::read_to_string(std::path::Path::new(&dir).join("regions.csv")).unwrap();
    assert_eq!(text, semfocus(&["theory", "regions"]).stdout);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "condition,sink,full_dispersion,dispersion_share,min_separation_share");
    assert!(lines[1..].iter().all(|line| line.split(',').count() == 5));
    // At full dispersion 8 and a share of one half, e⁴/2 − 1 = 26.3 gives 1/26.3/8.
    let point = lines.iter().find(|line| line.starts_with("w,,8,0.5,")).unwrap();
    let least: f64 = point.rsplit(',').next().unwrap().parse().unwrap();
    assert!((least - 1.0 / (4f64.exp() / 2.0 - 1.0) / 8.0).abs() < 1e-12, "{point}");
}

#[test]
fn stability_of_all_weightings_is_printed() {
    let numbers = ["theory", "stability", "--dispersion", "2", "--kept-dispersion", "1", "--separation"];
    let output = semfocus(&[&numbers[..], &["0.5", "--json"]].concat());
    let rows: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let rows = rows["list"].as_array().unwrap();
    let constant = |weights: &str| {
        let row = rows.iter().find(|row| row["weights"] == weights).unwrap();
        row["constant"].as_f64().unwrap()
    };
    // 40 keys, and the 5 kept ones: by the formulas of docs/theory.md.
    let e = 1f64.exp();
    assert!((constant("sparsemax") - 2.0 * 39.0 / 40.0).abs() < 1e-12);
    assert!((constant("softmax over the highest scores") - e / (e + 4.0) / 0.5).abs() < 1e-12);
    assert_eq!(constant("sigmoid"), 0.25);
}
