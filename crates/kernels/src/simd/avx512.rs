//! Sixteen lanes in one AVX-512 register.

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::avx2::NEAREST;
use super::{LANES, SQRT_HALF_BITS, Simd};
use semfocus_core::random;

use crate::Dropout;

/// Proof that the processor has AVX-512 F.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The processor must have AVX-512 F, AVX2 and FMA.
    #[inline(always)]
    pub(crate) unsafe fn assume_available() -> Self {
        Avx512(())
    }
}

/// Dropout from the columns times their step.
///
/// # Safety
/// The processor must have AVX-512 F.
#[inline(always)]
unsafe fn drop_by_steps(v: __m512, (low, high): (u32, u32), steps: __m512i, dropout: &Dropout) -> __m512 {
    // SAFETY: the caller guarantees the instruction set; no memory is touched.
    unsafe {
        let mut x = _mm512_add_epi32(steps, _mm512_set1_epi32(low as i32));
        x = _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x));
        x = _mm512_mullo_epi32(x, _mm512_set1_epi32(random::MIX_1 as i32));
        x = _mm512_xor_si512(x, _mm512_set1_epi32(high as i32));
        x = _mm512_xor_si512(x, _mm512_srli_epi32::<15>(x));
        x = _mm512_mullo_epi32(x, _mm512_set1_epi32(random::MIX_2 as i32));
        x = _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x));
        let stays = _mm512_cmpge_epu32_mask(x, _mm512_set1_epi32(dropout.threshold as i32));
        _mm512_maskz_mul_ps(stays, v, _mm512_set1_ps(dropout.scale))
    }
}

