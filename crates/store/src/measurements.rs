//! `measure.toml`: what workers measure on the trained models of a run, in addition to what its experiment asks for.

use std::path::PathBuf;

use semfocus_core::Measurement;
use semfocus_core::experiment::After;

use crate::{Store, StoreError, files};

const HEAD: &str = "# What is measured when all trials are trained, in place of what the experiment says in [after].\n";

impl Store {
    /// What `measure.toml` asks for.
    pub fn measurements(&self) -> Result<Vec<Measurement>, StoreError> {
        let path = self.measurements_path();
        let text = files::read_text(&path)?.unwrap_or_default();
        Ok(After::read_measurements(&path.display().to_string(), &text)?)
    }

    /// Adds measurements to `measure.toml`, in place of those with the same names.
    pub fn keep_measurements(&self, asked: &[Measurement]) -> Result<(), StoreError> {
        let before = self.measurements()?;
        let all = Measurement::in_place_of(&before, asked);
        if all == before {
            return Ok(());
        }
        let table = toml::to_string(&Measurement::to_table(&all)).expect("options are plain values");
        files::write_whole(&self.measurements_path(), format!("{HEAD}\n{table}").as_bytes())
    }

    fn measurements_path(&self) -> PathBuf {
        self.dir.join("measure.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::Scratch;

    #[test]
    fn what_is_kept_is_read_and_grows() {
        let scratch = Scratch::new("measurements");
        let store = Store::at(scratch.path());
        let read = |name, options| Measurement::read(name, options).unwrap();
        assert_eq!(store.measurements().unwrap(), []);
        store.keep_measurements(&[read("sharpness", "samples=20"), read("sharpness", "fast")]).unwrap();
        store.keep_measurements(&[read("probe", "")]).unwrap();
        store.keep_measurements(&[]).unwrap();
        assert_eq!(
            store.measurements().unwrap(),
            [read("probe", ""), read("sharpness", "samples=20"), read("sharpness", "fast")]
        );
        let path = scratch.path().join("measure.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("[[probe]]\n\n[[sharpness]]\nsamples = 20\n\n[[sharpness]]\nfast = true\n"), "{text}");
        std::fs::write(&path, "[[probe]]\nsmaples = 3\n").unwrap();
        let error = store.measurements().unwrap_err().to_string();
        assert!(error.contains("measure.toml:2:1") && error.contains("did you mean `samples`?"), "{error}");
    }
}
