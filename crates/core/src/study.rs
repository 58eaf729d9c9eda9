//! The settings of the study: Ram, Clarkson, Klinger, Ubaru, Gray, "Transformers Learn Faster with Semantic Focus",
//! NeurIPS 2025. What all tasks share is in [`TrialSettings::default`].

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::random::Key;
use crate::settings::TrialSettings;
use crate::spec::Parts;

/// The seeds of its ten repetitions.
pub const SEEDS: [u64; 10] = [
    153_476_998,
    235_510_766,
    205_084_180,
    129_959_864,
    149_896_109,
    140_439_608,
    145_017_219,
    162_518_970,
    245_293_503,
    152_674_004,
];

/// Task, blocks, learning rate, decay and epochs.
pub const TASKS: [(&str, usize, f64, f64, usize); 8] = [
    ("listops", 10, 1.0, 0.99, 200),
    ("even-pairs", 5, 0.1, 0.9995, 100),
    ("parity", 5, 0.1, 0.9995, 1000),
    ("missing-duplicate", 5, 0.1, 0.9995, 250),
    ("stack-manipulation", 5, 0.1, 0.9995, 200),
    ("modular-arithmetic", 5, 0.1, 0.9995, 600),
    ("solve-equation", 5, 0.1, 0.9995, 600),
    ("cycle-navigation", 5, 0.1, 0.9995, 750),
];

/// The settings of the study for a task; those that all tasks share, for any other.
pub fn settings_of(task: &str) -> TrialSettings {
    let mut settings = TrialSettings { task: task.to_owned(), ..TrialSettings::default() };
    let name = Parts::new(task).name;
    if let Some((_, blocks, learning_rate, decay, epochs)) = TASKS.iter().find(|(other, ..)| *other == name) {
        settings.model.blocks = *blocks;
        settings.training.learning_rate = *learning_rate;
        settings.training.decay = *decay;
        settings.training.epochs = *epochs;
    }
    settings
}

/// The first `count` seeds: the study's ten, then others that follow from their number.
pub fn seeds(count: usize) -> Vec<u64> {
    let further = |index: usize| Key::new(index as u64).named("seeds").bits() >> 33;
    (0..count).map(|index| SEEDS.get(index).copied().unwrap_or_else(|| further(index))).collect()
}

/// What a person calls a seed: its place among [`seeds`], from 1, or the seed itself if it is none of the first thousand.
pub fn seed_name(seed: u64) -> u64 {
    static PLACES: LazyLock<HashMap<u64, u64>> = LazyLock::new(|| seeds(1000).into_iter().zip(1..).collect());
    PLACES.get(&seed).copied().unwrap_or(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_their_settings() {
        let listops = settings_of("listops");
        assert_eq!((listops.model.blocks, listops.training.learning_rate, listops.training.epochs), (10, 1.0, 200));
        assert_eq!(settings_of("even-pairs"), TrialSettings::default());
        // Not a task of the study.
        let flip_flop = settings_of("flip-flop");
        assert_eq!(flip_flop, TrialSettings { task: "flip-flop".to_owned(), ..TrialSettings::default() });
        let training = &flip_flop.training;
        assert_eq!((flip_flop.model.blocks, training.learning_rate, training.epochs), (5, 0.1, 100));
    }

    #[test]
    fn there_are_as_many_seeds_as_one_likes() {
        assert_eq!(seeds(2), [153_476_998, 235_510_766]);
        let many = seeds(1000);
        let distinct: std::collections::HashSet<u64> = many.iter().copied().collect();
        assert_eq!((distinct.len(), many[10]), (1000, seeds(11)[10]));
        assert_eq!([SEEDS[0], SEEDS[9], many[10], 42].map(seed_name), [1, 10, 11, 42]);
    }
}
