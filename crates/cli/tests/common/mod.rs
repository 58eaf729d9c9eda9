//! Runs the program as a user would.
#![allow(dead_code, reason = "every test program uses some of it")]

#[cfg(unix)]
pub(crate) mod cluster;
pub(crate) mod page;
pub(crate) mod recorded;
pub(crate) mod transcript;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use transcript::Transcript;

/// What a run of the program gave.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `semfocus` with these arguments and no input.
pub(crate) fn semfocus(arguments: &[&str]) -> Output {
    semfocus_with_input(arguments, "")
}

/// Runs `semfocus` with these arguments and this input.
pub(crate) fn semfocus_with_input(arguments: &[&str], input: &str) -> Output {
    semfocus_in(".", arguments, input)
}

/// Runs `semfocus` in a folder.
pub(crate) fn semfocus_in(folder: &str, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_semfocus"))
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("input is piped");
    let input = input.to_owned();
    // From a thread of its own, so that neither side waits for the other. A program that does not read is fine.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the program ends");
    writer.join().expect("writing does not panic");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let code = output.status.code().expect("the program ends by itself");
    Output { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A folder of a test, gone at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new, empty folder; `name` is that of the test.
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path); // left by a run that was killed
        std::fs::create_dir_all(&path).expect("the folder for tests can be written");
        Scratch(path)
    }

    /// A path in it, as an argument.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("paths of tests are UTF-8").to_owned()
    }

    /// Writes a file and gives its path.
    pub(crate) fn file(&self, name: &str, contents: &str) -> String {
        std::fs::write(self.0.join(name), contents).expect("the folder for tests can be written");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An experiment whose epochs take some hundredths of a second: four trials, with dropout and momentum, so that there is
/// state to lose.
pub(crate) const SMALL: &str = r#"
claim = "Nothing: it is small."
task = "even-pairs"
mechanisms = ["full", "topk:3"]
seeds = 2

[data]
length = 10
train = 400
held_out = 100

[model]
blocks = 2
d_model = 16
d_mlp = 16
dropout = 0.1

[training]
epochs = 12
momentum = 0.9
"#;

/// The folders of the trials of a run, in the order of their names.
pub(crate) fn trials(run: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(run).join("trials")).expect("the run has trials");
    // In the same folder are the claims on the description of the run, if there are any.
    let is_trial = |path: &PathBuf| path.is_dir() && !path.ends_with("claims");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(is_trial).collect();
    folders.sort();
    folders
}

/// The lines of `epochs.csv` from epoch 0 on, without the columns `seconds` and `check`, the only ones that differ when a trial is
/// repeated.
pub(crate) fn epochs(trial: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(trial.join("epochs.csv")).expect("the trial has epochs");
    assert!(text.ends_with('\n'));
    let columns = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<String>>();
    let lines: Vec<Vec<String>> = text.lines().map(columns).collect();
    let is_kept: Vec<bool> = lines[0].iter().map(|name| !["seconds", "check"].contains(&name.as_str())).collect();
    assert!(is_kept.contains(&false), "there is a column for the time");
    let without_time = |line: Vec<String>| {
        let kept = line.into_iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept);
        kept.map(|(text, _)| text).collect::<Vec<_>>().join(",")
    };
    lines.into_iter().skip(1).map(without_time).collect()
}

/// Asserts that two runs have the same trials with the same bits: weights, optimiser and record.
pub(crate) fn assert_same_bits(one: &str, other: &str) {
    let (one, other) = (trials(one), trials(other));
    assert_eq!(one.len(), other.len());
    for (a, b) in one.iter().zip(&other) {
        assert_eq!(a.file_name(), b.file_name());
        assert_eq!(epochs(a), epochs(b), "{}", a.display());
        for file in ["last.safetensors", "best.safetensors", "trial.toml"] {
            let read = |path: &Path| std::fs::read(path.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(read(a) == read(b), "{file} of {} and {} differ", a.display(), b.display());
        }
    }
}

/// Starts `semfocus` without waiting for it.
pub(crate) fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semfocus"));
    command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// How long a test waits for something, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a process says on standard error, while it runs.
pub(crate) struct Talk {
    said: Arc<Mutex<String>>,
    listener: JoinHandle<()>,
}

impl Talk {
    pub(crate) fn of(child: &mut Child) -> Self {
        let mut stderr = child.stderr.take().expect("its errors are piped");
        let said = Arc::new(Mutex::new(String::new()));
        let heard = said.clone();
        let listener = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut bytes) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Talk { said, listener }
    }

    /// Waits until it has said something.
    pub(crate) fn wait_for(&self, text: &str) {
        wait_until(&format!("it says `{text}`"), || self.said.lock().unwrap().contains(text));
    }

    /// All that it said, when it has ended.
    pub(crate) fn end(self) -> String {
        self.listener.join().unwrap();
        self.said.lock().unwrap().clone()
    }
}

/// Sends a signal such as `INT`.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.expect("there is a kill command").success());
}

/// Runs a command again and again until it is done. It gets a signal each time when it has recorded this
/// many epochs more, some milliseconds later: in the middle of the next one, or while its files are written. If the run is over before it
/// was stopped twice, because the machine did something else than this test, all of it is tried again.
pub(crate) fn run_with_signals(command: &[&str], dir: &str, name: &str, epochs: usize) {
    let recorded = || {
        let folders = if Path::new(dir).join("trials").exists() { trials(dir) } else { Vec::new() };
        let lines = folders.iter().filter_map(|trial| std::fs::read_to_string(trial.join("epochs.csv")).ok());
        lines.map(|text| text.lines().count()).sum::<usize>()
    };
    let (mut codes, mut attempts) = (Vec::new(), 0);
    loop {
        let before = recorded();
        let mut child = start(command);
        while recorded() < before + epochs && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(codes.len() as u64 * 7 % 16));
        if child.try_wait().unwrap().is_none() {
            signal(&child, name);
        }
        let output = child.wait_with_output().unwrap();
        codes.push(output.status.code());
        match output.status.code() {
            Some(0) if codes.len() > 2 => return,
            Some(0) => {
                attempts += 1;
                assert!(attempts < 20, "it was never stopped twice: {codes:?}");
                std::fs::remove_dir_all(dir).unwrap();
                codes.clear();
            }
            // Interrupted, with a checkpoint within an epoch.
            Some(130) => {}
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

/// Runs variants of an experiment file and checks that each is refused before anything is begun: `from` in the file is replaced by
/// `to`, and the message must name the place, such as `:13:1`. All messages are compared with a snapshot.
pub(crate) fn assert_refused(snapshot: &str, scratch: &Scratch, file: &str, cases: &[(&str, &str, &str)]) {
    let mut messages = Transcript::new(scratch);
    for (from, to, place) in cases {
        let text = file.replace(from, to);
        assert_ne!(text, file, "{from} is in the file");
        scratch.file("wrong.toml", &text);
        let output = semfocus_in(&scratch.path(""), &["run", "wrong.toml", "-o", "run"], "");
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{to}: {}", output.stderr);
        assert!(place.is_empty() || output.stderr.contains(&format!("wrong.toml{place}")), "{to}: {}", output.stderr);
        assert!(!Path::new(&scratch.path("run")).exists(), "nothing was begun");
        messages.add(&format!("run, with `{}`", to.replace('\n', "; ")), &output);
    }
    messages.check(snapshot);
}
