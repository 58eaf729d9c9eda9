//! What causes the speed-up of top-k attention: the share that each control has of it, and which explanations that supports.
//!
//! | to find | look in |
//! |---|---|
//! | what each control isolates, the explanations and the rules, as data | `causes.toml` |
//! | how they are read, and what follows from them | [`controls`], [`rules`] |
//! | the share of a speed-up and its interval | [`Share`] |

pub mod controls;
pub mod rules;

use semfocus_core::BASELINE;
use serde::Serialize;

use super::claim::Answer;
use super::verdict::LEVEL;
use super::{Measures, PointEvidence};
use crate::stats::{
    Bounded, Interval, Share, TimeToTarget, Trio, holm, holm_levels, log_rank_excess, permuted_log_rank,
};
pub use controls::{CONTROLS, Control, Group, RULES, Role, ShareFinding};
pub use rules::{CauseFinding, Claimed, Judged};

/// A control keeps most of the speed-up if its share is larger than this, and less if it is smaller.
pub const HALF: f64 = 0.5;

/// Seed of permutations, fixed so that the same store gives the same numbers.
const SEED: u64 = 20_261_117;

/// The rules, as users read them.
pub const CAUSES_RULE: &str = "speed-up: geometric mean over seeds of the time to the target of full attention / that of the control. share: \
logarithm of this speed-up / logarithm of that of top-k, paired by seed. Intervals are 95 % intervals, widened for the number of controls \
(Holm). most: the interval of the share lies above one half. less: it lies below one half. A control whose interval contains one half decides \
nothing. Shares are only shown if top-k itself is significantly faster than full attention.";

/// What causes the speed-up of top-k attention at one point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Causes {
    /// Values on the axes of the grid.
    pub point: Vec<(String, String)>,
    /// Top-k attention as the experiment names it.
    pub reference: String,
    /// Seeds that it shares with full attention.
    pub seeds: usize,
    /// Its speed-up over full attention.
    pub speedup: Option<Bounded>,
    /// The 95 % interval of this speed-up.
    pub speedup_interval: Option<Interval>,
    /// The p-value of this speed-up: a permutation log-rank test.
    pub p_value: f64,
    /// Why there are no shares, if there are none.
    pub no_shares: Option<String>,
    /// In the order of [`CONTROLS`].
    pub controls: Vec<MeasuredControl>,
    /// Every explanation about which the run has a control.
    pub explanations: Vec<Judged>,
    /// The study's claim.
    pub claim: Claimed,
}

/// A control and its share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredControl {
    /// As the experiment names it.
    pub mechanism: String,
    /// What it isolates.
    #[serde(flatten)]
    pub control: &'static Control,
    /// Seeds with a result of full attention, top-k attention and the control.
    pub seeds: usize,
    /// Trials of the control that reached the target.
    pub reached: usize,
    /// Its speed-up over full attention.
    pub speedup: Option<Bounded>,
    /// The interval of this speed-up, which excludes 1 exactly if the difference is significant.
    pub speedup_interval: Option<Interval>,
    /// Its share of the speed-up of top-k attention.
    pub share: Option<Bounded>,
    /// The interval of the share, which excludes one half exactly if `kept` is decided.
    pub share_interval: Option<Interval>,
    /// The p-value of a share of one half, after Holm's correction.
    pub adjusted: f64,
    /// What follows.
    pub kept: ShareFinding,
    /// How many seeds it would take to decide, if means and spread stayed as they are.
    pub seeds_needed: Option<usize>,
}

