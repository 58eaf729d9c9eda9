//! `measure.toml`: what workers measure on the trained models of a run, in addition to what its experiment asks for.

use std::path::PathBuf;

use semfocus_core::Measurement;
use semfocus_core::experiment::After;

use crate::check::{verify_checksum, with_checksum};
use crate::{Store, StoreError, files};

const HEAD: &str = "# What is measured when all trials are trained, in place of what the experiment says in [after].\n";

impl Store {
    /// What `measure.toml` asks for.
    pub fn measurements(&self) -> Result<Vec<Measurement>, StoreError> {
        let path = self.measurements_path();
        let text = files::read_text(&path)?.unwrap_or_default();
        verify_checksum(&path, &text)?;
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
        files::write_whole(&self.measurements_path(), with_checksum(&format!("{HEAD}\n{table}")).as_bytes())
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
        assert!(text.contains("[[probe]]\n\n[[sharpness]]\nsamples = 20\n\n[[sharpness]]\nfast = true\n"), "{text}");
        std::fs::write(&path, text.replacen("20", "21", 1)).unwrap();
        assert!(store.measurements().unwrap_err().to_string().contains("its checksum is wrong"));
        // One that a person or version 0.2.0 wrote has no checksum.
        std::fs::write(&path, "[[probe]]\nsmaples = 3\n").unwrap();
        let error = store.measurements().unwrap_err().to_string();
        assert!(error.contains("measure.toml:2:1") && error.contains("did you mean `samples`?"), "{error}");
    }
}
