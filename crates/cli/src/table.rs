//! Tables for terminals.

use std::io::{self, Write};

use semfocus_analysis::evidence::robustness::point_name;

use crate::screen::{text_width, visible};
use crate::text::paragraph;

/// Rows of cells below their headings, in columns that are as wide as their longest cell.
pub(crate) struct Table<const N: usize> {
    heads: [String; N],
    /// Headings above the headings, with the first and the last of their columns.
    spans: Vec<(usize, usize, String)>,
    /// Rows below the line that says what they have in common; the line may be empty.
    groups: Vec<(String, Vec<[String; N]>)>,
}

impl<const N: usize> Table<N> {
    /// A table without rows. A heading that begins with `>` belongs to a column that is aligned to the right.
    pub(crate) fn new(heads: [&str; N]) -> Self {
        Table { heads: heads.map(str::to_owned), spans: Vec::new(), groups: Vec::new() }
    }

    /// Writes a heading above those of some columns.
    pub(crate) fn span(&mut self, first: usize, last: usize, text: &str) {
        self.spans.push((first, last, text.to_owned()));
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.row_below("", cells);
    }

    /// Adds a row to those of a point of a grid.
    pub(crate) fn row_at(&mut self, point: &[(String, String)], cells: [String; N]) {
        self.row_below(&if point.is_empty() { String::new() } else { point_name(point) }, cells);
    }

    /// Adds a row to those below a title.
    pub(crate) fn row_below(&mut self, title: &str, cells: [String; N]) {
        match self.groups.iter_mut().find(|(other, _)| other == title) {
            Some((_, rows)) => rows.push(cells),
            None => self.groups.push((title.to_owned(), vec![cells])),
        }
    }

    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        self.print_within(text_width(), out)
    }

    fn print_within(&self, width: usize, out: &mut dyn Write) -> io::Result<()> {
        let heads = self.heads.each_ref().map(|head| head.trim_start_matches('>').to_owned());
        let rows = || self.groups.iter().flat_map(|(_, rows)| rows).chain([&heads]);
        let mut widths: [usize; N] = std::array::from_fn(|c| rows().map(|row| visible(&row[c])).max().unwrap_or(0));
        let others = widths[1..].iter().sum::<usize>();
        let gap = if widths[0] + others + 2 * (N - 1) <= width { 2 } else { 1 };
        for (first, last, text) in &self.spans {
            let room = widths[*first..=*last].iter().sum::<usize>() + gap * (last - first);
            widths[*last] += visible(text).saturating_sub(room);
        }
        let others = widths[1..].iter().map(|width| gap + width).sum::<usize>();
        // Names that do not fit stand on lines of their own.
        widths[0] = widths[0].min(width.saturating_sub(others).max(visible(&heads[0])));
        let mut above = String::new();
        for (first, _, text) in &self.spans {
            let start = widths[..*first].iter().map(|width| width + gap).sum::<usize>();
            above += &format!("{:1$}{text}", "", start.saturating_sub(visible(&above)));
        }
        if !above.is_empty() {
            writeln!(out, "{above}")?;
        }
        self.print_row(&heads, &widths, gap, out)?;
        for (title, rows) in &self.groups {
            if !title.is_empty() {
                paragraph(out, "", title)?;
            }
            rows.iter().try_for_each(|row| self.print_row(row, &widths, gap, out))?;
        }
        Ok(())
    }

    fn print_row(&self, row: &[String; N], widths: &[usize; N], gap: usize, out: &mut dyn Write) -> io::Result<()> {
        let mut line = String::new();
        for (place, cell) in row.iter().enumerate() {
            let blank = " ".repeat(widths[place].saturating_sub(visible(cell)));
            if place > 0 {
                line += &" ".repeat(gap);
            }
            line += &if self.heads[place].starts_with('>') { blank + cell } else { cell.clone() + &blank };
            if visible(cell) > widths[place] {
                writeln!(out, "{cell}")?;
                line = " ".repeat(widths[place]);
            }
        }
        writeln!(out, "{}", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(table: &Table<3>, width: usize) -> String {
        let mut out = Vec::new();
        table.print_within(width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_fit() {
        let mut table = Table::new(["name", ">p", "said"]);
        table.span(1, 2, "of the two");
        table.row(["full", "–", "a"].map(str::to_owned));
        table.row(["topk:5", "0.25", "\u{1b}[32mbc\u{1b}[0m"].map(str::to_owned));
        let wide = "        of the two\nname       p  said\nfull       –  a\ntopk:5  0.25  \u{1b}[32mbc\u{1b}[0m\n";
        assert_eq!(print(&table, 80), wide);
        table.row(["temperature:4", "0.5", "d"].map(str::to_owned));
        let narrow = print(&table, 20);
        assert!(narrow.contains("\ntemperature:4\n           0.5 d\n"), "{narrow}");
        assert!(narrow.lines().all(|line| visible(line) <= 20), "{narrow}");
    }

    #[test]
    fn rows_are_grouped_by_point() {
        let point = |value: &str| vec![("model.activation".to_owned(), value.to_owned())];
        let mut table = Table::new(["name", "a", "b"]);
        for (name, point) in [("full", point("relu")), ("full", point("gelu")), ("topk:3", point("relu"))] {
            table.row_at(&point, [name, "1", "2"].map(str::to_owned));
        }
        let grouped = "name    a  b\nactivation = relu\nfull    1  2\ntopk:3  1  2\nactivation = gelu\nfull    1  2\n";
        assert_eq!(print(&table, 80), grouped);
    }
}
