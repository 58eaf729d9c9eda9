//! Lines at the bottom of a terminal that are drawn again and again, and what is known about the terminal.

use std::io::{self, IsTerminal, Write};

use terminal_size::{Height, Width, terminal_size_of};

use crate::talk::plain;

/// Width of text where there is no terminal, or one that does not tell its size.
pub(crate) const USUAL_WIDTH: usize = 80;

/// Columns and rows, if the terminal tells them.
fn known(size: Option<(Width, Height)>) -> Option<(usize, usize)> {
    let (Width(columns), Height(rows)) = size?;
    (columns > 0 && rows > 0).then_some((columns.into(), rows.into()))
}

/// The width for text on standard output: that of the terminal within reason, and always the same for files and pipes.
pub(crate) fn text_width() -> usize {
    let size = known(terminal_size_of(io::stdout())).filter(|_| io::stdout().is_terminal());
    size.map_or(USUAL_WIDTH, |(columns, _)| columns.clamp(40, 110))
}

/// Whether lines on standard error can be drawn again: not in a pipe, a file or a terminal that cannot move its cursor.
pub(crate) fn can_redraw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|name| name != "dumb" && !name.is_empty())
}

/// Lines at the bottom of the terminal on standard error.
#[derive(Default)]
pub(crate) struct Screen {
    drawn: Vec<String>,
    columns: usize,
}

impl Screen {
    /// Columns and rows that lines may fill.
    pub(crate) fn size() -> (usize, usize) {
        known(terminal_size_of(io::stderr())).unwrap_or((USUAL_WIDTH, 24))
    }

    /// Draws these lines in place of those drawn before. None may be as wide as the terminal.
    pub(crate) fn draw(&mut self, lines: Vec<String>) {
        if (&lines, Screen::size().0) != (&self.drawn, self.columns) {
            self.replace("", lines);
        }
    }

    /// Writes text above the lines, where it stays.
    pub(crate) fn say(&mut self, text: &str) {
        self.replace(&format!("{text}\n"), self.drawn.clone());
    }

    /// Erases the lines, and writes text and new ones in one piece, so that nothing flickers. A terminal that is gone needs no
    /// lines.
    fn replace(&mut self, text: &str, lines: Vec<String>) {
        self.columns = Screen::size().0;
        let below: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let text = format!("{}{}", erase(&self.drawn, self.columns), plain(&format!("{text}{below}")));
        let _ = io::stderr().write_all(text.as_bytes());
        self.drawn = lines;
    }
}

/// What moves the cursor to the first of the drawn lines and erases everything from there. The cursor stands below the last
/// one. In a terminal that has become narrower since, lines may take several rows.
fn erase(drawn: &[String], columns: usize) -> String {
    let rows: usize = drawn.iter().map(|line| rows(visible(line), columns, wraps_again())).sum();
    if rows == 0 { String::new() } else { format!("\r\u{1b}[{rows}A\u{1b}[J") }
}

fn rows(width: usize, columns: usize, wraps_again: bool) -> usize {
    if wraps_again { width.div_ceil(columns.max(1)).max(1) } else { 1 }
}

/// Whether the terminal breaks lines anew when its width changes. Most do; these cut lines off, and rows above must not be
/// erased with them.
fn wraps_again() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let terminal = std::env::var("TERM").unwrap_or_default();
    let cuts = ["linux", "rxvt"].iter().any(|name| terminal.starts_with(name))
        || terminal.starts_with("screen") && !is_set("TMUX");
    !cuts && !is_set("XTERM_VERSION")
}

/// Characters of a line without its colours.
pub(crate) fn visible(line: &str) -> usize {
    let (mut count, mut is_code) = (0, false);
    for letter in line.chars() {
        match letter {
            '\u{1b}' => is_code = true,
            'm' if is_code => is_code = false,
            _ if is_code => {}
            _ => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_no_room() {
        assert_eq!(visible("\u{1b}[32mgood\u{1b}[0m é"), 6);
    }

    #[test]
    fn lines_in_a_narrower_terminal_take_more_rows() {
        assert_eq!([79, 80, 81, 0].map(|width| rows(width, 80, true)), [1, 1, 2, 1]);
        assert_eq!(rows(79, 40, true), 2);
        assert_eq!(rows(79, 40, false), 1, "a terminal that cuts lines off");
        assert_eq!(erase(&[], 80), "");
    }
}
