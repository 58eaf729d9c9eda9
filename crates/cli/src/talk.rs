//! What the program says on standard error, and how text from files is kept from commanding the terminal.
//!
//! Nobody may be listening: the terminal may be closed, the reader of the pipe gone, the disk of the log full. Results never
//! depend on it, so errors of writing are ignored here.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;

/// Says a line on standard error.
macro_rules! say {
    ($($text:tt)*) => { $crate::talk::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Writes a line to standard error in one piece.
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let text = plain(&format!("{text}\n"));
    let _ = io::stderr().write_all(text.as_bytes());
}

/// The text without control characters other than line breaks, tabs and colours: a file from elsewhere must not be able
/// to move the cursor, change the title of the window or hide what was printed before.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((code, after)) = colour_at_start(rest) {
            plain.extend(["\u{1b}[", code, "m"]);
            rest = after;
            continue;
        }
        match first {
            '\n' | '\t' => plain.push(first),
            control if control.is_control() => escape(control, &mut plain),
            // They reverse or hide the text around them.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escape(first, &mut plain),
            other => plain.push(other),
        }
        rest = &rest[first.len_utf8()..];
    }
    plain
}

/// Writes a character by its number, in the way of JSON, which stays JSON.
fn escape(character: char, text: &mut String) {
    use fmt::Write;
    let _ = write!(text, "\\u{:04x}", u32::from(character));
}

/// The number that marks the colours of this program, so that a text from a file cannot have any.
fn mark() -> u64 {
    static MARK: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("colours"));
    *MARK
}

/// The code of a colour that the program itself uses and the text after it, if the text starts with one.
fn colour_at_start(text: &str) -> Option<(&str, &str)> {
    let (code, rest) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    let (code, found) = code.split_once(';')?;
    (found.parse() == Ok(mark())).then_some((code, rest))
}

/// A colour for words that should stand out. Only terminals get it, and only if `NO_COLOR` is not set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Colour {
    /// The text in this colour if standard error is a terminal.
    pub(crate) fn on_stderr(self, text: &str) -> String {
        self.if_wanted(text, io::stderr().is_terminal())
    }

    /// The text in this colour if standard output is a terminal.
    pub(crate) fn on_stdout(self, text: &str) -> String {
        self.if_wanted(text, io::stdout().is_terminal())
    }

    fn if_wanted(self, text: &str, is_terminal: bool) -> String {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if !is_terminal || text.is_empty() || is_set("NO_COLOR") || is_dumb {
            return text.to_owned();
        }
        let code = match self {
            Colour::Dim => 2,
            Colour::Red => 31,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Cyan => 36,
        };
        let mark = mark();
        format!("\u{1b}[{code};{mark}m{text}\u{1b}[0;{mark}m")
    }
}

/// Passes on complete lines, changed.
pub(crate) struct ByLine<W: Write, F: FnMut(&str) -> String> {
    inner: W,
    change: F,
    /// A line that is not complete yet.
    pending: Vec<u8>,
}

impl<W: Write, F: FnMut(&str) -> String> ByLine<W, F> {
    pub(crate) fn new(inner: W, change: F) -> Self {
        ByLine { inner, change, pending: Vec::new() }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let text = (self.change)(&String::from_utf8_lossy(&std::mem::take(&mut self.pending)));
        self.inner.write_all(text.as_bytes())
    }
}

impl<W: Write, F: FnMut(&str) -> String> Write for ByLine<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        if end > 0 {
            self.pending.extend(&bytes[..end]);
            self.pass_on()?;
        }
        self.pending.extend(&bytes[end..]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_command_the_terminal() {
        assert_eq!(plain("a\tb\nc é …"), "a\tb\nc é …");
        assert_eq!(plain("\u{1b}]0;title\u{7}x"), "\\u001b]0;title\\u0007x");
        assert_eq!(plain("\u{1b}[2Jgone\r"), "\\u001b[2Jgone\\u000d");
        assert_eq!(plain("\u{9b}2J\u{202e}abc"), "\\u009b2J\\u202eabc");
        let (good, marked) = ("\u{1b}[32mgood\u{1b}[0m", format!("\u{1b}[32;{}mgood\u{1b}[0;{}m", mark(), mark()));
        assert_eq!(plain(&marked), good, "a colour of the program");
        assert_eq!(plain(good), "\\u001b[32mgood\\u001b[0m", "a colour of a file");
    }

    #[test]
    fn a_stream_is_cut_at_lines_only() {
        let mut out = ByLine::new(Vec::new(), plain);
        for piece in ["one\u{1b}", "[2J\ntw", "o é".split_at(2).0, "é\n", "end"] {
            out.write_all(piece.as_bytes()).unwrap();
        }
        assert_eq!(out.inner, "one\\u001b[2J\ntwo é\n".as_bytes());
        out.flush().unwrap();
        assert_eq!(out.inner, "one\\u001b[2J\ntwo é\nend".as_bytes());
    }
}
