//! Random decisions that depend on where they are made, never on when or by which thread.
//!
//! A [`Key`] names a place (seed → step → layer → site → row); the bits drawn there are a pure function of the key and a
//! column index. So a dropout mask is never stored: the backward pass asks again and gets the same answer.

/// A purpose of random numbers: nothing drawn for one shifts what is drawn for another. The numbers are part of stored
/// results: never change them.
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

/// The name of a place where random decisions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// The root key of a seed.
    pub const fn new(seed: u64) -> Self {
        Key(mix64(seed ^ 0x5eed_0f0c_0de5_eed5))
    }

    /// The key under which a stream of a seed draws.
    pub const fn of_stream(seed: u64, stream: Stream) -> Self {
        Key::new(seed).child(stream as u64)
    }

    /// The key of the `index`-th place below this one.
    pub const fn child(self, index: u64) -> Self {
        // The odd constant is 2^64 / golden ratio: consecutive indices land far apart before mixing.
        Key(mix64(self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))))
    }

    /// The key of the place below this one that has a name instead of a number.
    pub fn named(self, name: &str) -> Self {
        self.child(fnv_1a(name.bytes()))
    }

    /// Sixty-four random bits that stand for the key itself.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The seed of a generator that draws at this place: the bits of the first four keys below it, least byte first.
    pub fn generator_seed(self) -> [u8; 32] {
        let mut seed = [0; 32];
        for (word, bytes) in (0..).zip(seed.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&self.child(word).bits().to_le_bytes());
        }
        seed
    }

    /// The two words that [`bits_at`](Self::bits_at) mixes with a column; vector code computes the same from them.
    pub const fn words(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> 32) as u32)
    }

    /// Thirty-two random bits for `column` of the row that this key names.
    pub const fn bits_at(self, column: u32) -> u32 {
        let (low, high) = self.words();
        bits_from_words(low, high, column)
    }

    /// A uniform integer below `bound` for `column`, by multiplication (the bias is below `bound / 2^32`).
    pub const fn below(self, column: u32, bound: u32) -> u32 {
        ((self.bits_at(column) as u64 * bound as u64) >> 32) as u32
    }
}

/// FNV-1a: short, and the same on every machine and in every version, unlike the standard library's hash.
pub fn fnv_1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What a column is multiplied with before it is mixed; vector code needs it too.
pub const COLUMN_STEP: u32 = 0x9e37_79b1;
/// First factor of the mixing.
pub const MIX_1: u32 = 0x7feb_352d;
/// Second factor of the mixing.
pub const MIX_2: u32 = 0x846c_a68b;

/// The bits of `column` in the row whose key has these two words. The vector units compute the same.
#[inline(always)]
pub const fn bits_from_words(low: u32, high: u32, column: u32) -> u32 {
    let mut x = column.wrapping_mul(COLUMN_STEP).wrapping_add(low);
    x ^= x >> 16;
    x = x.wrapping_mul(MIX_1) ^ high;
    x ^= x >> 15;
    x = x.wrapping_mul(MIX_2);
    x ^ (x >> 16)
}

/// The finaliser of SplitMix64: a bijection in which every input bit reaches every output bit.
const fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers_never_change() {
        // Stored runs depend on these bits: changing them changes every training run.
        let key = Key::new(1).child(2).child(3);
        assert_eq!(key.bits(), PINNED_BITS);
        assert_eq!([0, 1, 2, 1000].map(|c| key.bits_at(c)), PINNED_COLUMNS);
    }

    #[test]
    fn hash_is_fnv_1a() {
        assert_eq!(fnv_1a([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(Key::new(1).named("a"), Key::new(1).child(0xaf63_dc4c_8601_ec8c));
    }

    #[test]
    fn generator_seed_is_the_bits_of_four_children() {
        let key = Key::new(9);
        let words: Vec<u64> =
            key.generator_seed().chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(words, [0, 1, 2, 3].map(|i| key.child(i).bits()));
    }

    #[test]
    fn streams_differ() {
        let streams = [Stream::Data, Stream::Init, Stream::Order, Stream::Dropout];
        let all = streams.map(|stream| Key::of_stream(3, stream).bits());
        assert!((0..4).all(|a| (0..a).all(|b| all[a] != all[b])));
    }

    #[test]
    fn children_and_columns_differ() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..10 {
            for child in 0..1000 {
                assert!(seen.insert(Key::new(seed).child(child).bits()));
            }
        }
        let row = Key::new(7);
        let distinct: std::collections::HashSet<u32> = (0..100_000).map(|c| row.bits_at(c)).collect();
        assert_eq!(distinct.len(), 100_000, "columns of one row map one to one");
    }

    #[test]
    fn bits_are_uniform() {
        // Chi-squared over 256 bins of the high byte and of the low byte: mean 255, standard deviation 22.6.
        for shift in [0, 24] {
            let mut bins = [0f64; 256];
            for r in 0..100 {
                let row = Key::new(11).child(r);
                (0..2560).for_each(|c| bins[(row.bits_at(c) >> shift) as usize & 255] += 1.0);
            }
            let chi2: f64 = bins.iter().map(|b| (b - 1000.0).powi(2) / 1000.0).sum();
            assert!((150.0..370.0).contains(&chi2), "chi-squared {chi2} at bit {shift}");
        }
    }

    const PINNED_BITS: u64 = 0x73110e300f16cb08;
    const PINNED_COLUMNS: [u32; 4] = [0x05d90566, 0xb38b5820, 0xe585e0a7, 0x0e1ff9c7];
}
