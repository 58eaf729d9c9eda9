//! The tables of a run: one source, written as CSV, Markdown and HTML.

use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::robustness::robustness;
use semfocus_analysis::evidence::speedup::Speedup;
use semfocus_analysis::evidence::verdict::p_text;

/// A table: names, and for every cell what is shown and what a program reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of its files.
    pub name: &'static str,
    /// Heading on the page.
    pub title: &'static str,
    /// What the columns mean.
    pub caption: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading.
    pub title: String,
    /// Name in CSV files.
    pub name: String,
    /// Whether it holds numbers, which stand at the right.
    pub is_number: bool,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// For people.
    pub shown: String,
    /// For programs, in full precision; empty for nothing.
    pub exact: String,
}

impl Cell {
    pub(crate) fn text(text: &str) -> Self {
        Cell { shown: text.to_owned(), exact: text.to_owned() }
    }

    pub(crate) fn number(value: Option<f64>, show: impl Fn(f64) -> String) -> Self {
        match value.filter(|value| value.is_finite()) {
            Some(value) => Cell { shown: show(value), exact: value.to_string() },
            None => Cell { shown: "–".to_owned(), exact: String::new() },
        }
    }

    pub(crate) fn percent(value: Option<f64>) -> Self {
        Cell::number(value, |x| format!("{:.1} %", 100.0 * x).replace('-', "−"))
    }

    /// A difference of shares in percentage points, with its sign.
    fn points(value: Option<f64>) -> Self {
        Cell::number(value, |x| format!("{:+.1}", 100.0 * x).replace('-', "−"))
    }

    pub(crate) fn count(value: usize) -> Self {
        Cell::text(&value.to_string())
    }

    fn speedup(speedup: Option<Speedup>) -> Self {
        match speedup {
            Some(speedup) => Cell { shown: speedup.ratio.to_string(), exact: speedup.ratio.value().to_string() },
            None => Cell::number(None, |_| String::new()),
        }
    }
}

/// All tables.
pub fn tables(evidence: &Evidence) -> Vec<Table> {
    let mut tables = vec![summary(evidence), comparison(evidence)];
    if evidence.points.len() > 1 {
        tables.push(robustness_table(evidence));
    }
    tables.push(trials(evidence));
    tables
}

fn columns(columns: &[(&str, &str, bool)]) -> Vec<Column> {
    let column = |&(title, name, is_number): &(&str, &str, bool)| Column {
        title: title.to_owned(),
        name: name.to_owned(),
        is_number,
    };
    columns.iter().map(column).collect()
}

/// The columns of the grid, before those of a table.
pub(crate) fn with_point(evidence: &Evidence, rest: &[(&str, &str, bool)]) -> Vec<Column> {
    let axes = evidence.points.first().map_or(&[][..], |point| &point.point);
    let of_axis = |(path, _): &(String, String)| Column {
        title: path.rsplit('.').next().unwrap_or(path).replace('_', " "),
        name: path.clone(),
        is_number: false,
    };
    axes.iter().map(of_axis).chain(columns(rest)).collect()
}

pub(crate) fn point_cells(point: &[(String, String)]) -> Vec<Cell> {
    point.iter().map(|(_, value)| Cell::text(value)).collect()
}

fn summary(evidence: &Evidence) -> Table {
    let goal = evidence.goal;
    let mut rows = Vec::new();
    for point in &evidence.points {
        for mechanism in &point.mechanisms {
            let median = match mechanism.median_epochs_to_threshold {
                None if mechanism.seeds > 0 => Cell { shown: format!("> {}", mechanism.epochs), exact: String::new() },
                median => {
                    Cell::number(median, |x| if x.fract() == 0.0 { format!("{x:.0}") } else { format!("{x:.1}") })
                }
            };
            let mut row = point_cells(&point.point);
            row.extend([
                Cell::text(&mechanism.mechanism),
                Cell::count(mechanism.seeds),
                Cell::count(mechanism.reached),
                median,
                Cell::number(mechanism.restricted_mean_epochs.map(|mean| mean.mean), |x| format!("{x:.1}")),
                Cell::percent(mechanism.best_heldout_accuracy),
                Cell::percent(mechanism.last_heldout_accuracy),
                Cell::percent(mechanism.mean_heldout_accuracy),
                Cell::percent(mechanism.generalisation_gap),
                Cell::count(mechanism.diverged),
                Cell::count(mechanism.unfinished),
            ]);
            rows.push(row);
        }
    }
    Table {
        name: "mechanisms",
        title: "Mechanisms",
        caption: format!(
            "Medians over seeds. Epochs to the goal, {goal}: a trial that has not arrived counts as later than any other; \
             restricted mean: every trial counted up to the horizon ({}) only. Mean accuracy: area under the held-out \
             curve. Gap: training less held-out accuracy after the last epoch.",
            horizons(evidence)
        ),
        columns: with_point(
            evidence,
            &[
                ("mechanism", "mechanism", false),
                ("seeds", "seeds", true),
                ("reached", "reached", true),
                ("epochs to goal", "median_epochs_to_threshold", true),
                ("restricted mean", "restricted_mean_epochs", true),
                ("best held-out", "best_heldout_accuracy", true),
                ("last held-out", "last_heldout_accuracy", true),
                ("mean held-out", "mean_heldout_accuracy", true),
                ("gap", "generalisation_gap", true),
                ("diverged", "diverged", true),
                ("unfinished", "unfinished", true),
            ],
        ),
        rows,
    }
}

