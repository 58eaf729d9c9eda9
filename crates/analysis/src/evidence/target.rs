//! Targets in words.

use semfocus_core::Goal;

/// A target in words: `a training accuracy of 95 %`.
pub fn target_words(goal: Goal) -> String {
    format!("a {} of {}", goal.quantity.words(), target_value(goal))
}

/// The value of a target: `95 %`.
pub fn target_value(goal: Goal) -> String {
    match round(100.0 * goal.value) {
        percent if goal.quantity.is_share() => format!("{percent} %"),
        _ => round(goal.value).to_string(),
    }
}

/// Without the digits that multiplying by 100 adds.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
