//! Checksums of what is written to files of text. They find damage and mix-ups, not forgery.

use semfocus_core::fnv_1a;

/// The checksum of a text that belongs to an owner, such as a line of a trial: the same line of another trial has another.
pub(crate) fn check(owner: &str, text: &str) -> String {
    format!("{:016x}", fnv_1a(owner.bytes().chain([b'\n']).chain(text.bytes())))
}
