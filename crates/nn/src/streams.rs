//! Where every random number comes from: separate streams of one seed, so that nothing drawn for one purpose shifts what
//! is drawn for another. There is no global generator.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_kernels::Key;

/// A purpose of random numbers. The numbers are part of stored results: never change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Generation of the data sets.
    Data = 0,
    /// Initial weights.
    Init = 1,
    /// Order of the examples.
    Order = 2,
    /// Dropout, and mechanisms that draw their keys.
    Dropout = 3,
}

/// The key under which a stream draws.
pub fn key(seed: u64, stream: Stream) -> Key {
    Key::new(seed).child(stream as u64)
}

/// `count` initial values of the parameter `name`, uniform in `[-bound, bound)`.
///
/// Every parameter has a generator of its own, and values are drawn in row-major order: neither another parameter nor
/// more rows at the end of this one (global tokens in the embedding) change what is drawn here.
pub fn initial_values(seed: u64, name: &str, count: usize, bound: f64) -> Vec<f32> {
    let parameter = key(seed, Stream::Init).child(hash(name));
    let mut state = [0; 32];
    for (word, bytes) in (0..).zip(state.chunks_exact_mut(8)) {
        bytes.copy_from_slice(&parameter.child(word).bits().to_le_bytes());
    }
    let mut generator = ChaCha8Rng::from_seed(state);
    let unit = |bits: u64| (bits >> 11) as f64 * 2f64.powi(-53); // [0, 1)
    (0..count).map(|_| ((2.0 * unit(generator.next_u64()) - 1.0) * bound) as f32).collect()
}

/// FNV-1a: short, and the same on every machine and in every version, unlike the standard library's.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_fnv_1a() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }

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

    #[test]
    fn streams_differ() {
        let all = [Stream::Data, Stream::Init, Stream::Order, Stream::Dropout].map(|stream| key(3, stream).bits());
        assert!((0..4).all(|a| (0..a).all(|b| all[a] != all[b])));
    }
}
