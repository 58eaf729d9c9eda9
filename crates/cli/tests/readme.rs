//! The README's commands work as they stand there.

mod common;

use common::semfocus_with_input;

#[test]
fn every_command_of_the_readme_runs() {
    let readme = include_str!("../../../README.md");
    // `printf '…\n' |` before a command is its input.
    let commands: Vec<(&str, Vec<&str>)> = readme
        .lines()
        .filter(|line| line.starts_with("    "))
        .filter_map(|line| line.trim_start().split_once("cargo run --release -- "))
        .map(|(before, arguments)| {
            let input =
                before.strip_prefix("printf '").and_then(|rest| rest.split_once("\\n' |")).map_or("", |input| input.0);
            (input, arguments.split_whitespace().collect())
        })
        .collect();
    assert!(commands.len() >= 10, "the README shows how to use the program");
    for (input, mut arguments) in commands {
        if arguments[0] == "bench" && !arguments.contains(&"--seconds") {
            // The same, but no longer than it must be.
            arguments.extend(["--seconds", "0"]);
        }
        let output = semfocus_with_input(&arguments, &format!("{input}\n"));
        assert_eq!(output.code, 0, "semfocus {}: {}", arguments.join(" "), output.stderr);
        assert!(!output.stdout.is_empty());
    }
}
