//! The commands in docs/tasks.md print what the page says.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

#[test]
fn commands_of_the_page_on_tasks() {
    let page = include_str!("../../../docs/tasks.md");
    let program = Path::new(env!("CARGO_BIN_EXE_semfocus"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let folder = std::env::temp_dir().join(format!("semfocus-docs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut ran = 0;
    for block in page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let (mut expected, mut printed) = (String::new(), String::new());
        for line in block.lines() {
            expected += &format!("{line}\n");
            if let Some(command) = line.strip_prefix("$ ") {
                let output = Command::new("sh").args(["-c", command]).current_dir(&folder).env("PATH", &path).output();
                printed += &format!("{line}\n{}", String::from_utf8(output.unwrap().stdout).unwrap());
                ran += 1;
            }
        }
        assert_eq!(printed, expected);
    }
    assert_eq!(ran, page.matches("\n$ ").count());
    assert!(ran >= 12, "the page shows {ran} commands");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_page_names_every_task_with_its_pad_token() {
    let page = include_str!("../../../docs/tasks.md");
    let registry = semfocus_tasks::Registry::standard();
    let (_, ids) = page.split_once("## Token ids").unwrap();
    for task in registry.iter() {
        let row = ids.lines().find(|line| line.starts_with('|') && line.contains(&format!("`{}`", task.name)));
        let row = row.unwrap_or_else(|| panic!("{} is missing", task.name));
        assert!(row.ends_with(&format!("| {} |", task.pad())), "{row}");
        for (id, symbol) in task.alphabet.iter().enumerate().filter(|(_, s)| s.text.parse::<usize>().is_err()) {
            assert!(row.contains(&format!("{id} `{}`", symbol.text)), "{row} lacks {id} {}", symbol.text);
        }
    }
}
