//! Quantiles of a stream of numbers, without keeping them.
//!
//! A bucket counts all numbers that agree in sign, exponent and the first ten bits of the mantissa. So a quantile is off by less
//! than one part in 1,024 of its value. It is exact for numbers with few digits, such as small counts, and for the minimum and
//! the maximum. The order of the numbers does not matter.

/// Bits of the mantissa that are ignored.
const IGNORED: u32 = 13;

/// Numbers nearer to zero count as zero.
const SMALLEST: f32 = 1e-10;

/// Counts of a stream of numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketch {
    /// How many numbers fell into the buckets `first`, `first + 1`, …
    counts: Vec<u64>,
    first: i32,
    count: u64,
    min: f32,
    max: f32,
}

impl Sketch {
    /// Adds a number; NaN is ignored.
    pub fn add(&mut self, value: f32) {
        if value.is_nan() {
            return;
        }
        (self.min, self.max) = match self.count {
            0 => (value, value),
            _ => (self.min.min(value), self.max.max(value)),
        };
        self.add_to_bucket(bucket(value), 1);
    }

    /// Adds all numbers of another sketch.
    pub fn join(&mut self, other: &Sketch) {
        if other.count == 0 {
            return;
        }
        (self.min, self.max) = match self.count {
            0 => (other.min, other.max),
            _ => (self.min.min(other.min), self.max.max(other.max)),
        };
        for (bucket, &count) in (other.first..).zip(&other.counts).filter(|(_, count)| **count > 0) {
            self.add_to_bucket(bucket, count);
        }
    }

    fn add_to_bucket(&mut self, bucket: i32, count: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            // At least double the size, so that a falling sequence does not move all counts each time.
            let added = (self.first - bucket).max(self.counts.len() as i32);
            self.counts.splice(0..0, std::iter::repeat_n(0, added as usize));
            self.first -= added;
        }
        let place = (bucket - self.first) as usize;
        if place >= self.counts.len() {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += count;
        self.count += count;
    }

    /// How many numbers were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The quantile at a share from 0 to 1, with linear interpolation; None of no numbers.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let last = self.count.checked_sub(1)?;
        let position = share * last as f64;
        let (below, part) = (position.floor(), position.fract());
        let lower = self.ranked(below as u64);
        let upper = if part > 0.0 { self.ranked(below as u64 + 1) } else { lower };
        // The difference of equal infinities is not a number.
        Some(if lower == upper { lower } else { lower + part * (upper - lower) })
    }

    /// The number with a rank, counted from 0.
    fn ranked(&self, rank: u64) -> f64 {
        if rank == 0 {
            return f64::from(self.min);
        }
        if rank + 1 >= self.count {
            return f64::from(self.max);
        }
        let mut before = 0;
        for (bucket, &count) in (self.first..).zip(&self.counts) {
            before += count;
            if before > rank {
                return f64::from(foot(bucket)).clamp(f64::from(self.min), f64::from(self.max));
            }
        }
        f64::from(self.max)
    }
}

/// The bucket of a number: 0 for zero; buckets are in the order of the numbers.
fn bucket(value: f32) -> i32 {
    if value.abs() < SMALLEST {
        return 0;
    }
    let place = (value.abs().to_bits() >> IGNORED) as i32 - origin() + 1;
    if value < 0.0 { -place } else { place }
}

/// The number in a bucket that is nearest to zero.
fn foot(bucket: i32) -> f32 {
    if bucket == 0 {
        return 0.0;
    }
    let size = f32::from_bits(((bucket.abs() - 1 + origin()) as u32) << IGNORED);
    if bucket < 0 { -size } else { size }
}

const fn origin() -> i32 {
    (SMALLEST.to_bits() >> IGNORED) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use semfocus_core::Key;

    /// The quantile of all numbers, by sorting them.
    fn exact(values: &[f32], share: f64) -> f64 {
        let mut sorted: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        sorted.sort_by(f64::total_cmp);
        let position = share * (sorted.len() - 1) as f64;
        let (below, part) = (sorted[position.floor() as usize], position.fract());
        below + part * (sorted[position.ceil() as usize] - below)
    }

    fn uniform(seed: u64, index: u32) -> f32 {
        Key::new(seed).bits_at(index) as f32 / u32::MAX as f32
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_numbers() {
        let streams: [fn(f32) -> f32; 5] = [
            |u| u * 40.0,
            |u| (u * 30.0 - 20.0).exp(),
            |u| u * 2.0 - 1.3,
            |u| (u * 600.0).floor(),
            |u| if u < 0.3 { 0.0 } else { u * 1e-3 },
        ];
        for (number, stream) in streams.into_iter().enumerate() {
            for count in [1, 2, 3, 10, 5000] {
                let values: Vec<f32> = (0..count).map(|index| stream(uniform(number as u64, index))).collect();
                let mut sketch = Sketch::default();
                values.iter().for_each(|value| sketch.add(*value));
                for percent in [0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 100] {
                    let share = f64::from(percent) / 100.0;
                    let (found, exact) = (sketch.quantile(share).unwrap(), exact(&values, share));
                    // Of two neighbours each may be off by its own size over 1,024.
                    let allowed =
                        (exact.abs() + 1e-3 * f64::from(count == 2 || count == 3 || count == 10)) / 1000.0 + 1e-10;
                    assert!(
                        (found - exact).abs() <= allowed,
                        "stream {number}, {count}, {percent} %: {found}, not {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn small_counts_and_both_ends_are_exact() {
        let mut sketch = Sketch::default();
        [3.0, 17.0, 1023.0, 5.0, 0.123_456_79].into_iter().for_each(|value| sketch.add(value));
        assert_eq!(sketch.quantile(0.5), Some(5.0));
        assert_eq!(sketch.quantile(0.75), Some(17.0));
        assert_eq!((sketch.quantile(0.0), sketch.quantile(1.0)), (Some(f64::from(0.123_456_79f32)), Some(1023.0)));
        assert_eq!(Sketch::default().quantile(0.5), None);
        let mut odd = Sketch::default();
        [f32::NAN, f32::INFINITY, f32::INFINITY, 1.0].into_iter().for_each(|value| odd.add(value));
        assert_eq!((odd.count(), odd.quantile(0.9), odd.quantile(0.0)), (3, Some(f64::INFINITY), Some(1.0)));
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let values: Vec<f32> = (0..2000).map(|index| (uniform(3, index) - 0.4) * 9.0).collect();
        let sketch = |values: &[f32]| {
            let mut sketch = Sketch::default();
            values.iter().for_each(|value| sketch.add(*value));
            sketch
        };
        let mut reversed = values.clone();
        reversed.reverse();
        let mut parts = sketch(&values[..700]);
        parts.join(&sketch(&values[700..]));
        parts.join(&Sketch::default());
        for share in [0.0, 0.01, 0.3, 0.5, 0.99, 1.0] {
            let all = sketch(&values).quantile(share);
            assert_eq!((sketch(&reversed).quantile(share), parts.quantile(share)), (all, all));
        }
    }
}
