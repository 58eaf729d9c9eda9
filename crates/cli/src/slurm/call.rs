//! Starting the commands of Slurm. They ask a server that may be busy, so every call has a time limit.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Why a command gave no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// There is no such program.
    Missing(&'static str),
    /// It could not be started.
    NotStarted(&'static str, std::io::Error),
    /// It did not answer in time.
    Slow(&'static str),
    /// It said no; its own words.
    Refused(&'static str, String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Missing(program) => write!(
                f,
                "there is no `{program}` here: this command needs a machine where Slurm's commands are installed, such as the \
                 login node of a cluster\nhelp: without Slurm, `semfocus work DIR` can be started by hand on any machine that \
                 sees the folder"
            ),
            CallError::NotStarted(program, error) => write!(f, "cannot start `{program}`: {error}"),
            CallError::Slow(program) => {
                write!(f, "`{program}` has not answered within {} s; Slurm may be overloaded", LIMIT.as_secs())
            }
            CallError::Refused(program, text) => write!(f, "`{program}` refused: {text}"),
        }
    }
}

impl std::error::Error for CallError {}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command with some input and waits for its answer.
pub(crate) fn call(program: &'static str, arguments: &[&str], input: &str) -> Result<Answer, CallError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => CallError::Missing(program),
        _ => CallError::NotStarted(program, error),
    })?;
    let failed = |error| CallError::NotStarted(program, error);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (ended, stdout, stderr) = std::thread::scope(|scope| {
        // A program that does not read its input is fine.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        let stdout = scope.spawn(|| read(stdout));
        let stderr = scope.spawn(|| read(stderr));
        let ended = wait(&mut child);
        (ended, stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default())
    });
    match ended.map_err(failed)? {
        None => Err(CallError::Slow(program)),
        Some(true) => Ok(Answer { stdout, stderr }),
        Some(false) => {
            let text = if stderr.trim().is_empty() { stdout } else { stderr };
            let prefix = format!("{program}: ");
            let lines = text.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line));
            let lines: Vec<&str> = lines.map(|line| line.trim_start_matches("error: ").trim()).collect();
            Err(CallError::Refused(program, lines.join("; ")))
        }
    }
}

fn read(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        let _ = stream.read_to_end(&mut bytes); // what was read before an error is all there is
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the program succeeded; none if it had to be killed.
fn wait(child: &mut Child) -> std::io::Result<Option<bool>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if began.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_refusals_are_told_apart() {
        let answer = call("sh", &["-c", "cat; echo said >&2"], "input").unwrap();
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("input", "said\n"));
        let refused = call("sh", &["-c", "echo 'sh: error: no such partition' >&2; exit 1"], "").unwrap_err();
        assert_eq!(refused.to_string(), "`sh` refused: no such partition");
        let missing = call("semfocus-no-such-program", &[], "").unwrap_err();
        assert!(matches!(missing, CallError::Missing(_)) && missing.to_string().contains("login node"), "{missing}");
    }
}
