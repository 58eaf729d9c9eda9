//! The commands on the pages of docs/ print what the pages say.
#![cfg(unix)]

mod common;

use std::path::Path;
use std::process::Command;

use common::page::commands;
use common::{Scratch, recorded, semfocus_in};
use regex::Regex;

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
fn commands_of_the_page_on_texts() {
    let scratch = Scratch::new("docs-text");
    let words = ["the", "president", "of", "united", "states", "speaks", "to", "congress", "about", "peace"];
    let word = |line: usize, word: usize| words[(line * line + word * (line / 10 + 3) + word * word / 3) % 10];
    let line = |line: usize| (0..9 + line % 7).map(|place| word(line, place)).collect::<Vec<_>>().join(" ");
    for (name, lines) in [("train", 0..400), ("held-out", 500..600)] {
        let text: String = lines.map(|number| line(number) + ".\n").collect();
        scratch.file(&format!("{name}.txt"), &text);
    }
    for (name, penn) in [("train", "ptb.train"), ("held-out", "ptb.valid")] {
        std::fs::copy(scratch.path(&format!("{name}.txt")), scratch.path(&format!("{penn}.txt"))).unwrap();
    }
    let commands = commands(include_str!("../../../docs/text.md"));
    assert_eq!(commands.len(), 4);
    // So short a text has few different pieces.
    for command in commands {
        let pieces =
            if command.has("figure-19a") { "tokenizer=unigram,vocabulary=30" } else { "form=causal,vocabulary=60" };
        let task = format!("task=text:{pieces}");
        let more: &[&str] = if command.is(&["run"]) { &["--smoke", "-q", "-s", &task] } else { &[] };
        let mut command = command.clone();
        command
            .arguments
            .iter_mut()
            .for_each(|argument| *argument = argument.replace("text:split", "text:vocabulary=60,split"));
        command.run(&scratch.path(""), more);
    }
}

#[test]
fn commands_of_the_page_on_experiments() {
    let page = include_str!("../../../docs/experiments.md");
    let scratch = Scratch::new("docs-experiments");
    // The file that the page begins with is the one its first command runs.
    let file = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    scratch.file("parity-activations.toml", file);
    run_commands(page, &scratch);
    // What it says about growing is tried on the run that it is about; nothing is trained.
    recorded::even_pairs(&scratch.path("runs/even-pairs-quick"));
    let growing = commands(page);
    assert_eq!(growing.len(), 4);
    for command in growing {
        let plan = command.run(&scratch.path(""), &["--dry-run", "--json"]).stdout;
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        assert!(plan["dir"].as_str().is_some_and(|dir| dir.ends_with("runs/even-pairs-quick")), "{}", command.text);
    }
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
    let page = include_str!("../../../docs/causes.md");
    let scratch = Scratch::new("docs-causes");
    run_commands(page, &scratch);
    std::fs::create_dir(scratch.path("runs")).unwrap();
    std::fs::rename(scratch.path("smoke"), scratch.path("runs/causes-quick")).unwrap();
    for command in commands(page) {
        // In another folder, as the one of that name has a run of another size.
        let more: &[&str] = if command.is(&["run"]) { &["--dry-run", "-o", "new"] } else { &[] };
        command.run(&scratch.path(""), more);
    }
}

