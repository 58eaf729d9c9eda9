//! The program has the whole command line with its own mechanism and task, and the documentation shows its code.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("own-lab-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Standard output of a command that must succeed.
fn own_lab(folder: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = attempt(folder, arguments);
    assert_eq!(code, Some(0), "own-lab {}: {err}", arguments.join(" "));
    out
}

fn attempt(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_own-lab")).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const EXPERIMENT: &str = r#"
claim = "Keeping the keys near the best one learns majority as fast as keeping all."
task = "majority"
mechanisms = ["full", "within:2"]
seeds = 2
probe_every = 1

[data]
train = 200
held_out = 100

[model]
blocks = 1
d_model = 16
d_mlp = 16

[training]
epochs = 2
"#;

#[test]
fn an_experiment_from_its_file_to_its_report() {
    let scratch = Scratch::new("run");
    let folder = &scratch.0;
    std::fs::write(folder.join("majority.toml"), EXPERIMENT).unwrap();
    let out = own_lab(folder, &["run", "majority.toml", "--quiet", "--json"]);
    let result: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&result["finished"], &result["comparison"][1]["mechanism"]), (&4.into(), &"within:2".into()));
    let run = "runs/majority";
    assert!(own_lab(folder, &["compare", run]).contains("within:2"));
    assert!(own_lab(folder, &["status", run]).contains("within:2"));
    own_lab(folder, &["probe", run, "--samples", "20"]);
    own_lab(folder, &["landscape", run, "--grid", "3", "--samples", "20"]);
    own_lab(folder, &["landscape", run, "--grid", "3", "--samples", "20", "--directions", "path"]);
    own_lab(folder, &["sharpness", run, "--samples", "10", "--probes", "2"]);
    own_lab(folder, &["report", run]);
    let page = std::fs::read_to_string(folder.join(run).join("report.html")).unwrap();
    assert!(page.contains("within:2") && page.contains("majority"), "the report names the mechanism and the task");
    assert!(page.contains("Loss surface"), "the report shows the surfaces");
}

#[test]
fn lists_completions_and_messages_know_the_mechanism_and_the_task() {
    let scratch = Scratch::new("names");
    let folder = &scratch.0;
    assert!(own_lab(folder, &["list", "mechanisms"]).contains("within:m"));
    assert!(own_lab(folder, &["list", "tasks"]).contains("majority"));
    assert!(own_lab(folder, &["data", "show", "majority"]).contains("0 occurs "));
    // The evaluator rejects what the generator makes of an even length: an error, not a page without examples.
    let (code, _, err) = attempt(folder, &["data", "show", "majority:of=1"]);
    assert!(code == Some(1) && err.contains("`of` in `majority:of=1` must be at least 2"), "{err}");
    let script = own_lab(folder, &["completions", "bash"]);
    assert!(script.contains("within:2") && script.contains("majority:of=") && script.contains("own-lab"));
    let (code, _, err) = attempt(folder, &["run", "even-pairs", "--mechanisms", "full,wihtin:2", "--smoke"]);
    assert!(code == Some(2) && err.contains("did you mean `within:2`?"), "{err}");
    let (code, _, err) = attempt(folder, &["data", "show", "majorty"]);
    assert!(code == Some(1) && err.contains("did you mean `majority`?"), "{err}");
}

/// The parts of a source file between lines `// [name]` and `// [end of name]`.
fn marked_parts(source: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part: Option<String> = None;
    for line in source.lines() {
        let mark = line.trim().strip_prefix("// [").and_then(|rest| rest.strip_suffix(']'));
        match (mark, &mut part) {
            (Some(mark), Some(_)) if mark.starts_with("end of ") => parts.extend(part.take()),
            (Some(_), None) => part = Some(String::new()),
            (None, Some(text)) => *text += &format!("{line}\n"),
            (None, None) => {}
            (Some(mark), Some(_)) => panic!("[{mark}] inside another part"),
        }
    }
    assert!(part.is_none(), "every part has an end");
    parts
}

#[test]
fn the_documentation_shows_this_code() {
    let pages = [
        (include_str!("../../../docs/adding-a-mechanism.md"), include_str!("../src/within.rs"), 3),
        (include_str!("../../../docs/adding-a-task.md"), include_str!("../src/majority.rs"), 1),
    ];
    for (page, source, parts) in pages {
        let shown = marked_parts(source);
        assert_eq!(shown.len(), parts);
        for code in shown {
            let unindented = |text: &str| text.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
            assert!(
                unindented(page).contains(unindented(&code).trim()),
                "the page does not show the code as it is:\n{code}"
            );
        }
    }
    assert!(pages[0].0.contains(include_str!("../src/main.rs").split_once("\n\n").unwrap().1.trim()));
}

#[test]
fn the_commands_of_the_documentation_run() {
    let scratch = Scratch::new("commands");
    let pages = [
        include_str!("../../../README.md"),
        include_str!("../../../docs/adding-a-mechanism.md"),
        include_str!("../../../docs/adding-a-task.md"),
    ];
    for page in pages {
        let commands = page.lines().filter_map(|line| line.split_once("    cargo run --release -p own-lab -- "));
        let commands: Vec<Vec<&str>> = commands.map(|(_, arguments)| arguments.split_whitespace().collect()).collect();
        assert!(!commands.is_empty(), "the page shows how to use the program");
        for arguments in commands {
            assert!(!own_lab(&scratch.0, &arguments).is_empty());
        }
    }
}
