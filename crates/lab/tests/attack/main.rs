//! Attacks on a run: kills at every operation on files, power failures that lose any part of what was not synced, faults of
//! every operation, damage of every file, files that are whole but older, foreign or too large, processes that stand still at any
//! operation for longer than a lease, and repairs while other processes work. Whatever happens, nothing is lost, nothing is silently
//! different, and the next run ends with the same bits.
//!
//! The short version takes a sample. `.ci/attack` sets `SEMFOCUS_ATTACK=long` and tries everything.

mod corruption;
mod faults;
mod foreign;
mod kills;
mod measurements;
#[path = "../common/noisy.rs"]
mod noisy;
mod power;
mod repair;
mod small_run;
mod stops;

/// Whether to try everything, which takes minutes.
fn is_long() -> bool {
    std::env::var("SEMFOCUS_ATTACK").is_ok_and(|value| value == "long")
}

/// Random numbers that are the same in every run of the tests.
struct Dice(u64);

impl Dice {
    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}
