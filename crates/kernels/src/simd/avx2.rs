//! Sixteen lanes in two AVX2 registers.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::{LANES, SQRT_HALF_BITS, Simd};
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
    pub(super) unsafe fn mantissa_and_exponent(a: __m256) -> (__m256, __m256) {
        unsafe {
            let bits = _mm256_castps_si256(a);
            let n = _mm256_srai_epi32::<23>(_mm256_sub_epi32(bits, _mm256_set1_epi32(SQRT_HALF_BITS)));
            let mantissa = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(n)));
            (mantissa, _mm256_cvtepi32_ps(n))
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
    pub(super) unsafe fn first_or(first: __m256i, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(b, a, _mm256_castsi256_ps(first)) }
    }

    /// The first `n` of sixteen lanes, as masks of the lower eight and the upper eight.
    #[inline(always)]
    pub(super) unsafe fn first_masks(n: usize) -> (__m256i, __m256i) {
        unsafe {
            let n = _mm256_set1_epi32(n as i32);
            let low = _mm256_cmpgt_epi32(n, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            (low, _mm256_cmpgt_epi32(n, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)))
        }
    }

    /// The transpose of an 8 × 8 matrix given by its rows: pairs of rows are interleaved, then pairs of pairs, then halves.
    #[inline(always)]
    pub(super) unsafe fn transpose([a, b, c, d, e, f, g, h]: [__m256; 8]) -> [__m256; 8] {
        unsafe {
            let (ab, cd) = (
                (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)),
                (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d)),
            );
            let (ef, gh) = (
                (_mm256_unpacklo_ps(e, f), _mm256_unpackhi_ps(e, f)),
                (_mm256_unpacklo_ps(g, h), _mm256_unpackhi_ps(g, h)),
            );
            let upper = [
                _mm256_shuffle_ps::<0x44>(ab.0, cd.0),
                _mm256_shuffle_ps::<0xee>(ab.0, cd.0),
                _mm256_shuffle_ps::<0x44>(ab.1, cd.1),
                _mm256_shuffle_ps::<0xee>(ab.1, cd.1),
            ];
            let lower = [
                _mm256_shuffle_ps::<0x44>(ef.0, gh.0),
                _mm256_shuffle_ps::<0xee>(ef.0, gh.0),
                _mm256_shuffle_ps::<0x44>(ef.1, gh.1),
                _mm256_shuffle_ps::<0xee>(ef.1, gh.1),
            ];
            [
                _mm256_permute2f128_ps::<0x20>(upper[0], lower[0]),
                _mm256_permute2f128_ps::<0x20>(upper[1], lower[1]),
                _mm256_permute2f128_ps::<0x20>(upper[2], lower[2]),
                _mm256_permute2f128_ps::<0x20>(upper[3], lower[3]),
                _mm256_permute2f128_ps::<0x31>(upper[0], lower[0]),
                _mm256_permute2f128_ps::<0x31>(upper[1], lower[1]),
                _mm256_permute2f128_ps::<0x31>(upper[2], lower[2]),
                _mm256_permute2f128_ps::<0x31>(upper[3], lower[3]),
            ]
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

/// The results of an operation for both halves of its operands.
macro_rules! halves {
    ($operation:path[$($operand:ident),*]) => {
        ($operation($($operand.0),*), $operation($($operand.1),*))
    };
}

/// To the nearest integer, ties to even, without raising a flag.
pub(super) const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

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

    operations! {
        add(a, b) = unsafe { halves!(_mm256_add_ps[a, b]) };
        sub(a, b) = unsafe { halves!(_mm256_sub_ps[a, b]) };
        mul(a, b) = unsafe { halves!(_mm256_mul_ps[a, b]) };
        div(a, b) = unsafe { halves!(_mm256_div_ps[a, b]) };
        fma(a, b, c) = unsafe { halves!(_mm256_fmadd_ps[a, b, c]) };
        max(a, b) = unsafe { halves!(_mm256_max_ps[a, b]) };
        min(a, b) = unsafe { halves!(_mm256_min_ps[a, b]) };
        round(a) = unsafe { halves!(_mm256_round_ps::<NEAREST>[a]) };
        pow2(n) = unsafe { halves!(half::pow2[n]) };
        sqrt(a) = unsafe { halves!(_mm256_sqrt_ps[a]) };
    }

    #[inline(always)]
    fn mantissa_and_exponent(self, a: Self::F) -> (Self::F, Self::F) {
        let (low, high) = unsafe { halves!(half::mantissa_and_exponent[a]) };
        ((low.0, high.0), (low.1, high.1))
    }

    operations! {
        where_positive(condition, a, b) = unsafe { halves!(half::where_positive[condition, a, b]) };
        below_or(a, limit, b) = unsafe { halves!(half::below_or[a, limit, b]) };
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
        unsafe {
            let (low, high) = half::first_masks(n);
            (half::first_or(low, a.0, b.0), half::first_or(high, a.1, b.1))
        }
    }

    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        let mut columns = rows;
        for (first, half) in [(0, 0), (0, 8), (8, 0), (8, 8)] {
            let mut square = [rows[0].0; 8];
            for (r, to) in square.iter_mut().enumerate() {
                let row = rows[first + r];
                *to = if half == 0 { row.0 } else { row.1 };
            }
            let square = unsafe { half::transpose(square) };
            for (c, from) in square.into_iter().enumerate() {
                let column = &mut columns[half + c];
                *if first == 0 { &mut column.0 } else { &mut column.1 } = from;
            }
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
    fn load_some(self, from: &[f32]) -> Self::F {
        if from.len() >= LANES {
            return self.load(from);
        }
        // Lanes that are not in the mask are not read.
        unsafe {
            let (low, high) = half::first_masks(from.len());
            let at = from.as_ptr();
            (_mm256_maskload_ps(at, low), _mm256_maskload_ps(at.wrapping_add(8), high))
        }
    }

    #[inline(always)]
    fn store_new(self, to: &mut [MaybeUninit<f32>], v: Self::F) {
        let at = to.as_mut_ptr().cast();
        if to.len() >= LANES {
            return unsafe { self.store_at(at, v) };
        }
        // Lanes that are not in the mask are not written.
        unsafe {
            let (low, high) = half::first_masks(to.len());
            _mm256_maskstore_ps(at, low, v.0);
            _mm256_maskstore_ps(at.wrapping_add(8), high, v.1);
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
