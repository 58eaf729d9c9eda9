//! How the lines of the progress display fit into a terminal of any width.

use crate::screen::visible;
use crate::talk::Colour;
use crate::text::shortened;

/// A line of the display: what it is about, how far it is, and facts from left to right.
pub(super) struct Line {
    pub(super) label: String,
    /// Share that is done, from 0 to 1.
    pub(super) share: f64,
    pub(super) facts: Vec<Fact>,
}

/// A piece of text that is left out if there is no room for it and more important ones.
pub(super) struct Fact {
    pub(super) text: String,
    /// Facts with higher numbers are left out first; 0 never is.
    pub(super) rank: u8,
}

impl Fact {
    pub(super) fn new(rank: u8, text: String) -> Self {
        Fact { text, rank }
    }
}

/// Columns between the parts of a line.
const GAP: usize = 2;

/// A shorter bar says nothing.
const MIN_BAR: usize = 6;

/// A longer bar says no more.
const MAX_BAR: usize = 30;

/// A label is shortened to this before facts are left out.
const MIN_LABEL: usize = 13;

/// The lines, none wider than `columns` − 1. Labels, bars and facts are aligned.
pub(super) fn fit(lines: &[Line], columns: usize) -> Vec<String> {
    let room = columns.saturating_sub(1).max(20);
    let label_needed = lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
    let least_label = label_needed.min(MIN_LABEL);
    let facts: Vec<String> = lines.iter().map(|line| chosen(&line.facts, room - least_label - GAP)).collect();
    let fact_width = facts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let free = room.saturating_sub(fact_width + GAP);
    let label_width = label_needed.min(free);
    let bar_width = free.saturating_sub(label_width + GAP).min(MAX_BAR);
    let line = |(line, facts): (&Line, &String)| {
        let label = shortened(&line.label, label_width.max(1));
        let bar = if bar_width < MIN_BAR { String::new() } else { bar(line.share, bar_width) + "  " };
        let text = format!("{label:label_width$}  {bar}{facts}");
        debug_assert!(visible(&text) < columns.max(21), "{text}");
        text
    };
    lines.iter().zip(&facts).map(line).collect()
}

/// The facts that fit, the most important ones first, in their order.
fn chosen(facts: &[Fact], room: usize) -> String {
    let mut highest = facts.iter().map(|fact| fact.rank).max().unwrap_or(0);
    loop {
        let kept: Vec<&str> = facts.iter().filter(|fact| fact.rank <= highest).map(|fact| fact.text.as_str()).collect();
        let text = kept.join("  ");
        if highest == 0 || text.chars().count() <= room {
            return shortened(&text, room.max(1));
        }
        highest -= 1;
    }
}

fn bar(share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).floor() as usize;
    let tip = if full < width && full > 0 { "╸" } else { "" };
    let full = if tip.is_empty() { full } else { full - 1 };
    let rest = width - full - tip.chars().count();
    let done = Colour::Cyan.on_stderr(&format!("{}{tip}", "━".repeat(full)));
    format!("{done}{}", Colour::Dim.on_stderr(&"─".repeat(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let training = Line {
            label: "topk:5 seed 153476998".to_owned(),
            share: 0.2,
            facts: vec![
                Fact::new(1, "epoch 3/15".to_owned()),
                Fact::new(4, "loss 0.512".to_owned()),
                Fact::new(3, "train 50.2 %".to_owned()),
                Fact::new(2, "held-out 49.8 %".to_owned()),
                Fact::new(0, "0:49 left".to_owned()),
            ],
        };
        let whole = Line {
            label: "all".to_owned(),
            share: 0.05,
            facts: vec![Fact::new(1, "1 of 20 done".to_owned()), Fact::new(0, "12:40 left".to_owned())],
        };
        vec![training, whole]
    }

    #[test]
    fn lines_fit_into_every_width() {
        for columns in 21..200 {
            for line in fit(&lines(), columns) {
                assert!(visible(&line) < columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn wide_terminals_show_more() {
        let at = |columns| fit(&lines(), columns);
        let has_bar = |line: &str| line.contains('─');
        for line in at(120) {
            assert!(has_bar(&line) && !line.contains('…'), "{line}");
        }
        assert!(at(120)[0].contains("epoch 3/15  loss 0.512  train 50.2 %  held-out 49.8 %  0:49 left"));
        assert_eq!(at(80)[0], "topk:5 seed …  epoch 3/15  loss 0.512  train 50.2 %  held-out 49.8 %  0:49 left");
        assert_eq!(at(60)[0], "topk:5 seed 153476…  epoch 3/15  held-out 49.8 %  0:49 left");
        assert_eq!(at(40), ["topk:5 seed …  epoch 3/15  0:49 left", "all            1 of 20 done  12:40 left"]);
    }
}