fn horizons(evidence: &Evidence) -> String {
    let mut horizons: Vec<f64> = evidence.points.iter().map(|point| point.horizon).collect();
    horizons.sort_by(f64::total_cmp);
    match (horizons.first(), horizons.last()) {
        (Some(least), Some(most)) if least == most => format!("{least} epochs"),
        (Some(least), Some(most)) => format!("{least} to {most} epochs, by point"),
        _ => "no epochs".to_owned(),
    }
}

fn comparison(evidence: &Evidence) -> Table {
    let mut rows = Vec::new();
    for point in &evidence.points {
        for mechanism in &point.mechanisms {
            let Some(comparison) = &mechanism.versus_full else { continue };
            let interval = comparison.epochs.and_then(|speedup| speedup.interval);
            let accuracy = comparison.accuracy.as_ref();
            let difference = accuracy.map(|accuracy| accuracy.differences.mean);
            let bounds = accuracy.and_then(|accuracy| accuracy.interval);
            let mut row = point_cells(&point.point);
            row.extend([
                Cell::text(&mechanism.mechanism),
                Cell::count(comparison.pairs),
                Cell::speedup(comparison.epochs),
                Cell::number(interval.map(|interval| interval.low), |x| format!("{x:.1}")),
                Cell::number(interval.map(|interval| interval.high), |x| format!("{x:.1}")),
                Cell::speedup(comparison.flops),
                Cell::speedup(comparison.seconds),
                Cell::number(comparison.epochs_saved, |x| format!("{x:.1}").replace('-', "−")),
                Cell::number(Some(comparison.log_rank.p_value), p_text),
                Cell::number(Some(comparison.log_rank_adjusted), p_text),
                Cell::points(difference),
                Cell::points(bounds.map(|interval| interval.low)),
                Cell::points(bounds.map(|interval| interval.high)),
                Cell::number(accuracy.map(|accuracy| accuracy.signed_rank.p_value), p_text),
                Cell::number(accuracy.map(|accuracy| accuracy.adjusted), p_text),
            ]);
            rows.push(row);
        }
    }
    Table {
        name: "against-full",
        title: "Against full attention",
        caption: "Paired by seed. Speed-ups: how many times fewer epochs, training operations and seconds to the goal, median \
                  over seeds; > and < are bounds where one side has not arrived; interval: BCa bootstrap of the median, where \
                  all trials arrived. Saved: restricted mean epochs of full attention less those of the mechanism. p: \
                  permutation log-rank test, and after Holm's correction. Held-out: mean paired difference in best held-out \
                  accuracy in percentage points, its BCa interval, exact signed-rank p, and after Holm's correction."
            .to_owned(),
        columns: with_point(
            evidence,
            &[
                ("mechanism", "mechanism", false),
                ("pairs", "pairs", true),
                ("epochs", "speedup_epochs", true),
                ("low", "speedup_epochs_low", true),
                ("high", "speedup_epochs_high", true),
                ("FLOPs", "speedup_flops", true),
                ("seconds", "speedup_seconds", true),
                ("saved", "epochs_saved", true),
                ("p", "log_rank_p", true),
                ("Holm", "log_rank_p_holm", true),
                ("held-out", "heldout_difference", true),
                ("low", "heldout_difference_low", true),
                ("high", "heldout_difference_high", true),
                ("p", "signed_rank_p", true),
                ("Holm", "signed_rank_p_holm", true),
            ],
        ),
        rows,
    }
}

