//! A table as text, written as CSV, Markdown, LaTeX and HTML from one source.

use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::speedup::{Ratio, Speedup};
use semfocus_core::study::seed_name;

/// A table as text: for every cell what people see and what programs read.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Base name of its files.
    pub name: &'static str,
    /// Heading on the page.
    pub title: &'static str,
    /// What the columns mean.
    pub caption: String,
    pub headings: Vec<Heading>,
    /// Each with one cell per heading.
    pub rows: Vec<Vec<Cell>>,
    /// What the table shows, in a sentence. The page then folds the table itself away.
    pub conclusion: Option<String>,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Heading {
    /// What this column and its neighbours have in common; empty for nothing.
    pub group: String,
    /// Unique within its group.
    pub title: String,
    /// Column name in CSV files.
    pub name: String,
    /// Numbers are right-aligned.
    pub is_number: bool,
    /// Whether the page leaves the column out if it is 0 everywhere.
    pub is_exceptional: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// For people.
    pub shown: String,
    /// For programs, in full precision; empty if missing.
    pub exact: String,
}

/// A column of a table whose rows are made from values of type `Row`.
pub(crate) struct Column<Row> {
    group: &'static str,
    title: &'static str,
    name: &'static str,
    is_number: bool,
    is_exceptional: bool,
    cell: fn(&Row) -> Cell,
}

/// A column below a heading that it shares with its neighbours.
pub(crate) const fn under<Row>(group: &'static str, column: Column<Row>) -> Column<Row> {
    Column { group, ..column }
}

/// A column that the page leaves out if it is 0 everywhere.
pub(crate) const fn unless_zero<Row>(column: Column<Row>) -> Column<Row> {
    Column { is_exceptional: true, ..column }
}

pub(crate) const fn text<Row>(title: &'static str, name: &'static str, cell: fn(&Row) -> Cell) -> Column<Row> {
    Column { group: "", title, name, is_number: false, is_exceptional: false, cell }
}

pub(crate) const fn number<Row>(title: &'static str, name: &'static str, cell: fn(&Row) -> Cell) -> Column<Row> {
    Column { group: "", title, name, is_number: true, is_exceptional: false, cell }
}

/// Values on the axes of the grid: setting and value.
pub(crate) type Point = [(String, String)];

impl Table {
    pub(crate) fn new<Row>(
        name: &'static str,
        title: &'static str,
        caption: impl Into<String>,
        columns: &[Column<Row>],
        rows: &[Row],
    ) -> Self {
        let heading = |column: &Column<Row>| Heading {
            group: column.group.to_owned(),
            title: column.title.to_owned(),
            name: column.name.to_owned(),
            is_number: column.is_number,
            is_exceptional: column.is_exceptional,
        };
        let cells = |row| columns.iter().map(|column| (column.cell)(row)).collect();
        Table {
            name,
            title,
            caption: caption.into(),
            headings: columns.iter().map(heading).collect(),
            rows: rows.iter().map(cells).collect(),
            conclusion: None,
        }
    }

    /// The same table behind a sentence that says what it shows.
    pub(crate) fn folded(self, conclusion: impl Into<String>) -> Self {
        Table { conclusion: Some(conclusion.into()), ..self }
    }

    /// Adds one column for each axis of the grid before all others. `points` has one point for each row.
    pub(crate) fn with_points<'a>(mut self, evidence: &Evidence, points: impl Iterator<Item = &'a Point>) -> Self {
        let axes = evidence.points.first().map_or(&[][..], |point| &point.point);
        let heading = |(path, _): &(String, String)| Heading {
            group: String::new(),
            title: path.rsplit('.').next().unwrap_or(path).replace('_', " "),
            name: path.clone(),
            is_number: false,
            is_exceptional: false,
        };
        self.headings.splice(0..0, axes.iter().map(heading));
        for (row, point) in self.rows.iter_mut().zip(points) {
            row.splice(0..0, point.iter().map(|(_, value)| Cell::text(value)));
        }
        self
    }

    /// The table itself, or None if it has no rows.
    pub(crate) fn filled(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    pub fn csv(&self) -> String {
        let headings = self.headings.iter().map(|heading| heading.name.as_str()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(|cell| cell.exact.as_str()).collect());
        to_csv(std::iter::once(headings).chain(rows))
    }

    pub fn markdown(&self) -> String {
        format!("# {}\n\n{}\n{}\n", self.title, self.markdown_rows(), self.caption)
    }

    /// Without title and caption.
    pub fn markdown_rows(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escaped = |text: &str| text.replace('|', "\\|");
        let alignment = |heading: &Heading| if heading.is_number { "--:" } else { ":--" }.to_owned();
        let mut text = line(self.headings.iter().map(|heading| escaped(&heading.full_title())).collect());
        text += &line(self.headings.iter().map(alignment).collect());
        for row in &self.rows {
            text += &line(row.iter().map(|cell| escaped(&cell.shown)).collect());
        }
        text
    }

    /// Columns that have a common heading, one after the other, as ranges of their indices; a column without one is alone.
    pub(crate) fn groups(&self) -> Vec<std::ops::Range<usize>> {
        let mut start = 0;
        let together = |a: &Heading, b: &Heading| !a.group.is_empty() && a.group == b.group;
        let runs = self.headings.chunk_by(together).map(|run| {
            start += run.len();
            start - run.len()..start
        });
        runs.collect()
    }

    /// The table without the columns that the page leaves out.
    pub fn for_page(&self) -> Self {
        let is_zero = |index: usize| self.rows.iter().all(|row| matches!(row[index].exact.as_str(), "" | "0"));
        let is_kept: Vec<bool> =
            self.headings.iter().enumerate().map(|(index, head)| !(head.is_exceptional && is_zero(index))).collect();
        let mut table = self.clone();
        let mut keep = is_kept.iter();
        table.headings.retain(|_| *keep.next().expect("one for each column"));
        for row in &mut table.rows {
            let mut keep = is_kept.iter();
            row.retain(|_| *keep.next().expect("one for each column"));
        }
        table
    }
}

