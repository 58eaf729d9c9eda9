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
    let mut generator = ChaCha8Rng::from_seed(key(seed, Stream::Init).named(name).generator_seed());
    let unit = |bits: u64| (bits >> 11) as f64 * 2f64.powi(-53); // [0, 1)
    (0..count).map(|_| ((2.0 * unit(generator.next_u64()) - 1.0) * bound) as f32).collect()
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
    fn values_are_uniform() {
        let values = initial_values(1, "x", 100_000, 0.5);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / 1e5;
        let square = values.iter().map(|&v| f64::from(v * v)).sum::<f64>() / 1e5;
        assert!(values.iter().all(|v| v.abs() <= 0.5));
        assert!(mean.abs() < 0.005 && (square - 1.0 / 12.0).abs() < 0.002, "mean {mean}, mean square {square}");
    }
}
