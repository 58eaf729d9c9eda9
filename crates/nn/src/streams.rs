//! Where every random number comes from: separate streams of one seed, so that draws for one purpose do not shift those for
//! another. There is no global generator.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_core::Key;
pub use semfocus_core::Stream;

/// The key from which a stream draws.
pub(crate) fn key(seed: u64, stream: Stream) -> Key {
    Key::of_stream(seed, stream)
}

/// `count` initial values of the parameter `name`, uniform in `[-bound, bound)`.
///
/// Every parameter has its own generator, and values are drawn in row-major order, so neither another parameter nor more rows at
/// the end of this one (global tokens in the embedding) change the values.
pub(crate) fn initial_values(seed: u64, name: &str, count: usize, bound: f64) -> Vec<f32> {
    let mut unit = initial_draws(seed, name);
    (0..count).map(|_| ((2.0 * unit() - 1.0) * bound) as f32).collect()
}

/// `count` initial values of the parameter `name`, normal with mean 0 and this standard deviation, by the method of Box and Muller.
pub(crate) fn initial_normal_values(seed: u64, name: &str, count: usize, deviation: f64) -> Vec<f32> {
    let mut unit = initial_draws(seed, name);
    let mut normal = || (-2.0 * (1.0 - unit()).ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
    (0..count).map(|_| (normal() * deviation) as f32).collect()
}

/// Numbers in `[0, 1)` for the initial values of a parameter.
fn initial_draws(seed: u64, name: &str) -> impl FnMut() -> f64 {
    let mut generator = ChaCha8Rng::from_seed(key(seed, Stream::Init).named(name).generator_seed());
    move || (generator.next_u64() >> 11) as f64 * 2f64.powi(-53)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_values_do_not_change_the_first_ones() {
        let few = initial_values(7, "embedding", 10, 0.1);
        let many = initial_values(7, "embedding", 20, 0.1);
        assert_eq!(few, many[..10]);
        assert_ne!(few, initial_values(7, "classifier.weight", 10, 0.1));
        assert_ne!(few, initial_values(8, "embedding", 10, 0.1));
    }

    #[test]
    fn normal_values_have_their_deviation() {
        let values = initial_normal_values(1, "x", 100_000, 0.02);
        assert_eq!(values[..10], initial_normal_values(1, "x", 10, 0.02));
        let moment = |power: i32| values.iter().map(|&v| (f64::from(v) / 0.02).powi(power)).sum::<f64>() / 1e5;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 1.0).abs() < 0.015, "{} {}", moment(1), moment(2));
        assert!(moment(3).abs() < 0.04 && (moment(4) - 3.0).abs() < 0.1, "{} {}", moment(3), moment(4));
    }

    #[test]
    fn values_are_uniform() {
        let values = initial_values(1, "x", 100_000, 0.5);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / 1e5;
        let square = values.iter().map(|&v| f64::from(v * v)).sum::<f64>() / 1e5;
        assert!(values.iter().all(|v| v.abs() <= 0.5));
        assert!(mean.abs() < 0.005 && (square - 1.0 / 12.0).abs() < 0.002, "mean {mean}, mean square {square}");
    }
}
