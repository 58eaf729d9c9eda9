//! How much of some work is left: the same for a progress display, an overview and an estimate.

/// Seconds that work takes of which so much is done at once, given the seconds of each part: at least the time of the longest, which
/// is not divided.
pub fn time_side_by_side(seconds: impl IntoIterator<Item = f64>, at_once: usize) -> f64 {
    let (sum, longest) = seconds.into_iter().fold((0.0, 0.0f64), |(sum, max), part| (sum + part, max.max(part)));
    (sum / at_once.max(1) as f64).max(longest)
}

/// Where a piece of work will probably end, given the pieces of its kind that are over and where all of those together ended: trials
/// stop at their target, so at their mean, if that is still ahead.
pub fn probable_end((over, ended): (usize, usize), done: usize, planned: usize) -> usize {
    ended.checked_div(over).filter(|end| (done + 1..=planned).contains(end)).unwrap_or(planned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_is_not_divided() {
        assert_eq!(time_side_by_side([1.0, 2.0, 3.0, 4.0], 2), 5.0);
        assert_eq!(time_side_by_side([1.0, 9.0], 2), 9.0);
        assert_eq!(time_side_by_side([], 4), 0.0);
    }

    #[test]
    fn work_ends_where_others_of_its_kind_did() {
        assert_eq!(probable_end((2, 8), 1, 10), 4);
        assert_eq!(probable_end((2, 8), 4, 10), 10, "it takes longer than the others: perhaps to the end");
        assert_eq!(probable_end((0, 0), 4, 10), 10);
        assert_eq!(probable_end((1, 20), 4, 10), 10, "a longer one");
    }
}
