//! Statistical methods as pure functions. Those that draw random numbers take a seed, so the same call gives the same
//! answer on every machine.
//!
//! | question | method |
//! |---|---|
//! | how soon do trials reach their target, if some never do? | [`KaplanMeier`]: curve, restricted mean |
//! | do two groups reach it equally soon? | [`permuted_log_rank`] |
//! | do paired values differ, and within which interval? | [`SignFlips`]; by how much: [`Differences`] |
//! | which share of one speed-up does another mechanism have? | [`Share`] |
//! | what can luck alone reach? | [`binomial_tail`] |
//! | which of several findings are significant? | [`holm`] |
//! | medians, quantiles, the area under a curve | [`median`], [`quantile`](fn@quantile), [`area_under_curve`] |
//!
//! ```
//! use semfocus_analysis::stats::{KaplanMeier, TimeToTarget, permuted_log_rank};
//!
//! // Epochs that two mechanisms needed; one trial of the second had not learned after 40.
//! let fast = [3.0, 4.0, 4.0, 5.0, 7.0].map(TimeToTarget::reached_at);
//! let mut slow = [12.0, 9.0, 15.0, 21.0, 40.0].map(TimeToTarget::reached_at);
//! slow[4] = TimeToTarget::censored_at(40.0);
//!
//! let mean = KaplanMeier::new(&slow).restricted_mean(40.0).unwrap().mean;
//! assert!((mean - 19.4).abs() < 1e-12);
//! assert_eq!(permuted_log_rank(&fast, &slow, 1).p_value, 2.0 / 252.0); // the minimum for 5 + 5 trials
//! ```

pub mod binomial;
pub mod log_rank;
pub mod multiple;
pub mod normal;
pub mod paired;
pub mod permutation;
pub mod quantile;
mod random;
pub mod share;
pub mod student;
pub mod survival;

use serde::Serialize;

pub use binomial::binomial_tail;
pub use log_rank::{log_rank_excess, log_rank_interval, permuted_log_rank};
pub use multiple::{holm, holm_levels};
pub use normal::{normal_cdf, normal_quantile, two_sided};
pub use paired::{Differences, EXACT_VALUES, SignFlips};
pub use permutation::{Arrangements, DRAWS, MAX_ARRANGEMENTS, PermutationTest, permutation_tests};
pub use quantile::{area_under_curve, mean, median, quantile};
pub use share::{Bounded, Share, Trio};
pub use student::{student_quantile, student_two_sided};
pub use survival::{KaplanMeier, RestrictedMean, Step, TimeToTarget};

/// The confidence level of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// A confidence interval of level [`CONFIDENCE`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The interval of the reciprocal of a positive number.
    pub fn inverse(&self) -> Self {
        Interval { low: 1.0 / self.high, high: 1.0 / self.low }
    }
}
