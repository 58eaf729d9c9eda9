//! Where measured times of steps are kept between runs of the program.

use std::path::PathBuf;

use semfocus_lab::estimate::CostFile;
use semfocus_nn::InstructionSet;

/// Where measured times are kept: in the user's folder for caches, if there is one.
pub(crate) fn cost_file() -> Option<CostFile> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    let commit = crate::COMMIT.unwrap_or("unknown commit");
    let cpu = semfocus_store::processor();
    let instructions = InstructionSet::current();
    Some(CostFile {
        path: cache.join("semfocus").join("step-costs.toml"),
        measured_with: format!("semfocus {}, {commit}, {cpu}, {instructions:?}", crate::VERSION),
    })
}
