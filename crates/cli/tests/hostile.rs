//! Surroundings that do not cooperate: nobody reads the output, the terminal is closed, the system gives no threads and has
//! too little memory, sizes are absurd, and text from files tries to command the terminal.
#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use semfocus_core::EpochRecord;
use semfocus_fixture::{self as fixture, Fixture};
use semfocus_store::State;

use common::transcript::Transcript;
use common::{SMALL, Scratch, assert_same_bits, semfocus, signal, start, trials, wait_until};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semfocus"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn short(scratch: &Scratch) -> String {
    scratch.file("short.toml", &SMALL.replace("epochs = 12", "epochs = 3").replace("seeds = 2", "seeds = 1"))
}

#[test]
fn training_does_not_depend_on_anybody_listening() {
    let scratch = Scratch::new("nobody-listens");
    let file = short(&scratch);
    // The reader goes away after the first line; so does that of the table.
    for (name, both) in [("stderr", false), ("both", true)] {
        let dir = scratch.path(name);
        let mut child = program().args(["run", &file, "-o", &dir]).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        drop(both.then(|| child.stdout.take()));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert!(Path::new(&dir).join("report.html").is_file(), "{name}: the report is written");
    }
    // A full disk takes no log.
    let dir = scratch.path("full");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = program().args(["run", &file, "-o", &dir]).stderr(full).stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(Path::new(&dir).join("report.html").is_file());
}

/// Whether this process ignores SIGHUP, the first of the signals in the mask that Linux shows.
fn ignores_hang_ups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 1 == 1)
}