#[test]
fn commands_of_the_page_on_files() {
    let scratch = Scratch::new("docs-files");
    let run = ["run", "even-pairs", "--smoke", "-q", "-o", "runs/even-pairs-quick"];
    assert_eq!(semfocus_in(&scratch.path(""), &run, "").code, 0);
    let commands = commands(include_str!("../../../docs/run-store.md"));
    assert_eq!(commands.len(), 2);
    for command in commands {
        command.run(&scratch.path(""), &[]);
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The pages that a person reads, by their paths in the repository, with their contents.
fn pages() -> Vec<(String, String)> {
    let mut names: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/peers/README.md"].map(str::to_owned).into();
    for folder in ["docs", "docs/record"] {
        let files =
            root().join(folder).read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.extend(files.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    names.sort();
    let read = |name: String| (name.clone(), std::fs::read_to_string(root().join(name)).unwrap());
    names.into_iter().map(read).collect()
}

#[test]
fn every_page_with_commands_is_tried() {
    let has_commands = |page: &str| page.contains("```console") || !commands(page).is_empty();
    let names = pages().into_iter().filter(|(_, page)| has_commands(page)).map(|(name, _)| name);
    // tests/readme.rs tries the README and the pages on running and reading results, tests/slurm.rs that on clusters.
    let tried = ["causes", "cluster", "evidence", "experiments", "reading-results", "run-store", "running", "swaps"];
    let tried = tried.into_iter().chain(["tasks", "text", "theory"]).map(|name| format!("docs/{name}.md"));
    let tried: Vec<String> = std::iter::once("README.md".to_owned()).chain(tried).collect();
    assert_eq!(names.collect::<Vec<_>>(), tried);
}

#[test]
fn paths_that_the_pages_name_exist() {
    let path =
        Regex::new(r"`((?:crates|docs|bench|experiments|examples|fuzz|\.ci)/[\w./-]+)`((?: / `[\w/]+\.rs`)*)").unwrap();
    let sibling = Regex::new(r"`([\w/]+\.rs)`").unwrap();
    let mut count = 0;
    for (name, page) in pages().into_iter() {
        for found in path.captures_iter(&page) {
            let first = root().join(&found[1]);
            // What `bench/peers/compare` installs.
            assert!(first.exists() || first.ends_with(".venv"), "{name}: {}", &found[1]);
            // `crates/lab/src/plan.rs` / `trial.rs`
            for next in sibling.captures_iter(&found[2]).filter(|next| !next[1].starts_with("crates/")) {
                assert!(first.parent().unwrap().join(&next[1]).exists(), "{name}: {}, next to {}", &next[1], &found[1]);
            }
            count += 1;
        }
    }
    assert!(count > 80, "{count} paths");
    // In its drawings, ARCHITECTURE.md leaves out `crates/` and `src/`.
    let short = Regex::new(r"(?m)(?:^|[ │─]) ((?:cli|core|store|lab|nn|analysis)/[\w/]+(?:\.rs)?)(?: |$)").unwrap();
    let (_, drawings) = pages().into_iter().find(|(name, _)| name == "ARCHITECTURE.md").unwrap();
    let drawings: Vec<&str> = drawings.lines().filter(|line| line.starts_with("    ")).collect();
    for found in short.captures_iter(&drawings.join("\n")) {
        let (krate, rest) = found[1].split_once('/').unwrap();
        let path = root().join("crates").join(krate).join("src").join(rest);
        assert!(path.exists() || path.with_extension("rs").exists(), "ARCHITECTURE.md: {}", &found[1]);
    }
}

/// The anchor that a heading of a page has on a page of a repository.
fn anchor(heading: &str) -> String {
    let letters = heading.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    letters.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_to_pages_and_headings() {
    let link = Regex::new(r"\]\(([^)#\s]*)(?:#([^)]*))?\)").unwrap();
    for (name, page) in pages() {
        for found in link.captures_iter(&page).filter(|found| !found[1].contains(':')) {
            let here = root().join(&name);
            let path = if found[1].is_empty() { here } else { here.parent().unwrap().join(&found[1]) };
            assert!(path.exists(), "{name}: {}", &found[1]);
            if let Some(wanted) = found.get(2) {
                let target = std::fs::read_to_string(&path).unwrap();
                let mut headings = target.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(
                    headings.any(|heading| heading == wanted.as_str()),
                    "{name}: {}#{}",
                    &found[1],
                    wanted.as_str()
                );
            }
        }
    }
}

#[test]
fn prose_is_wrapped() {
    for (name, page) in pages() {
        let (mut is_generated, mut is_code) = (false, false);
        for (number, line) in page.lines().enumerate() {
            if line.starts_with("<!-- ") {
                is_generated = line.starts_with("<!-- record: ");
            }
            is_code ^= line.starts_with("```");
            let is_prose = !is_generated && !is_code && !line.starts_with(['|', '!']) && !line.starts_with("    ");
            assert!(
                !is_prose || line.chars().count() <= 140,
                "{name}:{}: {} letters",
                number + 1,
                line.chars().count()
            );
        }
    }
}

#[test]
fn commands_of_the_page_on_theory() {
    run_commands(include_str!("../../../docs/theory.md"), &Scratch::new("docs-theory"));
}

#[test]
fn the_page_on_files_names_every_file_and_column() {
    let page = include_str!("../../../docs/run-store.md");
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
