//! Sixteen lanes in four NEON registers.

use std::arch::aarch64::*;

use super::{LANES, Simd};
use semfocus_core::random;

use crate::Dropout;

/// Proof that the processor has NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    /// # Safety
    /// The processor must have NEON.
    #[inline(always)]
    pub(crate) unsafe fn assume_available() -> Self {
        Neon(())
    }
}

/// Something for lanes 0–3, 4–7, 8–11 and 12–15.
type Quarters<T> = [T; 4];

/// Operations on four lanes, of which a vector has four times as many. They are functions and not closures: see `avx2.rs`.
///
/// # Safety
/// The processor must have NEON. No function touches memory other than through references.
#[allow(clippy::undocumented_unsafe_blocks, reason = "the contract above holds for all of them")]
mod quarter {
    use super::*;

    #[inline(always)]
    pub(super) unsafe fn from_array(values: &[u32; 4]) -> uint32x4_t {
        unsafe { vld1q_u32(values.as_ptr()) }
    }

    /// The numbers of the lanes of every quarter.
    #[inline(always)]
    pub(super) unsafe fn lane_numbers() -> Quarters<uint32x4_t> {
        unsafe {
            [
                from_array(&[0, 1, 2, 3]),
                from_array(&[4, 5, 6, 7]),
                from_array(&[8, 9, 10, 11]),
                from_array(&[12, 13, 14, 15]),
            ]
        }
    }

    /// In every lane the bit that stands for it in a set of lanes.
    #[inline(always)]
    pub(super) unsafe fn lane_bits() -> Quarters<uint32x4_t> {
        unsafe {
            [
                from_array(&[1, 1 << 1, 1 << 2, 1 << 3]),
                from_array(&[1 << 4, 1 << 5, 1 << 6, 1 << 7]),
                from_array(&[1 << 8, 1 << 9, 1 << 10, 1 << 11]),
                from_array(&[1 << 12, 1 << 13, 1 << 14, 1 << 15]),
            ]
        }
    }

    // The instructions for maximum and minimum would pass NaN on and order zeros by their sign; those of x86 do not.
    #[inline(always)]
    pub(super) unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) }
    }

    #[inline(always)]
    pub(super) unsafe fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcltq_f32(a, b), a, b) }
    }

    #[inline(always)]
    pub(super) unsafe fn pow2(n: float32x4_t) -> float32x4_t {
        unsafe {
            let exponent = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent))
        }
    }

    #[inline(always)]
    pub(super) unsafe fn where_positive(condition: float32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcgtzq_f32(condition), a, b) }
    }

    #[inline(always)]
    pub(super) unsafe fn below_or(a: float32x4_t, limit: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcltq_f32(a, limit), a, b) }
    }

    /// The bits of the lanes in which `a` is greater than `b`.
    #[inline(always)]
    pub(super) unsafe fn greater(a: float32x4_t, b: float32x4_t, lane_bits: uint32x4_t) -> uint32x4_t {
        unsafe { vandq_u32(vcgtq_f32(a, b), lane_bits) }
    }

    #[inline(always)]
    pub(super) unsafe fn replace(a: float32x4_t, b: float32x4_t, lanes: uint32x4_t, bits: uint32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vtstq_u32(lanes, bits), b, a) }
    }

    #[inline(always)]
    pub(super) unsafe fn first_or(n: uint32x4_t, a: float32x4_t, b: float32x4_t, lane: uint32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcltq_u32(lane, n), a, b) }
    }

    /// The transpose of a 4 × 4 matrix given by its rows.
    #[inline(always)]
    pub(super) unsafe fn transpose([a, b, c, d]: Quarters<float32x4_t>) -> Quarters<float32x4_t> {
        // Single values change places between two rows, then pairs of values between two pairs of rows.
        unsafe {
            let ab_even = vreinterpretq_f64_f32(vtrn1q_f32(a, b));
            let ab_odd = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
            let cd_even = vreinterpretq_f64_f32(vtrn1q_f32(c, d));
            let cd_odd = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
            [
                vreinterpretq_f32_f64(vtrn1q_f64(ab_even, cd_even)),
                vreinterpretq_f32_f64(vtrn1q_f64(ab_odd, cd_odd)),
                vreinterpretq_f32_f64(vtrn2q_f64(ab_even, cd_even)),
                vreinterpretq_f32_f64(vtrn2q_f64(ab_odd, cd_odd)),
            ]
        }
    }

    /// Columns times their step.
    #[inline(always)]
    pub(super) unsafe fn column_steps(columns: uint32x4_t) -> uint32x4_t {
        unsafe { vmulq_u32(columns, vdupq_n_u32(random::COLUMN_STEP)) }
    }

    /// Dropout from the columns times their step.
    #[inline(always)]
    pub(super) unsafe fn dropout(
        v: float32x4_t,
        (low, high): (u32, u32),
        steps: uint32x4_t,
        dropout: &Dropout,
    ) -> float32x4_t {
        unsafe {
            let mut x = vaddq_u32(steps, vdupq_n_u32(low));
            x = veorq_u32(x, vshrq_n_u32::<16>(x));
            x = vmulq_u32(x, vdupq_n_u32(random::MIX_1));
            x = veorq_u32(x, vdupq_n_u32(high));
            x = veorq_u32(x, vshrq_n_u32::<15>(x));
            x = vmulq_u32(x, vdupq_n_u32(random::MIX_2));
            x = veorq_u32(x, vshrq_n_u32::<16>(x));
            let stays = vcgeq_u32(x, vdupq_n_u32(dropout.threshold));
            let scaled = vreinterpretq_u32_f32(vmulq_f32(v, vdupq_n_f32(dropout.scale)));
            vreinterpretq_f32_u32(vandq_u32(scaled, stays))
        }
    }
}

