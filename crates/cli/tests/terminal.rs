//! What a person sees in a terminal: progress that fits, is readable while it runs, and leaves nothing behind.
//!
//! `common/terminal.py` runs the program in a pseudo-terminal. Without Python there is nothing to run it with.
#![cfg(unix)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{SMALL, Scratch};
use serde_json::{Value, json};

/// Runs the program in a terminal; none without Python.
fn in_terminal(options: &Value, arguments: &[&str]) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/terminal.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(options.to_string())
        .arg(env!("CARGO_BIN_EXE_semfocus"))
        .args(arguments)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    let seen: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(seen["missing"], Value::Null, "it was never on the screen: {}", text(&seen["lines"]));
    assert_eq!(seen["unknown"], json!([]), "only plain text, colours and the few codes of the display");
    Some(seen)
}

/// The line below the bars of a run that trains.
const BARS: &str = "(?m) left$";

fn text(lines: &Value) -> String {
    lines.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned() + "\n").collect()
}

/// An experiment that does not end by itself, with epochs of some hundredths of a second, and a folder for its run.
fn endless(scratch: &Scratch) -> [String; 2] {
    [scratch.file("small.toml", &SMALL.replace("epochs = 12", "epochs = 2000")), scratch.path("run")]
}

fn terminal(columns: usize, events: Value) -> Value {
    json!({"columns": columns, "env": {"TERM": "xterm-256color"}, "events": events})
}

#[test]
fn progress_fits_terminals_of_every_width() {
    for columns in [40, 80, 120] {
        let scratch = Scratch::new(&format!("terminal-{columns}"));
        let [file, dir] = endless(&scratch);
        // Bars, then a trial that has been evaluated: there is room for that in wide terminals only.
        let evaluated = if columns < 80 { BARS } else { "held-out [^─]* left" };
        let events = json!([[BARS, "look"], [BARS, "look"], [evaluated, "look"], [BARS, "look"], [BARS, "interrupt"]]);
        let arguments = ["run", &file, "-o", &dir, "-j", "2"];
        let Some(seen) = in_terminal(&terminal(columns, events), &arguments) else { return };
        let end = text(&seen["lines"]);
        assert_eq!(seen["code"], 130, "{end}");
        let moments: Vec<String> = seen["moments"].as_array().unwrap().iter().map(text).collect();
        let all = moments.concat();
        assert!(all.contains("left") && (columns < 80 || all.contains("epoch ")), "{columns}: {all}");
        assert!(columns < 120 || all.contains("loss 0."), "{columns}: {all}");
        assert!(columns < 80 || all.contains("held-out ") && all.contains("train "), "{columns}: {all}");
        let bars = all.lines().filter(|line| line.ends_with(" left"));
        assert!(
            bars.clone().count() > 0 && bars.clone().all(|line| line.chars().count() < columns),
            "{columns}: {all}"
        );
        assert!(!end.contains(" left\n") && !end.contains('─'), "no bar stays: {end}");
        assert_eq!(seen["colours"], true);
    }
}

#[test]
fn resizing_eats_no_line_and_leaves_no_bar() {
    let scratch = Scratch::new("terminal-resize");
    let [file, dir] = endless(&scratch);
    let both = "(?s)epoch [0-9].*epoch [0-9].* left$";
    let events = json!([[BARS, "resize", 50], [BARS, "resize", 110], [BARS, "resize", 70], [both, "interrupt"]]);
    let Some(seen) = in_terminal(&terminal(90, events), &["run", &file, "-o", &dir, "-j", "2"]) else { return };
    let end = text(&seen["lines"]);
    assert!(end.contains("results ") && end.contains("claim "), "{end}");
    assert_eq!(end.matches(": saved after epoch").count(), 2, "{end}");
    assert!(end.contains("To resume"), "{end}");
    assert!(!end.contains(" left\n") && !end.contains('─') && !end.contains('━'), "{end}");
}

#[test]
fn terminals_without_cursor_get_lines_and_no_color_is_respected() {
    let scratch = Scratch::new("terminal-dumb");
    let [file, dir] = endless(&scratch);
    let dumb = json!({"columns": 80, "env": {"TERM": "dumb"}, "events": [["steps, .*loss ", "interrupt"]]});
    let Some(seen) = in_terminal(&dumb, &["run", &file, "-o", &dir]) else { return };
    let end = text(&seen["lines"]);
    assert_eq!((&seen["code"], &seen["colours"]), (&json!(130), &json!(false)), "{end}");
    assert!(end.contains(" steps, ") && end.contains("epoch ") && end.contains("loss "), "{end}");
    let plain = json!({"columns": 80, "env": {"TERM": "xterm", "NO_COLOR": "1"}, "events": [[BARS, "interrupt"]]});
    let dir = scratch.path("plain");
    assert_eq!(in_terminal(&plain, &["run", &file, "-o", &dir]).unwrap()["colours"], false);
}

#[test]
fn commands_do_not_flood_the_terminal() {
    let usual = terminal(80, json!([]));
    for arguments in [&["theory", "regions"][..], &["data", "generate", "listops", "-n", "5"], &["list", "tasks"]] {
        let Some(seen) = in_terminal(&usual, arguments) else { return };
        let rows: usize = text(&seen["lines"]).lines().map(|line| line.chars().count().div_ceil(80).max(1)).sum();
        assert!(rows < 120, "{arguments:?}: {rows} rows");
        assert_eq!(seen["code"], 0);
    }
    let seen = in_terminal(&usual, &["data", "generate", "listops", "-n", "5"]).unwrap();
    assert!(text(&seen["lines"]).contains("long lines are cut off"));
}
