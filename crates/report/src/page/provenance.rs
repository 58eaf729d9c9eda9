//! When and how long a run was computed, in a line.

use std::time::Duration;

use maud::{Markup, html};
use semfocus_analysis::evidence::Evidence;
use semfocus_store::{Session, TrialData};

/// A stretch of time in which a trial was trained, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    start: f64,
    end: f64,
}

/// Empty before the first epoch.
pub(super) fn line(evidence: &Evidence) -> Markup {
    let trials: Vec<&TrialData> =
        evidence.trials().map(|observed| &observed.trial).filter(|trial| !trial.curve.is_empty()).collect();
    let stretches: Vec<Stretch> = trials.iter().flat_map(|trial| stretches(trial)).collect();
    if trials.is_empty() {
        return html! {};
    }
    let last = trials.iter().filter_map(|trial| Some(&trial.environment.as_ref()?.last)).next_back();
    let epochs: usize = trials.iter().map(|trial| trial.curve.len()).sum();
    let seconds: f64 = trials.iter().flat_map(|trial| &trial.curve).filter_map(|point| point.seconds).sum();
    let day = |session: &Session| session.started.get(..10).unwrap_or(&session.started).to_owned();
    let days = || trials.iter().filter_map(|trial| Some(day(&trial.environment.as_ref()?.last)));
    // A trial has its share of the threads while it trains next to others.
    let cores = last.map_or(1.0, |last| (last.threads as f64 / last.jobs.max(1) as f64).max(1.0));
    html! {
        p class="faint provenance" {
            @if let (Some(first), Some(last)) = (days().min(), days().max()) {
                (first) @if last != first { " to " (last) } " · "
            }
            (trials.len()) @if trials.len() == 1 { " trial, " } @else { " trials, " } (epochs) " epochs in all · "
            @if let Some(wall) = covered(stretches) { "wall time " (duration(wall)) " · " }
            "core time " (duration(cores * seconds))
        }
    }
}

/// When a trial was trained: from the start of each session, which it may share with others, to the last update of its status or,
/// in earlier sessions, for as long as its epochs took.
fn stretches(trial: &TrialData) -> Vec<Stretch> {
    let Some(environment) = &trial.environment else { return Vec::new() };
    let sessions: Vec<&Session> = environment.earlier.iter().chain([&environment.last]).collect();
    let updated = trial.updated.as_deref().and_then(seconds_since_1970);
    let stretch = |(index, session): (usize, &&Session)| {
        let start = seconds_since_1970(&session.started)?;
        let next = sessions.get(index + 1).map(|next| next.from_epoch);
        let epochs = session.from_epoch + 1..=next.unwrap_or(usize::MAX);
        let own = trial.curve.iter().filter(|point| epochs.contains(&point.epoch));
        let trained = start + own.filter_map(|point| point.seconds).sum::<f64>();
        Some(Stretch { start, end: updated.filter(|end| next.is_none() && *end > trained).unwrap_or(trained) })
    };
    sessions.iter().enumerate().filter_map(stretch).collect()
}

/// The time that is covered by at least one stretch.
fn covered(mut stretches: Vec<Stretch>) -> Option<f64> {
    stretches.sort_by(|a, b| a.start.total_cmp(&b.start));
    let mut total = 0.0;
    let mut reached = f64::NEG_INFINITY;
    for Stretch { start, end } in &stretches {
        total += (end - start.max(reached)).max(0.0);
        reached = reached.max(*end);
    }
    (!stretches.is_empty()).then_some(total)
}

/// Of a time like `2026-11-17T02:03:55Z`, with or without fractions of a second.
fn seconds_since_1970(time: &str) -> Option<f64> {
    let time: jiff::Timestamp = time.parse().ok()?;
    Some(time.as_millisecond() as f64 / 1000.0)
}

/// `45 s`, `3 min 20 s`, `5 h 12 min`, `2 d 3 h`.
fn duration(seconds: f64) -> String {
    let seconds = Duration::from_secs_f64(seconds.max(0.0)).as_secs_f64().round() as u64;
    match seconds {
        0 => "under 1 s".to_owned(),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_side_by_side_are_counted_once() {
        let stretch = |start, end| Stretch { start, end };
        assert_eq!(covered(vec![stretch(10.0, 20.0), stretch(0.0, 12.0), stretch(50.0, 51.0)]), Some(21.0));
        assert_eq!(covered(vec![stretch(0.0, 30.0), stretch(10.0, 20.0)]), Some(30.0));
        assert_eq!(covered(Vec::new()), None);
    }

    #[test]
    fn times_are_read_and_durations_written() {
        assert_eq!(seconds_since_1970("1970-01-02T00:00:01Z"), Some(86_401.0));
        assert_eq!(seconds_since_1970("yesterday"), None);
        assert_eq!(
            [0.2, 59.0, 200.0, 18_720.0, 183_600.0].map(duration),
            ["under 1 s", "59 s", "3 min 20 s", "5 h 12 min", "2 d 3 h"]
        );
    }
}
