//! The audit finds known properties of data sets.

mod common;

use common::task;
use semfocus_tasks::{Audit, DataSettings, Dataset, Length, Lines, OwnData, Sizes, Split, label};

fn audit(name: &str) -> Audit {
    Audit::new(&Dataset::generate(&task(name), &DataSettings::default(), 1).unwrap(), &[])
}

fn accuracy(audit: &Audit, baseline: &str) -> f64 {
    audit.baselines.iter().find(|b| b.name == baseline).unwrap().accuracy
}

#[test]
fn finds_the_shortcut_of_even_pairs() {
    let audit = audit("even-pairs");
    assert_eq!(accuracy(&audit, "first-and-last-token"), 1.0);
    assert!((accuracy(&audit, "last-token") - 0.5).abs() < 0.06);
    assert_eq!(audit.findings.len(), 1);
    let words = &audit.findings[0];
    assert!(words.starts_with("The first and the last token alone give 100.0 % on held-out. A shortcut"), "{words}");
}

#[test]
fn finds_where_order_does_not_matter() {
    for name in ["parity", "cycle-navigation"] {
        let audit = audit(name);
        assert!(accuracy(&audit, "token-counts") > 0.95);
        assert!(audit.findings.len() == 1 && audit.findings[0].contains("order"), "{:?}", audit.findings);
    }
}

#[test]
fn finds_the_hint_of_flip_flop() {
    // A bit that is read again occurs more often.
    let audit = audit("flip-flop");
    let counted = accuracy(&audit, "bag-of-tokens");
    assert!((0.62..0.68).contains(&counted), "{counted}");
    assert!((accuracy(&audit, "first-and-last-token") - 0.5).abs() < 0.06);
    assert!(audit.findings.iter().all(|found| found.contains("may use this hint")), "{:?}", audit.findings);
}

#[test]
fn finds_no_leak_in_generated_data() {
    for name in
        ["parity", "stack-manipulation", "modular-arithmetic", "solve-equation", "missing-duplicate", "flip-flop"]
    {
        let audit = audit(name);
        assert!(audit.overlaps.iter().all(|overlap| overlap.sequences == 0));
        assert_eq!(audit.contradictions, 0);
        assert_eq!(audit.splits.iter().map(|s| s.labels.iter().sum::<usize>()).collect::<Vec<_>>(), [5000, 2000]);
    }
    let modular = audit("modular-arithmetic");
    // A product is 0 more often than anything else.
    assert!(accuracy(&modular, "majority-class") > 0.25);
}

#[test]
fn finds_leaks_copies_and_contradictions() {
    let text = "0 1\t1\n0 1\t0\n1 1\t1\n0 0\t1\n";
    let own = OwnData::parse("x".to_owned(), Lines::new("x", text.as_bytes())).unwrap();
    let mut data = own.dataset(&DataSettings::default(), 1);
    // Put everything into both splits by hand.
    let all: Vec<_> = own.iter().collect();
    for split in [&mut data.train, &mut data.held_out] {
        *split = Split::new(2, 2);
        all.iter().for_each(|(tokens, class)| split.push(tokens, &label(*class), 2));
    }
    let audit = Audit::new(&data, &[]);
    assert_eq!(audit.overlaps[0].sequences, 3);
    assert_eq!(audit.contradictions, 1);
    assert_eq!(audit.splits[0].duplicates, 1);
    let words = audit.findings.join("\n");
    for part in ["Leak: 3 sequences occur in train and in held-out", "Contradictions: 1 ", "Copies: 1 of the 4"] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn histogram_counts_every_sequence_once() {
    let settings = DataSettings::with_length(Length::Between(10, 60));
    let audit = Audit::new(&Dataset::generate(&task("parity"), &settings, 1).unwrap(), &[]);
    assert_eq!(audit.lengths.iter().map(|bin| bin.examples).sum::<usize>(), 7000);
    assert_eq!((audit.lengths[0].from, audit.lengths.last().unwrap().to), (10, 60));
    assert!(audit.lengths.len() <= 12 && audit.lengths.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
}

#[test]
fn empty_splits_are_no_trouble() {
    let settings = DataSettings { sizes: Sizes { train: 0, held_out: 0, test: 5 }, ..DataSettings::default() };
    let audit = Audit::new(&Dataset::generate(&task("parity"), &settings, 1).unwrap(), &[]);
    assert!(audit.baselines.is_empty() && audit.splits.len() == 1);
}
