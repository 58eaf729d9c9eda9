//! Sixteen `f32` lanes, with the best instructions the processor has.
//!
//! A [`Simd`] value is the proof that its instruction set exists on this machine, so its methods are safe to call. All
//! implementations round every operation the same way and reduce in the same order, so a kernel gives **the same bits** with
//! AVX-512, AVX2, NEON and in the portable form. The tests check that.
//!
//! Kernels are written once, with [`dispatched!`]. Inside them, plain loops take the place of `array::map`, `from_fn` and
//! the like: a closure that the standard library calls is compiled without the instruction set, and is slow.

/// Methods of [`Simd`] whose operands and results are whole vectors: `add(a, b) = expression;`.
macro_rules! operations {
    ($($name:ident($($operand:ident),*) = $result:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($operand: Self::F),*) -> Self::F {
            $result
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use portable::Portable;

/// Number of lanes of a vector; rows of internal buffers are padded to a multiple of it.
pub(crate) const LANES: usize = 16;

/// The result of a comparison that holds in every lane.
pub(crate) const ALL_LANES: u32 = (1 << LANES) - 1;

/// `n` rounded up to whole vectors.
pub(crate) const fn padded(n: usize) -> usize {
    n.next_multiple_of(LANES)
}

/// Arithmetic on sixteen lanes.
pub(crate) trait Simd: Copy {
    /// Sixteen `f32`.
    type F: Copy;

    /// The most rows of a matrix-product tile that is `TILE_VECTORS` wide and stays in registers.
    const TILE_ROWS: usize;
    /// The most vectors in a row of such a tile.
    const TILE_VECTORS: usize;

    fn splat(self, x: f32) -> Self::F;
    /// Reads sixteen values.
    ///
    /// # Safety
    /// `from` must be valid for reading sixteen values.
    unsafe fn load_at(self, from: *const f32) -> Self::F;
    /// Writes sixteen values.
    ///
    /// # Safety
    /// `to` must be valid for writing sixteen values.
    unsafe fn store_at(self, to: *mut f32, v: Self::F);
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a` where it is above `b`, otherwise `b`; so NaN in `a` gives `b`, and so do zeros of different sign.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a` where it is below `b`, otherwise `b`.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// Nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `2^n` for integral `n` within -126..=127.
    fn pow2(self, n: Self::F) -> Self::F;
    /// `a` where `condition` is above zero, otherwise `b`.
    fn where_positive(self, condition: Self::F, a: Self::F, b: Self::F) -> Self::F;
    /// `a` where it is below `limit`, otherwise `b`.
    fn below_or(self, a: Self::F, limit: Self::F, b: Self::F) -> Self::F;
    /// Bit `i` is set where lane `i` of `a` is greater than that of `b`.
    fn greater(self, a: Self::F, b: Self::F) -> u32;
    /// `b` in the lanes whose bit is set, `a` in the others.
    fn replace(self, a: Self::F, lanes: u32, b: Self::F) -> Self::F;
    /// The first `n` lanes of `a`, the others from `b`.
    fn first_or(self, n: usize, a: Self::F, b: Self::F) -> Self::F;
    /// The transpose of a 16 × 16 matrix given by its rows.
    fn transpose(self, rows: [Self::F; LANES]) -> [Self::F; LANES];
    /// `v` with dropout: lane `i` gets the factor of `column + i` in the row of `key_words`.
    fn dropout(self, v: Self::F, key_words: (u32, u32), column: u32, dropout: &crate::Dropout) -> Self::F;
    /// `v` with dropout: lane `i` gets the factor of `columns[i]` in the row of `key_words`.
    fn dropout_at(self, v: Self::F, key_words: (u32, u32), columns: &[u32; LANES], dropout: &crate::Dropout)
    -> Self::F;
    /// Halves added to halves until one value is left.
    fn sum(self, a: Self::F) -> f32;
    /// The [maximum](Self::max) of halves and halves until one value is left.
    fn max_lane(self, a: Self::F) -> f32;

    /// The square root, correctly rounded.
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        let mut lanes = [0.0; LANES];
        self.store(&mut lanes, a);
        for lane in &mut lanes {
            *lane = lane.sqrt();
        }
        self.load(&lanes)
    }

    /// For every positive normal lane `x` the pair of `m` and `n` with `x = m 2^n`, `√½ <= m < √2` and integral `n`.
    #[inline(always)]
    fn mantissa_and_exponent(self, a: Self::F) -> (Self::F, Self::F) {
        let (mut mantissas, mut exponents) = ([0.0; LANES], [0.0; LANES]);
        self.store(&mut mantissas, a);
        for (mantissa, exponent) in mantissas.iter_mut().zip(&mut exponents) {
            let bits = mantissa.to_bits() as i32;
            let n = bits.wrapping_sub(SQRT_HALF_BITS) >> 23;
            *mantissa = f32::from_bits(bits.wrapping_sub(n << 23) as u32);
            *exponent = n as f32;
        }
        (self.load(&mantissas), self.load(&exponents))
    }

    /// Writes the lanes whose bit is set to the front of `to`, which has room for sixteen, and returns their number. They
    /// keep their order; what the rest of the sixteen places holds afterwards is not defined.
    #[inline(always)]
    fn compress(self, to: &mut [f32], v: Self::F, lanes: u32) -> usize {
        let to: &mut [f32; LANES] = (&mut to[..LANES]).try_into().expect("the slice has just been cut to sixteen");
        let mut values = [0.0; LANES];
        self.store(&mut values, v);
        // No branch: a lane that is not wanted is written over by the next one that is.
        let mut filled = 0;
        for (lane, value) in values.iter().enumerate() {
            to[filled % LANES] = *value;
            filled += (lanes >> lane & 1) as usize;
        }
        filled
    }

    /// The first `n` lanes of `a`, the others zero.
    #[inline(always)]
    fn keep_first(self, a: Self::F, n: usize) -> Self::F {
        self.first_or(n, a, self.splat(0.0))
    }

    /// The first sixteen values of `from`.
    #[inline(always)]
    fn load(self, from: &[f32]) -> Self::F {
        let from: &[f32; LANES] = from[..LANES].try_into().expect("the slice has just been cut to sixteen");
        // SAFETY: the array reference covers sixteen values.
        unsafe { self.load_at(from.as_ptr()) }
    }

    /// Writes the first sixteen values of `to`.
    #[inline(always)]
    fn store(self, to: &mut [f32], v: Self::F) {
        let to = &mut to[..LANES];
        // SAFETY: the slice has just been cut to sixteen values.
        unsafe { self.store_at(to.as_mut_ptr(), v) }
    }

    /// Up to sixteen values of `from`; missing lanes are zero.
    #[inline(always)]
    fn load_some(self, from: &[f32]) -> Self::F {
        if from.len() >= LANES {
            return self.load(from);
        }
        let mut lanes = [0.0; LANES];
        lanes[..from.len()].copy_from_slice(from);
        self.load(&lanes)
    }

    /// Writes the first lanes, as many as fit into `to`.
    #[inline(always)]
    fn store_some(self, to: &mut [f32], v: Self::F) {
        // SAFETY: `MaybeUninit<f32>` has the layout of `f32`, and only values are written.
        self.store_new(unsafe { std::mem::transmute::<&mut [f32], &mut [MaybeUninit<f32>]>(to) }, v);
    }

    /// As [`store_some`](Self::store_some), into memory that may not have been written yet.
    #[inline(always)]
    fn store_new(self, to: &mut [MaybeUninit<f32>], v: Self::F) {
        if to.len() >= LANES {
            // SAFETY: the slice holds at least sixteen values.
            return unsafe { self.store_at(to.as_mut_ptr().cast(), v) };
        }
        let mut lanes = [0.0; LANES];
        self.store(&mut lanes, v);
        for (to, lane) in to.iter_mut().zip(lanes) {
            to.write(lane);
        }
    }
}

/// The bits of the square root of one half.
const SQRT_HALF_BITS: i32 = std::f32::consts::FRAC_1_SQRT_2.to_bits() as i32;

/// An instruction set that the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InstructionSet {
    /// Plain Rust, for any processor; slow on x86 processors without fused multiply-add.
    Portable,
    /// AVX2 with FMA, on x86-64.
    Avx2,
    /// AVX-512 F, on x86-64.
    Avx512,
    /// NEON, on 64-bit Arm.
    Neon,
}

/// The environment variable that chooses an instruction set.
pub const INSTRUCTIONS: &str = "SEMFOCUS_INSTRUCTIONS";

/// The index in [`InstructionSet::ALL`] of the set in use, or [`NONE_YET`].
static CHOSEN: AtomicU8 = AtomicU8::new(NONE_YET);
const NONE_YET: u8 = u8::MAX;

impl InstructionSet {
    /// In the order of their declaration; of two sets that a machine has, the later one is better.
    const ALL: [InstructionSet; 4] =
        [InstructionSet::Portable, InstructionSet::Avx2, InstructionSet::Avx512, InstructionSet::Neon];

    /// The instruction sets of this machine, the best one last.
    pub fn available() -> Vec<InstructionSet> {
        Self::ALL.into_iter().filter(|set| set.is_available()).collect()
    }

    fn is_available(self) -> bool {
        match self {
            InstructionSet::Portable => true,
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            InstructionSet::Avx512 => InstructionSet::Avx2.is_available() && is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "aarch64")]
            InstructionSet::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }

    /// How it is written, for instance in the environment variable [`INSTRUCTIONS`].
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Portable => "portable",
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Avx512 => "avx512",
            InstructionSet::Neon => "neon",
        }
    }

    /// The instruction set of a name, if this machine has it.
    pub fn from_name(name: &str) -> Result<Self, String> {
        let available = Self::available();
        available.iter().copied().find(|set| set.name() == name).ok_or_else(|| {
            let names: Vec<&str> = available.iter().map(|set| set.name()).collect();
            format!("this machine has no instruction set `{name}`; it has {}", names.join(", "))
        })
    }

    /// The best instruction set of this machine, or the one that the environment variable [`INSTRUCTIONS`] names.
    pub fn preferred() -> Result<Self, String> {
        match std::env::var(INSTRUCTIONS) {
            Ok(name) => Self::from_name(&name).map_err(|error| format!("{INSTRUCTIONS}: {error}")),
            Err(_) => Ok(*Self::available().last().expect("the portable form is always available")),
        }
    }

    /// The instruction set in use: the [preferred](Self::preferred) one, unless [`force`](Self::force) chose another.
    ///
    /// # Panics
    /// If the environment variable names one that this machine does not have.
    #[inline]
    pub fn current() -> InstructionSet {
        match Self::ALL.get(usize::from(CHOSEN.load(Ordering::Relaxed))) {
            Some(chosen) => *chosen,
            None => {
                let preferred = Self::preferred().unwrap_or_else(|error| panic!("{error}"));
                CHOSEN.store(preferred as u8, Ordering::Relaxed);
                preferred
            }
        }
    }

    /// Makes the whole process use this instruction set. Results do not change, only speed does.
    ///
    /// # Panics
    /// If this machine does not have it.
    pub fn force(self) {
        assert!(self.is_available(), "this machine has no {self:?}");
        CHOSEN.store(self as u8, Ordering::Relaxed);
    }
}

