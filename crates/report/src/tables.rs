//! The tables of a run, written as CSV, Markdown and HTML from one source.

use semfocus_analysis::evidence::robustness::{Robustness, robustness};
use semfocus_analysis::evidence::speedup::{Ratio, Speedup};
use semfocus_analysis::evidence::verdict::p_text;
use semfocus_analysis::evidence::{Evidence, MechanismEvidence, Observed};
use semfocus_analysis::stats::{Interval, TimeToTarget};

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
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct Heading {
    pub title: String,
    /// Column name in CSV files.
    pub name: String,
    /// Numbers are right-aligned.
    pub is_number: bool,
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
    title: &'static str,
    name: &'static str,
    is_number: bool,
    cell: fn(&Row) -> Cell,
}

pub(crate) const fn text<Row>(title: &'static str, name: &'static str, cell: fn(&Row) -> Cell) -> Column<Row> {
    Column { title, name, is_number: false, cell }
}

pub(crate) const fn number<Row>(title: &'static str, name: &'static str, cell: fn(&Row) -> Cell) -> Column<Row> {
    Column { title, name, is_number: true, cell }
}

/// Values on the axes of the grid: setting and value.
type Point = [(String, String)];

impl Table {
    pub(crate) fn new<Row>(
        name: &'static str,
        title: &'static str,
        caption: impl Into<String>,
        columns: &[Column<Row>],
        rows: &[Row],
    ) -> Self {
        let heading = |column: &Column<Row>| Heading {
            title: column.title.to_owned(),
            name: column.name.to_owned(),
            is_number: column.is_number,
        };
        let cells = |row| columns.iter().map(|column| (column.cell)(row)).collect();
        Table {
            name,
            title,
            caption: caption.into(),
            headings: columns.iter().map(heading).collect(),
            rows: rows.iter().map(cells).collect(),
        }
    }

    /// Adds one column for each axis of the grid before all others. `points` has one point for each row.
    pub(crate) fn with_points<'a>(mut self, evidence: &Evidence, points: impl Iterator<Item = &'a Point>) -> Self {
        let axes = evidence.points.first().map_or(&[][..], |point| &point.point);
        let heading = |(path, _): &(String, String)| Heading {
            title: path.rsplit('.').next().unwrap_or(path).replace('_', " "),
            name: path.clone(),
            is_number: false,
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
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escaped = |text: &str| text.replace('|', "\\|");
        let alignment = |heading: &Heading| if heading.is_number { "--:" } else { ":--" }.to_owned();
        let mut text = format!("# {}\n\n", self.title);
        text += &line(self.headings.iter().map(|heading| escaped(&heading.title)).collect());
        text += &line(self.headings.iter().map(alignment).collect());
        for row in &self.rows {
            text += &line(row.iter().map(|cell| escaped(&cell.shown)).collect());
        }
        text + &format!("\n{}\n", self.caption)
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

    fn missing() -> Self {
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
    fn points(value: Option<f64>) -> Self {
        Cell::number(value, |x| format!("{:+.1}", 100.0 * x))
    }

    fn ratio(ratio: Option<Ratio>) -> Self {
        match ratio {
            Some(ratio) => Cell { shown: ratio.to_string(), exact: ratio.value().to_string() },
            None => Cell::missing(),
        }
    }

    pub(crate) fn speedup(speedup: Option<Speedup>) -> Self {
        Cell::ratio(speedup.map(|speedup| speedup.ratio))
    }
}

/// The tables of every report. Sections add their own.
pub fn tables(evidence: &Evidence) -> Vec<Table> {
    let mut tables = vec![mechanisms(evidence), against_full(evidence)];
    if evidence.points.len() > 1 {
        tables.extend(crate::grid::best_table(evidence));
        tables.push(robustness_table(evidence));
    }
    tables.push(trials(evidence));
    tables
}

/// A mechanism at a point of the grid.
struct AtPoint<'a> {
    point: &'a Point,
    evidence: &'a MechanismEvidence,
}

fn at_points(evidence: &Evidence) -> impl Iterator<Item = AtPoint<'_>> {
    let points = evidence.points.iter();
    points.flat_map(|at| at.mechanisms.iter().map(|evidence| AtPoint { point: &at.point, evidence }))
}

