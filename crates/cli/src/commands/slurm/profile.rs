//! Finding the profile of a site.

use std::path::{Path, PathBuf};

use semfocus_core::experiment::SlurmProfile;

use crate::Error;

const FILE: &str = ".semfocus.toml";

/// Used if no profile is named.
const DEFAULT: &str = "default";

/// The profile with this name, from the nearest `.semfocus.toml`: that of the folder, or of one above it. Without a name, the one
/// called `default` if there is one.
pub(super) fn find(folder: &Path, name: Option<&str>) -> Result<SlurmProfile, Error> {
    let file = folder.ancestors().map(|folder| folder.join(FILE)).find(|path| path.is_file());
    let Some(file) = file else {
        return match name {
            None => Ok(SlurmProfile::default()),
            Some(name) => Err(format!(
                "there is no profile `{name}`: neither this folder nor one above it has a file {FILE}\nhelp: write one with \
                 the lines [slurm.{name}] and, for example, partition = \"long\""
            )
            .into()),
        };
    };
    let text =
        semfocus_core::file::read_text(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let found = SlurmProfile::read(&shown(&file, folder), &text, name.unwrap_or(DEFAULT))?;
    match (found, name) {
        (Some(profile), _) => Ok(profile),
        (None, None) => Ok(SlurmProfile::default()),
        (None, Some(name)) => Err(format!("{} has no profile [slurm.{name}]", file.display()).into()),
    }
}

/// The path as a person would write it.
fn shown(file: &Path, folder: &Path) -> String {
    let path: PathBuf = file.strip_prefix(folder).map_or_else(|_| file.to_owned(), Path::to_owned);
    path.display().to_string()
}
