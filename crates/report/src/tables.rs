//! The tables of a run.

use semfocus_analysis::evidence::accuracy::{AccuracyDifference, Split};
use semfocus_analysis::evidence::robustness::{Robustness, point_name};
use semfocus_analysis::evidence::tuned::{BestOfGrid, Tuned};
use semfocus_analysis::evidence::verdict::p_text;
use semfocus_analysis::evidence::{Comparison, Evidence, Measures, MechanismEvidence, Observed, PointEvidence, Unit};

use crate::pictures::target_words;
use crate::table::{MISSING, Table, bound, decimals, percent, points, speedup, with_interval};

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
    let BestOfGrid { mechanisms, split } = evidence.best_of_grid()?;
    let unit = evidence.unit();
    let caption = match split {
        Split::Test => {
            "Points are chosen by the median best held-out accuracy, then by the time to the target; test accuracies \
            are from examples that were not used to choose anything."
        }
        Split::HeldOut => {
            "Points are chosen by the median best held-out accuracy, then by the time to the target. The held-out \
            accuracies shown were also used to choose the points, so they are a little too high; this run has no test examples."
        }
    };
    let table = Table::from_rows("best-of-grid", "Each mechanism at its best point", caption, mechanisms)
        .text("mechanism", "mechanism", |of: &Tuned| of.evidence.mechanism.clone())
        .text("best point", "best_point", |of| point_name(&of.point))
        .count("reached", "reached", |of| of.evidence.reached)
        .shown(&to_target(unit), "median_epochs_to_target", |of| median_time(&of.evidence, unit))
        .shown("speed-up", "speedup_epochs", |of| speedup(of.versus_baseline.as_ref().and_then(|found| found.epochs)))
        .number("best held-out", "best_heldout_accuracy", |of| of.evidence.best_heldout_accuracy, percent)
        .number("test", "best_test_accuracy", |of| of.evidence.best_test_accuracy, percent);
    Some(table.done())
}

/// A mechanism at a point of the grid.
struct AtPoint<'a> {
    at: &'a PointEvidence,
    evidence: &'a MechanismEvidence,
}

fn at_points(evidence: &Evidence) -> impl Iterator<Item = AtPoint<'_>> {
    evidence.points.iter().flat_map(|at| at.mechanisms.iter().map(move |evidence| AtPoint { at, evidence }))
}

/// A heading that several columns share.
const HELD_OUT: &str = "held-out accuracy";

/// The heading of times to the target.
fn to_target(unit: Unit) -> String {
    format!("{} to the target", unit.name())
}

fn mechanisms(evidence: &Evidence) -> Table {
    let unit = evidence.unit();
    let caption = format!(
        "Medians over seeds. The target is {}; a trial that has not reached it counts as later than any other. Mean held-out \
         accuracy: over all epochs, the area under the curve. Gap: training accuracy minus held-out accuracy after the last \
         epoch, in percentage points. The CSV file also has the mean time to the target, with every trial counted only up to \
         the horizon ({}).",
        target_words(evidence.goal),
        horizons(evidence)
    );
    let rows: Vec<AtPoint> = at_points(evidence).collect();
    Table::from_rows("mechanisms", "Mechanisms", caption, &rows)
        .text("mechanism", "mechanism", |row| row.evidence.mechanism.clone())
        .count("seeds", "seeds", |row| row.evidence.seeds)
        .count("reached", "reached", |row| row.evidence.reached)
        .shown(&to_target(unit), "median_epochs_to_target", |row| median_time(row.evidence, unit))
        .data("restricted_mean_epochs", |row| row.evidence.restricted_mean_epochs.map(|mean| mean.mean))
        .under(HELD_OUT)
        .number("best", "best_heldout_accuracy", |row| row.evidence.best_heldout_accuracy, percent)
        .number("last", "last_heldout_accuracy", |row| row.evidence.last_heldout_accuracy, percent)
        .number("mean of epochs", "mean_heldout_accuracy", |row| row.evidence.mean_heldout_accuracy, percent)
        .under("")
        .number("gap in points", "generalisation_gap", |row| row.evidence.generalisation_gap, points)
        .count("diverged", "diverged", |row| row.evidence.diverged)
        .unless_zero()
        .count("unfinished", "unfinished", |row| row.evidence.unfinished)
        .unless_zero()
        .at_points(evidence, |row| &row.at.point)
}

