//! The tables of a run.

use semfocus_analysis::evidence::accuracy::Split;
use semfocus_analysis::evidence::robustness::{Robustness, point_name};
use semfocus_analysis::evidence::tuned::{BestOfGrid, Tuned};
use semfocus_analysis::evidence::verdict::p_text;
use semfocus_analysis::evidence::{Evidence, MechanismEvidence, Observed, PointEvidence, Unit};
use semfocus_analysis::stats::{Interval, TimeToTarget};

use crate::pictures::target_words;
pub use crate::table::{Cell, Heading, Table};
pub(crate) use crate::table::{number, text, to_csv, under, unless_zero};

/// The tables of every report. Sections add their own.
pub fn tables(evidence: &Evidence) -> Vec<Table> {
    let mut tables = vec![mechanisms(evidence), against_baseline(evidence)];
    if evidence.points.len() > 1 {
        tables.extend(best_of_grid(evidence));
        tables.push(robustness_table(evidence));
    }
    tables.push(trials(evidence));
    tables
}

/// Each mechanism at its best point. None without a grid.
fn best_of_grid(evidence: &Evidence) -> Option<Table> {
    struct Row<'a> {
        tuned: &'a Tuned,
        unit: Unit,
    }
    let BestOfGrid { mechanisms, split } = evidence.best_of_grid()?;
    let unit = evidence.unit();
    let rows: Vec<Row> = mechanisms.iter().map(|tuned| Row { tuned, unit }).collect();
    let columns = [
        text("mechanism", "mechanism", |row: &Row| Cell::text(&row.tuned.evidence.mechanism)),
        text("best point", "best_point", |row| Cell::text(point_name(&row.tuned.point))),
        number("reached", "reached", |row| Cell::text(row.tuned.evidence.reached)),
        number(to_target(unit), "median_epochs_to_target", |row| median_time(&row.tuned.evidence, row.unit)),
        number("speed-up", "speedup_epochs", |row| {
            Cell::speedup(row.tuned.versus_baseline.as_ref().and_then(|comparison| comparison.epochs))
        }),
        number("best held-out", "best_heldout_accuracy", |row| Cell::percent(row.tuned.evidence.best_heldout_accuracy)),
        number("test", "best_test_accuracy", |row| Cell::percent(row.tuned.evidence.best_test_accuracy)),
    ];
    let caption = match split {
        Split::Test => {
            "Points are chosen by the median best held-out accuracy, then by the time to the target; test accuracies \
            are from examples that nothing was chosen by."
        }
        Split::HeldOut => {
            "Points are chosen by the median best held-out accuracy, then by the time to the target. The held-out \
            accuracies shown have also chosen the points, so they are a little too high; this run has no test examples."
        }
    };
    Some(Table::new("best-of-grid", "Each mechanism at its best point", caption, &columns, &rows))
}

/// A mechanism at a point of the grid.
struct AtPoint<'a> {
    at: &'a PointEvidence,
    evidence: &'a MechanismEvidence,
    unit: Unit,
}

fn at_points(evidence: &Evidence) -> impl Iterator<Item = AtPoint<'_>> {
    let (points, unit) = (evidence.points.iter(), evidence.unit());
    points.flat_map(move |at| at.mechanisms.iter().map(move |evidence| AtPoint { at, evidence, unit }))
}

/// A heading that several columns share.
const HELD_OUT: &str = "held-out accuracy";

/// The heading of times to the target.
fn to_target(unit: Unit) -> &'static str {
    match unit {
        Unit::Epochs => "epochs to the target",
        Unit::Steps(_) => "steps to the target",
    }
}

fn mechanisms(evidence: &Evidence) -> Table {
    let to_target = to_target(evidence.unit());
    let columns = [
        text("mechanism", "mechanism", |row: &AtPoint| Cell::text(&row.evidence.mechanism)),
        number("seeds", "seeds", |row| Cell::text(row.evidence.seeds)),
        number("reached", "reached", |row| Cell::text(row.evidence.reached)),
        under(to_target, number("median", "median_epochs_to_target", |row| median_time(row.evidence, row.unit))),
        under(
            to_target,
            number("restricted mean", "restricted_mean_epochs", |row| {
                time(row.evidence.restricted_mean_epochs.map(|mean| mean.mean), row.unit, 1)
            }),
        ),
        under(
            HELD_OUT,
            number("best", "best_heldout_accuracy", |row| Cell::percent(row.evidence.best_heldout_accuracy)),
        ),
        under(
            HELD_OUT,
            number("last", "last_heldout_accuracy", |row| Cell::percent(row.evidence.last_heldout_accuracy)),
        ),
        under(
            HELD_OUT,
            number("mean", "mean_heldout_accuracy", |row| Cell::percent(row.evidence.mean_heldout_accuracy)),
        ),
        number("gap", "generalisation_gap", |row| Cell::percent(row.evidence.generalisation_gap)),
        unless_zero(number("diverged", "diverged", |row| Cell::text(row.evidence.diverged))),
        unless_zero(number("unfinished", "unfinished", |row| Cell::text(row.evidence.unfinished))),
    ];
    let caption = format!(
        "Medians over seeds. The target is {}; a trial that has not reached it counts as later than any other. \
         Restricted mean: mean time to the target, with every trial counted only up to the horizon ({}). Mean held-out accuracy: \
         area under the curve of the held-out accuracy. Gap: training accuracy minus held-out accuracy after the last \
         epoch.",
        target_words(evidence.goal),
        horizons(evidence)
    );
    let rows: Vec<AtPoint> = at_points(evidence).collect();
    Table::new("mechanisms", "Mechanisms", caption, &columns, &rows)
        .with_points(evidence, rows.iter().map(|row| &row.at.point[..]))
}

