//! Statistical methods: numbers in, numbers out. Whatever needs chance takes a seed, so the same call gives the same
//! answer on every machine.
//!
//! | question | method |
//! |---|---|
//! | how soon do trials arrive, if some never do? | [`KaplanMeier`]: curve, median, restricted mean |
//! | do two groups arrive equally soon? | [`LogRank`] (asymptotic), [`permuted_log_rank`] |
//! | the same, where every seed ran in both groups? | [`paired_log_rank`] |
//! | do paired values differ? | [`SignedRank`], and by how much: [`Differences`] |
//! | how sure is an estimate? | [`Bootstrap`] |
//! | which of several findings stand? | [`holm`] |
//! | the middle of some values, the area under a curve | [`median`], [`quantile`](fn@quantile), [`area_under_curve`] |
//!
//! ```
//! use semfocus_analysis::stats::{Arrival, KaplanMeier, paired_log_rank};
//!
//! // Epochs until two mechanisms learned, seed by seed; the last trial of the second had not after 40.
//! let fast = [3.0, 4.0, 4.0, 5.0, 6.0, 9.0].map(Arrival::at);
//! let slow = [12.0, 9.0, 15.0, 21.0, 30.0].map(Arrival::at).into_iter().chain([Arrival::not_by(40.0)]);
//! let pairs: Vec<(Arrival, Arrival)> = fast.into_iter().zip(slow).collect();
//!
//! assert_eq!(KaplanMeier::new(&fast).median(), Some(4.0));
//! assert_eq!(paired_log_rank(&pairs, 1).p_value, 2.0 / 64.0); // the least that six pairs can give
//! ```

pub mod bootstrap;
pub mod log_rank;
pub mod multiple;
pub mod normal;
pub mod paired;
pub mod permutation;
pub mod quantile;
mod random;
pub mod survival;

use serde::Serialize;

pub use bootstrap::{Bootstrap, MIN_VALUES, NoInterval, RESAMPLES};
pub use log_rank::{LogRank, paired_log_rank, permuted_log_rank};
pub use multiple::holm;
pub use normal::{normal_cdf, normal_quantile, two_sided};
pub use paired::{Differences, EXACT_VALUES, SignedRank};
pub use permutation::{Arrangements, DRAWS, MAX_ARRANGEMENTS, MAX_EXACT_PAIRS, PermutationTest};
pub use quantile::{area_under_curve, mean, median, quantile};
pub use survival::{Arrival, KaplanMeier, RestrictedMean, Step};

/// The confidence level of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// A confidence interval of level [`CONFIDENCE`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether a value lies inside or on an end.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}
