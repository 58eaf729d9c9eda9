//! A file of JSON lines to which records are appended.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::check::check;
use crate::cursor::Cursor;
use crate::{StoreError, files};

/// The version of the format that is read and written. The last field of a line is a checksum of the rest.
const FORMAT: u32 = 2;

/// What stands before the checksum of a line.
const CHECK: &str = ",\"check\":\"";

/// A file of records of one kind, one JSON object a line.
#[derive(Debug)]
pub(crate) struct Log<T> {
    path: PathBuf,
    /// What the records belong to, for the checksums.
    owner: String,
    kind: PhantomData<T>,
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    /// Version of the format.
    format: u32,
    #[serde(flatten)]
    record: T,
}

impl<T: Serialize + DeserializeOwned> Log<T> {
    pub(crate) fn new(path: PathBuf, owner: String) -> Self {
        Log { path, owner, kind: PhantomData }
    }

    /// Adds a record; it is on the disk when this returns.
    pub(crate) fn append(&self, record: &T) -> Result<(), StoreError> {
        let text = serde_json::to_string(&Line { format: FORMAT, record }).expect("plain fields can be written");
        let check = self.check(self.count()? + 1, &text);
        let fields = text.strip_suffix('}').expect("a record has fields");
        files::append(&self.path, "", &format!("{fields}{CHECK}{check}\"}}\n"))
    }

    /// Adds a record whose numbers should all be finite. JSON has no others: they could not be read again.
    pub(crate) fn append_finite(&self, record: &T) -> Result<(), StoreError> {
        fn is_finite(value: &serde_json::Value) -> bool {
            match value {
                serde_json::Value::Null => false,
                serde_json::Value::Array(values) => values.iter().all(is_finite),
                serde_json::Value::Object(fields) => fields.values().all(is_finite),
                _ => true,
            }
        }
        let value = serde_json::to_value(record).expect("plain fields can be written");
        if is_finite(&value) { self.append(record) } else { Err(StoreError::NotFinite { path: self.path.clone() }) }
    }

    /// All records, in the order in which they were added.
    pub(crate) fn read(&self) -> Result<Vec<T>, StoreError> {
        self.read_from(&mut Cursor::default())
    }

    /// Number of complete lines.
    pub(crate) fn count(&self) -> Result<usize, StoreError> {
        let mut cursor = Cursor::default();
        cursor.read(&self.path)?;
        Ok(cursor.lines())
    }

    /// The checksum of a line with this number, so that lines that are lost or exchanged are noticed.
    fn check(&self, number: usize, text: &str) -> String {
        check(&format!("{} {number}", self.owner), text)
    }

    /// The records that were added after the cursor.
    pub(crate) fn read_from(&self, cursor: &mut Cursor) -> Result<Vec<T>, StoreError> {
        Ok(self.lines(cursor)?.into_iter().map(|(_, record)| record).collect())
    }

    /// Forgets a half-written last line, and all records from the first one on that `is_obsolete`, because they will be
    /// made again. Nothing is rewritten: the file is cut.
    pub(crate) fn cut(&self, is_obsolete: impl Fn(&T) -> bool) -> Result<(), StoreError> {
        let mut cursor = Cursor::default();
        let lines = self.lines(&mut cursor)?;
        let end = lines.iter().find(|(_, record)| is_obsolete(record)).map_or(cursor.bytes(), |(start, _)| *start);
        files::shorten(&self.path, end)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lines(&self, cursor: &mut Cursor) -> Result<Vec<(u64, T)>, StoreError> {
        let lines = cursor.read(&self.path)?;
        lines.iter().map(|(number, start, line)| Ok((start, self.parse(number, line)?))).collect()
    }

    fn parse(&self, number: usize, line: &str) -> Result<T, StoreError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let damaged = |error: serde_json::Error| StoreError::damaged(&self.path, format!("line {number}: {error}"));
        let Version { format } = serde_json::from_str(line).map_err(damaged)?;
        if format > FORMAT || (format < FORMAT && !line.contains(CHECK)) {
            return Err(StoreError::format(&self.path, format, FORMAT));
        }
        if !self.is_checksum_right(number, line) {
            return Err(StoreError::damaged(&self.path, format!("line {number}: its checksum is wrong")));
        }
        Ok(serde_json::from_str::<Line<T>>(line).map_err(damaged)?.record)
    }

