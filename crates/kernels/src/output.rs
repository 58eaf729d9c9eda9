//! Results that are written part by part, without filling them with zeros first.

use std::mem::MaybeUninit;

/// Memory for `len` values that have not been written yet.
pub(crate) fn unwritten(len: usize) -> Vec<MaybeUninit<f32>> {
    let mut values = Vec::with_capacity(len);
    // SAFETY: the capacity is there, and a `MaybeUninit` needs no value.
    unsafe { values.set_len(len) };
    values
}

/// The values, once they have all been written.
///
/// # Safety
/// Every value must have been written.
pub(crate) unsafe fn written(values: Vec<MaybeUninit<f32>>) -> Vec<f32> {
    let mut values = std::mem::ManuallyDrop::new(values);
    // SAFETY: the parts are those of a vector whose element type has the same layout, and the caller guarantees that
    // all values are there.
    unsafe { Vec::from_raw_parts(values.as_mut_ptr().cast(), values.len(), values.capacity()) }
}

/// The same memory, to be written anew.
pub(crate) fn as_unwritten(values: &mut [f32]) -> &mut [MaybeUninit<f32>] {
    // SAFETY: `MaybeUninit<f32>` has the layout of `f32`, and the kernels that take such slices only write values.
    unsafe { std::mem::transmute(values) }
}
