//! What a run shows, in one sentence.

use super::robustness::Robustness;
use super::speedup::Ratio;
use super::verdict::{Learning, fewer, more, p_equation};
use super::{BASELINE, Comparison, Evidence, MechanismEvidence, PointEvidence};

/// Mechanisms that are named one by one.
const NAMED: usize = 3;

impl Evidence {
    /// What the run shows in one sentence; none if nothing can be compared yet.
    pub fn headline(&self) -> Option<String> {
        if let Some(nothing) = self.nothing_learned() {
            return Some(nothing.replacen('n', "N", 1));
        }
        let sentence = match &self.points[..] {
            [point] => self.of_point(point)?,
            _ => self.of_grid()?,
        };
        Some(sentence + ".")
    }

    fn baseline_name(&self) -> String {
        if self.baseline == BASELINE { "full attention".to_owned() } else { self.baseline.clone() }
    }

    fn of_point(&self, point: &PointEvidence) -> Option<String> {
        type Compared<'a> = (&'a MechanismEvidence, &'a Comparison);
        let compared: Vec<Compared> = point.compared().filter_map(|(of, found)| Some((of, found?))).collect();
        let (unit, baseline) = (self.unit(), self.baseline_name());
        // What a test has shown or, if it has shown nothing, what all seeds agree on.
        let with = |tested: Learning, agreed: Learning| -> (Vec<Compared>, &str) {
            let of = |wanted: Learning| compared.iter().copied().filter(move |(_, of)| of.learning.finding == wanted);
            match of(tested).collect::<Vec<_>>() {
                none if none.is_empty() => (of(agreed).collect(), " with every seed (too few for a test)"),
                shown => (shown, ""),
            }
        };
        let (faster, faster_how) = with(Learning::Faster, Learning::FasterInAll);
        let (slower, slower_how) = with(Learning::Slower, Learning::SlowerInAll);
        let (never, slower): (Vec<Compared>, Vec<Compared>) = slower.into_iter().partition(|(of, _)| of.reached == 0);
        let size = |found: &Comparison| {
            let interval = found.epochs.and_then(|speedup| speedup.interval);
            let interval = interval.map_or(String::new(), |i| format!("{:.1} to {:.1}, ", i.low, i.high));
            let test = match found.learning.finding {
                Learning::Faster | Learning::Slower => p_equation(found.log_rank_adjusted),
                _ => "too few seeds for a test".to_owned(),
            };
            let seeds = if found.pairs == 1 { "1 seed".to_owned() } else { format!("{} seeds", found.pairs) };
            format!("({interval}{test}, {seeds})")
        };
        let mut parts = Vec::new();
        let ratio = |found: &Comparison| found.epochs.map(|speedup| speedup.ratio);
        let size_of = |&(_, found): &Compared| ratio(found).map_or(0.0, Ratio::value);
        let best = faster.iter().copied().max_by(|one, other| size_of(one).total_cmp(&size_of(other)));
        match (&faster[..], best) {
            ([], _) | (_, None) => {}
            (few, _) if few.len() <= NAMED => {
                for (index, &(of, found)) in few.iter().enumerate() {
                    let than = if index == 0 { format!(" than {baseline}") } else { String::new() };
                    let fewer = fewer(ratio(found), unit);
                    parts.push(format!("{} learns in {fewer}{than} {}", of.mechanism, size(found)));
                }
            }
            (many, Some((of, found))) => parts.push(format!(
                "{} of {} mechanisms learn in fewer {} than {baseline}{faster_how}, {} with the largest difference: {}",
                many.len(),
                compared.len(),
                unit.name(),
                of.mechanism,
                fewer(ratio(found), unit)
            )),
        }
        let names = |list: &[Compared]| match list.len() {
            0..=NAMED => {
                let names: Vec<&str> = list.iter().map(|(of, _)| of.mechanism.as_str()).collect();
                let (last, others) = names.split_last().expect("only asked of some");
                if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) }
            }
            count => format!("{count} mechanisms"),
        };
        match &slower[..] {
            [] => {}
            &[(of, found)] => {
                parts.push(format!("{} needs {} {}", of.mechanism, more(ratio(found), unit), size(found)))
            }
            many => parts.push(format!("{} need more {}{slower_how}", names(many), unit.name())),
        }
        match never.len() {
            0 => {}
            1 => parts.push(format!("{} never reaches the target", names(&never))),
            _ => parts.push(format!("{} never reach the target", names(&never))),
        }
        if parts.is_empty() && !compared.is_empty() {
            let seeds = compared.iter().map(|(_, found)| found.pairs).max().unwrap_or(0);
            parts.push(format!("No difference in speed from {baseline} is shown with {seeds} seeds"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn of_grid(&self) -> Option<String> {
        let of = |of: &Robustness| {
            let Robustness { mechanism, points, faster, slower, .. } = of;
            format!(
                "{mechanism} is faster than {} at {faster} of {points} points and slower at {slower}",
                self.baseline_name()
            )
        };
        let list: Vec<String> = self.robustness().iter().take(NAMED).map(of).collect();
        (!list.is_empty()).then(|| list.join("; "))
    }
}
