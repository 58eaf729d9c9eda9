//! Random numbers for resampling. They depend on nothing but the ChaCha8 key stream, so that no new version of a library
//! changes a p-value.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A ChaCha8 key stream.
pub(super) struct Random {
    words: ChaCha8Rng,
}

impl Random {
    /// The key is the eight bytes of the seed, then zeros.
    pub(super) fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Random { words: ChaCha8Rng::from_seed(key) }
    }

    fn word(&mut self) -> u32 {
        self.words.next_u32()
    }

    /// An unbiased index below `bound`: the few words that would make some indices more frequent are rejected.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u32::try_from(bound).expect("fewer than 2^32 values");
        let excess = bound.wrapping_neg() % bound; // 2^32 mod bound
        loop {
            let product = u64::from(self.word()) * u64::from(bound);
            if product as u32 >= excess {
                return (product >> 32) as usize;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_of_seed_zero_is_the_published_one() {
        assert_eq!(Random::new(0).word(), u32::from_le_bytes([0x3e, 0x00, 0xef, 0x2f]));
        assert_ne!(Random::new(0).word(), Random::new(1 << 63).word(), "every bit of the seed counts");
    }

    #[test]
    fn indices_are_uniform() {
        let mut random = Random::new(1);
        let mut counts = [0f64; 7];
        (0..70_000).for_each(|_| counts[random.below(7)] += 1.0);
        let chi2: f64 = counts.iter().map(|n| (n - 1e4).powi(2) / 1e4).sum();
        assert!(chi2 < 27.9, "chi-squared {chi2} with 6 degrees of freedom");
    }
}
