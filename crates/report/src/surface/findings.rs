//! What surfaces and sharpness say about each mechanism compared with full attention: no ratio without its spread.

use maud::{Markup, html};
use semfocus_analysis::evidence::verdict::LEVEL;
use semfocus_analysis::evidence::{BASELINE, PointEvidence};
use semfocus_analysis::stats::{SignFlips, median};
use semfocus_store::{SharpnessData, SurfaceData};

use super::{Explored, MechanismSteepness, digits};
use crate::page::finding_list;
use crate::pictures::at_point;

/// Places of the 50th and the 95th percentile in [`semfocus_analysis::steepness::PERCENTILES`].
const TYPICAL: usize = 0;
const STEEP: usize = 2;

/// The square within which slopes are compared: the largest of the study.
const RADIUS: f64 = 0.7;

/// Seeds that it takes to show anything: with fewer, even the lowest p-value of the test is above the level.
const NEEDED: usize = 6;

pub(super) fn html(
    shown: &[(&Explored, &SurfaceData)],
    steepness: &[MechanismSteepness],
    explored: &[Explored],
) -> Markup {
    let found: Vec<(String, String)> = compared(steepness, explored).iter().map(Compared::line).collect();
    let found: Vec<(&str, String)> = found.iter().map(|(name, line)| (name.as_str(), line.clone())).collect();
    html! {
        @if !found.is_empty() { (finding_list(&found)) }
        @if !shown.is_empty() {
            p {
                "A plane is a thin slice of a high-dimensional space. A surface shows what the loss looks like around a model, not \
                 how the model got there. Flatness around a trained model also depends on how low its loss is."
            }
        }
        @if found_seeds(steepness) < NEEDED {
            p {
                "Only a few models were measured. " code { (format!("semfocus landscape RUN --seeds {NEEDED}")) }
                ", in a run with that many seeds, would show how much the ratios vary."
            }
        }
    }
}

/// The smallest number of seeds of a mechanism.
fn found_seeds(steepness: &[MechanismSteepness]) -> usize {
    let distinct = |of: &MechanismSteepness| of.seeds.chunk_by(|one, other| one == other).count();
    steepness.iter().map(distinct).min().unwrap_or(NEEDED)
}

/// The sentence about each mechanism, and whether its loss is shown to be steeper (1), flatter (-1) or neither (0).
pub(super) fn sentences(steepness: &[MechanismSteepness], explored: &[Explored]) -> Vec<(String, String, i8)> {
    let sentence = |of: &Compared| {
        let (name, words) = of.line();
        (name, words, shown_direction(&of.steep))
    };
    compared(steepness, explored).iter().map(sentence).collect()
}

/// Ratios of a mechanism to full attention, one for each seed; above 1 means steeper or sharper. Surfaces of one model are not
/// independent, so each seed counts once, with the median over its surfaces.
struct Compared {
    name: String,
    radius: f64,
    /// Pairs of surfaces that the slopes come from.
    surfaces: usize,
    typical: Vec<f64>,
    steep: Vec<f64>,
    sharpness: Vec<f64>,
}