/// The results of an operation for all quarters of its operands.
macro_rules! quarters {
    ($operation:path[$($operand:ident),*]) => {
        [
            $operation($($operand[0]),*),
            $operation($($operand[1]),*),
            $operation($($operand[2]),*),
            $operation($($operand[3]),*),
        ]
    };
}

// SAFETY of all blocks below: a `Neon` value exists only where the processor has NEON (its constructor demands it), and no
// block but loads and stores touches memory other than through references; those pass the caller's guarantee on.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd for Neon {
    type F = Quarters<float32x4_t>;

    // 24 of the 32 registers hold sums, 4 the vector of the right matrix, and 4 are free for values of the left one. A step
    // has 24 multiply-adds for 10 loads. With 3 rows of 2 vectors, sums and right matrix alone would fill all registers.
    const TILE_ROWS: usize = 6;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [unsafe { vdupq_n_f32(x) }; 4]
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> Self::F {
        unsafe { [vld1q_f32(from), vld1q_f32(from.add(4)), vld1q_f32(from.add(8)), vld1q_f32(from.add(12))] }
    }

    #[inline(always)]
    unsafe fn store_at(self, to: *mut f32, v: Self::F) {
        unsafe {
            vst1q_f32(to, v[0]);
            vst1q_f32(to.add(4), v[1]);
            vst1q_f32(to.add(8), v[2]);
            vst1q_f32(to.add(12), v[3]);
        }
    }

    operations! {
        add(a, b) = unsafe { quarters!(vaddq_f32[a, b]) };
        sub(a, b) = unsafe { quarters!(vsubq_f32[a, b]) };
        mul(a, b) = unsafe { quarters!(vmulq_f32[a, b]) };
        div(a, b) = unsafe { quarters!(vdivq_f32[a, b]) };
        fma(a, b, c) = unsafe { quarters!(vfmaq_f32[c, a, b]) };
        max(a, b) = unsafe { quarters!(quarter::max[a, b]) };
        min(a, b) = unsafe { quarters!(quarter::min[a, b]) };
        round(a) = unsafe { quarters!(vrndnq_f32[a]) };
        pow2(n) = unsafe { quarters!(quarter::pow2[n]) };
        where_positive(condition, a, b) = unsafe { quarters!(quarter::where_positive[condition, a, b]) };
        below_or(a, limit, b) = unsafe { quarters!(quarter::below_or[a, limit, b]) };
    }

    #[inline(always)]
    fn greater(self, a: Self::F, b: Self::F) -> u32 {
        unsafe {
            let bits = quarter::lane_bits();
            let [a, b, c, d] = quarters!(quarter::greater[a, b, bits]);
            vaddvq_u32(vorrq_u32(vorrq_u32(a, b), vorrq_u32(c, d)))
        }
    }

    #[inline(always)]
    fn replace(self, a: Self::F, lanes: u32, b: Self::F) -> Self::F {
        unsafe {
            let (lanes, bits) = ([vdupq_n_u32(lanes); 4], quarter::lane_bits());
            quarters!(quarter::replace[a, b, lanes, bits])
        }
    }

    #[inline(always)]
    fn first_or(self, n: usize, a: Self::F, b: Self::F) -> Self::F {
        unsafe {
            let (n, lane) = ([vdupq_n_u32(n.min(LANES) as u32); 4], quarter::lane_numbers());
            quarters!(quarter::first_or[n, a, b, lane])
        }
    }

    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        let mut columns = rows;
        for i in 0..4 {
            for j in 0..4 {
                let block = [rows[4 * i][j], rows[4 * i + 1][j], rows[4 * i + 2][j], rows[4 * i + 3][j]];
                let [a, b, c, d] = unsafe { quarter::transpose(block) };
                columns[4 * j][i] = a;
                columns[4 * j + 1][i] = b;
                columns[4 * j + 2][i] = c;
                columns[4 * j + 3][i] = d;
            }
        }
        columns
    }

    #[inline(always)]
    fn dropout(self, v: Self::F, key_words: (u32, u32), column: u32, dropout: &Dropout) -> Self::F {
        unsafe {
            // (column + lane) * STEP, with the part that does not depend on the column known when this is compiled.
            let lane = quarter::lane_numbers();
            let lane_steps = quarters!(quarter::column_steps[lane]);
            let start = [vdupq_n_u32(column.wrapping_mul(random::COLUMN_STEP)); 4];
            let steps = quarters!(vaddq_u32[lane_steps, start]);
            let (key_words, dropout) = ([key_words; 4], [dropout; 4]);
            quarters!(quarter::dropout[v, key_words, steps, dropout])
        }
    }

    #[inline(always)]
    fn dropout_at(self, v: Self::F, key_words: (u32, u32), columns: &[u32; LANES], dropout: &Dropout) -> Self::F {
        unsafe {
            let (columns, _) = columns.as_chunks::<4>();
            let columns = [&columns[0], &columns[1], &columns[2], &columns[3]];
            let columns = quarters!(quarter::from_array[columns]);
            let steps = quarters!(quarter::column_steps[columns]);
            let (key_words, dropout) = ([key_words; 4], [dropout; 4]);
            quarters!(quarter::dropout[v, key_words, steps, dropout])
        }
    }

    #[inline(always)]
    fn sum(self, [a, b, c, d]: Self::F) -> f32 {
        unsafe {
            let four = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }

    #[inline(always)]
    fn max_lane(self, [a, b, c, d]: Self::F) -> f32 {
        unsafe {
            let four = quarter::max(quarter::max(a, c), quarter::max(b, d));
            let two = quarter::max(four, vextq_f32::<2>(four, four));
            vgetq_lane_f32::<0>(quarter::max(two, vextq_f32::<1>(two, two)))
        }
    }
}
