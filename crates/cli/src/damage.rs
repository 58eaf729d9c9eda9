//! Saying what a command had to leave out because it is damaged.

use std::path::Path;

use crate::Exit;
use crate::talk::say;

/// Names what was left out, and gives the exit code that says so.
pub(crate) fn left_out(dir: &Path, damage: &[String]) -> Exit {
    if damage.is_empty() {
        return Exit::Done;
    }
    for damage in damage {
        say!("left out: {damage}");
    }
    say!(
        "help: run the experiment again with `-o {}` to repair it; what is lost is trained again, to the same results",
        dir.display()
    );
    Exit::SomeFailed
}
