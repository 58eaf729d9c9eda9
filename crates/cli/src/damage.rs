//! Saying what a command had to leave out because it is damaged.

use std::path::Path;

use semfocus_store::Damage;

use crate::Exit;
use crate::talk::say;
use crate::text::command_on;

/// Names what was left out of a run, says how it is repaired, and gives the exit code that says so.
pub(crate) fn left_out(dir: &Path, damage: &[Damage]) -> Exit {
    if damage.is_empty() {
        return Exit::Done;
    }
    for Damage { text, .. } in damage {
        say!("left out: {text}");
    }
    if damage.iter().any(|damage| damage.is_repairable) {
        let (verify, run) = (command_on("verify", dir), command_on("run", dir));
        say!(
            "help: `{verify} --repair` sets damaged files aside, and `{run}` then trains again what is lost, to the same results"
        );
    }
    Exit::SomeFailed
}
