//! Sixteen lanes in two AVX2 registers.

use std::arch::x86_64::*;

use super::{LANES, Simd};
use semfocus_core::random;

use crate::Dropout;

/// Proof that the processor has AVX2 and FMA.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The processor must have AVX2 and FMA.
    #[inline(always)]
    pub(crate) unsafe fn assume_available() -> Self {
        Avx2(())
    }
}

/// Lanes 0–7 and lanes 8–15.
type Pair = (__m256, __m256);

/// Sum of eight lanes: halves are added to halves.
///
/// # Safety
/// The processor must have AVX.
#[inline(always)]
pub(super) unsafe fn sum_halves(a: __m256) -> f32 {
    // SAFETY: the caller guarantees AVX; no memory is touched.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// Operations on eight lanes, of which a vector has two. They are functions and not closures: a closure is compiled without
/// the instruction set of the function it is inlined into, and every intrinsic in it becomes a call.
///
/// # Safety
/// The processor must have AVX2 and FMA. No function but `dropout_at` touches memory.
#[allow(clippy::undocumented_unsafe_blocks, reason = "the contract above holds for all of them")]
mod half {
    use super::*;

    #[inline(always)]
    pub(super) unsafe fn pow2(n: __m256) -> __m256 {
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
        }
    }

    #[inline(always)]
    pub(super) unsafe fn where_positive(condition: __m256, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_GT_OQ>(condition, _mm256_setzero_ps())) }
    }

    #[inline(always)]
    pub(super) unsafe fn below_or(a: __m256, limit: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_LT_OQ>(a, limit)) }
    }

    #[inline(always)]
    pub(super) unsafe fn greater(a: __m256, b: __m256) -> u32 {
        unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b)) as u32 }
    }

    #[inline(always)]
    pub(super) unsafe fn replace(a: __m256, b: __m256, lanes: u32) -> __m256 {
        unsafe {
            let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(lanes as i32), bit), bit);
            _mm256_blendv_ps(a, b, _mm256_castsi256_ps(set))
        }
    }

    #[inline(always)]
    pub(super) unsafe fn first_or(n: usize, a: __m256, b: __m256, first: i32) -> __m256 {
        unsafe {
            let lane = _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
            let first = _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane);
            _mm256_blendv_ps(b, a, _mm256_castsi256_ps(first))
        }
    }

    #[inline(always)]
    pub(super) unsafe fn dropout(v: __m256, key_words: (u32, u32), column: u32, dropout: &Dropout) -> __m256 {
        unsafe {
            let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let start = column.wrapping_mul(random::COLUMN_STEP);
            let steps = _mm256_mullo_epi32(lane, _mm256_set1_epi32(random::COLUMN_STEP as i32));
            drop_by_steps(v, key_words, _mm256_add_epi32(steps, _mm256_set1_epi32(start as i32)), dropout)
        }
    }

    /// # Safety
    /// `columns` must be valid for reading eight values.
    #[inline(always)]
    pub(super) unsafe fn dropout_at(
        v: __m256,
        key_words: (u32, u32),
        columns: *const u32,
        dropout: &Dropout,
    ) -> __m256 {
        unsafe {
            let columns = _mm256_loadu_si256(columns.cast());
            let steps = _mm256_mullo_epi32(columns, _mm256_set1_epi32(random::COLUMN_STEP as i32));
            drop_by_steps(v, key_words, steps, dropout)
        }
    }

    /// Dropout from the columns times their step.
    #[inline(always)]
    unsafe fn drop_by_steps(v: __m256, (low, high): (u32, u32), steps: __m256i, dropout: &Dropout) -> __m256 {
        unsafe {
            let mut x = _mm256_add_epi32(steps, _mm256_set1_epi32(low as i32));
            x = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
            x = _mm256_mullo_epi32(x, _mm256_set1_epi32(random::MIX_1 as i32));
            x = _mm256_xor_si256(x, _mm256_set1_epi32(high as i32));
            x = _mm256_xor_si256(x, _mm256_srli_epi32::<15>(x));
            x = _mm256_mullo_epi32(x, _mm256_set1_epi32(random::MIX_2 as i32));
            x = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
            // Unsigned x >= threshold, as max(x, threshold) == x.
            let stays = _mm256_cmpeq_epi32(_mm256_max_epu32(x, _mm256_set1_epi32(dropout.threshold as i32)), x);
            _mm256_and_ps(_mm256_mul_ps(v, _mm256_set1_ps(dropout.scale)), _mm256_castsi256_ps(stays))
        }
    }
}

