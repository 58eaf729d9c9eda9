//! Text for terminals.

use std::io::{self, Write};
use std::path::Path;

use crate::screen::{text_width, visible};

/// Breaks a text between words into lines of at most `width` characters, except for longer words. Commands, which stand in
/// backticks, are not broken, so that they can be copied.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut word = String::new();
    for part in text.split_whitespace() {
        word += part;
        if word.matches('`').count() % 2 == 1 {
            word.push(' ');
            continue;
        }
        match lines.last_mut() {
            Some(line) if visible(line) + 1 + visible(&word) <= width => *line += &format!(" {word}"),
            _ => lines.push(word.clone()),
        }
        word.clear();
    }
    lines.extend((!word.is_empty()).then(|| word.trim_end().to_owned()));
    lines
}

/// Writes `head` and the wrapped text; further lines are indented by the width of `head`. Writes nothing if the text is empty.
pub(crate) fn paragraph(out: &mut dyn Write, head: &str, text: &str) -> io::Result<()> {
    let indent = head.chars().count();
    for (index, line) in wrap(text, text_width().saturating_sub(indent).max(20)).iter().enumerate() {
        if index == 0 {
            writeln!(out, "{head}{line}")?;
        } else {
            writeln!(out, "{:indent$}{line}", "")?;
        }
    }
    Ok(())
}

/// Writes names, and next to each the text about it. Returns whether there were any.
pub(crate) fn definitions(out: &mut dyn Write, list: impl Iterator<Item = (String, String)>) -> io::Result<bool> {
    let list: Vec<(String, String)> = list.collect();
    let width = list.iter().map(|(name, _)| visible(name)).max().unwrap_or(0);
    for (name, text) in &list {
        paragraph(out, &format!("{name:width$}  "), text)?;
    }
    Ok(!list.is_empty())
}

/// An accuracy, if there is one.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// The text, cut to at most `width` characters.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// A duration as on a clock: 4:05, 1:02:03, 3 d 04 h.
pub(crate) fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        1..48 => format!("{hours}:{:02}:{:02}", minutes % 60, seconds % 60),
        _ => format!("{} d {:02} h", hours / 24, hours % 24),
    }
}

/// A duration in words, for estimates.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{:.0} s", seconds.max(1.0)),
        90.0..5400.0 => format!("{:.0} min", seconds / 60.0),
        5400.0..172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// A number of bytes, rounded, with its unit.
pub(crate) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        ..1e6 => format!("{:.0} kB", bytes / 1e3),
        1e6..1e9 => format!("{:.0} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A command line, quoted for a shell.
pub(crate) fn shell_line<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    let words: Vec<&str> = words.into_iter().map(String::as_str).collect();
    shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
}

/// A command about a folder, which may have blanks in its name.
pub(crate) fn command_on(command: &str, dir: &Path) -> String {
    format!("semfocus {command} {}", shell_line([&dir.display().to_string()]))
}

/// How to resume: the command line of this process, on a line of its own.
pub(crate) fn to_resume() -> String {
    format!(" To resume:\n  {}", shell_line(&std::env::args().collect::<Vec<_>>()))
}

/// A number of any magnitude in two or three digits.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.01..1.0 => format!("{value:.2}"),
        1.0..10.0 => format!("{value:.1}"),
        10.0..1e4 => format!("{value:.0}"),
        _ => format!("{value:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_words() {
        assert_eq!(wrap("a bc def ghij", 5), ["a bc", "def", "ghij"]);
        assert_eq!(wrap("unbreakable b", 4), ["unbreakable", "b"]);
        assert!(wrap("", 4).is_empty());
        assert_eq!(wrap("to resume: `semfocus run x`.", 12), ["to resume:", "`semfocus run x`."]);
        assert_eq!(wrap("a ` b", 2), ["a", "` b"]);
    }

    #[test]
    fn times_and_sizes_read_well() {
        assert_eq!([5.4, 245.0, 3723.0, 273_600.0].map(clock), ["0:05", "4:05", "1:02:03", "3 d 04 h"]);
        assert_eq!([12.3, 240.0, 7200.0, 8.64e5].map(duration), ["12 s", "4 min", "2 h", "10 days"]);
        assert_eq!([10_000, 2_000_000, 3_100_000_000].map(size), ["10 kB", "2 MB", "3.1 GB"]);
        assert_eq!((shortened("abcdef", 4), shortened("abcd", 4)), ("abc…".to_owned(), "abcd".to_owned()));
    }

    #[test]
    fn commands_can_be_copied() {
        assert_eq!(command_on("report", Path::new("runs/a")), "semfocus report runs/a");
        assert_eq!(command_on("report", Path::new("out $(touch x)")), "semfocus report 'out $(touch x)'");
    }

    #[test]
    fn paragraphs_hang() {
        let mut out = Vec::new();
        paragraph(&mut out, "head: ", &"word ".repeat(20)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.len() <= 80));
        assert!(text.lines().nth(1).unwrap().starts_with("      word"));
    }
}
