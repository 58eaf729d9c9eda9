//! `semfocus`, with the mechanisms and tasks that come with it.

use std::process::ExitCode;

fn main() -> ExitCode {
    semfocus::Lab::standard().main()
}
