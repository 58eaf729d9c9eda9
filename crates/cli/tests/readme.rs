//! The README and the two pages that it leads to first: their commands work as they stand there, and what they say is so.

mod common;

use std::collections::HashSet;

use common::page::{commands, commands_in_tables};
use common::{Scratch, recorded, semfocus, semfocus_in};

const README: &str = include_str!("../../../README.md");
const RECORD: &str = include_str!("../../../docs/record/README.md");
const CAUSES: &str = include_str!("../../../docs/record/semantic-focus.md");

#[test]
fn every_command_of_the_first_pages_runs() {
    let pages = [include_str!("../../../docs/running.md"), include_str!("../../../docs/reading-results.md"), README];
    let scratch = Scratch::new("readme");
    std::fs::create_dir(scratch.path("docs")).unwrap();
    scratch.file("docs/own-experiment.toml", include_str!("../../../docs/own-experiment.toml"));
    let examples =
        semfocus(&["data", "generate", "even-pairs", "-n", "400", "--length", "8", "--format", "text"]).stdout;
    scratch.file("my.csv", &format!("text,label\n{}", examples.replace('\t', ",")));
    let mut done = HashSet::new();
    for page in pages {
        let commands = [commands(page), commands_in_tables(page)].concat();
        assert!(commands.len() >= 10, "the page shows how to use the program");
        for command in commands {
            // A README repeats what its pages have.
            if !done.insert(command.text.clone()) {
                continue;
            }
            // No longer than it must be.
            let more: &[&str] = match &command {
                bench if bench.is(&["bench"]) && !bench.has("--seconds") => &["--seconds", "0"],
                run if run.arguments.len() == 2 && (run.is(&["run", "even-pairs"]) || run.is(&["run", "my.csv"])) => {
                    &["--smoke"]
                }
                _ => &[],
            };
            let output = command.run(&scratch.path(""), more);
            // Workers only say what they do, and an export goes to its file.
            let is_silent = command.is(&["work"]) || command.is(&["export"]);
            assert_eq!(output.stdout.is_empty(), is_silent, "{}", command.text);
        }
    }
}

/// The text between two others.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{begin} is there"));
    rest.split_once(end).unwrap_or_else(|| panic!("{end} is there")).0
}

#[test]
fn the_output_of_the_main_command_is_that_of_the_recorded_run() {
    let scratch = Scratch::new("readme-output");
    recorded::even_pairs(&scratch.path("runs/even-pairs-quick"));
    let output = semfocus_in(&scratch.path(""), &["compare", "runs/even-pairs-quick"], "");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let shown = between(README, "```text\n", "```");
    assert!(output.stdout.contains(shown), "the README should show:\n{}", output.stdout);
}

/// A text with a single space between words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The cells of the row of a table whose first cell contains a text.
fn row<'a>(page: &'a str, text: &str) -> Vec<&'a str> {
    let is_row = |line: &&str| line.starts_with('|') && line.split('|').nth(1).is_some_and(|cell| cell.contains(text));
    let line = page.lines().find(is_row).unwrap_or_else(|| panic!("no row has {text}"));
    line.split('|').skip(1).map(str::trim).collect()
}

#[test]
fn the_result_it_begins_with_is_that_of_the_record() {
    let even_pairs = between(CAUSES, "\n## Even pairs", "\n## ");
    let story = words(between(README, "\n## The most interesting result", "\n## "));
    let number = |cell: &str| -> f64 { cell.split(['×', ' ']).next().unwrap().parse().unwrap() };
    for (control, digits) in [("temperature:entropy=5", 0), ("ssmax", 0), ("frozenk:5", 1)] {
        let speedup = number(row(even_pairs, control)[3]);
        assert!(story.contains(&format!(" {speedup:.digits$} times as fast")), "{control}: {speedup}");
    }
    // The share is the logarithm of a speed-up divided by that of top-k attention.
    let ssmax = row(even_pairs, "ssmax");
    let top_k = (number(ssmax[3]).ln() / (number(ssmax[4]) / 100.0)).exp();
    assert!(
        story.contains(&format!("top-k attention reaches 95 % training accuracy {top_k:.1} times as fast")),
        "{top_k}"
    );
    let missing_duplicate = CAUSES.split_once("\n## Missing duplicate").unwrap().1;
    let share = row(missing_duplicate, "matchedgrad:5");
    let interval = between(share[4], "(", ")");
    assert!(story.contains(&format!("{interval} % of the speed-up")), "{share:?}");
    for (page, tokens, seeds) in [(even_pairs, 24, 6), (missing_duplicate, 12, 12)] {
        assert!(story.contains(&format!("{tokens} tokens and {seeds} seeds")), "{story}");
        assert_eq!(row(page, "ssmax")[1], seeds.to_string());
    }
}

#[test]
fn what_it_says_about_the_study_is_what_the_record_says() {
    let summary = between(README, "\n## What it found about the study", "\n## ");
    let claims = between(RECORD, "<!-- record: claims -->", "<!-- end of record -->");
    let items: Vec<&str> = summary.split("\n- ").skip(1).collect();
    let mut count = 0;
    for claim in claims.lines().filter(|line| line.starts_with("| [")) {
        let page = between(claim, "](", ")");
        let verdict = between(claim.split('|').nth(2).unwrap(), "**", "**");
        let item = items.iter().find(|item| item.contains(&format!("(docs/record/{page})")));
        let item = item.unwrap_or_else(|| panic!("{page} is missing"));
        assert!(item.starts_with(&format!("**{verdict}**")), "{page} is {verdict}: {item}");
        count += 1;
    }
    assert_eq!(count, 7, "{claims}");
    let summary = words(summary);
    let runs =
        include_str!("../../../docs/record/results.csv").lines().skip(1).filter(|line| !line.contains(",not run,"));
    let runs: HashSet<&str> = runs.map(|line| line.split(',').nth(2).unwrap()).collect();
    assert!(summary.contains(&format!("data of {} runs", runs.len())), "{} runs", runs.len());
}

#[test]
fn it_counts_the_mechanisms() {
    let list = semfocus(&["list", "mechanisms", "--json"]).stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let count = list["list"].as_array().unwrap().len();
    assert!(README.contains(&format!("{count} mechanisms and controls")), "{count}");
}

#[test]
fn the_columns_that_it_plots_are_exported() {
    let scratch = Scratch::new("readme-columns");
    recorded::even_pairs(&scratch.path("run"));
    let table = semfocus(&["export", &scratch.path("run")]).stdout;
    let columns: Vec<&str> = table.lines().next().unwrap().split(',').collect();
    let plotted: Vec<&str> = between(README, "epochs.pivot_table(", ").plot()").split('"').skip(1).step_by(2).collect();
    assert_eq!(plotted, ["epoch", "mechanism", "train_accuracy", "median"]);
    assert!(plotted[..3].iter().all(|name| columns.contains(name)), "{columns:?}");
}
