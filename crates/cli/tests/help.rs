//! Help, completion and manual pages: complete, and free of slips.

mod common;

use std::process::Command;

use common::{Scratch, semfocus};

/// The help of a command and of all commands below it.
fn helps(path: &[String], found: &mut Vec<(String, String)>) {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push("--help");
    let output = semfocus(&arguments);
    assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
    let commands = output.stdout.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let commands: Vec<String> = commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
    found.push((path.join(" "), output.stdout));
    for command in commands {
        helps(&[path, &[command]].concat(), found);
    }
}

/// The paragraphs of a help text. The text of an argument begins deeper than its name, and ends where the next one begins.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in text.lines() {
        let begins = line.trim().is_empty() || line.trim_start().starts_with(['-', '<']);
        if begins {
            paragraphs.push(String::new());
        }
        *paragraphs.last_mut().expect("there is one") += &format!("{}\n", line.trim());
    }
    paragraphs
}

#[test]
fn help_texts_have_no_slips() {
    let mut found = Vec::new();
    helps(&[], &mut found);
    assert!(found.len() > 20, "{} commands", found.len());
    for (command, text) in &found {
        for line in text.lines() {
            let opened = line.matches('<').count();
            assert_eq!(
                opened,
                line.replace(">=", "").replace("<=", "").matches('>').count() + line.matches("<=").count(),
                "{command}: brackets in `{line}`"
            );
        }
        // Code may be wrapped, but not from one paragraph into the next.
        for paragraph in paragraphs(text) {
            assert!(paragraph.matches('`').count() % 2 == 0, "{command}: backticks in `{paragraph}`");
        }
        for wrong in ["held_out ", "heldout ", "heldout-", "  .", " ,", "..  ", "the the ", " a an "] {
            assert!(!text.contains(wrong), "{command}: `{wrong}` in {text}");
        }
        // One spelling in words; names of settings, options and columns are names.
        for word in text.split(|letter: char| !letter.is_alphanumeric() && !"_-.".contains(letter)) {
            let is_name = word.starts_with("heldout_") || word.starts_with("data.held_out") || word.starts_with("--");
            assert!(is_name || !(word.contains("heldout") || word.contains("held_out")), "{command}: {word}");
        }
    }
}

#[test]
fn bash_completes_names_and_settings() {
    let scratch = Scratch::new("completion");
    let script = semfocus(&["completions", "bash"]);
    let script = scratch.file("semfocus.bash", &script.stdout);
    // The words before the cursor, then what is completed.
    let complete = |words: &[&str]| {
        let program = format!(
            "source {script}; COMP_WORDS=({}); COMP_CWORD={}; _semfocus semfocus '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.iter().map(|word| format!("'{word}' ")).collect::<String>(),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let output = Command::new("bash").args(["--norc", "-c", &program]).output();
        output.ok().map(|output| String::from_utf8(output.stdout).unwrap())
    };
    for (words, expected) in [
        (&["semfocus", "run", "even"][..], "even-pairs"),
        (&["semfocus", "run", "parity", "--mechanisms", "to"], "topk:5"),
        (&["semfocus", "run", "parity", "--scale", "me"], "medium"),
        (&["semfocus", "run", "parity", "-s", "training.learn"], "training.learning_rate="),
        (&["semfocus", "data", "show", "stack"], "stack-manipulation"),
        (&["semfocus", "compare", "x", "--target", "train_a"], "train_accuracy"),
    ] {
        let Some(found) = complete(words) else {
            eprintln!("skipped: there is no bash");
            return;
        };
        assert!(found.lines().any(|line| line == expected), "{words:?}: {found}");
    }
    for shell in ["zsh", "fish"] {
        let script = semfocus(&["completions", shell]).stdout;
        for name in ["even-pairs", "topk:5", "training.learning_rate=", "stack-manipulation", "medium"] {
            // Special characters are escaped in these scripts.
            assert!(script.replace('\\', "").contains(name), "{shell}: {name}");
        }
    }
}