// SAFETY of all blocks below: an `Avx2` value exists only where the processor has AVX2 and FMA (its constructor demands
// it), and no block but loads and stores touches memory; those pass the caller's guarantee on.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd for Avx2 {
    type F = Pair;

    const TILE_ROWS: usize = 6;
    const TILE_VECTORS: usize = 1;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        let v = unsafe { _mm256_set1_ps(x) };
        (v, v)
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> Self::F {
        unsafe { (_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn store_at(self, to: *mut f32, v: Self::F) {
        unsafe {
            _mm256_storeu_ps(to, v.0);
            _mm256_storeu_ps(to.add(8), v.1);
        }
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (_mm256_add_ps(a.0, b.0), _mm256_add_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (_mm256_sub_ps(a.0, b.0), _mm256_sub_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (_mm256_div_ps(a.0, b.0), _mm256_div_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        unsafe { (_mm256_fmadd_ps(a.0, b.0, c.0), _mm256_fmadd_ps(a.1, b.1, c.1)) }
    }

    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (_mm256_max_ps(a.0, b.0), _mm256_max_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (_mm256_min_ps(a.0, b.0), _mm256_min_ps(a.1, b.1)) }
    }

    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        unsafe { (_mm256_round_ps::<NEAREST>(a.0), _mm256_round_ps::<NEAREST>(a.1)) }
    }

    #[inline(always)]
    fn pow2(self, n: Self::F) -> Self::F {
        unsafe { (half::pow2(n.0), half::pow2(n.1)) }
    }

    #[inline(always)]
    fn where_positive(self, condition: Self::F, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (half::where_positive(condition.0, a.0, b.0), half::where_positive(condition.1, a.1, b.1)) }
    }

    #[inline(always)]
    fn below_or(self, a: Self::F, limit: Self::F, b: Self::F) -> Self::F {
        unsafe { (half::below_or(a.0, limit.0, b.0), half::below_or(a.1, limit.1, b.1)) }
    }

    #[inline(always)]
    fn greater(self, a: Self::F, b: Self::F) -> u32 {
        unsafe { half::greater(a.0, b.0) | half::greater(a.1, b.1) << 8 }
    }

    #[inline(always)]
    fn replace(self, a: Self::F, lanes: u32, b: Self::F) -> Self::F {
        unsafe { (half::replace(a.0, b.0, lanes & 0xff), half::replace(a.1, b.1, lanes >> 8 & 0xff)) }
    }

    #[inline(always)]
    fn first_or(self, n: usize, a: Self::F, b: Self::F) -> Self::F {
        unsafe { (half::first_or(n, a.0, b.0, 0), half::first_or(n, a.1, b.1, 8)) }
    }

    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        // Through memory.
        let mut values = [[0.0; LANES]; LANES];
        for (values, row) in values.iter_mut().zip(rows) {
            self.store(values, row);
        }
        let mut columns = rows;
        for (c, column) in columns.iter_mut().enumerate() {
            let mut lanes = [0.0; LANES];
            for (lane, row) in lanes.iter_mut().zip(&values) {
                *lane = row[c];
            }
            *column = self.load(&lanes);
        }
        columns
    }

    #[inline(always)]
    fn dropout(self, v: Self::F, key_words: (u32, u32), column: u32, dropout: &Dropout) -> Self::F {
        unsafe {
            (
                half::dropout(v.0, key_words, column, dropout),
                half::dropout(v.1, key_words, column.wrapping_add(8), dropout),
            )
        }
    }

    #[inline(always)]
    fn dropout_at(self, v: Self::F, key_words: (u32, u32), columns: &[u32; LANES], dropout: &Dropout) -> Self::F {
        unsafe {
            (
                half::dropout_at(v.0, key_words, columns.as_ptr(), dropout),
                half::dropout_at(v.1, key_words, columns[8..].as_ptr(), dropout),
            )
        }
    }

    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        unsafe { sum_halves(_mm256_add_ps(a.0, a.1)) }
    }

    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        unsafe {
            let eight = _mm256_max_ps(a.0, a.1);
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}