/// How a number of epochs is shown, in the unit of the run. Data files keep the epochs.
fn time(unit: Unit, decimals: usize) -> impl Fn(f64) -> String {
    move |epochs| match unit {
        Unit::Epochs => format!("{epochs:.decimals$}"),
        Unit::Steps(_) => format!("{:.0}", unit.count(epochs)),
    }
}

fn median_time(evidence: &MechanismEvidence, unit: Unit) -> (String, Option<f64>) {
    match evidence.median_epochs_to_target {
        Some(median) => (time(unit, usize::from(median.fract() != 0.0))(median), Some(median)),
        None if evidence.seeds > 0 => (format!("> {}", unit.count(evidence.epochs as f64)), None),
        None => (MISSING.to_owned(), None),
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
    struct Row<'a> {
        at: AtPoint<'a>,
        comparison: &'a Comparison,
    }
    impl<'a> Row<'a> {
        fn accuracy(&self) -> Option<&'a AccuracyDifference> {
            self.comparison.accuracy.as_ref()
        }
    }
    let row = |at| {
        let AtPoint { at: point, evidence, .. } = &at;
        Some(Row { comparison: point.versus_baseline(&evidence.mechanism)?, at })
    };
    let rows: Vec<Row> = at_points(evidence).filter_map(row).collect();
    let caption = "Paired by seed. Speed-up: median over seeds, with the interval of the log-rank test if all trials reached the \
        target; > and < mark bounds where one of the two has not. p: permutation log-rank test of the time to the target, after \
        Holm's correction. Held-out accuracy: mean paired difference in the best one, in percentage points (test accuracy, if \
        there are test examples), with its interval and its p-value after Holm's correction; without one where there are \
        too few seeds. The CSV file also has the speed-ups in FLOPs and seconds, the epochs saved, and p-values before the \
        correction.";
    Table::from_rows("against-baseline", "Against full attention", caption, &rows)
        .text("mechanism", "mechanism", |row| row.at.evidence.mechanism.clone())
        .count("pairs", "pairs", |row| row.comparison.pairs)
        .under(if evidence.unit() == Unit::Epochs { "epochs to the target" } else { "steps to the target" })
        .shown("speed-up", "speedup_epochs", |row| speedup(row.comparison.epochs))
        .data("speedup_epochs_low", |row| row.comparison.epochs?.interval.map(|interval| interval.low))
        .data("speedup_epochs_high", |row| row.comparison.epochs?.interval.map(|interval| interval.high))
        .data("speedup_flops", |row| row.comparison.flops.map(|speedup| speedup.ratio.value()))
        .data("speedup_seconds", |row| row.comparison.seconds.map(|speedup| speedup.ratio.value()))
        .data("epochs_saved", |row| row.comparison.epochs_saved)
        .data("log_rank_p", |row| row.comparison.log_rank.p_value)
        .number("p", "log_rank_p_holm", |row| row.comparison.log_rank_adjusted, p_text)
        .under(HELD_OUT)
        .shown("difference in points", "heldout_difference", |row| {
            let mean = row.accuracy().map(|accuracy| accuracy.differences.mean);
            let shown = mean.map_or(MISSING.to_owned(), points).replace('-', "−");
            (with_interval(shown, row.accuracy().and_then(|accuracy| accuracy.interval), points), mean)
        })
        .data("heldout_difference_low", |row| row.accuracy()?.interval.map(|interval| interval.low))
        .data("heldout_difference_high", |row| row.accuracy()?.interval.map(|interval| interval.high))
        .data("heldout_p", |row| row.accuracy().map(|accuracy| accuracy.p_value))
        .shown("p", "heldout_p_holm", |row| {
            // Without an interval there is no test either.
            let tested = row.accuracy().filter(|accuracy| accuracy.interval.is_some());
            let shown = tested.map_or(MISSING.to_owned(), |accuracy| p_text(accuracy.adjusted));
            (shown, row.accuracy().map(|accuracy| accuracy.adjusted))
        })
        .at_points(evidence, |row| &row.at.at.point)
}

