//! Finding the profile of a site.

use std::fs::File;
use std::path::{Path, PathBuf};

use semfocus_core::experiment::SlurmProfile;
use semfocus_core::file::{self, Links, MAX_TEXT};

use crate::Error;
use crate::talk::say;

const FILE: &str = ".semfocus.toml";

/// Used if no profile is named.
const DEFAULT: &str = "default";

/// The profile with this name, from the nearest `.semfocus.toml`: that of the folder, or of one above it. Without a name, the one
/// called `default` if there is one. Says which file it is from.
pub(super) fn find(folder: &Path, name: Option<&str>) -> Result<SlurmProfile, Error> {
    let nearest = folder.ancestors().map(|folder| folder.join(FILE)).find(|path| path.symlink_metadata().is_ok());
    let Some(nearest) = nearest else {
        return match name {
            None => Ok(SlurmProfile::default()),
            Some(name) => Err(format!(
                "there is no profile `{name}`: neither this folder nor one above it has a file {FILE}\nhelp: write one with \
                 the lines [slurm.{name}] and, for example, partition = \"long\""
            )
            .into()),
        };
    };
    let text = read(&nearest)?;
    let found = SlurmProfile::read(&shown(&nearest, folder), &text, name.unwrap_or(DEFAULT))?;
    match (found, name) {
        (Some(profile), _) => {
            say!("profile [slurm.{}] from {}", name.unwrap_or(DEFAULT), nearest.display());
            Ok(profile)
        }
        (None, None) => Ok(SlurmProfile::default()),
        (None, Some(name)) => Err(format!("{} has no profile [slurm.{name}]", nearest.display()).into()),
    }
}

/// Reads the file if nobody else can have written it: its lines become part of job scripts.
fn read(path: &Path) -> Result<String, Error> {
    let cannot = |error| format!("cannot read {}: {error}", path.display());
    let link = path.symlink_metadata().map_err(cannot)?;
    let mut open = file::open(path, File::options().read(true), Links::Followed).map_err(cannot)?;
    for metadata in [link, open.metadata().map_err(cannot)?] {
        if let Some(why) = why_not_ours(&metadata) {
            return Err(format!(
                "{} is not used, because {why}: others could put commands into your jobs\nhelp: use a file of your own that \
                 only you can write to (chmod go-w)",
                path.display()
            )
            .into());
        }
    }
    Ok(String::from_utf8(file::read_from(&mut open, 0, MAX_TEXT).map_err(cannot)?)?)
}

/// Why somebody else could have written a file: it belongs to neither this user nor the administrator, or others may write to it.
#[cfg(unix)]
fn why_not_ours(metadata: &std::fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    // The permissions of a link mean nothing.
    let is_open = metadata.mode() & 0o022 != 0 && !metadata.is_symlink();
    match metadata.uid() {
        owner if owner != user && owner != 0 => Some(format!("it belongs to another user (number {owner})")),
        _ => is_open.then(|| "other users may write to it".to_owned()),
    }
}

#[cfg(not(unix))]
fn why_not_ours(_: &std::fs::Metadata) -> Option<String> {
    None
}

/// The path as a person would write it.
fn shown(file: &Path, folder: &Path) -> String {
    let path: PathBuf = file.strip_prefix(folder).map_or_else(|_| file.to_owned(), Path::to_owned);
    path.display().to_string()
}