fn mechanisms(evidence: &Evidence) -> Table {
    let columns = [
        text("mechanism", "mechanism", |row: &AtPoint| Cell::text(&row.evidence.mechanism)),
        number("seeds", "seeds", |row| Cell::text(row.evidence.seeds)),
        number("reached", "reached", |row| Cell::text(row.evidence.reached)),
        number("epochs to goal", "median_epochs_to_threshold", |row| median_epochs(row.evidence)),
        number("restricted mean", "restricted_mean_epochs", |row| {
            Cell::decimals(row.evidence.restricted_mean_epochs.map(|mean| mean.mean), 1)
        }),
        number("best held-out", "best_heldout_accuracy", |row| Cell::percent(row.evidence.best_heldout_accuracy)),
        number("last held-out", "last_heldout_accuracy", |row| Cell::percent(row.evidence.last_heldout_accuracy)),
        number("mean held-out", "mean_heldout_accuracy", |row| Cell::percent(row.evidence.mean_heldout_accuracy)),
        number("gap", "generalisation_gap", |row| Cell::percent(row.evidence.generalisation_gap)),
        number("diverged", "diverged", |row| Cell::text(row.evidence.diverged)),
        number("unfinished", "unfinished", |row| Cell::text(row.evidence.unfinished)),
    ];
    let caption = format!(
        "Medians over seeds. Epochs to the goal, {}: a trial that has not reached it counts as later than any other. \
         Restricted mean: mean epochs to the goal, with every trial counted only up to the horizon ({}). Mean held-out: \
         area under the curve of the held-out accuracy. Gap: training accuracy minus held-out accuracy after the last \
         epoch.",
        evidence.goal,
        horizons(evidence)
    );
    let rows: Vec<AtPoint> = at_points(evidence).collect();
    Table::new("mechanisms", "Mechanisms", caption, &columns, &rows)
        .with_points(evidence, rows.iter().map(|row| row.point))
}

pub(crate) fn median_epochs(evidence: &MechanismEvidence) -> Cell {
    match evidence.median_epochs_to_threshold {
        None if evidence.seeds > 0 => Cell { shown: format!("> {}", evidence.epochs), exact: String::new() },
        median => Cell::number(median, |x| format!("{x:.*}", usize::from(x.fract() != 0.0))),
    }
}

fn horizons(evidence: &Evidence) -> String {
    let mut horizons: Vec<f64> = evidence.points.iter().map(|point| point.horizon).collect();
    horizons.sort_by(f64::total_cmp);
    match (horizons.first(), horizons.last()) {
        (Some(min), Some(max)) if min == max => format!("{min} epochs"),
        (Some(min), Some(max)) => format!("{min} to {max} epochs, depending on the point"),
        _ => "no epochs".to_owned(),
    }
}

fn against_full(evidence: &Evidence) -> Table {
    use semfocus_analysis::evidence::Comparison;
    use semfocus_analysis::evidence::accuracy::AccuracyDifference;
    struct Row<'a> {
        at: AtPoint<'a>,
        comparison: &'a Comparison,
        /// Of the speed-up in epochs.
        interval: Option<Interval>,
        accuracy: Option<&'a AccuracyDifference>,
        accuracy_interval: Option<Interval>,
    }
    let columns = [
        text("mechanism", "mechanism", |row: &Row| Cell::text(&row.at.evidence.mechanism)),
        number("pairs", "pairs", |row| Cell::text(row.comparison.pairs)),
        number("epochs", "speedup_epochs", |row| Cell::speedup(row.comparison.epochs)),
        number("low", "speedup_epochs_low", |row| Cell::decimals(row.interval.map(|interval| interval.low), 1)),
        number("high", "speedup_epochs_high", |row| Cell::decimals(row.interval.map(|interval| interval.high), 1)),
        number("FLOPs", "speedup_flops", |row| Cell::speedup(row.comparison.flops)),
        number("seconds", "speedup_seconds", |row| Cell::speedup(row.comparison.seconds)),
        number("saved", "epochs_saved", |row| Cell::decimals(row.comparison.epochs_saved, 1)),
        number("p", "log_rank_p", |row| Cell::number(row.comparison.log_rank.p_value, p_text)),
        number("Holm", "log_rank_p_holm", |row| Cell::number(row.comparison.log_rank_adjusted, p_text)),
        number("held-out", "heldout_difference", |row| {
            Cell::points(row.accuracy.map(|accuracy| accuracy.differences.mean))
        }),
        number("low", "heldout_difference_low", |row| Cell::points(row.accuracy_interval.map(|interval| interval.low))),
        number("high", "heldout_difference_high", |row| {
            Cell::points(row.accuracy_interval.map(|interval| interval.high))
        }),
        number("p", "heldout_p", |row| Cell::number(row.accuracy.map(|accuracy| accuracy.p_value), p_text)),
        number("Holm", "heldout_p_holm", |row| Cell::number(row.accuracy.map(|accuracy| accuracy.adjusted), p_text)),
    ];
    let row = |at| {
        let AtPoint { evidence, .. } = &at;
        let comparison = evidence.versus_full.as_ref()?;
        let accuracy = comparison.accuracy.as_ref();
        Some(Row {
            at,
            comparison,
            interval: comparison.epochs.and_then(|speedup| speedup.interval),
            accuracy,
            accuracy_interval: accuracy.and_then(|accuracy| accuracy.interval),
        })
    };
    let rows: Vec<Row> = at_points(evidence).filter_map(row).collect();
    let caption = "Paired by seed. Epochs, FLOPs and seconds: speed-up to the goal, median over seeds; > and < mark bounds \
        where one of the two has not reached the goal. Low and high: the interval of the log-rank test, if all \
        trials reached the goal. Saved: restricted mean epochs of full attention minus those of the mechanism. p: \
        permutation log-rank test, then after Holm's correction. Held-out: mean paired difference in best held-out \
        accuracy in percentage points (test accuracy, if there are test examples), its interval, the p-value that belongs \
        to it, and the same after Holm's correction.";
    Table::new("against-full", "Against full attention", caption, &columns, &rows)
        .with_points(evidence, rows.iter().map(|row| row.at.point))
}