fn compared(steepness: &[MechanismSteepness], explored: &[Explored]) -> Vec<Compared> {
    let mut names: Vec<(&str, &PointEvidence)> = Vec::new();
    let of_surfaces = steepness.iter().map(|of| (of.mechanism.as_str(), of.point));
    let of_sharpness = explored.iter().filter(|one| !one.sharpness.is_empty()).map(|one| (one.mechanism(), one.point));
    for (mechanism, point) in of_surfaces.chain(of_sharpness).filter(|(mechanism, _)| *mechanism != BASELINE) {
        if !names.iter().any(|(name, at)| *name == mechanism && at.point == point.point) {
            names.push((mechanism, point));
        }
    }
    let all = names.into_iter().map(|(mechanism, point)| {
        let of = |name: &str| steepness.iter().find(|of| of.mechanism == name && of.point.point == point.point);
        let (own, full) = (of(mechanism), of(BASELINE));
        let radii = own.map_or(&[][..], MechanismSteepness::radii);
        let radius = radii.iter().rfind(|radius| **radius <= RADIUS * (1.0 + 1e-9)).or(radii.last());
        let radius = radius.copied().unwrap_or(0.0);
        // Surfaces of both are in the same order, by seed and draw.
        let is_paired = own.zip(full).is_some_and(|(own, full)| own.seeds == full.seeds);
        let ratios = |percentile: usize| -> Vec<f64> {
            let (Some(own), Some(full)) = (own, full.filter(|_| is_paired)) else { return Vec::new() };
            let of_seed = |seed: u64| {
                let pairs = own.all.iter().zip(&full.all).zip(&own.seeds).filter(|(_, of)| **of == seed);
                let ratio = pairs.filter_map(|((own, full), _)| {
                    Some(own.within(radius)?[percentile] / full.within(radius)?[percentile])
                });
                let positive = ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0);
                median(&positive.collect::<Vec<_>>())
            };
            own.seeds.chunk_by(|one, other| one == other).filter_map(|seeds| of_seed(seeds[0])).collect()
        };
        Compared {
            name: at_point(mechanism, &point.point),
            radius,
            surfaces: own.filter(|_| is_paired).map_or(0, |own| own.all.len()),
            typical: ratios(TYPICAL),
            steep: ratios(STEEP),
            sharpness: sharpness_ratios(mechanism, point, explored),
        }
    });
    all.filter(|of| !(of.steep.is_empty() && of.sharpness.is_empty())).collect()
}

/// Ratios of the largest eigenvalues, seed by seed.
fn sharpness_ratios(mechanism: &str, point: &PointEvidence, explored: &[Explored]) -> Vec<f64> {
    let here = || explored.iter().filter(|one| one.point.point == point.point);
    let largest = |record: &SharpnessData| record.eigenvalues.first().copied();
    let own = here().filter(|one| one.mechanism() == mechanism);
    let ratio = own.filter_map(|one| {
        let full = here().find(|other| other.mechanism() == BASELINE && other.seed() == one.seed())?;
        Some(largest(one.sharpness.last()?)? / largest(full.sharpness.last()?)?)
    });
    ratio.filter(|ratio| ratio.is_finite()).collect()
}

/// Which way the ratios of seeds are shown to point, by a sign-flip test of their logarithms: 1 up, -1 down, 0 neither.
fn shown_direction(ratios: &[f64]) -> i8 {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    match SignFlips::new(&logarithms, 0) {
        Some(test) if test.p_value() < LEVEL => logarithms.iter().sum::<f64>().signum() as i8,
        _ => 0,
    }
}

/// Which way all ratios point: 1 up, -1 down, 0 both or too few to tell.
fn direction(ratios: &[f64]) -> i8 {
    match () {
        () if ratios.len() < 2 => 0,
        () if ratios.iter().all(|ratio| *ratio > 1.0) => 1,
        () if ratios.iter().all(|ratio| *ratio < 1.0) => -1,
        () => 0,
    }
}

fn range(ratios: &[f64]) -> String {
    let (min, max) = ratios.iter().fold((f64::INFINITY, 0.0f64), |(min, max), &x| (min.min(x), max.max(x)));
    format!("{} to {}", digits(min), digits(max))
}

