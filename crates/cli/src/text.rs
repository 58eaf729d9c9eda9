//! Text for terminals.

use std::io::{self, Write};

/// Lines are at most this wide.
pub(crate) const WIDTH: usize = 80;

/// Breaks between words, so that no line is longer than `width` unless a word is.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Writes `head` and the wrapped text, whose further lines begin below its first word.
pub(crate) fn paragraph(out: &mut dyn Write, head: &str, text: &str) -> io::Result<()> {
    let indent = head.chars().count();
    for (index, line) in wrap(text, WIDTH - indent).iter().enumerate() {
        if index == 0 {
            writeln!(out, "{head}{line}")?;
        } else {
            writeln!(out, "{:indent$}{line}", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_words() {
        assert_eq!(wrap("a bc def ghij", 5), ["a bc", "def", "ghij"]);
        assert_eq!(wrap("unbreakable b", 4), ["unbreakable", "b"]);
        assert!(wrap("", 4).is_empty());
    }

    #[test]
    fn paragraphs_hang() {
        let mut out = Vec::new();
        paragraph(&mut out, "head: ", &"word ".repeat(20)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.len() <= WIDTH));
        assert!(text.lines().nth(1).unwrap().starts_with("      word"));
    }
}
