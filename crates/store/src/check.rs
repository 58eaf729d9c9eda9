//! Checksums of what is written to files of text. They find damage and mix-ups, not forgery.

use std::path::Path;

use semfocus_core::fnv_1a;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// The checksum of a text that belongs to an owner, such as a line of a trial: the same line of another trial has another.
pub(crate) fn check(owner: &str, text: &str) -> String {
    format!("{:016x}", fnv_1a(owner.bytes().chain([b'\n']).chain(text.bytes())))
}

/// A value and its checksum, as one JSON object.
#[derive(Serialize, Deserialize)]
pub(crate) struct Checked<T> {
    #[serde(flatten)]
    value: T,
    check: String,
}

impl<T: Serialize> Checked<T> {
    pub(crate) fn new(owner: &str, value: T) -> Self {
        Checked { check: check_of(owner, &value), value }
    }

    /// The value, if its checksum is right.
    pub(crate) fn verified(self, owner: &str) -> Option<T> {
        (self.check == check_of(owner, &self.value)).then_some(self.value)
    }
}

fn check_of(owner: &str, value: &impl Serialize) -> String {
    check(owner, &serde_json::to_string(value).expect("plain fields can be written"))
}

/// What stands before the checksum at the end of a file of text.
const CHECK_LINE: &str = "\n# checksum of all lines above: ";

/// A text with a checksum as its last line, which is a comment.
pub(crate) fn with_checksum(text: &str) -> String {
    format!("{text}{CHECK_LINE}{}\n", check("", text))
}

/// Refuses a text whose checksum is wrong. Says whether it has one.
pub(crate) fn verify_checksum(path: &Path, text: &str) -> Result<bool, StoreError> {
    match text.split_once(CHECK_LINE) {
        Some((text, stored)) if stored.trim_end() != check("", text) => {
            Err(StoreError::damaged(path, "its checksum is wrong: it was changed after it was written"))
        }
        checked => Ok(checked.is_some()),
    }
}
