//! The README's commands work as they stand there.

mod common;

use common::semfocus;

#[test]
fn every_command_of_the_readme_runs() {
    let readme = include_str!("../../../README.md");
    let commands: Vec<Vec<&str>> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("    cargo run --release -- "))
        .map(|arguments| arguments.split_whitespace().collect())
        .collect();
    assert!(commands.len() >= 5, "the README shows how to use the program");
    for mut arguments in commands {
        if arguments[0] == "bench" && !arguments.contains(&"--seconds") {
            // The same, but no longer than it must be.
            arguments.extend(["--seconds", "0"]);
        }
        let output = semfocus(&arguments);
        assert_eq!(output.code, 0, "semfocus {}: {}", arguments.join(" "), output.stderr);
        assert!(!output.stdout.is_empty());
    }
}
