//! Aligned buffers that are used again from step to step.
//!
//! Every training step needs buffers of the same sizes. Fresh memory from the system costs a page fault every 4 KiB, so
//! freed buffers go into a pool and are reused in the next step. What the backward pass needs is held in them too.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::simd::LANES;

/// One cache line, one vector.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f32; LANES]);

/// A slice of `f32` that starts on a cache line and returns to the pool when dropped.
///
/// Its length is the requested length, rounded up to whole vectors.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// May be longer than `len`: a larger piece of memory may serve a smaller buffer.
    lines: Vec<Line>,
    len: usize,
}

/// Free memory, by its number of lines.
type Pool = Mutex<BTreeMap<usize, Vec<Vec<Line>>>>;

/// Every thread has a pool of its own, shared with few other threads, so that it gets back memory that is still in its
/// core's cache and parallel trials do not wait for each other. It takes from the other pools only when its own is empty.
static POOLS: [Pool; 16] = [const { Mutex::new(BTreeMap::new()) }; 16];

static NEXT_POOL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN_POOL: usize = NEXT_POOL.fetch_add(1, Ordering::Relaxed) % POOLS.len();
}

/// A pool keeps at most this many free buffers of one size; the others are given back to the system.
const MAX_FREE: usize = 256;

/// All pools, starting with the thread's own.
fn pools() -> impl Iterator<Item = &'static Pool> {
    // The thread-local is gone while a thread ends.
    let own = OWN_POOL.try_with(|own| *own).unwrap_or(0);
    POOLS[own..].iter().chain(&POOLS[..own])
}

impl Buffer {
    /// A buffer of at least `len` values. They are zeros or what an earlier user left behind.
    pub(crate) fn stale(len: usize) -> Self {
        let needed = len.div_ceil(LANES);
        // Memory of up to twice the size will do; more would be a waste.
        let free = pools().find_map(|pool| {
            let mut pool = pool.lock().expect("no holder of this lock panics");
            pool.range_mut(needed..=2 * needed).find_map(|(_, free)| free.pop())
        });
        let lines = free.unwrap_or_else(|| vec![Line([0.0; LANES]); needed]);
        Buffer { lines, len: needed * LANES }
    }

    /// A buffer of at least `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut buffer = Self::stale(len);
        buffer.fill(0.0);
        buffer
    }
}

impl Default for Buffer {
    /// An empty buffer, which is not taken from the pool.
    fn default() -> Self {
        Buffer { lines: Vec::new(), len: 0 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        if let Some(Ok(mut pool)) = pools().next().map(Mutex::lock) {
            let free = pool.entry(lines.len()).or_default();
            if free.len() < MAX_FREE {
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
    fn a_freed_buffer_is_reused() {
        // A size that no other test uses.
        let len = 123_456;
        let address = Buffer::stale(len).as_ptr();
        assert_eq!(Buffer::stale(len).as_ptr(), address);
    }
}
