//! `semfocus new-lab`: a crate of one's own, with a mechanism and a task to begin with. Its sources are those of `examples/own-lab`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_store::files::write_whole;

use crate::{Error, Exit};

const MAIN: &str = include_str!("../../../../examples/own-lab/src/main.rs");
const MECHANISM: &str = include_str!("../../../../examples/own-lab/src/within.rs");
const TASK: &str = include_str!("../../../../examples/own-lab/src/majority.rs");

/// How the program itself is compiled; a crate elsewhere does not inherit it.
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the crate, which must be new or empty; its name becomes that of the program
    dir: PathBuf,
    /// Checkout of semfocus to build on [default: the repository that this program was built from]
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let (dir, name) = (&args.dir, crate_name(&args.dir)?);
    let dependency = dependency(args.path.as_deref())?;
    let place = |error| format!("cannot make {}: {error}", dir.display());
    fs::create_dir_all(dir).map_err(place)?;
    if fs::read_dir(dir).map_err(place)?.next().is_some() {
        return Err(format!("{} is not empty; name a new folder", dir.display()).into());
    }
    fs::create_dir(dir.join("src")).map_err(place)?;
    let (_, profile) = WORKSPACE.split_once("[profile.release]").ok_or("the workspace has a release profile")?;
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false\n\n\
         [dependencies]\n{dependency}\n\n# Not part of a workspace around it.\n[workspace]\n\n[profile.release]{profile}"
    );
    let readme = format!(
        "# {name}\n\n\
         semfocus with a mechanism and a task of its own. Build it and compare them with full attention:\n\n    \
         cargo run --release -- run even-pairs --mechanisms full,within:2 --smoke\n    \
         cargo run --release -- run even-pairs task=majority --mechanisms full,within:2 --smoke -o runs/majority\n\n\
         - `src/within.rs`: the mechanism. Change `keep`, then `select`, its fast form; `cargo test --release` compares them.\n\
         - `src/majority.rs`: the task. Its setting `of` is written `majority:of=5`.\n\
         - `src/main.rs`: adds both to the program, which has every command of semfocus: `cargo run --release -- --help`.\n"
    );
    // The example is built and tested with semfocus. Its marks are for the pages that quote it; tests of the task are about semfocus.
    let plain = |source: &str| {
        let lines = source.lines().filter(|line| !line.trim_start().starts_with("// ["));
        lines.map(|line| line.to_owned() + "\n").collect::<String>()
    };
    let (task, _) = TASK.split_once("\n#[cfg(test)]").unwrap_or((TASK, ""));
    for (file, contents) in [
        ("Cargo.toml", manifest),
        ("README.md", readme),
        (".gitignore", "/target\n/runs\n".to_owned()),
        ("src/main.rs", plain(MAIN)),
        ("src/within.rs", plain(MECHANISM)),
        ("src/majority.rs", plain(task)),
    ] {
        write_whole(&dir.join(file), contents.as_bytes())?;
        writeln!(out, "{}", dir.join(file).display())?;
    }
    writeln!(out, "\nTo build it and try its mechanism (the first build takes some minutes):")?;
    writeln!(out, "cd {}", shlex::try_quote(&dir.display().to_string())?)?;
    writeln!(out, "cargo run --release -- run even-pairs --mechanisms full,within:2 --smoke")?;
    Ok(Exit::Done)
}

/// The name of the crate: that of its folder, if cargo takes it.
fn crate_name(dir: &Path) -> Result<String, Error> {
    let name = dir.file_name().map(|name| name.to_string_lossy().to_lowercase().replace([' ', '.'], "-"));
    let is_allowed = |name: &String| {
        name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
            && !["semfocus", "test", "core", "std", "build"].contains(&name.as_str())
    };
    name.filter(is_allowed).ok_or_else(|| {
        format!("{} cannot be the name of a crate; begin with a letter, as in my-lab", dir.display()).into()
    })
}

/// The line of `Cargo.toml` that says where semfocus is.
fn dependency(path: Option<&Path>) -> Result<String, Error> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = match (path, env!("CARGO_PKG_REPOSITORY")) {
        (Some(path), _) => path,
        (None, "") => &built_from,
        (None, url) => {
            let commit = crate::COMMIT.filter(|commit| !commit.contains('+'));
            let version =
                commit.map_or(format!("tag = \"v{}\"", crate::VERSION), |commit| format!("rev = \"{commit}\""));
            return Ok(format!("semfocus = {{ git = \"{url}\", {version} }}"));
        }
    };
    let checkout = path.join("crates/cli");
    if !checkout.join("Cargo.toml").is_file() {
        return Err(format!(
            "{} is not a checkout of semfocus: it has no crates/cli; give one with --path",
            path.display()
        )
        .into());
    }
    let checkout = toml::Value::from(fs::canonicalize(&checkout)?.to_string_lossy().into_owned());
    Ok(format!("semfocus = {{ path = {checkout} }}"))
}
