//! Random numbers for the generators.
//!
//! Only the words of the ChaCha8 key stream come from a library; this module turns them into integers and real numbers. So a
//! new version of a library cannot change the data of a seed. Logarithms and roots are those of `libm`, which are the same on every
//! machine.

use std::collections::HashSet;
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

    /// A uniform real number between 0 and 1, never one of them: 53 bits.
    pub fn unit(&mut self) -> f64 {
        let bits = u64::from(self.word()) << 21 | u64::from(self.word()) >> 11;
        (bits as f64 + 0.5) / 2f64.powi(53)
    }

    /// The index of a weight, with a probability proportional to the weight. Weights are not negative, and one of them is positive.
    pub fn choose(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Rounding can leave a rest behind the last weight.
        found.or_else(|| weights.iter().rposition(|&weight| weight > 0.0)).expect("one of the weights is positive")
    }

    /// Different integers below `bound`, uniform, in the order in which they are drawn.
    ///
    /// # Panics
    /// If there are fewer than `count`.
    pub fn distinct(&mut self, count: usize, bound: u32) -> Vec<u32> {
        assert!(count <= bound as usize, "there are no {count} different integers below {bound}");
        let (mut drawn, mut seen) = (Vec::with_capacity(count), HashSet::with_capacity(count));
        while drawn.len() < count {
            let number = self.below(bound);
            if seen.insert(number) {
                drawn.push(number);
            }
        }
        drawn
    }

    /// A distribution over `count` classes from the symmetric Dirichlet distribution. Every share is positive.
    pub fn dirichlet(&mut self, alpha: f64, count: usize) -> Vec<f64> {
        let logs: Vec<f64> = (0..count).map(|_| self.ln_gamma(alpha)).collect();
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // Shares that are too small for the machine become its smallest ones.
        let shares: Vec<f64> = logs.iter().map(|log| libm::exp(log - largest).max(f64::MIN_POSITIVE)).collect();
        let sum: f64 = shares.iter().sum();
        shares.into_iter().map(|share| (share / sum).max(f64::MIN_POSITIVE)).collect()
    }

    /// The logarithm of a number from the gamma distribution of this shape, by the method of Marsaglia and Tsang (2000).
    fn ln_gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            return self.ln_gamma(shape + 1.0) + libm::log(self.unit()) / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let normal = self.normal();
            let root = 1.0 + c * normal;
            if root <= 0.0 {
                continue;
            }
            let ln_cube = 3.0 * libm::log(root);
            if libm::log(self.unit()) < 0.5 * normal * normal + d - d * root * root * root + d * ln_cube {
                return libm::log(d) + ln_cube;
            }
        }
    }

    /// A number from the standard normal distribution, by the polar method.
    fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * libm::sqrt(-2.0 * libm::log(square) / square);
            }
        }
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

    /// Counts of a number between 0 and 1 in ten bins of equal probability fit if chi-squared is below its 99.99 % point.
    fn assert_uniform(what: &str, numbers: impl Iterator<Item = f64>) {
        let mut bins = [0f64; 10];
        numbers.for_each(|number| bins[(number * 10.0) as usize] += 1.0);
        let expected = bins.iter().sum::<f64>() / 10.0;
        let chi2: f64 = bins.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(chi2 < 33.7, "{what}: chi-squared {chi2} with 9 degrees of freedom");
    }

    #[test]
    fn real_numbers_and_weights() {
        let mut random = Random::new(Key::new(4));
        assert_uniform("unit", (0..20_000).map(|_| random.unit()));
        let mut counts = [0f64; 4];
        (0..30_000).for_each(|_| counts[random.choose(&[1.0, 0.0, 3.0, 2.0])] += 1.0);
        let expected = [5000.0, 15_000.0, 10_000.0];
        let chi2: f64 = [0, 2, 3].iter().zip(expected).map(|(&i, n): (&usize, f64)| (counts[i] - n).powi(2) / n).sum();
        assert!(counts[1] == 0.0 && chi2 < 18.5, "{counts:?}");
        let mut drawn = random.distinct(50, 50);
        drawn.sort_unstable();
        assert!(drawn.into_iter().eq(0..50));
    }

    #[test]
    fn dirichlet_shares_have_the_distributions_that_are_known() {
        let mut random = Random::new(Key::new(5));
        // Over two classes: uniform for alpha 1, the arcsine law for alpha 1/2.
        assert_uniform("alpha 1", (0..20_000).map(|_| random.dirichlet(1.0, 2)[0]));
        let arcsine = |share: f64| 2.0 / std::f64::consts::PI * share.sqrt().asin();
        assert_uniform("alpha 1/2", (0..20_000).map(|_| arcsine(random.dirichlet(0.5, 2)[0])));
        // One of three classes for alpha 2: 1 - F is (1 - x)^5 + 5 x (1 - x)^4.
        let tail = |x: f64| (1.0 - x).powi(5) + 5.0 * x * (1.0 - x).powi(4);
        assert_uniform("alpha 2", (0..20_000).map(|_| 1.0 - tail(random.dirichlet(2.0, 3)[1])));
        for alpha in [0.01, 0.1, 5.0] {
            for _ in 0..2000 {
                let shares = random.dirichlet(alpha, 10);
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12 && shares.iter().all(|&share| share > 0.0));
            }
        }
        let bits: Vec<u64> = Random::new(Key::new(6)).dirichlet(0.1, 3).into_iter().map(f64::to_bits).collect();
        assert_eq!(bits, PINNED_SHARES);
    }

    const PINNED_SHARES: [u64; 3] = [4578893298878924459, 4607061477623182376, 4517179761350241311];
    const PINNED: [u32; 6] = [0, 2, 4, 6, 29, 739_993_505];
}
