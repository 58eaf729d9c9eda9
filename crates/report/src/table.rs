//! A table: columns of typed values, and how each value is shown to people.

use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::speedup::{Ratio, Speedup};
use semfocus_analysis::stats::Interval;
use semfocus_core::study::seed_name;

use crate::frame::{Frame, Values};

#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Base name of its files.
    pub name: &'static str,
    /// Heading on the page.
    pub title: &'static str,
    /// What the columns mean.
    pub caption: String,
    pub columns: Vec<Column>,
    /// What the table shows, in a sentence. The page then folds the table itself away.
    pub conclusion: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What this column and its neighbours have in common; empty for nothing.
    pub group: String,
    /// Unique within its group.
    pub title: String,
    /// Column name in data files.
    pub name: String,
    /// For programs, in full precision.
    pub values: Values,
    /// For people: one text for each value.
    pub shown: Vec<String>,
    pub visibility: Visibility,
}

/// Who sees a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    Everybody,
    /// Everybody, unless it is 0 everywhere.
    UnlessZero,
    /// Programs only: readers of CSV files.
    Programs,
}

/// Values on the axes of the grid: setting and value.
pub(crate) type Point = [(String, String)];

/// A missing value.
pub(crate) const MISSING: &str = "–";

/// Makes the columns of a table from values of type `Row`.
pub(crate) struct Builder<'a, Row> {
    rows: &'a [Row],
    group: &'static str,
    table: Table,
}

impl<Row> Builder<'_, Row> {
    fn add(mut self, title: &str, name: &str, values: Values, shown: Vec<String>) -> Self {
        let (group, title, name) = (self.group.to_owned(), title.to_owned(), name.to_owned());
        self.table.columns.push(Column { group, title, name, values, shown, visibility: Visibility::Everybody });
        self
    }

    /// Begins a group of columns with a common heading; without one if it is empty.
    pub(crate) fn under(self, group: &'static str) -> Self {
        Builder { group, ..self }
    }

    /// Who sees the last column.
    fn visible_to(mut self, visibility: Visibility) -> Self {
        self.table.columns.last_mut().expect("there is a column").visibility = visibility;
        self
    }

    /// The last column is left out of what people see if it is 0 everywhere.
    pub(crate) fn unless_zero(self) -> Self {
        self.visible_to(Visibility::UnlessZero)
    }

    /// Only programs see the last column.
    pub(crate) fn programs_only(self) -> Self {
        self.visible_to(Visibility::Programs)
    }

    pub(crate) fn text<T: ToString>(self, title: &str, name: &str, value: impl Fn(&Row) -> T) -> Self {
        let shown: Vec<String> = self.rows.iter().map(|row| value(row).to_string()).collect();
        self.add(title, name, Values::Text(shown.iter().cloned().map(Some).collect()), shown)
    }

    pub(crate) fn count(self, title: &str, name: &str, value: impl Fn(&Row) -> usize) -> Self {
        self.counted(title, name, |row| (value(row).to_string(), Some(value(row) as u64)))
    }

    /// Whole numbers and how they are shown.
    pub(crate) fn counted(self, title: &str, name: &str, value: impl Fn(&Row) -> (String, Option<u64>)) -> Self {
        let (shown, values) = self.rows.iter().map(value).unzip();
        self.add(title, name, Values::Integer(values), shown)
    }

    /// A seed: what a person calls it, and the seed itself.
    pub(crate) fn seed(self, value: impl Fn(&Row) -> u64) -> Self {
        self.counted("seed", "seed", |row| {
            let (seed, name) = (value(row), seed_name(value(row)));
            (if name == seed { seed.to_string() } else { format!("{name} ({seed})") }, Some(seed))
        })
    }

    pub(crate) fn number<N: Into<Option<f64>>>(
        self,
        title: &str,
        name: &str,
        value: impl Fn(&Row) -> N,
        show: impl Fn(f64) -> String,
    ) -> Self {
        self.shown(title, name, |row| {
            let value = value(row).into().filter(|value| value.is_finite());
            (value.map_or(MISSING.to_owned(), |value| show(value).replace('-', "−")), value)
        })
    }

    /// Numbers that are shown as something else, such as a bound or together with their interval.
    pub(crate) fn shown(self, title: &str, name: &str, value: impl Fn(&Row) -> (String, Option<f64>)) -> Self {
        let (shown, values) = self.rows.iter().map(value).unzip();
        self.add(title, name, Values::Number(values), shown)
    }

    /// Numbers for programs alone.
    pub(crate) fn data<N: Into<Option<f64>>>(self, name: &str, value: impl Fn(&Row) -> N) -> Self {
        self.number(name, name, value, |value| value.to_string()).programs_only()
    }

    pub(crate) fn done(self) -> Table {
        self.table
    }

    /// The table with one column for each axis of the grid before all others.
    pub(crate) fn at_points(mut self, evidence: &Evidence, point: impl Fn(&Row) -> &Point) -> Table {
        let axes = evidence.points.first().map_or(&[][..], |point| &point.point);
        let own = std::mem::take(&mut self.table.columns);
        self.group = "";
        for (axis, (path, _)) in axes.iter().enumerate() {
            self = self.text(&setting_name(path), path, |row| point(row)[axis].1.clone());
        }
        self.table.columns.extend(own);
        self.table
    }
}

