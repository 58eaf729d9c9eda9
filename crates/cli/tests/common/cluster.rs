//! A cluster that only exists on paper: programs with the names of Slurm's that note how they were called and say what a test
//! wants them to say.
#![allow(dead_code, reason = "every test program uses some of it")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Output, Scratch};

/// Programs in place of Slurm's, in a folder of a test.
pub(crate) struct Cluster<'a> {
    scratch: &'a Scratch,
}

impl<'a> Cluster<'a> {
    /// `sbatch` gives numbers from 101 on; `squeue` knows no job; arrays have up to 100 tasks; there is no accounting.
    pub(crate) fn new(scratch: &'a Scratch) -> Self {
        std::fs::create_dir_all(scratch.path("bin")).unwrap();
        let cluster = Cluster { scratch };
        let count = scratch.path("count");
        cluster.program(
            "sbatch",
            &format!(
                "case \"$*\" in --version) echo slurm 22.05.8; exit;; *--test-only*) cat > /dev/null; \
                 echo 'sbatch: Job 5 to start at 2026-11-18T01:00:00' >&2; exit;; esac\n\
                 n=$(cat {count} 2>/dev/null || echo 100); n=$((n + 1)); echo $n > {count}; echo $n"
            ),
        );
        cluster.says("squeue", "");
        cluster.says("scontrol", "MaxArraySize            = 101");
        cluster.says("scancel", "");
        cluster.program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
        cluster
    }

    /// Lets a program run some lines of a shell script.
    pub(crate) fn program(&self, name: &str, lines: &str) {
        let (path, log) = (self.scratch.path(&format!("bin/{name}")), self.scratch.path("calls.txt"));
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> '{log}'\n{lines}\n");
        // A file that is open for writing cannot be run, and a program that another thread starts at this moment has for a while
        // all files open that this one has. So another process writes it.
        let new = format!("{path}.new");
        std::fs::write(format!("{path}.txt"), text).unwrap();
        assert!(Command::new("cp").args([&format!("{path}.txt"), &new]).status().unwrap().success());
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    /// Lets a program print a text.
    pub(crate) fn says(&self, name: &str, text: &str) {
        let file = self.scratch.file(&format!("{name}.txt"), text);
        self.program(name, &format!("cat '{file}'"));
    }

    pub(crate) fn refuses(&self, name: &str, text: &str) {
        let file = self.scratch.file(&format!("{name}.txt"), text);
        self.program(name, &format!("cat '{file}' >&2; exit 1"));
    }

    /// The calls since the last time, one a line.
    pub(crate) fn calls(&self) -> String {
        let path = self.scratch.path("calls.txt");
        let calls = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        calls
    }

    fn command(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let path = format!("{}:{}", self.scratch.path("bin"), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new(env!("CARGO_BIN_EXE_semfocus"));
        command.current_dir(self.scratch.path("")).env("PATH", path);
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).envs(variables.iter().copied());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `semfocus` in the folder of the test, on a machine of this cluster.
    pub(crate) fn semfocus(&self, arguments: &[&str]) -> Output {
        self.semfocus_with(arguments, &[])
    }

    pub(crate) fn semfocus_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        output(self.command(arguments, variables).spawn().unwrap())
    }

    pub(crate) fn start(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
        self.command(arguments, variables).spawn().unwrap()
    }

    /// A run that is prepared and not begun, in `run`.
    pub(crate) fn submitted(&self, experiment: &str) -> String {
        let file = self.scratch.file("small.toml", experiment);
        let submit = ["slurm", "submit", &file, "-o", "run", "--workers", "2", "--time", "2h"];
        let output = self.semfocus(&submit);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(!Path::new(&self.scratch.path("run/trials.csv")).metadata().unwrap().is_dir());
        self.scratch.path("run")
    }
}

/// What a program gave that was started before.
pub(crate) fn output(child: Child) -> Output {
    read(child.wait_with_output().unwrap())
}

/// The same of a program that has ended.
pub(crate) fn read(output: std::process::Output) -> Output {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().expect("the program ends by itself");
    Output { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}