fn robustness_table(evidence: &Evidence) -> Table {
    let caption = "Points of the grid at which a mechanism learns faster or slower than full attention, including those where \
        all seeds agree but are too few for a significance test; the smallest and the largest speed-up, and where \
        they occur.";
    Table::from_rows("robustness", "How the speed-up varies over the grid", caption, evidence.robustness())
        .text("mechanism", "mechanism", |row: &Robustness| row.mechanism.clone())
        .count("points", "points", |row| row.points)
        .count("faster", "faster", |row| row.faster)
        .count("slower", "slower", |row| row.slower)
        .under("smallest speed-up")
        .shown("value", "min_speedup", |row| bound(row.min.as_ref().map(|(ratio, _)| *ratio)))
        .text("at", "min_at", |row| row.min.as_ref().map_or(MISSING.to_owned(), |(_, point)| point.clone()))
        .under("largest speed-up")
        .shown("value", "max_speedup", |row| bound(row.max.as_ref().map(|(ratio, _)| *ratio)))
        .text("at", "max_at", |row| row.max.as_ref().map_or(MISSING.to_owned(), |(_, point)| point.clone()))
        .done()
}

fn trials(evidence: &Evidence) -> Table {
    struct Row<'a> {
        observed: &'a Observed,
        /// When the target was reached.
        reached: Option<f64>,
    }
    impl<'a> Row<'a> {
        fn measures(&self) -> Option<&'a Measures> {
            self.observed.measures.as_ref()
        }
    }
    let unit = evidence.unit();
    impl<'a> From<&'a Observed> for Row<'a> {
        fn from(observed: &'a Observed) -> Self {
            let time = observed.measures.as_ref().map(|measures| measures.time_to_target);
            Row { observed, reached: time.filter(|time| time.reached).map(|time| time.time) }
        }
    }
    let rows: Vec<Row> = evidence.trials().map(Row::from).collect();
    let caption = "Every trial, with the epochs or steps it needed to reach the target; the CSV file also has the training \
        operations and seconds. The last column is its folder below trials/, which has every epoch in epochs.csv and the \
        settings in trial.toml.";
    let reached = rows.iter().filter(|row| row.reached.is_some()).count();
    let conclusion = format!("{reached} of {} trials reached the target.", rows.len());
    Table::from_rows("trials", "Trials", caption, &rows)
        .text("mechanism", "mechanism", |row| row.observed.trial.entry.mechanism.clone())
        .seed(|row| row.observed.trial.entry.seed)
        .text("state", "state", |row| row.observed.trial.state.name())
        .counted("epochs", "epochs", |row| {
            let (epochs, planned) = (row.observed.trial.curve.len(), row.observed.trial.entry.epochs);
            (format!("{epochs} of {planned}"), Some(epochs as u64))
        })
        .number(&to_target(unit), "epochs_to_target", |row| row.reached, time(unit, 0))
        .data("flops_to_target", |row| row.reached.and(row.measures()?.flops))
        .data("seconds_to_target", |row| row.reached.and(row.measures()?.seconds))
        .under(HELD_OUT)
        .number("best", "best_heldout_accuracy", |row| row.measures().map(|found| found.best_heldout_accuracy), percent)
        .number("in epoch", "best_epoch", |row| row.measures().map(|found| found.best_epoch as f64), decimals(0))
        .number("last", "last_heldout_accuracy", |row| row.measures().map(|found| found.last_heldout_accuracy), percent)
        .under("")
        .text("folder", "trial", |row| row.observed.trial.entry.id)
        .at_points(evidence, |row| &row.observed.trial.entry.point)
        .folded(conclusion)
}
