//! Numbers as text.

/// A number with this many decimals and a proper minus sign, but no negative zero.
pub(crate) fn plain(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) => format!("−{digits}"),
        Some(digits) => digits.to_owned(),
        None => text,
    }
}

/// A number with this many significant digits: `0.65`, `1.8`, `412`; as a multiple of a power of ten if it is very small or
/// very large.
pub fn significant(value: f64, digits: usize) -> String {
    let decimals = digits.saturating_sub(1);
    // Rounding may add a digit: 99.96 becomes 100.
    let rounded: f64 = format!("{value:.decimals$e}").parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        magnitude if (1e-3..99_999.5).contains(&magnitude) => {
            plain(rounded, usize::try_from(decimals as i32 - magnitude.log10().floor() as i32).unwrap_or(0))
        }
        _ if rounded.is_finite() => scientific(rounded, decimals),
        _ => value.to_string(),
    }
}

/// A number with as many decimals as its first digit needs.
pub(crate) fn brief(value: f64) -> String {
    plain(value, usize::try_from(-value.abs().log10().floor() as i32).unwrap_or(0))
}

pub(crate) fn power_of_ten(value: f64) -> String {
    format!("10{}", superscript(value.log10().round() as i32))
}

/// A number as a multiple of a power of ten, with at most `digits` digits after the first.
pub(crate) fn scientific(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.digits$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{}×10{}", digits.replace('-', "−"), superscript(power.parse().unwrap_or(0)))
}

fn superscript(power: i32) -> String {
    let raise = |c: char| match c {
        '-' => '⁻',
        digit => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit.to_digit(10).unwrap_or(0) as usize],
    };
    power.to_string().chars().map(raise).collect()
}