/// Defines a function whose body is compiled once for every instruction set and chosen at run time.
///
/// `fn name(simd; arg: Type, …) -> Out { … }`: in the body `simd` is a value that implements [`Simd`], and `S` is its type.
///
/// `fn name(simd, VECTORS of width; …)` compiles the body also for several numbers of vectors in a padded row: see
/// [`with_vectors!`].
macro_rules! dispatched {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($simd:ident, $vectors:ident of $width:expr; $($arg:ident : $ty:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $crate::simd::dispatched! {
            $(#[$meta])*
            $vis fn $name($simd; $($arg: $ty),*) $(-> $out)? {
                #[inline(always)]
                #[allow(clippy::too_many_arguments)]
                fn rows<S: $crate::simd::Simd, const $vectors: usize>($simd: S, $($arg: $ty),*) $(-> $out)? $body

                $crate::simd::with_vectors!($width, rows::<S>($simd, $($arg),*))
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($simd:ident; $($arg:ident : $ty:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name($($arg: $ty),*) $(-> $out)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn generic<S: $crate::simd::Simd>($simd: S, $($arg: $ty),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx512(simd: $crate::simd::Avx512, $($arg: $ty),*) $(-> $out)? {
                generic(simd, $($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2(simd: $crate::simd::Avx2, $($arg: $ty),*) $(-> $out)? {
                generic(simd, $($arg),*)
            }

            #[cfg(target_arch = "aarch64")]
            #[target_feature(enable = "neon")]
            #[allow(clippy::too_many_arguments)]
            fn neon(simd: $crate::simd::Neon, $($arg: $ty),*) $(-> $out)? {
                generic(simd, $($arg),*)
            }

            match $crate::simd::InstructionSet::current() {
                #[cfg(target_arch = "x86_64")]
                $crate::simd::InstructionSet::Avx512 => {
                    // SAFETY: this set becomes current only on machines that have it.
                    unsafe { avx512($crate::simd::Avx512::assume_available(), $($arg),*) }
                }
                #[cfg(target_arch = "x86_64")]
                $crate::simd::InstructionSet::Avx2 => {
                    // SAFETY: this set becomes current only on machines that have it.
                    unsafe { avx2($crate::simd::Avx2::assume_available(), $($arg),*) }
                }
                #[cfg(target_arch = "aarch64")]
                $crate::simd::InstructionSet::Neon => {
                    // SAFETY: this set becomes current only on machines that have it.
                    unsafe { neon($crate::simd::Neon::assume_available(), $($arg),*) }
                }
                _ => generic($crate::simd::Portable, $($arg),*),
            }
        }
    };
}
pub(crate) use dispatched;

/// Calls `$call` with the constant `VECTORS` set to the number of vectors in a padded row, up to eight: rows that
/// short are held in registers, in loops that the compiler unrolls. Longer rows get `VECTORS = 0`.
macro_rules! with_vectors {
    ($width:expr, $call:ident::<$simd:ty>($($argument:expr),* $(,)?)) => {
        match $crate::simd::padded($width) / $crate::simd::LANES {
            1 => $call::<$simd, 1>($($argument),*),
            2 => $call::<$simd, 2>($($argument),*),
            3 => $call::<$simd, 3>($($argument),*),
            4 => $call::<$simd, 4>($($argument),*),
            8 => $call::<$simd, 8>($($argument),*),
            _ => $call::<$simd, 0>($($argument),*),
        }
    };
}
pub(crate) use with_vectors;

#[cfg(test)]
mod tests;
