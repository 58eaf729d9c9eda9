//! Runs the program as a user would.
#![allow(dead_code, reason = "every test program uses some of it")]

use std::io::Write;
use std::process::{Command, Stdio};

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
    let mut child = Command::new(env!("CARGO_BIN_EXE_semfocus"))
        .args(arguments)
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
