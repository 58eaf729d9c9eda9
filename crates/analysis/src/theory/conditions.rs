//! When top-k attention has a better guarantee than full attention: the study's conditions, in the attention parameters (W)
//! and in the block input (X).

use serde::Serialize;

/// What the conditions depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Dispersion δ_s of all scores under full attention.
    pub full_dispersion: f64,
    /// Dispersion δ_h of the kept scores under top-k attention.
    pub dispersion: f64,
    /// Separation Δ: the lowest kept score minus the highest dropped one.
    pub separation: f64,
    /// Sink β: how many queries keep the most popular key, divided by k.
    pub sink: f64,
}

/// The left-hand sides of both conditions. A condition holds if its left-hand side is below 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Conditions {
    /// δ_h/δ_s + ln(2(1 + 1/Δ))/δ_s.
    pub w_lhs: f64,
    /// δ_h/δ_s + [ln(δ_s(1 + β)(1 + 1/Δ) + β) − ln(δ_s + 1)]/δ_s.
    pub x_lhs: f64,
    /// Whether (W) holds.
    pub w_holds: bool,
    /// Whether (X) holds.
    pub x_holds: bool,
}

/// A statistic out of its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the {name} must be {rule}, got {value}")]
pub struct InvalidStatistic {
    name: &'static str,
    rule: &'static str,
    value: f64,
}

impl Conditions {
    /// Evaluates both conditions.
    ///
    /// # Errors
    /// If the full dispersion or the separation is not above 0, the dispersion or the sink is below 0, or one of them is not
    /// finite.
    pub fn new(statistics: &Statistics) -> Result<Self, InvalidStatistic> {
        let Statistics { full_dispersion, dispersion, separation, sink } = *statistics;
        for (name, value, may_be_zero) in [
            ("full dispersion", full_dispersion, false),
            ("dispersion", dispersion, true),
            ("separation", separation, false),
            ("sink", sink, true),
        ] {
            if !value.is_finite() || value < 0.0 || (value == 0.0 && !may_be_zero) {
                let rule = if may_be_zero { "a number of at least 0" } else { "a number above 0" };
                return Err(InvalidStatistic { name, rule, value });
            }
        }
        let share = dispersion / full_dispersion;
        let crossing = 1.0 + 1.0 / separation;
        let w_lhs = share + (2.0 * crossing).ln() / full_dispersion;
        let grown = full_dispersion * (1.0 + sink) * crossing + sink;
        let x_lhs = share + (grown.ln() - (full_dispersion + 1.0).ln()) / full_dispersion;
        Ok(Conditions { w_lhs, x_lhs, w_holds: w_lhs < 1.0, x_holds: x_lhs < 1.0 })
    }
}

/// The full dispersions of the study's region plots.
pub const FULL_DISPERSIONS: [f64; 11] = [0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 8.0, 16.0, 32.0];

/// The sinks of the study's region plot for (X).
pub const SINKS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// The separation, as a share of the full dispersion, above which (W) holds if the dispersion is `share` of the full one.
/// None if no separation suffices.
pub fn min_separation_w(full_dispersion: f64, share: f64) -> Option<f64> {
    let max_crossing = (full_dispersion * (1.0 - share)).exp() / 2.0;
    above(max_crossing, full_dispersion)
}

/// The same for (X) with a sink.
pub fn min_separation_x(full_dispersion: f64, share: f64, sink: f64) -> Option<f64> {
    let slack = (full_dispersion + 1.0) * (full_dispersion * (1.0 - share)).exp() - sink;
    above(slack / (full_dispersion * (1.0 + sink)), full_dispersion)
}

/// The minimum Δ with `1 + 1/Δ < crossing`, as a share of the full dispersion.
fn above(crossing: f64, full_dispersion: f64) -> Option<f64> {
    (crossing > 1.0).then(|| 1.0 / (crossing - 1.0) / full_dispersion)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dispersion of full attention, dispersion of the kept scores, separation and sink at 75, 90 and 95 % (Table 6 of the
    /// study, k = 5), and the left-hand sides computed with a calculator.
    const PUBLISHED: [([f64; 4], f64, f64); 6] = [
        ([8.61, 3.51, 0.016, 1.0 / 5.0], 0.970_3, 0.898_2),
        ([18.5, 6.74, 0.005, 3.0 / 5.0], 0.688_5, 0.673_6),
        ([29.4, 9.67, 0.002, 15.0 / 5.0], 0.563_9, 0.586_4),
        ([8.30, 2.31, 0.062, 8.0 / 5.0], 0.704_1, 0.722_5),
        ([10.1, 3.13, 0.022, 13.0 / 5.0], 0.758_6, 0.807_6),
        ([11.2, 3.78, 0.011, 16.0 / 5.0], 0.803_0, 0.861_7),
    ];

    #[test]
    fn published_statistics_give_the_left_hand_sides() {
        for ([full_dispersion, dispersion, separation, sink], w, x) in PUBLISHED {
            let statistics = Statistics { full_dispersion, dispersion, separation, sink };
            let conditions = Conditions::new(&statistics).unwrap();
            assert!((conditions.w_lhs - w).abs() < 1e-4, "{statistics:?}: {conditions:?}");
            assert!((conditions.x_lhs - x).abs() < 1e-4, "{statistics:?}: {conditions:?}");
            assert!(conditions.w_holds && conditions.x_holds);
        }
    }

    #[test]
    fn regions_end_where_the_condition_becomes_an_equality() {
        for full_dispersion in FULL_DISPERSIONS {
            for share in [0.05, 0.3, 0.6, 0.9] {
                let at = |separation: f64, sink: f64| {
                    let dispersion = share * full_dispersion;
                    let separation = separation * full_dispersion;
                    Conditions::new(&Statistics { full_dispersion, dispersion, separation, sink }).unwrap()
                };
                match min_separation_w(full_dispersion, share) {
                    Some(min) => assert!((at(min, 1.0).w_lhs - 1.0).abs() < 1e-9),
                    None => assert!(at(1e9, 1.0).w_lhs >= 1.0),
                }
                for sink in SINKS {
                    match min_separation_x(full_dispersion, share, sink) {
                        Some(min) => assert!((at(min, sink).x_lhs - 1.0).abs() < 1e-9),
                        None => assert!(at(1e9, sink).x_lhs >= 1.0),
                    }
                }
            }
        }
    }

    #[test]
    fn statistics_out_of_range_are_refused() {
        let good = Statistics { full_dispersion: 8.0, dispersion: 3.0, separation: 0.1, sink: 1.0 };
        let message = |statistics: Statistics| Conditions::new(&statistics).unwrap_err().to_string();
        assert_eq!(
            message(Statistics { full_dispersion: 0.0, ..good }),
            "the full dispersion must be a number above 0, got 0"
        );
        assert_eq!(message(Statistics { sink: -1.0, ..good }), "the sink must be a number of at least 0, got -1");
        assert_eq!(
            message(Statistics { separation: f64::NAN, ..good }),
            "the separation must be a number above 0, got NaN"
        );
        assert!(Conditions::new(&Statistics { dispersion: 0.0, sink: 0.0, ..good }).is_ok());
    }
}