fn robustness_table(evidence: &Evidence) -> Table {
    let columns = [
        text("mechanism", "mechanism", |row: &Robustness| Cell::text(&row.mechanism)),
        number("points", "points", |row| Cell::text(row.points)),
        number("faster", "faster", |row| Cell::text(row.faster)),
        number("slower", "slower", |row| Cell::text(row.slower)),
        number("min", "least_speedup", |row| Cell::ratio(row.min.as_ref().map(|(ratio, _)| *ratio))),
        text("at", "least_at", |row| Cell::text(row.min.as_ref().map_or("–", |(_, point)| point))),
        number("max", "greatest_speedup", |row| Cell::ratio(row.max.as_ref().map(|(ratio, _)| *ratio))),
        text("at", "greatest_at", |row| Cell::text(row.max.as_ref().map_or("–", |(_, point)| point))),
    ];
    let caption = "Points of the grid at which a mechanism learns faster or slower than full attention, including those where \
        all seeds agree but are too few for a significance test; the smallest and the largest speed-up in epochs, \
        and where they occur.";
    Table::new("robustness", "How the speed-up varies over the grid", caption, &columns, &robustness(evidence))
}

fn trials(evidence: &Evidence) -> Table {
    struct Row<'a> {
        observed: &'a Observed,
        /// When the goal was reached.
        reached: Option<TimeToTarget>,
    }
    let columns = [
        text("mechanism", "mechanism", |row: &Row| Cell::text(&row.observed.trial.entry.mechanism)),
        number("seed", "seed", |row| Cell::text(row.observed.trial.entry.seed)),
        text("state", "state", |row| Cell::text(row.observed.trial.state.name())),
        number("epochs", "epochs", |row| {
            let (epochs, planned) = (row.observed.trial.records.len(), row.observed.trial.entry.epochs);
            Cell { shown: format!("{epochs} of {planned}"), exact: epochs.to_string() }
        }),
        number("to goal", "epochs_to_threshold", |row| Cell::decimals(row.reached.map(|reached| reached.time), 0)),
        number("FLOPs to goal", "flops_to_threshold", |row| {
            let flops = row.reached.and(row.observed.measures.as_ref()).and_then(|measures| measures.flops);
            Cell::number(flops, |x| format!("{x:.2e}"))
        }),
        number("s to goal", "seconds_to_threshold", |row| {
            let seconds = row.reached.and(row.observed.measures.as_ref()).map(|measures| measures.seconds);
            Cell::decimals(seconds, 1)
        }),
        number("best held-out", "best_heldout_accuracy", |row| {
            Cell::percent(row.observed.measures.as_ref().map(|measures| measures.best_heldout_accuracy))
        }),
        number("in epoch", "best_epoch", |row| {
            Cell::decimals(row.observed.measures.as_ref().map(|measures| measures.best_epoch as f64), 0)
        }),
        number("last held-out", "last_heldout_accuracy", |row| {
            Cell::percent(row.observed.measures.as_ref().map(|measures| measures.last_heldout_accuracy))
        }),
        text("folder", "trial", |row| Cell::text(row.observed.trial.entry.id)),
    ];
    let rows: Vec<Row> = evidence
        .trials()
        .map(|observed| {
            let time = observed.measures.as_ref().map(|measures| measures.time_to_target);
            Row { observed, reached: time.filter(|time| time.reached) }
        })
        .collect();
    let caption = "Every trial, with the epochs, training operations and seconds it needed to reach the goal; the last column \
        is its folder under trials/.";
    Table::new("trials", "Trials", caption, &columns, &rows)
        .with_points(evidence, rows.iter().map(|row| &row.observed.trial.entry.point[..]))
}