    fn is_checksum_right(&self, number: usize, line: &str) -> bool {
        let parts = line.strip_suffix("\"}").and_then(|rest| rest.rsplit_once(CHECK));
        parts.is_some_and(|(fields, stored)| stored == self.check(number, &format!("{fields}}}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::Scratch;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Record {
        epoch: usize,
        value: f64,
    }

    #[test]
    fn numbers_come_back_with_the_same_bits_and_earlier_lines_stay_as_they_are() {
        let scratch = Scratch::new("log");
        let log = Log::new(scratch.path().join("records.jsonl"), "a trial".to_owned());
        let key = semfocus_core::Key::new(1);
        let value = |index: u32| f64::from(key.bits_at(index)) / 3e9 - 0.7 + f64::from(index) * 1e-9;
        let mut before = Vec::new();
        for index in 0..2000 {
            log.append(&Record { epoch: index as usize, value: value(index) }).unwrap();
            if index % 500 == 0 {
                let now = std::fs::read(&log.path).unwrap();
                assert!(now.starts_with(&before), "a record was rewritten");
                before = now;
            }
        }
        let read = log.read().unwrap();
        assert!(read.iter().zip(0..).all(|(record, index)| record.value.to_bits() == value(index).to_bits()));
        assert!(String::from_utf8(before).unwrap().starts_with(r#"{"format":2,"#));
    }

    /// Adds text as a process does that is killed while it writes.
    fn add(log: &Log<Record>, text: &str) {
        use std::io::Write;
        let mut file = std::fs::File::options().append(true).open(&log.path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_reader_follows_the_file_and_half_lines_do_not_count() {
        let scratch = Scratch::new("follow");
        let log = Log::new(scratch.path().join("records.jsonl"), "a trial".to_owned());
        let mut cursor = Cursor::default();
        assert_eq!(log.read_from(&mut cursor).unwrap(), []);
        let record = |epoch| Record { epoch, value: 0.5 };
        log.append(&record(1)).unwrap();
        assert_eq!(log.read_from(&mut cursor).unwrap(), [record(1)]);
        assert_eq!(log.read_from(&mut cursor).unwrap(), []);
        let one = std::fs::read_to_string(&log.path).unwrap();
        log.append(&record(2)).unwrap();
        let second = std::fs::read_to_string(&log.path).unwrap()[one.len()..].to_owned();
        let (begun, rest) = second.split_at(20);
        std::fs::write(&log.path, format!("{one}{begun}")).unwrap();
        assert_eq!(log.read_from(&mut cursor).unwrap(), []);
        add(&log, rest);
        assert_eq!(log.read_from(&mut cursor).unwrap(), [record(2)]);
        log.append(&record(3)).unwrap();
        add(&log, "{\"half");
        log.cut(|record| record.epoch > 1).unwrap();
        assert_eq!(log.read_from(&mut cursor).unwrap(), [record(1)], "a file that was cut is read again");
        add(&log, "{\"another half");
        log.append(&record(2)).unwrap();
        assert_eq!(log.read().unwrap(), [record(1), record(2)]);
    }

    #[test]
    fn other_formats_are_refused_and_are_not_damage() {
        let scratch = Scratch::new("newer");
        let log = Log::<Record>::new(scratch.path().join("records.jsonl"), "a trial".to_owned());
        files::append(&log.path, "", "{\"format\":3,\"epochs\":[1]}\n").unwrap();
        assert!(matches!(log.read(), Err(StoreError::Newer { format: 3, .. })));
        for (line, is_older) in
            [("{\"format\":1,\"epoch\":1,\"value\":1}\n", true), ("{\"format\":2,\"epoch\":1}\n", false)]
        {
            std::fs::write(&log.path, line).unwrap();
            let error = log.read().unwrap_err();
            assert_eq!(matches!(error, StoreError::Older { .. }), is_older, "{error}");
        }
    }

    #[test]
    fn every_changed_bit_and_every_foreign_line_is_found() {
        let scratch = Scratch::new("log-checks");
        let log = Log::new(scratch.path().join("records.jsonl"), "a trial".to_owned());
        log.append(&Record { epoch: 1, value: 1.0 / 3.0 }).unwrap();
        let bytes = std::fs::read(&log.path).unwrap();
        for bit in 0..(bytes.len() - 1) * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&log.path, &changed).unwrap();
            assert!(log.read().is_err(), "bit {bit}: {}", String::from_utf8_lossy(&changed));
        }
        std::fs::write(&log.path, &bytes).unwrap();
        log.append(&Record { epoch: 2, value: 0.5 }).unwrap();
        let two = std::fs::read_to_string(&log.path).unwrap();
        let lines: Vec<&str> = two.split_inclusive('\n').collect();
        for lines in [&[lines[1]][..], &[lines[1], lines[0]], &[lines[0], lines[0]]] {
            std::fs::write(&log.path, lines.concat()).unwrap();
            assert!(log.read().is_err(), "a line is lost, exchanged or doubled: {lines:?}");
        }
        std::fs::write(&log.path, &bytes).unwrap();
        let other = Log::<Record>::new(log.path.clone(), "another trial".to_owned());
        assert!(other.read().unwrap_err().to_string().contains("line 1: its checksum is wrong"));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_refused() {
        let scratch = Scratch::new("not-finite");
        let log = Log::new(scratch.path().join("records.jsonl"), "a trial".to_owned());
        for value in [f64::NAN, f64::INFINITY] {
            assert!(matches!(log.append_finite(&Record { epoch: 1, value }), Err(StoreError::NotFinite { .. })));
        }
        log.append_finite(&Record { epoch: 1, value: 0.5 }).unwrap();
        assert_eq!(log.read().unwrap().len(), 1);
    }
}