impl Causes {
    /// None without full attention, top-k attention, or a control that says something about an explanation. With several sizes of
    /// top-k attention, the one that is faster and has the most controls counts unless one is given.
    pub fn new(point: &PointEvidence, reference: Option<&str>) -> Option<Self> {
        let names: Vec<&str> = point.mechanisms.iter().map(|mechanism| mechanism.mechanism.as_str()).collect();
        let sizes = names.iter().copied().filter_map(|name| Some((name, size_of_top_k(name)?)));
        let sizes = sizes.filter(|(name, _)| reference.is_none_or(|wanted| wanted == *name));
        let controls_of = |k: &str| names.iter().filter_map(|name| Some((*name, Control::find(name, k)?))).collect();
        let candidates: Vec<(&str, Vec<(&str, &'static Control)>)> =
            sizes.map(|(name, k)| (name, controls_of(k))).collect();
        // One with a speed-up to explain, with the most controls, the first of equal ones.
        let is_only = candidates.len() == 1;
        let merit = |(name, controls): &(&str, Vec<_>)| (!is_only && speed(point, name).is_faster, controls.len());
        let (reference, mut controls) =
            candidates.into_iter().reduce(|best, next| if merit(&next) > merit(&best) { next } else { best })?;
        if !names.contains(&BASELINE) || !controls.iter().any(|(_, control)| control.is_enough()) {
            return None;
        }
        let place = |control: &Control| CONTROLS.iter().position(|other| other.name == control.name);
        controls.sort_by_key(|(_, control)| place(control));

        let Speed { own, p_value, is_faster } = speed(point, reference);
        let seeds = own.len();
        let no_shares = (!is_faster).then(|| no_shares(reference, own.len(), p_value));
        let own = Share::new(&own);
        let shares: Vec<(Vec<Trio>, Option<Share>)> = controls
            .iter()
            .map(|(name, _)| trios(point, reference, name))
            .map(|trios| (trios.clone(), Share::new(&trios)))
            .collect();
        let judged = shares_of(&shares.iter().map(|(_, share)| *share).collect::<Vec<_>>(), is_faster);
        let controls: Vec<MeasuredControl> = controls
            .iter()
            .zip(&shares)
            .zip(judged)
            .map(|(((name, control), (trios, share)), judged)| MeasuredControl {
                mechanism: (*name).to_owned(),
                control,
                seeds: trios.len(),
                reached: trios.iter().filter(|trio| trio.control.reached).count(),
                speedup: share.and_then(|share| share.speedup()),
                speedup_interval: judged.speedup_interval,
                share: share.filter(|_| is_faster).and_then(|share| share.value()),
                share_interval: judged.interval,
                adjusted: judged.adjusted,
                kept: judged.kept,
                seeds_needed: share
                    .filter(|_| is_faster && judged.kept == ShareFinding::Undecided)
                    .and_then(|share| share.seeds_to_exclude(HALF, judged.level)),
            })
            .collect();
        let explanations = rules::judge(&controls);
        let claim = match &no_shares {
            None => rules::judge_claim(&explanations),
            Some(why) => Claimed { claim: rules::CLAIM, answer: Answer::Undecided, reason: why.clone() },
        };
        Some(Causes {
            point: point.point.clone(),
            reference: reference.to_owned(),
            seeds,
            speedup: own.and_then(|share| share.speedup()),
            speedup_interval: own.map(|share| share.speedup_interval(LEVEL)),
            p_value,
            no_shares,
            controls,
            explanations,
            claim,
        })
    }

    /// The explanations with this finding.
    pub fn explanations_that_are(&self, finding: CauseFinding) -> impl Iterator<Item = &Judged> {
        self.explanations.iter().filter(move |judged| judged.finding == finding)
    }
}

/// What the seeds say about the share of one control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedShare {
    /// Of the speed-up over full attention, at the level that Holm's correction gives it.
    pub speedup_interval: Option<Interval>,
    /// Of the share, at the level that Holm's correction gives it. None if there are no shares.
    pub interval: Option<Interval>,
    /// The p-value of a share of one half, after Holm's correction.
    pub adjusted: f64,
    /// Whether the interval lies above or below one half.
    pub kept: ShareFinding,
    /// The level that Holm's correction gives it.
    pub level: f64,
}

/// Intervals of the shares of several controls, corrected for their number. Without a significant speed-up of the reference
/// (`is_faster`) there are no shares.
pub fn shares_of(shares: &[Option<Share>], is_faster: bool) -> Vec<JudgedShare> {
    let found: Vec<Share> = shares.iter().copied().flatten().collect();
    let p_values = |p: fn(&Share) -> f64| found.iter().map(p).collect::<Vec<f64>>();
    let (of_half, of_one) = (p_values(|share| share.p_value(HALF)), p_values(Share::speedup_p_value));
    let levels = holm_levels(&of_half, LEVEL).into_iter().zip(holm_levels(&of_one, LEVEL)).zip(holm(&of_half));
    let mut judged = found.iter().zip(levels).map(|(share, ((level, speedup_level), adjusted))| {
        let interval = is_faster.then(|| share.interval(level));
        let kept = match interval {
            Some(interval) if interval.low > HALF => ShareFinding::Most,
            Some(interval) if interval.high < HALF => ShareFinding::Less,
            _ => ShareFinding::Undecided,
        };
        JudgedShare { speedup_interval: Some(share.speedup_interval(speedup_level)), interval, adjusted, kept, level }
    });
    let nothing = JudgedShare {
        speedup_interval: None,
        interval: None,
        adjusted: 1.0,
        kept: ShareFinding::Undecided,
        level: LEVEL,
    };
    shares.iter().map(|share| share.and_then(|_| judged.next()).unwrap_or(nothing)).collect()
}

/// `5` of `topk:5`.
fn size_of_top_k(mechanism: &str) -> Option<&str> {
    let size = mechanism.strip_prefix("topk:").filter(|_| !mechanism.contains(['+', '/', '@']))?;
    size.split(',').next()
}

/// The seeds with a result of all three: the trial has reached the target or is over.
fn trios(point: &PointEvidence, reference: &str, control: &str) -> Vec<Trio> {
    let of = |mechanism: &str, seed: u64| -> Option<TimeToTarget> {
        let mut trials = point.trials.iter().filter(|observed| observed.trial.entry.mechanism == mechanism);
        let observed = trials.find(|observed| observed.trial.entry.seed == seed)?;
        let Measures { time_to_target, .. } = observed.measures.as_ref()?;
        (time_to_target.reached || observed.trial.state.is_over()).then_some(*time_to_target)
    };
    let seeds = point.of_mechanism(BASELINE).map(|(trial, _)| trial.entry.seed);
    let trio = |seed| {
        Some(Trio { baseline: of(BASELINE, seed)?, reference: of(reference, seed)?, control: of(control, seed)? })
    };
    seeds.filter_map(trio).collect()
}

/// Whether top-k attention is faster than full attention.
struct Speed {
    own: Vec<Trio>,
    p_value: f64,
    is_faster: bool,
}

fn speed(point: &PointEvidence, reference: &str) -> Speed {
    let own = trios(point, reference, reference);
    let (full, fast) = (side(&own, |trio| trio.baseline), side(&own, |trio| trio.reference));
    let p_value = permuted_log_rank(&fast, &full, SEED).p_value;
    Speed { own, p_value, is_faster: p_value < LEVEL && log_rank_excess(&fast, &full) > 0.0 }
}

fn side(trios: &[Trio], time: fn(&Trio) -> TimeToTarget) -> Vec<TimeToTarget> {
    trios.iter().map(time).collect()
}

fn no_shares(reference: &str, seeds: usize, p_value: f64) -> String {
    if seeds < 4 {
        return format!("shares need at least four seeds of {reference} and full attention, and this run has {seeds}");
    }
    format!(
        "{reference} is not significantly faster than full attention here (p = {p_value:.3}), so there is no speed-up to explain"
    )
}
