//! How often the tests reject and the intervals cover in simulated experiments. Seeds are fixed, so a test that passes keeps
//! passing; a correct method exceeds the limits with less than one seed in a thousand.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_analysis::stats::{SignFlips, TimeToTarget, normal_quantile, permuted_log_rank};

/// Significance level of the tests.
const LEVEL: f64 = 0.05;

struct World {
    words: ChaCha8Rng,
}

impl World {
    fn new(seed: u64) -> Self {
        World { words: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// A uniform number in 0..1, both ends excluded.
    fn uniform(&mut self) -> f64 {
        (f64::from(self.words.next_u32()) + 0.5) / 2f64.powi(32)
    }

    fn normal(&mut self) -> f64 {
        normal_quantile(self.uniform())
    }

    /// Epochs to the target, exponential with this mean; trials end after 30 epochs.
    fn trials(&mut self, count: usize, mean: f64) -> Vec<TimeToTarget> {
        let trial = |_| {
            let epoch = (-mean * self.uniform().ln()).ceil();
            if epoch <= 30.0 { TimeToTarget::reached_at(epoch) } else { TimeToTarget::censored_at(30.0) }
        };
        (0..count).map(trial).collect()
    }
}

/// Share of experiments in which the test rejects.
fn rejected(experiments: usize, seed: u64, mut p_value: impl FnMut(&mut World) -> f64) -> f64 {
    let mut world = World::new(seed);
    (0..experiments).filter(|_| p_value(&mut world) <= LEVEL).count() as f64 / experiments as f64
}

/// At most the level, up to 3.3 binomial standard errors; and not much less, because a test that never rejects is useless. Half
/// a percent is allowed for discrete p-values.
#[track_caller]
fn assert_keeps_level(share: f64, experiments: usize) {
    let error = (LEVEL * (1.0 - LEVEL) / experiments as f64).sqrt();
    assert!(share < LEVEL + 3.3 * error, "rejected {share} of {experiments} where nothing was to be found");
    assert!(share > LEVEL - 0.005 - 3.3 * error, "rejected only {share} of {experiments}");
}

#[test]
fn permuted_log_rank_keeps_its_level_and_finds_an_effect() {
    let p_value = |world: &mut World, first, second| {
        let (first, second) = (world.trials(8, first), world.trials(7, second));
        permuted_log_rank(&first, &second, 1).p_value
    };
    assert_keeps_level(rejected(2000, 1, |world| p_value(world, 15.0, 15.0)), 2000);
    let power = rejected(500, 2, |world| p_value(world, 6.0, 60.0));
    assert!(power > 0.8, "found a tenfold difference only {power} of the time");
}

/// Drawn arrangements, as with many trials, must not reject more often either. Each test draws 99,999 of them, so there are
/// only a few experiments.
#[test]
fn drawn_arrangements_keep_the_level() {
    let p_value = |world: &mut World| permuted_log_rank(&world.trials(12, 10.0), &world.trials(12, 10.0), 1).p_value;
    assert_keeps_level(rejected(100, 5, p_value), 100);
}

#[test]
fn sign_flips_keep_their_level_and_find_an_effect() {
    for (count, seed) in [(8, 6), (10, 7), (14, 8)] {
        let p_value = |world: &mut World, shift: f64| {
            let differences: Vec<f64> = (0..count).map(|_| world.normal() + shift).collect();
            SignFlips::new(&differences, 1).unwrap().p_value()
        };
        assert_keeps_level(rejected(1000, seed, |world| p_value(world, 0.0)), 1000);
        let power = rejected(300, seed, |world| p_value(world, 1.2));
        assert!(power > 0.7, "found a shift of 1.2 in {count} only {power} of the time");
    }
}

/// Hartigan's intervals cover as often as they say, whatever the distribution, as long as it is symmetric.
#[test]
fn intervals_cover() {
    let shapes: [fn(&mut World) -> f64; 3] =
        [World::normal, |world| (world.uniform() - 0.5).signum(), |world| world.normal() / world.uniform()];
    for (number, shape) in shapes.into_iter().enumerate() {
        for count in [6, 8, 10] {
            let mut world = World::new(9 + number as u64);
            let covered = (0..1000).filter(|_| {
                let values: Vec<f64> = (0..count).map(|_| shape(&mut world)).collect();
                SignFlips::new(&values, 1).unwrap().interval(LEVEL).unwrap().contains(0.0)
            });
            let covered = covered.count() as f64 / 1000.0;
            assert!(covered > 0.95 - 3.3 * (0.05f64 * 0.95 / 1000.0).sqrt(), "{count} of shape {number}: {covered}");
        }
    }
}
