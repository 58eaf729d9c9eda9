//! Runs the program as a user would.

use std::process::{Command, Stdio};

/// What a run of the program gave.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `semfocus` with these arguments and no input.
pub(crate) fn semfocus(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_semfocus"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    let code = output.status.code().expect("the program ends by itself");
    Output { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}
