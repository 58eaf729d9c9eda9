//! The README's commands work as they stand there.

mod common;

use common::{Scratch, semfocus_in};

#[test]
fn every_command_of_the_readme_runs() {
    let readme = include_str!("../../../README.md");
    // `printf '…\n' |` before a command is its input.
    let commands: Vec<(&str, Vec<&str>)> = readme
        .lines()
        .filter(|line| line.starts_with("    "))
        .filter_map(|line| line.split_once("cargo run --release -- ").or_else(|| line.split_once(" semfocus ")))
        .map(|(before, arguments)| {
            let input = before
                .trim_start()
                .strip_prefix("printf '")
                .and_then(|rest| rest.split_once("\\n' |"))
                .map_or("", |input| input.0);
            // The shell takes the quotes away.
            let arguments = arguments.split(" > ").next().unwrap_or_default();
            (input, arguments.split_whitespace().map(|argument| argument.trim_matches('"')).collect())
        })
        .collect();
    assert!(commands.len() >= 20, "the README shows how to use the program");
    let scratch = Scratch::new("readme");
    std::fs::create_dir(scratch.path("docs")).unwrap();
    scratch.file("docs/own-experiment.toml", include_str!("../../../docs/own-experiment.toml"));
    for (input, mut arguments) in commands {
        // The same, but no longer than it must be.
        arguments.extend(match arguments[..] {
            ["bench", ..] if !arguments.contains(&"--seconds") => &["--seconds", "0"][..],
            ["run", "even-pairs"] => &["--smoke"],
            _ => &[],
        });
        let output = semfocus_in(&scratch.path(""), &arguments, &format!("{input}\n"));
        assert_eq!(output.code, 0, "semfocus {}: {}", arguments.join(" "), output.stderr);
        // Workers only say what they do; their results are in the folder.
        let is_silent = arguments[0] == "work";
        assert_eq!(output.stdout.is_empty(), is_silent, "semfocus {}", arguments.join(" "));
    }
}