fn robustness_table(evidence: &Evidence) -> Table {
    let rows = robustness(evidence).into_iter().map(|line| {
        let end = |end: &Option<(semfocus_analysis::evidence::speedup::Ratio, String)>| match end {
            Some((ratio, point)) => {
                [Cell { shown: ratio.to_string(), exact: ratio.value().to_string() }, Cell::text(point)]
            }
            None => [Cell::text("–"), Cell::text("–")],
        };
        let [least, least_at] = end(&line.least);
        let [greatest, greatest_at] = end(&line.greatest);
        vec![
            Cell::text(&line.mechanism),
            Cell::count(line.points),
            Cell::count(line.faster),
            Cell::count(line.slower),
            least,
            least_at,
            greatest,
            greatest_at,
        ]
    });
    Table {
        name: "robustness",
        title: "How the speed-up varies over the grid",
        caption:
            "Points at which a mechanism learns faster or slower than full attention, or does so with all of too few \
                  seeds; the least and the greatest speed-up in epochs, and where."
                .to_owned(),
        columns: columns(&[
            ("mechanism", "mechanism", false),
            ("points", "points", true),
            ("faster", "faster", true),
            ("slower", "slower", true),
            ("least", "least_speedup", true),
            ("at", "least_at", false),
            ("greatest", "greatest_speedup", true),
            ("at", "greatest_at", false),
        ]),
        rows: rows.collect(),
    }
}

fn trials(evidence: &Evidence) -> Table {
    let rows = evidence.trials().map(|observed| {
        let (trial, measures) = (&observed.trial, observed.measures.as_ref());
        let arrival = measures.map(|measures| measures.arrival).filter(|arrival| arrival.arrived);
        let mut row = point_cells(&trial.entry.point);
        row.extend([
            Cell::text(&trial.entry.mechanism),
            Cell::text(&trial.entry.seed.to_string()),
            Cell::text(trial.state.name()),
            Cell {
                shown: format!("{} of {}", trial.records.len(), trial.entry.epochs),
                exact: trial.records.len().to_string(),
            },
            Cell::number(arrival.map(|arrival| arrival.time), |x| format!("{x:.0}")),
            Cell::number(arrival.and(measures).and_then(|m| m.flops), |x| format!("{x:.2e}")),
            Cell::number(arrival.and(measures).map(|m| m.seconds), |x| format!("{x:.1}")),
            Cell::percent(measures.map(|measures| measures.best_heldout_accuracy)),
            Cell::number(measures.map(|measures| measures.best_epoch as f64), |x| format!("{x:.0}")),
            Cell::percent(measures.map(|measures| measures.last_heldout_accuracy)),
            Cell::text(&trial.entry.id.to_string()),
        ]);
        row
    });
    Table {
        name: "trials",
        title: "Trials",
        caption:
            "Every trial with its epochs, training operations and seconds to the goal; the last column is its folder \
                  under trials/."
                .to_owned(),
        columns: with_point(
            evidence,
            &[
                ("mechanism", "mechanism", false),
                ("seed", "seed", true),
                ("state", "state", false),
                ("epochs", "epochs", true),
                ("to goal", "epochs_to_threshold", true),
                ("FLOPs to goal", "flops_to_threshold", true),
                ("s to goal", "seconds_to_threshold", true),
                ("best held-out", "best_heldout_accuracy", true),
                ("in epoch", "best_epoch", true),
                ("last held-out", "last_heldout_accuracy", true),
                ("folder", "trial", false),
            ],
        ),
        rows: rows.collect(),
    }
}

impl Table {
    /// As CSV, for programs.
    pub fn csv(&self) -> String {
        let quoted = |text: &str| {
            if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
        };
        let header = self.columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(",");
        let rows = self.rows.iter().map(|row| row.iter().map(|cell| quoted(&cell.exact)).collect::<Vec<_>>().join(","));
        std::iter::once(header).chain(rows).map(|line| line + "\n").collect()
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escaped = |text: &str| text.replace('|', "\\|");
        let mut text = format!("# {}\n\n", self.title);
        text += &line(self.columns.iter().map(|column| escaped(&column.title)).collect());
        text +=
            &line(self.columns.iter().map(|column| if column.is_number { "--:" } else { ":--" }.to_owned()).collect());
        for row in &self.rows {
            text += &line(row.iter().map(|cell| escaped(&cell.shown)).collect());
        }
        text + &format!("\n{}\n", self.caption)
    }
}
