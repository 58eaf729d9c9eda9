//! Correction for several tests at once.

/// Holm's correction: the p-values adjusted, in the same order. Rejecting all hypotheses whose adjusted value is at most α
/// gives a false rejection with probability at most α, whatever the dependence between the tests.
///
/// The lowest of m p-values is multiplied by m, the next by m − 1, and so on. An adjusted value is never smaller than the
/// one before it, nor larger than 1. All tests have to be included, also those that found nothing.
///
/// # Panics
/// If a value is not in 0..=1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    assert!(p_values.iter().all(|p| (0.0..=1.0).contains(p)), "p-values are probabilities");
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut max = 0f64;
    for (position, &test) in ascending.iter().enumerate() {
        let remaining = p_values.len() - position;
        max = max.max((remaining as f64 * p_values[test]).min(1.0));
        adjusted[test] = max;
    }
    adjusted
}

/// The level at which Holm's procedure decides each test, in the same order: an interval of that level excludes the null
/// hypothesis exactly if the adjusted p-value is below `level`.
///
/// The lowest of m p-values has to be below `level` / m, the next below `level` / (m − 1), and so on; from the first that is not
/// on, its level applies to all others.
pub fn holm_levels(p_values: &[f64], level: f64) -> Vec<f64> {
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut levels = vec![level; p_values.len()];
    let mut has_stopped = false;
    let mut current = level;
    for (position, &test) in ascending.iter().enumerate() {
        if !has_stopped {
            current = level / (p_values.len() - position) as f64;
            has_stopped = p_values[test] >= current;
        }
        levels[test] = current;
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_belong_to_the_decisions() {
        assert_eq!(holm_levels(&[0.9, 0.01, 0.04], 0.06), [0.03, 0.02, 0.03]);
        let p_values = [0.001, 0.02, 0.024, 0.3, 0.0125, 0.04];
        let (adjusted, levels) = (holm(&p_values), holm_levels(&p_values, 0.05));
        for ((p, adjusted), level) in p_values.iter().zip(&adjusted).zip(&levels) {
            assert_eq!(*adjusted < 0.05, p < level, "{p}");
        }
    }

    #[test]
    fn one_test_needs_no_correction() {
        assert_eq!(holm(&[0.03]), [0.03]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    #[test]
    fn adjusted_values_keep_their_order() {
        // 3 · 0.02 = 0.06, 2 · 0.025 = 0.05 is raised to 0.06, 1 · 0.9 stays.
        let adjusted = holm(&[0.9, 0.025, 0.02]);
        assert_eq!((adjusted[0], adjusted[1]), (0.9, adjusted[2]));
        assert!((adjusted[2] - 0.06).abs() < 1e-15);
    }
}