#[test]
fn a_lost_connection_saves_and_nohup_goes_on() {
    let scratch = Scratch::new("hang-up");
    let file = scratch.file("small.toml", &SMALL.replace("train = 400", "train = 4000"));
    let wait_for_a_checkpoint = |dir: &str| {
        let has_one = || {
            Path::new(dir).join("trials").is_dir()
                && trials(dir).iter().any(|trial| trial.join("last.safetensors").exists())
        };
        wait_until("there is a checkpoint", has_one);
    };
    let dir = scratch.path("hung-up");
    let child = start(&["run", &file, "-o", &dir]);
    wait_for_a_checkpoint(&dir);
    signal(&child, "HUP");
    let output = child.wait_with_output().unwrap();
    // Tests that are run with nohup pass on that it is ignored.
    if !ignores_hang_ups() {
        assert_eq!(output.status.code(), Some(130), "{:?}", output.status.signal());
    }

    let dir = scratch.path("nohup");
    let mut nohup = Command::new("nohup");
    nohup.args([env!("CARGO_BIN_EXE_semfocus"), "run", &file, "-o", &dir, "--epochs", "2"]);
    let child = nohup.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_a_checkpoint(&dir);
    signal(&child, "HUP");
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn threads_that_the_system_does_not_give_are_done_without() {
    let scratch = Scratch::new("no-threads");
    let file = short(&scratch);
    let (usual, alone) = (scratch.path("usual"), scratch.path("alone"));
    assert_eq!(semfocus(&["run", &file, "-o", &usual, "-q"]).code, 0);
    // No thread can have a stack of this size.
    let without_threads = |arguments: &[&str]| {
        let output = program().args(arguments).env("RUST_MIN_STACK", "70368744177664").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    };
    without_threads(&["run", &file, "-o", &alone]);
    assert_same_bits(&usual, &alone);
    without_threads(&["landscape", &alone, "--grid", "3", "--samples", "20"]);
    without_threads(&["probe", &alone, "--samples", "20"]);
}

#[test]
fn what_does_not_fit_fails_alone_with_a_message() {
    let scratch = Scratch::new("too-large");
    let text = SMALL.replace("seeds = 2", "seeds = 1").replace("epochs = 12", "epochs = 1");
    let text = text.replace("d_model = 16\n", "").replace("[model]", "[grid]\nmodel.d_model = [16, 65536]\n[model]");
    let file = scratch.file("large.toml", &text.replace("d_mlp = 16", "d_mlp = 65536"));
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir, "--yes"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let status: serde_json::Value = serde_json::from_str(&semfocus(&["status", &dir, "--json"]).stdout).unwrap();
    assert_eq!((&status["done"], &status["failed"]), (&2.into(), &2.into()), "{status}");
    let failed = status["list"].as_array().unwrap().iter().filter(|trial| trial["state"] == "failed");
    let messages: Vec<&str> = failed.filter_map(|trial| trial["message"].as_str()).collect();
    assert!(messages.len() == 2 && messages.iter().all(|message| message.contains("memory")), "{messages:?}");
}

#[test]
fn absurd_sizes_are_refused_with_the_limit() {
    let scratch = Scratch::new("absurd");
    let mut messages = Transcript::new(&scratch);
    for setting in [
        "model.d_model=100000",
        "model.heads=1000000000000",
        "model.blocks=1000000",
        "model.d_head=9223372036854775807",
        "training.epochs=9223372036854775807",
        "data.length=1000000000",
    ] {
        messages.refuse(2, &[&["run", "even-pairs", "-s", setting, "-n"]]);
    }
    let list = |count: usize| (1..=count).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
    let thousand = list(1000);
    let mechanisms: Vec<String> = (1..=60_000).map(|size| format!("\"topk:{size}\"")).collect();
    let name = "x".repeat(3_000_000);
    for (what, text) in [
        (
            "a grid",
            format!("[grid]\ndata.train = [{thousand}]\ndata.held_out = [{thousand}]\nmodel.d_mlp = [{thousand}]\n"),
        ),
        ("seeds", format!("seeds = [{}]\n", list(200_000))),
        ("a list", format!("[grid]\ndata.train = [{}]\n", list(100_000))),
        ("mechanisms", format!("mechanisms = [{}]\n", mechanisms.join(", "))),
        ("a name", format!("{name} = 3\n")),
    ] {
        let file = scratch.file("large.toml", &format!("task = \"parity\"\n{text}"));
        // About a second of computing; much less than the minute that quadratic lists take. This is processor time of this process:
        // how busy the machine is does not matter.
        let script = "ulimit -t 30; exec \"$0\" run \"$1\" -n";
        let output = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_semfocus"), &file]).output().unwrap();
        let output = common::cluster::read(output);
        assert_eq!(output.code, 2, "{what}: {:.300}", output.stderr);
        assert!(output.stderr.len() < 2000, "{what}: the message has {} bytes", output.stderr.len());
        messages.add(&format!("run, with too large {what}"), &output);
    }
    messages.check("run-refused-sizes");
}

#[test]
#[cfg(target_os = "linux")]
fn a_limit_of_memory_is_named_or_makes_no_difference() {
    let listed = |mebibytes: usize| {
        let script = format!("ulimit -v {}; exec \"$0\" list tasks", mebibytes << 10);
        Command::new("bash").args(["-c", &script, env!("CARGO_BIN_EXE_semfocus")]).output().unwrap()
    };
    // The system does not load a program into less memory than its own size.
    let is_loaded = |output: &std::process::Output| matches!(output.status.code(), Some(0..127));
    let mut answers = (20..400).step_by(6).map(listed).skip_while(|output| !is_loaded(output));
    let first = common::cluster::read(answers.next().unwrap());
    assert_eq!(first.code, 1, "{}", first.stderr);
    assert!(first.stderr.starts_with("error: `ulimit -v` leaves "), "{}", first.stderr);
    let enough = answers.map(common::cluster::read).skip_while(|output| output.code == 1);
    assert!(enough.map(|output| assert_eq!(output.code, 0, "{}", output.stderr)).count() > 40);
}

#[test]
fn names_stay_in_the_folder_of_runs() {
    let scratch = Scratch::new("names");
    let mut messages = Transcript::new(&scratch);
    for name in ["../../x", "/abs", "..", "a/b", "", "a\\u001b[2Jb"] {
        scratch.file("named.toml", &format!("name = \"{name}\"\n{SMALL}"));
        messages.refuse(2, &[&["run", "named.toml"]]);
    }
    messages.check("run-refused-names");
}

#[test]
fn text_from_files_does_not_command_the_terminal() {
    let scratch = Scratch::new("escapes");
    let claim = "\\u001b]0;owned\\u0007 \\u001b[2J claim";
    let text = SMALL.replace("Nothing: it is small.", claim).replace("epochs = 12", "epochs = 1");
    let file = scratch.file("escapes.toml", &text);
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let trial = trials(&dir)[0].clone();
    let environment = trial.join("env.json");
    let changed =
        std::fs::read_to_string(&environment).unwrap().replacen("\"host\": \"", "\"host\": \"\\u001b[31;5m", 1);
    std::fs::write(&environment, changed).unwrap();
    let data = scratch.file("data.tsv", "a\u{1b}[2J b\tx\u{9b}2J\nb a\ty\n");
    let commands: [&[&str]; 6] = [
        &["run", &file, "-o", &dir],
        &["status", &dir],
        &["compare", &dir],
        &["show", trial.to_str().unwrap()],
        &["data", "show", &data],
        &["data", "audit", &data],
    ];
    for command in commands {
        let Output { stdout, stderr } = raw(command);
        for text in [stdout, stderr] {
            let bad = text.chars().find(|letter| letter.is_control() && *letter != '\n' && *letter != '\t');
            assert_eq!(bad, None, "{command:?}: {}", text.escape_debug());
        }
    }
    // JSON stays JSON, with the same text in it.
    let json = semfocus(&["show", trial.to_str().unwrap(), "--json"]).stdout;
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(value.to_string().contains("[31;5m"), "{value}");
}

struct Output {
    stdout: String,
    stderr: String,
}

fn raw(arguments: &[&str]) -> Output {
    let output = semfocus(arguments);
    Output { stdout: output.stdout, stderr: output.stderr }
}

#[test]
fn times_too_short_to_measure_can_be_compared() {
    let scratch = Scratch::new("no-time");
    let request = semfocus_core::Request { experiment: scratch.file("small.toml", SMALL), ..Default::default() };
    let experiment = semfocus_core::Experiment::resolve(&request, &semfocus_core::AnyName).unwrap();
    let dir = scratch.path("run");
    // The record as it would be on a machine that takes no time.
    let store = fixture::store(Path::new(&dir), &experiment, |_| {
        let records = (1..=12).map(|epoch| EpochRecord { seconds: 0.0, ..fixture::jump(epoch, Some(2), 0.99) });
        Some(Fixture { records: records.collect(), state: State::Finished, probes: Vec::new() })
    });
    store.unwrap();
    let output = semfocus(&["compare", &dir, "--json"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let rows: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&rows["list"][1]["mechanism"], &rows["list"][1]["reached"]), (&"topk:3".into(), &2.into()), "{rows}");
}

#[test]
fn a_model_without_blocks_can_be_probed() {
    let scratch = Scratch::new("no-blocks");
    let file = short(&scratch);
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "-s", "model.blocks=0", "-s", "probe_every=1", "-q"]).code, 0);
    let output = semfocus(&["probe", &dir, "--samples", "20"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(semfocus(&["report", &dir]).code, 0);
}

#[test]
fn many_surfaces_need_few_open_files() {
    let scratch = Scratch::new("open-files");
    let file = short(&scratch);
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "-q"]).code, 0);
    let script = "ulimit -n 40; exec \"$0\" landscape \"$1\" --grid 3 --samples 5 --draws 60";
    let output = Command::new("bash").args(["-c", script, env!("CARGO_BIN_EXE_semfocus"), &dir]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn a_damaged_snapshot_does_not_keep_a_later_one_from_being_probed() {
    let scratch = Scratch::new("snapshots");
    let file = short(&scratch);
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "-s", "probe_every=1", "-q"]).code, 0);
    for trial in trials(&dir) {
        std::fs::write(trial.join("snapshots/epoch-2.safetensors"), "nothing").unwrap();
    }
    let output = semfocus(&["probe", &dir, "--samples", "20"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("no comparison with an earlier epoch"), "{}", output.stderr);
}
