//! From a split to batches.

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_core::{Key, Stream};
use semfocus_nn::train::Batch;
use semfocus_tasks::Split;

/// The order of the first `count` examples in an epoch: a uniformly random permutation that depends on seed and epoch alone.
pub(crate) fn order(seed: u64, epoch: usize, count: usize) -> Vec<usize> {
    let key = Key::of_stream(seed, Stream::Order).child(epoch as u64);
    let mut generator = ChaCha8Rng::from_seed(key.generator_seed());
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(&mut generator, last + 1));
    }
    order
}

/// An unbiased number below `bound`: draws above the largest multiple of `bound` are rejected. The stored results depend on this
/// very method.
fn below(generator: &mut ChaCha8Rng, bound: usize) -> usize {
    let bound = bound as u64;
    let zone = u64::MAX - u64::MAX % bound;
    loop {
        let draw = generator.next_u64();
        if draw < zone {
            return (draw % bound) as usize;
        }
    }
}

/// Some examples of a split as tensors on a device.
pub fn batch(split: &Split, examples: impl ExactSizeIterator<Item = usize> + Clone, device: &Device) -> Batch {
    let (count, width) = (examples.len(), split.width);
    let mut tokens = Vec::with_capacity(count * width);
    for example in examples.clone() {
        tokens.extend(split.tokens[example * width..][..width].iter().map(|&token| i64::from(token)));
    }
    let labels: Vec<i64> = examples.map(|example| i64::from(split.labels[example])).collect();
    Batch {
        tokens: Tensor::<2, Int>::from_data(TensorData::new(tokens, [count, width]), device),
        labels: Tensor::<1, Int>::from_data(TensorData::new(labels, [count]), device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_permutations_determined_by_seed_and_epoch() {
        let first = order(1, 1, 100);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert_eq!(first, order(1, 1, 100));
        assert_ne!(first, order(1, 2, 100));
        assert_ne!(first, order(2, 1, 100));
        assert_eq!(order(1, 1, 1), [0]);
    }

    #[test]
    fn all_orders_are_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        for epoch in 0..6000 {
            *counts.entry(order(9, epoch, 3)).or_insert(0) += 1;
        }
        // Six orders, 1,000 each; the deviation has a standard error of 29.
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&count| (880..1120).contains(&count)), "{counts:?}");
    }
}
