//! Several tests at once.

/// Holm's correction: p-values adjusted so that rejecting all that are at most α makes even one false rejection with
/// probability at most α, whatever the dependence between the tests. In the order given.
///
/// The least of m p-values is multiplied by m, the next by m - 1, and so on; no adjusted value is less than one before
/// it, or more than 1. Count every test that was done, also those that found nothing.
///
/// # Panics
/// If one of them is no probability.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    assert!(p_values.iter().all(|p| (0.0..=1.0).contains(p)), "p-values are probabilities");
    let mut ascending: Vec<usize> = (0..p_values.len()).collect();
    ascending.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut greatest = 0f64;
    for (position, &test) in ascending.iter().enumerate() {
        let remaining = p_values.len() - position;
        greatest = greatest.max((remaining as f64 * p_values[test]).min(1.0));
        adjusted[test] = greatest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_test_needs_no_correction() {
        assert_eq!(holm(&[0.03]), [0.03]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    #[test]
    fn a_later_test_cannot_be_surer_than_an_earlier_one() {
        // 3 · 0.02 = 0.06, 2 · 0.025 = 0.05 is raised to 0.06, 1 · 0.9 stays.
        let adjusted = holm(&[0.9, 0.025, 0.02]);
        assert_eq!((adjusted[0], adjusted[1]), (0.9, adjusted[2]));
        assert!((adjusted[2] - 0.06).abs() < 1e-15);
    }
}
