//! Dropout whose mask is never stored: whether a value is dropped is a function of its row's key and its column.

use semfocus_core::Key;

/// Inverted dropout: a value is zeroed with probability `p`, otherwise multiplied by `1 / (1 - p)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// A value is dropped when its random bits are below this.
    pub(crate) threshold: u32,
    /// Factor of the values that are not dropped.
    pub(crate) scale: f32,
}

impl Dropout {
    /// Dropout that does nothing.
    pub const NONE: Dropout = Dropout { threshold: 0, scale: 1.0 };

    /// Dropout with probability `p` in `[0, 1)`.
    ///
    /// # Panics
    /// If `p` is outside that range.
    pub fn new(p: f64) -> Self {
        assert!((0.0..1.0).contains(&p), "dropout must be at least 0 and below 1, got {p}");
        Dropout { threshold: (p * 2f64.powi(32)) as u32, scale: (1.0 / (1.0 - p)) as f32 }
    }

    /// Whether this dropout never drops anything.
    pub fn is_none(&self) -> bool {
        self.threshold == 0
    }

    /// The factor of the value at (`row`, `column`): 0 or `1 / (1 - p)`.
    pub fn factor(&self, row: Key, column: u32) -> f32 {
        if row.bits_at(column) < self.threshold { 0.0 } else { self.scale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropout_drops_the_stated_share_independently() {
        let (rows, columns, p) = (2000, 500, 0.1);
        let mask = Dropout::new(p).mask(Key::new(3), rows, columns);
        let dropped = |r: usize, c: usize| f64::from(u8::from(mask[r * columns + c] == 0.0));
        let share = |pairs: &mut dyn Iterator<Item = f64>, n: usize| pairs.sum::<f64>() / n as f64;
        let n = rows * columns;
        let all = || (0..rows - 1).flat_map(|r| (0..columns - 1).map(move |c| (r, c)));
        // Five standard errors of a binomial share.
        let tolerance = |q: f64| 5.0 * (q * (1.0 - q) / n as f64).sqrt();
        assert!((share(&mut mask.iter().map(|&m| f64::from(u8::from(m == 0.0))), n) - p).abs() < tolerance(p));
        for (dr, dc) in [(0, 1), (1, 0), (1, 1)] {
            let both = share(&mut all().map(|(r, c)| dropped(r, c) * dropped(r + dr, c + dc)), all().count());
            assert!((both - p * p).abs() < tolerance(p * p), "neighbours ({dr},{dc}) fall together: {both}");
        }
        assert!(mask.iter().all(|&m| m == 0.0 || m == 1.0 / 0.9));
        let one_by_one =
            |at: usize| Dropout::new(p).factor(Key::new(3).child((at / columns) as u64), (at % columns) as u32);
        assert!((0..n).step_by(97).all(|at| mask[at] == one_by_one(at)));
    }
}