/// A number of epochs. The page shows it in the unit, data files keep the epochs.
fn time(epochs: Option<f64>, unit: Unit, decimals: usize) -> Cell {
    Cell::number(epochs, |epochs| match unit {
        Unit::Epochs => format!("{epochs:.decimals$}"),
        Unit::Steps(_) => format!("{:.0}", unit.count(epochs)),
    })
}

fn median_time(evidence: &MechanismEvidence, unit: Unit) -> Cell {
    match evidence.median_epochs_to_target {
        None if evidence.seeds > 0 => {
            Cell { shown: format!("> {}", unit.count(evidence.epochs as f64)), exact: String::new() }
        }
        median => time(median, unit, usize::from(median.is_some_and(|median| median.fract() != 0.0))),
    }
}

fn horizons(evidence: &Evidence) -> String {
    let unit = evidence.unit();
    let mut horizons: Vec<f64> = evidence.points.iter().map(|point| unit.count(point.horizon)).collect();
    horizons.sort_by(f64::total_cmp);
    match (horizons.first(), horizons.last()) {
        (Some(min), Some(max)) if min == max => format!("{min} {}", unit.name()),
        (Some(min), Some(max)) => format!("{min} to {max} {}, depending on the point", unit.name()),
        _ => "none yet".to_owned(),
    }
}

fn against_baseline(evidence: &Evidence) -> Table {
    const IN_POINTS: &str = "held-out accuracy, points";
    const TEST_OF_POINTS: &str = "test of held-out accuracy";
    use semfocus_analysis::evidence::Comparison;
    use semfocus_analysis::evidence::accuracy::AccuracyDifference;
    struct Row<'a> {
        at: AtPoint<'a>,
        comparison: &'a Comparison,
        /// Of the speed-up in epochs or steps.
        interval: Option<Interval>,
        accuracy: Option<&'a AccuracyDifference>,
        accuracy_interval: Option<Interval>,
    }
    let (in_time, saved) = match evidence.unit() {
        Unit::Epochs => ("speed-up in epochs", "epochs saved"),
        Unit::Steps(_) => ("speed-up in steps", "steps saved"),
    };
    let columns = [
        text("mechanism", "mechanism", |row: &Row| Cell::text(&row.at.evidence.mechanism)),
        number("pairs", "pairs", |row| Cell::text(row.comparison.pairs)),
        under(in_time, number("median", "speedup_epochs", |row| Cell::speedup(row.comparison.epochs))),
        under(
            in_time,
            number("low", "speedup_epochs_low", |row| Cell::decimals(row.interval.map(|interval| interval.low), 1)),
        ),
        under(
            in_time,
            number("high", "speedup_epochs_high", |row| Cell::decimals(row.interval.map(|interval| interval.high), 1)),
        ),
        under("speed-up in", number("FLOPs", "speedup_flops", |row| Cell::speedup(row.comparison.flops))),
        under("speed-up in", number("seconds", "speedup_seconds", |row| Cell::speedup(row.comparison.seconds))),
        number(saved, "epochs_saved", |row| time(row.comparison.epochs_saved, row.at.unit, 1)),
        under("log-rank test", number("p", "log_rank_p", |row| Cell::number(row.comparison.log_rank.p_value, p_text))),
        under(
            "log-rank test",
            number("p, Holm", "log_rank_p_holm", |row| Cell::number(row.comparison.log_rank_adjusted, p_text)),
        ),
        under(
            IN_POINTS,
            number("difference", "heldout_difference", |row| {
                Cell::points(row.accuracy.map(|accuracy| accuracy.differences.mean))
            }),
        ),
        under(
            IN_POINTS,
            number("low", "heldout_difference_low", |row| {
                Cell::points(row.accuracy_interval.map(|interval| interval.low))
            }),
        ),
        under(
            IN_POINTS,
            number("high", "heldout_difference_high", |row| {
                Cell::points(row.accuracy_interval.map(|interval| interval.high))
            }),
        ),
        under(
            TEST_OF_POINTS,
            number("p", "heldout_p", |row| Cell::number(row.accuracy.map(|accuracy| accuracy.p_value), p_text)),
        ),
        under(
            TEST_OF_POINTS,
            number("p, Holm", "heldout_p_holm", |row| {
                Cell::number(row.accuracy.map(|accuracy| accuracy.adjusted), p_text)
            }),
        ),
    ];
    let row = |at| {
        let AtPoint { at: point, evidence, .. } = &at;
        let comparison = point.versus_baseline(&evidence.mechanism)?;
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
    let caption = "Paired by seed. Speed-up: median over seeds; > and < mark bounds \
        where one of the two has not reached the target. Low and high: the interval of the log-rank test, if all \
        trials reached the target. Saved: restricted mean of full attention minus that of the mechanism. \
        Log-rank test: permutation test of the time to the target, before and after Holm's correction. Held-out accuracy: \
        mean paired difference in the best one, in percentage points (test accuracy, if there are test examples), with its \
        interval, the p-value that belongs to it, and the same after Holm's correction.";
    Table::new("against-baseline", "Against full attention", caption, &columns, &rows)
        .with_points(evidence, rows.iter().map(|row| &row.at.at.point[..]))
}