// SAFETY of all blocks below: an `Avx512` value exists only where the processor has AVX-512 F (its constructor demands
// it), and no block but loads and stores touches memory; those pass the caller's guarantee on.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd for Avx512 {
    type F = __m512;

    const TILE_ROWS: usize = 6;
    const TILE_VECTORS: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> Self::F {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_at(self, to: *mut f32, v: Self::F) {
        unsafe { _mm512_storeu_ps(to, v) }
    }

    operations! {
        add(a, b) = unsafe { _mm512_add_ps(a, b) };
        sub(a, b) = unsafe { _mm512_sub_ps(a, b) };
        mul(a, b) = unsafe { _mm512_mul_ps(a, b) };
        div(a, b) = unsafe { _mm512_div_ps(a, b) };
        fma(a, b, c) = unsafe { _mm512_fmadd_ps(a, b, c) };
        max(a, b) = unsafe { _mm512_max_ps(a, b) };
        min(a, b) = unsafe { _mm512_min_ps(a, b) };
        round(a) = unsafe { _mm512_roundscale_ps::<NEAREST>(a) };
    }

    #[inline(always)]
    fn pow2(self, n: Self::F) -> Self::F {
        unsafe {
            let exponent = _mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127));
            _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent))
        }
    }

    operations! {
        sqrt(a) = unsafe { _mm512_sqrt_ps(a) };
    }

    #[inline(always)]
    fn mantissa_and_exponent(self, a: Self::F) -> (Self::F, Self::F) {
        unsafe {
            let bits = _mm512_castps_si512(a);
            let n = _mm512_srai_epi32::<23>(_mm512_sub_epi32(bits, _mm512_set1_epi32(SQRT_HALF_BITS)));
            let mantissa = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32::<23>(n)));
            (mantissa, _mm512_cvtepi32_ps(n))
        }
    }

    #[inline(always)]
    fn compress(self, to: &mut [f32], v: Self::F, lanes: u32) -> usize {
        self.store(to, unsafe { _mm512_maskz_compress_ps(lanes as u16, v) });
        (lanes as u16).count_ones() as usize
    }

    #[inline(always)]
    fn where_positive(self, condition: Self::F, a: Self::F, b: Self::F) -> Self::F {
        unsafe {
            let positive = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(condition, _mm512_setzero_ps());
            _mm512_mask_blend_ps(positive, b, a)
        }
    }

    operations! {
        below_or(a, limit, b) = unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, limit), b, a) };
    }

    #[inline(always)]
    fn greater(self, a: Self::F, b: Self::F) -> u32 {
        unsafe { u32::from(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b)) }
    }

    #[inline(always)]
    fn replace(self, a: Self::F, lanes: u32, b: Self::F) -> Self::F {
        unsafe { _mm512_mask_blend_ps(lanes as u16, a, b) }
    }

    #[inline(always)]
    fn first_or(self, n: usize, a: Self::F, b: Self::F) -> Self::F {
        let lanes = ((1u32 << n.min(LANES)) - 1) as u16;
        unsafe { _mm512_mask_blend_ps(lanes, b, a) }
    }

    #[inline(always)]
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES] {
        // Pairs of values, then of pairs, change places within 128-bit quarters; then quarters change places.
        let mut r = rows;
        unsafe {
            let mut t = r;
            for i in (0..LANES).step_by(2) {
                t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
                t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
            }
            let low = |a, b| _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
            let high = |a, b| _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
            // Now r[4g + c] holds, in quarter q, column 4q + c of the rows 4g..4g + 4.
            for g in (0..LANES).step_by(4) {
                r[g] = low(t[g], t[g + 2]);
                r[g + 1] = high(t[g], t[g + 2]);
                r[g + 2] = low(t[g + 1], t[g + 3]);
                r[g + 3] = high(t[g + 1], t[g + 3]);
            }
            for c in 0..4 {
                let (a, b, d, e) = (r[c], r[c + 4], r[c + 8], r[c + 12]);
                let (ab_low, ab_high) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
                let (de_low, de_high) = (_mm512_shuffle_f32x4::<0x88>(d, e), _mm512_shuffle_f32x4::<0xdd>(d, e));
                t[c] = _mm512_shuffle_f32x4::<0x88>(ab_low, de_low);
                t[c + 8] = _mm512_shuffle_f32x4::<0xdd>(ab_low, de_low);
                t[c + 4] = _mm512_shuffle_f32x4::<0x88>(ab_high, de_high);
                t[c + 12] = _mm512_shuffle_f32x4::<0xdd>(ab_high, de_high);
            }
            t
        }
    }

    #[inline(always)]
    fn dropout(self, v: Self::F, key_words: (u32, u32), column: u32, dropout: &Dropout) -> Self::F {
        unsafe {
            let lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            // (column + lane) * STEP, with the part that does not depend on the column known when this is compiled.
            let steps = _mm512_mullo_epi32(lane, _mm512_set1_epi32(random::COLUMN_STEP as i32));
            let start = column.wrapping_mul(random::COLUMN_STEP);
            drop_by_steps(v, key_words, _mm512_add_epi32(steps, _mm512_set1_epi32(start as i32)), dropout)
        }
    }

    #[inline(always)]
    fn dropout_at(self, v: Self::F, key_words: (u32, u32), columns: &[u32; LANES], dropout: &Dropout) -> Self::F {
        unsafe {
            let columns = _mm512_loadu_si512(columns.as_ptr().cast());
            let steps = _mm512_mullo_epi32(columns, _mm512_set1_epi32(random::COLUMN_STEP as i32));
            drop_by_steps(v, key_words, steps, dropout)
        }
    }

    #[inline(always)]
    fn load_some(self, from: &[f32]) -> Self::F {
        let lanes = ((1u32 << from.len().min(LANES)) - 1) as u16;
        // Lanes that are not in the mask are not read.
        unsafe { _mm512_maskz_loadu_ps(lanes, from.as_ptr()) }
    }

    #[inline(always)]
    fn store_new(self, to: &mut [MaybeUninit<f32>], v: Self::F) {
        let lanes = ((1u32 << to.len().min(LANES)) - 1) as u16;
        // Lanes that are not in the mask are not written.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr().cast(), lanes, v) }
    }

    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(a)));
            super::avx2::sum_halves(_mm256_add_ps(_mm512_castps512_ps256(a), high))
        }
    }

    #[inline(always)]
    fn max_lane(self, a: Self::F) -> f32 {
        unsafe { _mm512_reduce_max_ps(a) }
    }
}
