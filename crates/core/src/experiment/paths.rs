//! Paths of data files. A relative one starts at the folder of the file that names it, or, on the command line, at the current
//! folder. They are recorded from the root, so that a run finds its data from any folder. Ids do not depend on them:
//! [`TrialSettings::identity`](crate::TrialSettings::identity) leaves them out and has the checksum of the contents instead.

use std::path::Path;

use toml::Value;

use super::Names;
use super::error::ExperimentError;
use super::layer::Layer;
use super::source::{Located, Place};
use crate::mechanism::BASELINE;
use crate::study;

/// A data file as an experiment: its examples are the task, and full attention is compared with top-k attention that keeps five
/// keys, or half of the keys if sequences are shorter than ten tokens.
pub(super) fn data_file(path: &Path, names: &dyn Names) -> Result<Layer, ExperimentError> {
    let absolute = std::path::absolute(path).map_err(|error| ExperimentError::new(error.to_string()))?;
    let (task, place) = (without_dots(&absolute), Place::Option(path.display().to_string()));
    let length = names.longest_sequence(&task).map_err(ExperimentError::new)?;
    let kept = length.map_or(KEPT_KEYS, |length| (length / 2).clamp(1, KEPT_KEYS));
    let mechanisms = vec![BASELINE.to_owned(), format!("topk:{kept}")];
    Ok(Layer {
        mechanisms: Some(Located { value: mechanisms, place: place.clone() }),
        seeds: Some(Located { value: study::seeds(SEEDS), place: place.clone() }),
        settings: vec![("task", Located { value: Value::String(task), place })],
        ..Layer::default()
    })
}

/// Keys that top-k attention keeps where nothing else is asked for, and seeds, which suffice for a test.
const KEPT_KEYS: usize = 5;
const SEEDS: usize = 5;

/// Makes the paths of data files in a layer absolute.
pub(super) fn make_absolute(layer: &mut Layer, folder: &Path, names: &dyn Names) {
    // With a file for each split, the task is only the name of the data set.
    let has_files = layer.settings.iter().any(|(path, _)| *path == "data.train_file");
    for (path, given) in layer.settings.iter_mut().filter(|(path, _)| !(has_files && *path == "task")) {
        rebase(path, &mut given.value, folder, names);
    }
    for (path, values) in &mut layer.grid {
        values.value.iter_mut().for_each(|given| rebase(path, &mut given.value, folder, names));
    }
    layer.panels.values_mut().chain(layer.scales.values_mut()).for_each(|inner| make_absolute(inner, folder, names));
}

fn rebase(setting: &str, value: &mut Value, folder: &Path, names: &dyn Names) {
    let Value::String(text) = value else { return };
    let is_file = match setting {
        "data.train_file" | "data.held_out_file" | "data.test_file" | "data.tokenizer_file" => !text.is_empty(),
        "task" if let Some(spelling) = names.task(text) => {
            *text = spelling;
            false
        }
        "task" => text.contains(['/', '\\', '.']) || folder.join(&*text).is_file(),
        _ => false,
    };
    if is_file && let Ok(absolute) = std::path::absolute(folder.join(&*text)) {
        *text = without_dots(&absolute);
    }
}

/// The path without `.` and `..`, which are resolved by name.
fn without_dots(path: &Path) -> String {
    use std::path::Component;
    let mut plain = std::path::PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::super::AnyName;
    use super::super::layer::Layer;
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let mut layer = Layer::parse("x.toml", text).unwrap();
        make_absolute(&mut layer, Path::new("/data/films"), &AnyName);
        let given = layer.settings.iter().map(|(_, given)| given.value.as_str().unwrap().to_owned());
        let grid = layer.grid.iter().flat_map(|(_, given)| &given.value);
        given.chain(grid.map(|given| given.value.as_str().unwrap().to_owned())).collect()
    }

    #[test]
    #[cfg(unix)]
    fn paths_start_at_the_file_that_names_them() {
        assert_eq!(paths("task = \"a.tsv\""), ["/data/films/a.tsv"]);
        assert_eq!(paths("task = \"./x/../../b/a.tsv\""), ["/data/b/a.tsv"]);
        assert_eq!(paths("task = \"/else/a.tsv\""), ["/else/a.tsv"]);
        assert_eq!(paths("task = \"parity\""), ["parity"]);
        assert_eq!(paths("grid.task = [\"a.tsv\", \"parity\"]"), ["/data/films/a.tsv", "parity"]);
        let files = "task = \"v1.0\"\ndata.train_file = \"a\"\ndata.held_out_file = \"b/c\"";
        assert_eq!(paths(files), ["v1.0", "/data/films/a", "/data/films/b/c"]);
    }
}
