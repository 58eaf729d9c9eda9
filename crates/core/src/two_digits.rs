//! How long records are kept short: by numbers of two digits.

/// A whole number rounded down to its first two digits: itself below 100, and 120 for 127. Records of slices have a line for the
/// epochs that stay the same, and a group for the values that become the same.
pub fn two_digits(number: usize) -> usize {
    let unit = 10_usize.pow(number.max(1).ilog10().saturating_sub(1));
    number / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_digits_stay() {
        let rounded = [0, 7, 10, 99, 100, 109, 110, 999, 1000, 1099, 1100, 65_535].map(two_digits);
        assert_eq!(rounded, [0, 7, 10, 99, 100, 100, 110, 990, 1000, 1000, 1100, 65_000]);
        assert_eq!((0..1024).filter(|number| two_digits(*number) == *number).count(), 191);
    }
}
