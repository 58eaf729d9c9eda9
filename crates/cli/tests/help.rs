//! Help, completion and manual pages: complete, and free of slips.

mod common;

use std::collections::BTreeSet;
use std::process::Command;

use common::{Scratch, semfocus, semfocus_in, trials};

/// The help of a command and of all commands below it.
fn helps(path: &[String], found: &mut Vec<(String, String)>) {
    let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
    arguments.push("--help");
    let output = semfocus(&arguments);
    assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
    // The program lists its commands in groups, up to its options.
    let listed = match output.stdout.split_once("\nCommands:\n") {
        Some((_, rest)) => rest.split("\n\n").next().unwrap(),
        None if path.is_empty() => output.stdout.split("\nOptions:\n").next().unwrap(),
        None => "",
    };
    let entries = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands = entries.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let commands: Vec<String> = commands.map(str::to_owned).collect();
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
    for hidden in ["study", "record"] {
        assert!(!found.iter().any(|(command, _)| command == hidden), "{hidden} is for the maintainers of the record");
        helps(&[hidden.to_owned()], &mut found);
    }
    assert!(found.len() > 35, "{} commands", found.len());
    for (command, text) in &found {
        for line in text.lines() {
            let opened = line.matches('<').count();
            assert_eq!(
                opened,
                line.replace(">=", "").replace("<=", "").matches('>').count() + line.matches("<=").count(),
                "{command}: brackets in `{line}`"
            );
        }
        let last = text.trim_end().lines().last().unwrap();
        assert!(
            command == "record" || last.starts_with("Example: semfocus "),
            "{command} ends with an example: {last}"
        );
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
fn the_help_lists_commands_in_groups_that_fit() {
    let help = semfocus(&["--help"]).stdout;
    assert_eq!(help, semfocus(&["help"]).stdout);
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    let headings: Vec<&str> = help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!((headings[0], headings.len()), ("Run experiments:", 8), "seven groups and the options");
    // The manual page has the same groups, and neither it nor completions offer what is out of sight.
    let page = semfocus(&["man"]).stdout;
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    for heading in &headings[..7] {
        let heading = heading.trim_end_matches(':');
        assert!(sections.iter().any(|section| section.trim_matches('"').eq_ignore_ascii_case(heading)), "{sections:?}");
    }
    assert!(!page.contains("semfocus\\-study") && page.contains("semfocus\\-verify"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let script = semfocus(&["completions", shell]).stdout;
        let hidden = ["__study", "Run as much of the study", "Keep the record of the study"];
        assert!(script.contains("new-lab") && !hidden.iter().any(|text| script.contains(text)), "{shell}");
    }
}

/// Runs the example of every command on a small run with the names that the examples have.
#[test]
fn examples_work() {
    let scratch = Scratch::new("examples");
    let folder = scratch.path("");
    for name in ["even-pairs", "causes"] {
        let (dir, mechanisms) = (format!("runs/{name}-quick"), "full,topk:5,oracle:5");
        let run = ["run", name, "--smoke", "--mechanisms", mechanisms, "-q", "-o", &dir];
        let output = semfocus_in(&folder, &run, "");
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
    }
    scratch.file("sequences.txt", "0 1 1 0\n1 1\n");
    let films: String = (0..50).map(|n| format!("it was {},{}\n", ["bad", "good"][n % 2], n % 2)).collect();
    scratch.file("films.csv", &films);
    let trial = trials(&scratch.path("runs/even-pairs-quick"))[0].file_name().unwrap().to_str().unwrap().to_owned();
    let mut found = Vec::new();
    helps(&[], &mut found);
    let examples: BTreeSet<&str> =
        found.iter().map(|(_, text)| text.rsplit_once("Example: semfocus ").unwrap().1.trim_end()).collect();
    for example in examples {
        let words = shlex::split(&example.replace("a7b4", &trial[..6])).unwrap();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            // There is no cluster; tests/slurm.rs has one.
            ["slurm", "submit" | "cancel", ..] => continue,
            ["run", ..] => words.extend(["--dry-run", "-o", "new"]),
            ["bench", ..] => words.extend(["--seconds", "0"]),
            ["landscape" | "sharpness", ..] => words.extend(["--seeds", "1", "--mechanisms", "full", "--samples", "5"]),
            _ => {}
        }
        // An option that the example has already is not repeated.
        let samples: Vec<usize> = (0..words.len()).filter(|&at| words[at] == "--samples").collect();
        if let [first, _] = samples[..] {
            words.drain(first..first + 2);
        }
        let output = semfocus_in(&folder, &words, "");
        assert_eq!(output.code, 0, "{words:?}: {}", output.stderr);
    }
}

#[test]
fn errors_about_arguments_are_about_the_value_and_cannot_command_the_terminal() {
    let negative = semfocus(&["run", "even-pairs", "--epochs", "-1"]);
    assert_eq!((negative.code, negative.stdout.as_str()), (2, ""));
    assert!(negative.stderr.starts_with("error: invalid value '-1' for '--epochs <N>'"), "{}", negative.stderr);
    for hostile in ["--\u{1b}]0;title\u{7}", "\u{1b}[31mred\u{1b}[0m", "\u{9b}2J", "\u{202e}abc"] {
        for arguments in
            [&["run", "even-pairs", "--scale", hostile][..], &[hostile], &["list", hostile], &["run", hostile]]
        {
            let output = semfocus(arguments);
            assert_eq!(output.code, 2, "{arguments:?}");
            let commands = ['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}'];
            assert!(!output.stderr.contains(commands), "{arguments:?}: {:?}", output.stderr);
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