impl Compared {
    fn line(&self) -> (String, String) {
        let Compared { radius, surfaces, typical, steep, sharpness, .. } = self;
        let mut parts = Vec::new();
        let seeds = steep.len();
        let slopes = |ratios: &[f64]| {
            format!(
                "within ±{radius:.2} its slopes are {} times those of full attention (95th percentile, {seeds} seeds, {surfaces} \
                 surfaces)",
                range(ratios)
            )
        };
        let word = |direction: i8| if direction > 0 { "steeper" } else { "flatter" };
        match (direction(typical), direction(steep), shown_direction(steep)) {
            _ if steep.is_empty() => {}
            _ if seeds == 1 => parts.push(format!(
                "one seed cannot show whether its loss is flatter: within ±{radius:.2} its slopes are {} times (95th percentile) and \
                 {} times (median) those of full attention",
                digits(steep[0]),
                typical.first().map_or_else(|| "–".to_owned(), |ratio| digits(*ratio))
            )),
            (_, 0, 0) => parts.push(format!("not shown to be flatter or steeper: {}", slopes(steep))),
            (_, all, 0) => parts.push(format!(
                "{} with all {seeds} seeds, which are too few for a test ({NEEDED} are needed): {}",
                word(all),
                slopes(steep)
            )),
            (typically, _, tail) => {
                parts.push(format!("its loss is {}: {}", word(tail), slopes(steep)));
                if typically != tail {
                    parts.push(format!(
                        "the median of the slopes does not agree ({} times): the 95th percentile is about the steepest places, the \
                         median about typical ones",
                        range(typical)
                    ));
                }
            }
        }
        match sharpness.len() {
            0 => {}
            1 => parts.push(format!(
                "its largest eigenvalue is {} times that of full attention (one seed, too few to show a trend)",
                digits(sharpness[0])
            )),
            seeds => parts.push(format!(
                "its largest eigenvalue is {} times that of full attention ({seeds} seeds)",
                range(sharpness)
            )),
        }
        let opposite = |one: &[f64], other: &[f64]| {
            let above = |ratios: &[f64]| ratios.iter().filter(|ratio| **ratio > 1.0).count() * 2 > ratios.len();
            !one.is_empty() && !other.is_empty() && above(one) != above(other)
        };
        if opposite(steep, sharpness) {
            parts.push(
                "surface and Hessian disagree: the slopes measure how rough the loss is in random directions away from the model, the \
                 eigenvalue how sharply it curves in the worst direction at the model itself"
                    .to_owned(),
            );
        }
        for part in parts.iter_mut().skip(1) {
            part[..1].make_ascii_uppercase();
        }
        (self.name.clone(), parts.join(". "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(typical: &[f64], steep: &[f64], sharpness: &[f64]) -> String {
        let (typical, steep, sharpness) = (typical.to_vec(), steep.to_vec(), sharpness.to_vec());
        let surfaces = 2 * steep.len();
        Compared { name: String::new(), radius: 0.7, surfaces, typical, steep, sharpness }.line().1
    }

    #[test]
    fn no_ratio_without_its_spread() {
        assert!(line(&[1.3], &[0.9], &[]).starts_with("one seed cannot show whether"));
        let flatter = [0.7, 0.8, 0.75, 0.71, 0.72, 0.73];
        assert_eq!(
            line(&[0.5; 6], &flatter, &[]),
            "its loss is flatter: within ±0.70 its slopes are 0.700 to 0.800 times those of full attention (95th \
             percentile, 6 seeds, 12 surfaces)"
        );
        assert!(
            line(&[0.5; 5], &flatter[..5], &[]).starts_with("flatter with all 5 seeds, which are too few for a test")
        );
        assert!(line(&[0.5, 0.6], &[0.7, 1.2], &[]).starts_with("not shown to be flatter or steeper"));
        assert!(line(&[1.5; 6], &flatter, &[]).contains("The median of the slopes does not agree"));
        assert!(line(&[], &[], &[0.5]).ends_with("too few to show a trend)"));
    }

    #[test]
    fn a_direction_is_shown_by_enough_seeds_only() {
        assert_eq!([3, 5, 6].map(|seeds| shown_direction(&vec![0.8; seeds])), [0, 0, -1]);
        assert!(SignFlips::min_p(NEEDED) < LEVEL && SignFlips::min_p(NEEDED - 1) >= LEVEL);
        assert_eq!(shown_direction(&[1.2, 1.3, 1.1, 1.5, 1.4, 1.2, 0.99]), 1, "one seed may differ a little");
        assert_eq!(shown_direction(&[1.2, 1.3, 0.5, 1.5, 0.6, 1.2, 0.9]), 0);
    }

    #[test]
    fn measures_that_disagree_say_so() {
        assert!(line(&[4.0, 5.0], &[4.0, 5.0], &[0.1]).contains("Surface and Hessian disagree"));
        assert!(!line(&[4.0, 5.0], &[4.0, 5.0], &[2.0]).contains("disagree"));
    }
}