/// The last part of the path of a setting, as words: `activation` of `model.activation`.
pub(crate) fn setting_name(path: &str) -> String {
    path.rsplit('.').next().unwrap_or(path).replace('_', " ")
}

impl Table {
    pub(crate) fn from_rows<'a, Row>(
        name: &'static str,
        title: &'static str,
        caption: impl Into<String>,
        rows: &'a [Row],
    ) -> Builder<'a, Row> {
        let table = Table { name, title, caption: caption.into(), columns: Vec::new(), conclusion: None };
        Builder { rows, group: "", table }
    }

    /// The same table behind a sentence that says what it shows.
    pub(crate) fn folded(self, conclusion: impl Into<String>) -> Self {
        Table { conclusion: Some(conclusion.into()), ..self }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |column| column.shown.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The table itself, or None if it has no rows.
    pub(crate) fn filled(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }

    /// Every column as programs read it.
    pub fn frame(&self) -> Frame {
        self.columns.iter().map(|column| (column.name.as_str(), column.values.clone())).collect()
    }

    /// The columns that people see.
    pub fn visible(&self) -> Vec<&Column> {
        self.columns.iter().filter(|column| column.is_visible()).collect()
    }

    /// The columns that people see, in runs of those with a common heading; a column without one is alone.
    pub fn groups(&self) -> Vec<Vec<&Column>> {
        let visible = self.visible();
        let together = |a: &&Column, b: &&Column| !a.group.is_empty() && a.group == b.group;
        visible.chunk_by(together).map(<[&Column]>::to_vec).collect()
    }
}

impl Column {
    /// With its group, for formats without common headings.
    pub fn full_title(&self) -> String {
        if self.group.is_empty() { self.title.clone() } else { format!("{}: {}", self.group, self.title) }
    }

    fn is_visible(&self) -> bool {
        match self.visibility {
            Visibility::Everybody => true,
            Visibility::UnlessZero => self.shown.iter().any(|shown| !matches!(shown.as_str(), "" | "0")),
            Visibility::Programs => false,
        }
    }
}

/// How numbers are shown.
pub(crate) fn decimals(decimals: usize) -> impl Fn(f64) -> String {
    move |value| format!("{value:.decimals$}")
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// A difference of fractions in percentage points, with its sign.
pub(crate) fn points(difference: f64) -> String {
    format!("{:+.1}", 100.0 * difference)
}

/// A value with its interval, if it has one: `2.6× (1.4–6.5)`.
pub(crate) fn with_interval(shown: String, interval: Option<Interval>, end: impl Fn(f64) -> String) -> String {
    let end = |value: f64| if value.is_finite() { end(value).replace('-', "−") } else { "…".to_owned() };
    match interval {
        Some(interval) => format!("{shown} ({} to {})", end(interval.low), end(interval.high)),
        None => shown,
    }
}

/// A speed-up or its bound, with its interval.
pub(crate) fn speedup(speedup: Option<Speedup>) -> (String, Option<f64>) {
    let (ratio, interval) = (speedup.map(|speedup| speedup.ratio), speedup.and_then(|speedup| speedup.interval));
    let (shown, value) = bound(ratio);
    (with_interval(shown, interval, decimals(1)), value)
}

/// A ratio or its bound.
pub(crate) fn bound(ratio: Option<Ratio>) -> (String, Option<f64>) {
    (ratio.map_or(MISSING.to_owned(), |ratio| ratio.to_string()), ratio.map(Ratio::value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Csv, Export, Markdown};

    fn table(failed: usize) -> Table {
        Table::from_rows("t", "Title", "Caption.", &[1.0, 2.0])
            .text("mechanism", "mechanism", |row| format!("a|b_{row}"))
            .under("first")
            .number("low", "a_low", |row| *row, decimals(1))
            .data("a_exact", |row| *row)
            .number("high", "a_high", |row| 2.0 * row, decimals(1))
            .under("second")
            .number("low", "b_low", |row| -row, decimals(1))
            .under("")
            .count("failed", "failed", |_| failed)
            .unless_zero()
            .done()
    }

    #[test]
    fn no_two_columns_have_the_same_name() {
        let markdown = Markdown.text(&table(1));
        assert!(markdown.contains("| mechanism | first: low | first: high | second: low | failed |"), "{markdown}");
        assert_eq!(table(1).groups().iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1, 1]);
    }

    #[test]
    fn people_do_not_see_what_never_happened_or_what_only_programs_read() {
        let names = |table: &Table| table.visible().iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&table(0)), ["mechanism", "a_low", "a_high", "b_low"]);
        assert_eq!(names(&table(1))[4], "failed");
        let csv = Csv.text(&table(0));
        assert!(csv.starts_with("mechanism,a_low,a_exact,a_high,b_low,failed\na|b_1,1,1,2,-1,0\n"), "{csv}");
    }

    #[test]
    fn intervals_stand_behind_their_values() {
        let of = |low, high| with_interval("2.6×".to_owned(), Some(Interval { low, high }), decimals(1));
        assert_eq!(of(1.4, 6.5), "2.6× (1.4 to 6.5)");
        assert_eq!(of(f64::NEG_INFINITY, -0.5), "2.6× (… to −0.5)");
    }
}
