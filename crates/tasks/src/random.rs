//! Random numbers for the generators.
//!
//! Only the words of the ChaCha8 key stream come from a library; this module turns them into integers. So a new version
//! of a library cannot change the data of a seed.

use std::ops::RangeInclusive;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_core::Key;

/// A random number generator with exactly reproducible results.
#[derive(Clone, Debug)]
pub struct Random {
    words: ChaCha8Rng,
}

impl Random {
    /// ChaCha8, seeded from a key.
    pub fn new(key: Key) -> Self {
        Random { words: ChaCha8Rng::from_seed(key.generator_seed()) }
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        self.words.next_u32()
    }

    /// A uniform integer below `bound`, without bias: the high half of word × bound, redrawing the few words that would
    /// make some results more frequent.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "there is no integer below 0");
        let excess = bound.wrapping_neg() % bound; // 2^32 mod bound
        loop {
            let product = u64::from(self.word()) * u64::from(bound);
            if product as u32 >= excess {
                return (product >> 32) as u32;
            }
        }
    }

    /// A uniform integer in `min..=max`.
    ///
    /// # Panics
    /// If `min > max`, or the range does not fit into 32 bits.
    pub fn between(&mut self, min: usize, max: usize) -> usize {
        let count = max.checked_sub(min).and_then(|span| u32::try_from(span + 1).ok());
        min + self.below(count.expect("a range of at most 2^32 - 1 integers")) as usize
    }

    /// A uniform integer of a range. Uses no random number if there is only one.
    ///
    /// # Panics
    /// If the range is empty or does not fit into 32 bits.
    pub fn within(&mut self, range: &RangeInclusive<usize>) -> usize {
        if range.start() == range.end() { *range.start() } else { self.between(*range.start(), *range.end()) }
    }

    /// True with this probability, to a precision of 2^-32.
    pub fn happens(&mut self, probability: f64) -> bool {
        let threshold = (probability * 2f64.powi(32)) as u64;
        u64::from(self.word()) < threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_chacha8_key_stream() {
        // The published key stream for a key of zeros.
        let mut random = Random { words: ChaCha8Rng::from_seed([0; 32]) };
        let stream = [0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6, 0x7f, 0x5b, 0xb8, 0xe8, 0x1f, 0x09, 0xa5, 0xa1];
        for bytes in stream.chunks_exact(4) {
            assert_eq!(random.word(), u32::from_le_bytes(bytes.try_into().unwrap()));
        }
    }

    #[test]
    fn integers_never_change() {
        let mut random = Random::new(Key::new(1));
        let drawn: Vec<u32> = [2, 3, 5, 10, 1000, 3_000_000_000].into_iter().map(|n| random.below(n)).collect();
        assert_eq!(drawn, PINNED);
    }

    #[test]
    fn integers_are_uniform_even_where_plain_multiplication_is_not() {
        // With bound 3·2^30 a plain multiplication would hit every third value twice as often.
        let bound = 3 << 30;
        let mut random = Random::new(Key::new(2));
        let mut thirds = [0f64; 3];
        (0..30_000).for_each(|_| thirds[(random.below(bound) % 3) as usize] += 1.0);
        let chi2: f64 = thirds.iter().map(|n| (n - 1e4).powi(2) / 1e4).sum();
        assert!(chi2 < 13.8, "chi-squared {chi2} with 2 degrees of freedom");
    }

    #[test]
    fn certain_and_impossible_events() {
        let mut random = Random::new(Key::new(3));
        assert!((0..1000).all(|_| random.happens(1.0) && !random.happens(0.0)));
        assert_eq!(random.between(7, 7), 7);
    }

    const PINNED: [u32; 6] = [0, 2, 4, 6, 29, 739_993_505];
}