fn robustness_table(evidence: &Evidence) -> Table {
    let columns = [
        text("mechanism", "mechanism", |row: &Robustness| Cell::text(&row.mechanism)),
        number("points", "points", |row| Cell::text(row.points)),
        number("faster", "faster", |row| Cell::text(row.faster)),
        number("slower", "slower", |row| Cell::text(row.slower)),
        under(
            "smallest speed-up",
            number("value", "least_speedup", |row| Cell::ratio(row.min.as_ref().map(|(ratio, _)| *ratio))),
        ),
        under(
            "smallest speed-up",
            text("at", "least_at", |row| Cell::text(row.min.as_ref().map_or("–", |(_, point)| point))),
        ),
        under(
            "largest speed-up",
            number("value", "greatest_speedup", |row| Cell::ratio(row.max.as_ref().map(|(ratio, _)| *ratio))),
        ),
        under(
            "largest speed-up",
            text("at", "greatest_at", |row| Cell::text(row.max.as_ref().map_or("–", |(_, point)| point))),
        ),
    ];
    let caption = "Points of the grid at which a mechanism learns faster or slower than full attention, including those where \
        all seeds agree but are too few for a significance test; the smallest and the largest speed-up, and where \
        they occur.";
    Table::new("robustness", "How the speed-up varies over the grid", caption, &columns, evidence.robustness())
}

fn trials(evidence: &Evidence) -> Table {
    struct Row<'a> {
        observed: &'a Observed,
        /// When the goal was reached.
        reached: Option<TimeToTarget>,
        unit: Unit,
    }
    let unit = evidence.unit();
    let columns = [
        text("mechanism", "mechanism", |row: &Row| Cell::text(&row.observed.trial.entry.mechanism)),
        number("seed", "seed", |row| Cell::seed(row.observed.trial.entry.seed)),
        text("state", "state", |row| Cell::text(row.observed.trial.state.name())),
        number("epochs", "epochs", |row| {
            let (epochs, planned) = (row.observed.trial.curve.len(), row.observed.trial.entry.epochs);
            Cell { shown: format!("{epochs} of {planned}"), exact: epochs.to_string() }
        }),
        under(
            "to the target",
            number(unit.name(), "epochs_to_target", |row| time(row.reached.map(|reached| reached.time), row.unit, 0)),
        ),
        under(
            "to the target",
            number("FLOPs", "flops_to_target", |row| {
                let flops = row.reached.and(row.observed.measures.as_ref()).and_then(|measures| measures.flops);
                Cell::number(flops, |x| format!("{x:.2e}"))
            }),
        ),
        under(
            "to the target",
            number("seconds", "seconds_to_target", |row| {
                let seconds = row.reached.and(row.observed.measures.as_ref()).and_then(|measures| measures.seconds);
                Cell::decimals(seconds, 1)
            }),
        ),
        under(
            HELD_OUT,
            number("best", "best_heldout_accuracy", |row| {
                Cell::percent(row.observed.measures.as_ref().map(|measures| measures.best_heldout_accuracy))
            }),
        ),
        under(
            HELD_OUT,
            number("in epoch", "best_epoch", |row| {
                Cell::decimals(row.observed.measures.as_ref().map(|measures| measures.best_epoch as f64), 0)
            }),
        ),
        under(
            HELD_OUT,
            number("last", "last_heldout_accuracy", |row| {
                Cell::percent(row.observed.measures.as_ref().map(|measures| measures.last_heldout_accuracy))
            }),
        ),
        text("folder", "trial", |row| Cell::text(row.observed.trial.entry.id)),
    ];
    let rows: Vec<Row> = evidence
        .trials()
        .map(|observed| {
            let time = observed.measures.as_ref().map(|measures| measures.time_to_target);
            Row { observed, reached: time.filter(|time| time.reached), unit }
        })
        .collect();
    let caption = "Every trial, with the epochs or steps, training operations and seconds it needed to reach the target. The last column \
        is its folder below trials/, which has every epoch in epochs.csv and the settings in trial.toml.";
    let reached = rows.iter().filter(|row| row.reached.is_some()).count();
    let conclusion = format!("{reached} of {} trials reached the target.", rows.len());
    Table::new("trials", "Trials", caption, &columns, &rows)
        .folded(conclusion)
        .with_points(evidence, rows.iter().map(|row| &row.observed.trial.entry.point[..]))
}
