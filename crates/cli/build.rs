//! Tells the program which commit it is built from.

use std::path::Path;
use std::process::Command;

fn main() {
    // Any change of the sources, and any commit, may change the answer.
    for path in ["../../crates", "../../experiments", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={path}");
    }
    // Elsewhere in a linked worktree. A path that does not exist would make every build start over.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=SEMFOCUS_COMMIT={commit}");
    }
}

/// The commit, with a mark if the sources differ from it; none outside a repository of this project.
fn commit() -> Option<String> {
    let top = git(&["rev-parse", "--show-prefix"])?;
    if top != "crates/cli/" {
        return None;
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changes =
        git(&["status", "--porcelain", "--", "..", "../../experiments", "../../Cargo.toml", "../../Cargo.lock"])?;
    Some(if changes.is_empty() { commit } else { format!("{commit}+changes") })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
