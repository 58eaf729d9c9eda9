//! Aligned buffers that are used again from step to step.
//!
//! A training step needs the same sizes again and again. Fresh memory from the system costs a page fault every 4 KiB, so
//! freed buffers wait in a list for the next step; what the backward pass needs is held in them too.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::simd::LANES;

/// One cache line, one vector.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// A slice of `f32` that starts on a cache line and returns to the list of free buffers when dropped.
///
/// Its length is the length asked for, rounded up to whole vectors. The contents of a new buffer are arbitrary.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// May be longer than the buffer: what was once written needs no value again.
    lines: Vec<Line>,
    len: usize,
}

/// Free memory by its number of lines.
type Shelf = Mutex<BTreeMap<usize, Vec<Vec<Line>>>>;

/// Every thread has a shelf of its own, shared with few others, so that it gets back memory that its core has in cache
/// and trials side by side do not wait for each other; only when its own is empty does it look at the others.
static SHELVES: [Shelf; 16] = [const { Mutex::new(BTreeMap::new()) }; 16];

static NEXT_SHELF: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN_SHELF: usize = NEXT_SHELF.fetch_add(1, Ordering::Relaxed) % SHELVES.len();
}

/// More free buffers of one size on a shelf than this are given back to the system.
const MOST_FREE: usize = 256;

/// The shelves, the thread's own first.
fn shelves() -> impl Iterator<Item = &'static Shelf> {
    // A thread that is ending has none any more.
    let own = OWN_SHELF.try_with(|own| *own).unwrap_or(0);
    SHELVES[own..].iter().chain(&SHELVES[..own])
}

impl Buffer {
    /// A buffer of at least `len` values, whatever they are.
    pub(crate) fn uninit(len: usize) -> Self {
        let needed = len.div_ceil(LANES);
        // Memory of up to twice the size serves; more would be wasted.
        let free = shelves().find_map(|shelf| {
            let mut shelf = shelf.lock().expect("no holder of this lock panics");
            shelf.range_mut(needed..=2 * needed).find_map(|(_, free)| free.pop())
        });
        let lines = free.unwrap_or_else(|| vec![Line([0.0; LANES]); needed]);
        Buffer { lines, len: needed * LANES }
    }

    /// A buffer of at least `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut buffer = Self::uninit(len);
        buffer.fill(0.0);
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if let Some(Ok(mut shelf)) = shelves().next().map(Mutex::lock) {
            let free = shelf.entry(lines.len()).or_default();
            if free.len() < MOST_FREE {
                free.push(lines);
            }
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `Line` is `repr(C)` around sixteen `f32` with no padding, so the lines are that many values in a row;
        // there are at least as many as `len` asks for.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`; the exclusive borrow of `self` covers the lines.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_long_enough() {
        for len in [0, 1, 15, 16, 17, 1000] {
            let buffer = Buffer::zeros(len);
            assert!(buffer.len() >= len && buffer.len() < len + LANES);
            assert_eq!(buffer.as_ptr() as usize % 64, 0);
            assert!(buffer.iter().all(|&v| v == 0.0));
        }
    }

    #[test]
    fn a_freed_buffer_serves_again() {
        // A size that no other test uses.
        let len = 123_456;
        let address = Buffer::uninit(len).as_ptr();
        assert_eq!(Buffer::uninit(len).as_ptr(), address);
    }
}