impl Heading {
    /// With its group, for formats without common headings.
    fn full_title(&self) -> String {
        if self.group.is_empty() { self.title.clone() } else { format!("{}: {}", self.group, self.title) }
    }
}

pub(crate) fn to_csv<'a>(records: impl Iterator<Item = Vec<&'a str>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for record in records {
        writer.write_record(record).expect("all rows have the same number of cells");
    }
    String::from_utf8(writer.into_inner().expect("memory can be written to")).expect("the cells are UTF-8")
}

impl Cell {
    pub(crate) fn text(text: impl ToString) -> Self {
        let text = text.to_string();
        Cell { shown: text.clone(), exact: text }
    }

    /// A seed: what a person calls it, and the seed itself.
    pub(crate) fn seed(seed: u64) -> Self {
        let name = seed_name(seed);
        let shown = if name == seed { seed.to_string() } else { format!("{name} ({seed})") };
        Cell { shown, exact: seed.to_string() }
    }

    pub(crate) fn missing() -> Self {
        Cell { shown: "–".to_owned(), exact: String::new() }
    }

    pub(crate) fn number(value: impl Into<Option<f64>>, show: impl Fn(f64) -> String) -> Self {
        match value.into().filter(|value| value.is_finite()) {
            Some(value) => Cell { shown: show(value).replace('-', "−"), exact: value.to_string() },
            None => Cell::missing(),
        }
    }

    /// With a fixed number of decimals.
    pub(crate) fn decimals(value: impl Into<Option<f64>>, decimals: usize) -> Self {
        Cell::number(value, |x| format!("{x:.decimals$}"))
    }

    pub(crate) fn percent(value: Option<f64>) -> Self {
        Cell::number(value, |x| format!("{:.1} %", 100.0 * x))
    }

    /// A difference of fractions in percentage points, with its sign.
    pub(crate) fn points(value: Option<f64>) -> Self {
        Cell::number(value, |x| format!("{:+.1}", 100.0 * x))
    }

    pub(crate) fn ratio(ratio: Option<Ratio>) -> Self {
        match ratio {
            Some(ratio) => Cell { shown: ratio.to_string(), exact: ratio.value().to_string() },
            None => Cell::missing(),
        }
    }

    pub(crate) fn speedup(speedup: Option<Speedup>) -> Self {
        Cell::ratio(speedup.map(|speedup| speedup.ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            text("mechanism", "mechanism", |row: &f64| Cell::text(format!("a|b_{row}"))),
            under("first", number("low", "a_low", |row| Cell::decimals(*row, 1))),
            under("first", number("high", "a_high", |row| Cell::decimals(2.0 * row, 1))),
            under("second", number("low", "b_low", |row| Cell::decimals(-row, 1))),
            unless_zero(number("failed", "failed", |_| Cell::text(0))),
        ];
        Table::new("t", "Title", "Caption.", &columns, &[1.0, 2.0])
    }

    #[test]
    fn no_two_columns_have_the_same_name() {
        let markdown = table().markdown();
        assert!(markdown.contains("| mechanism | first: low | first: high | second: low | failed |"), "{markdown}");
        assert_eq!(table().groups(), [0..1, 1..3, 3..4, 4..5]);
    }

    #[test]
    fn the_page_leaves_out_what_never_happened() {
        let shown = table().for_page();
        assert_eq!(shown.headings.len(), 4);
        assert!(shown.rows.iter().all(|row| row.len() == 4));
        assert!(table().csv().starts_with("mechanism,a_low,a_high,b_low,failed\n"), "files have everything");
        let mut once = table();
        once.rows[1][4] = Cell::text(1);
        assert_eq!(once.for_page(), once);
    }
}
