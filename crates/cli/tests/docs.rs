//! The commands on the pages of docs/ print what the pages say.
#![cfg(unix)]

mod common;

use std::path::Path;
use std::process::Command;

use common::Scratch;

/// Runs the commands of a page in a folder, at least one, and compares what they print on standard output with the page.
fn run_commands(page: &str, folder: &Scratch) {
    let program = Path::new(env!("CARGO_BIN_EXE_semfocus"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let mut ran = 0;
    for block in page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let (mut expected, mut printed) = (String::new(), String::new());
        for line in block.lines() {
            expected += &format!("{line}\n");
            if let Some(command) = line.strip_prefix("$ ") {
                let command = Command::new("sh")
                    .args(["-c", command])
                    .current_dir(folder.path(""))
                    .env("PATH", &path)
                    .output()
                    .unwrap();
                printed += &format!("{line}\n{}", String::from_utf8(command.stdout).unwrap());
                ran += 1;
            }
        }
        assert_eq!(printed, expected);
    }
    assert!(ran > 0 && ran == page.matches("\n$ ").count(), "{ran} commands, all of them in blocks of a console");
}

#[test]
fn commands_of_the_page_on_tasks() {
    run_commands(include_str!("../../../docs/tasks.md"), &Scratch::new("docs-tasks"));
}

#[test]
fn commands_of_the_page_on_experiments() {
    let page = include_str!("../../../docs/experiments.md");
    let scratch = Scratch::new("docs-experiments");
    // The file that the page begins with is the one its first command runs.
    let file = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    scratch.file("parity-activations.toml", file);
    run_commands(page, &scratch);
}

#[test]
fn commands_of_the_page_on_swaps() {
    let page = include_str!("../../../docs/swaps.md");
    let scratch = Scratch::new("docs-swaps");
    run_commands(page, &scratch);
    // The files that it shows can be run, and the commands with stored weights can be used on a real trial.
    let files = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut runs = Vec::new();
    for (number, (text, count)) in files.zip([2, 6]).enumerate() {
        let file = scratch.file(&format!("{number}.toml"), text);
        let run = scratch.path(&format!("run-{number}"));
        let output = common::semfocus(&["run", &file, "--smoke", "-q", "-o", &run]);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(common::trials(&run).len(), count);
        runs.push(run);
    }
    let trial = common::trials(runs.last().unwrap())[0].clone();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    semfocus ")).collect();
    assert_eq!((runs.len(), commands.len()), (2, 1));
    for (number, command) in commands.iter().enumerate() {
        let command = command.replace("runs/even-pairs-quick/a7b4", trial.to_str().unwrap());
        let arguments: Vec<&str> = command.split(' ').collect();
        let dir = scratch.path(&format!("command-{number}"));
        let output = common::semfocus(&[&arguments[..], &["--smoke", "-q", "-o", &dir]].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
}

#[test]
fn commands_of_the_page_on_evidence() {
    run_commands(include_str!("../../../docs/evidence.md"), &Scratch::new("docs-evidence"));
}

#[test]
fn commands_of_the_page_on_causes() {
    run_commands(include_str!("../../../docs/causes.md"), &Scratch::new("docs-causes"));
}

#[test]
fn commands_of_the_page_on_theory() {
    run_commands(include_str!("../../../docs/theory.md"), &Scratch::new("docs-theory"));
}

#[test]
fn the_page_on_files_names_every_file_and_column() {
    let page = include_str!("../../../docs/run-store.md");
    let readme = include_str!("../../../README.md");
    let one_line = page.lines().find(|line| line.starts_with("df = pd.concat")).unwrap();
    assert!(readme.contains(one_line), "the README shows the same line");
    let scratch = Scratch::new("docs-store");
    let dir = scratch.path("run");
    assert_eq!(common::semfocus(&["run", "even-pairs", "--smoke", "--epochs", "2", "-o", &dir]).code, 0);
    for folder in [Path::new(&dir), &common::trials(&dir)[0]] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(page.contains(&format!("{name}`")) || page.contains(&format!("`{name}/")), "{name}");
        }
    }
    let record = std::fs::read_to_string(common::trials(&dir)[0].join("epochs.csv")).unwrap();
    for column in record.lines().next().unwrap().split(',') {
        assert!(page.contains(&format!("`{column}`")), "{column}");
    }
}

#[test]
fn the_page_names_every_task_with_its_pad_token() {
    let page = include_str!("../../../docs/tasks.md");
    let registry = semfocus_tasks::Tasks::standard();
    let (_, ids) = page.split_once("## Token ids").unwrap();
    for task in registry.examples() {
        let row = ids.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{}`", task.name())));
        let row = row.unwrap_or_else(|| panic!("{} is missing", task.name()));
        assert!(row.ends_with(&format!("| {} |", task.pad())), "{row}");
        for (id, symbol) in task.alphabet.iter().enumerate().filter(|(_, s)| s.text.parse::<usize>().is_err()) {
            assert!(row.contains(&format!("{id} `{}`", symbol.text)), "{row} lacks {id} {}", symbol.text);
        }
    }
}
