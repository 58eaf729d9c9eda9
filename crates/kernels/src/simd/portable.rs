//! Sixteen lanes in plain Rust: the definition of what the other implementations compute.

use super::{LANES, Simd};
use semfocus_core::random;

use crate::Dropout;

/// Works on every processor.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

// The second operand wins when the comparison fails, as with the instructions of x86: NaN in `a` is not passed on.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

impl Simd for Portable {
    type F = [f32; LANES];

    const TILE_ROWS: usize = 4;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> Self::F {
        // SAFETY: the caller guarantees sixteen readable values; arrays of `f32` need no more alignment than `f32`.
        unsafe { from.cast::<Self::F>().read() }
    }

    #[inline(always)]
    unsafe fn store_at(self, to: *mut f32, v: Self::F) {
        // SAFETY: the caller guarantees sixteen writable values.
        unsafe { to.cast::<Self::F>().write(v) }
    }

    operations! {
        add(a, b) = zip(a, b, |a, b| a + b);
        sub(a, b) = zip(a, b, |a, b| a - b);
        mul(a, b) = zip(a, b, |a, b| a * b);
        div(a, b) = zip(a, b, |a, b| a / b);
        fma(a, b, c) = std::array::from_fn(|i| a[i].mul_add(b[i], c[i]));
        max(a, b) = zip(a, b, larger);
        min(a, b) = zip(a, b, smaller);
        round(a) = a.map(f32::round_ties_even);
        pow2(n) = n.map(|n| f32::from_bits(((n as i32 + 127) << 23) as u32));
        where_positive(condition, a, b) = std::array::from_fn(|i| if condition[i] > 0.0 { a[i] } else { b[i] });
        below_or(a, limit, b) = std::array::from_fn(|i| if a[i] < limit[i] { a[i] } else { b[i] });
    }

    #[inline(always)]
    fn greater(self, a: Self::F, b: Self::F) -> u32 {
        (0..LANES).map(|i| u32::from(a[i] > b[i]) << i).sum()
    }

    #[inline(always)]
    fn replace(self, a: Self::F, lanes: u32, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if lanes >> i & 1 == 1 { b[i] } else { a[i] })
    }

    #[inline(always)]
    fn first_or(self, n: usize, a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if i < n { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        std::array::from_fn(|column| std::array::from_fn(|row| rows[row][column]))
    }

    #[inline(always)]
    fn dropout(self, v: Self::F, key_words: (u32, u32), column: u32, dropout: &Dropout) -> Self::F {
        self.dropout_at(v, key_words, &std::array::from_fn(|i| column.wrapping_add(i as u32)), dropout)
    }

    #[inline(always)]
    fn dropout_at(self, v: Self::F, (low, high): (u32, u32), columns: &[u32; LANES], dropout: &Dropout) -> Self::F {
        std::array::from_fn(|i| {
            let bits = random::bits_from_words(low, high, columns[i]);
            if bits < dropout.threshold { 0.0 } else { v[i] * dropout.scale }
        })
    }

    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        let a: [f32; 8] = std::array::from_fn(|i| a[i] + a[i + 8]);
        let a: [f32; 4] = std::array::from_fn(|i| a[i] + a[i + 4]);
        (a[0] + a[2]) + (a[1] + a[3])
    }

    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        let a: [f32; 8] = std::array::from_fn(|i| larger(a[i], a[i + 8]));
        let a: [f32; 4] = std::array::from_fn(|i| larger(a[i], a[i + 4]));
        larger(larger(a[0], a[2]), larger(a[1], a[3]))
    }
}
