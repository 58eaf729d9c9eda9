//! Data sets never change, and their splits are disjoint.

mod common;

use std::collections::HashSet;

use common::{classification_tasks, task};
use semfocus_tasks::{
    BuiltTask, DataSettings, Dataset, Example, Examples, FileSet, Length, Sizes, Source, Split, SplitName, Tasks,
    Token, single_label,
};

fn small(length: Option<Length>) -> DataSettings {
    DataSettings { length, sizes: Sizes { train: 300, held_out: 200, test: 100 }, ..DataSettings::default() }
}

/// Stored results depend on these numbers: if one changes, the data of every seed has changed.
#[test]
fn bytes_never_change() {
    let mut found = String::new();
    for task in Tasks::standard().examples() {
        let by_default = Dataset::generate(&task, &small(None), 1).unwrap();
        let min = task.task.min_length();
        let ranged = Length::Between(min.max(21), if task.name() == "listops" { 90 } else { 33 });
        let ranged = Dataset::generate(&task, &small(Some(ranged)), 2).unwrap();
        let mut free = Examples::new(&task, &small(None), 3, None).unwrap();
        let free: u64 = (0..100).fold(0, |sum, _| {
            let example = free.draw().unwrap();
            let label = single_label(&example.answers).map_or_else(|| checksum(&task, &example), u64::from);
            example.tokens.iter().fold(sum, |sum: u64, &t| sum.wrapping_mul(31).wrapping_add(u64::from(t))) ^ label
        });
        let sums = [&by_default.train, &by_default.held_out, &by_default.test, &ranged.train].map(|s| s.checksum());
        found += &format!(
            "{} {:016x} {:016x} {:016x} {:016x} {free:016x}\n",
            task.name(),
            sums[0],
            sums[1],
            sums[2],
            sums[3]
        );
    }
    assert_eq!(found, include_str!("checksums.txt"), "\n{found}");
}

fn checksum(task: &BuiltTask, example: &Example) -> u64 {
    let mut split = Split::new(example.tokens.len(), task.classes.len());
    split.push(&example.tokens, &example.answers, task.pad());
    split.checksum()
}

fn sequences(data: &Dataset, split: SplitName) -> HashSet<Vec<Token>> {
    let split = data.splits()[split as usize].1;
    let unpadded = split.iter().map(|(tokens, _)| {
        let end = tokens.iter().rposition(|&t| t != data.pad).map_or(0, |last| last + 1);
        tokens[..end].to_vec()
    });
    unpadded.collect()
}

#[test]
fn splits_share_no_sequence_also_where_sequences_are_few() {
    let short = [None, Some(Length::Exactly(8)), Some(Length::Between(5, 9))];
    for task in classification_tasks().into_iter().filter(|task| task.name() != "listops") {
        for length in short {
            for seed in 0..5 {
                let data = Dataset::generate(&task, &small(length), seed).unwrap();
                let [train, held_out, test] = SplitName::ALL.map(|split| sequences(&data, split));
                assert!(train.is_disjoint(&held_out) && train.is_disjoint(&test) && held_out.is_disjoint(&test));
                assert_eq!((data.train.len(), data.held_out.len(), data.test.len()), (300, 200, 100));
            }
        }
    }
}

#[test]
fn listops_has_the_lengths_and_no_expression_twice() {
    let task = task("listops");
    let data = Dataset::generate(&task, &DataSettings::default(), 4).unwrap();
    assert_eq!((data.length, data.vocabulary, data.classes, data.pad), (600, 16, 10, 15));
    let lengths = data.train.lengths.iter().chain(&data.held_out.lengths);
    assert!(lengths.clone().all(|&length| 500 < length && length < 600));
    assert!(lengths.clone().any(|&length| length < 510) && lengths.clone().any(|&length| length > 590));
    let (train, held_out) = (sequences(&data, SplitName::Train), sequences(&data, SplitName::HeldOut));
    assert_eq!((train.len(), held_out.len()), (5000, 2000));
    assert!(train.is_disjoint(&held_out));
    // Few expressions: all ten digits, then an error instead of an endless search.
    let settings = DataSettings::with_length(Length::Exactly(1));
    let mut examples = Examples::new(&task, &settings, 1, None).unwrap();
    let digits: HashSet<Vec<Token>> = (0..10).map(|_| examples.draw().unwrap().tokens).collect();
    assert_eq!(digits.len(), 10);
    let message = examples.draw().unwrap_err().to_string();
    assert_eq!(
        message,
        "`listops` has too few different sequences of length 1: none of 20000 draws was new; take longer sequences or \
         fewer examples"
    );
}

#[test]
fn a_split_does_not_depend_on_the_sizes() {
    for task in Tasks::standard().examples() {
        let few = Dataset::generate(
            &task,
            &DataSettings { sizes: Sizes { train: 20, held_out: 10, test: 0 }, ..small(None) },
            7,
        );
        let (few, many) = (few.unwrap(), Dataset::generate(&task, &small(None), 7).unwrap());
        assert_eq!(few.train.tokens, many.train.tokens[..20 * many.length], "{}", task.name());
        let answers = few.held_out.labels();
        assert_eq!(answers, many.held_out.labels()[..answers.len()]);
        let tested = DataSettings { sizes: Sizes { train: 20, held_out: 10, test: 30 }, ..small(None) };
        let tested = Dataset::generate(&task, &tested, 7).unwrap();
        assert_eq!((&tested.train, &tested.held_out), (&few.train, &few.held_out), "whatever the size of test");
        assert_eq!((few.test.len(), &tested.test.tokens[..]), (0, &many.test.tokens[..30 * many.length]));
        let other = Dataset::generate(&task, &small(None), 8).unwrap();
        assert_ne!(other.train, many.train, "another seed, other data");
    }
}

#[test]
fn a_seed_of_the_data_gives_all_trials_the_same_data() {
    let parity = Source::find("parity", &Tasks::standard(), &FileSet::default()).unwrap();
    let fixed = DataSettings { seed: Some(5), ..small(None) };
    let data = parity.dataset(&fixed, 1).unwrap();
    assert_eq!(parity.dataset(&fixed, 2).unwrap(), data);
    assert_eq!(parity.dataset(&small(None), 5).unwrap(), data, "as a trial with this seed would see it");
    assert_ne!(parity.dataset(&small(None), 1).unwrap().train, data.train);
}

#[test]
fn tiny_spaces_give_an_error_and_not_an_endless_search() {
    let parity = task("parity");
    let settings = small(Some(Length::Exactly(1)));
    let outcomes: Vec<_> = (0..20).map(|seed| Dataset::generate(&parity, &settings, seed)).collect();
    // Two sequences cannot fill three splits.
    for outcome in outcomes {
        let message = outcome.unwrap_err().to_string();
        assert!(message.starts_with("`parity` has too few different sequences of length 1: none of"), "{message}");
    }
    // Without splits there is no such limit.
    let mut free = Examples::new(&parity, &settings, 1, None).unwrap();
    assert!((0..1000).all(|_| free.draw().is_ok()));
}

#[test]
fn impossible_settings_are_explained() {
    let complaint =
        |name: &str, settings: DataSettings| Dataset::generate(&task(name), &settings, 1).unwrap_err().to_string();
    let length = |text: &str| DataSettings::with_length(text.parse().unwrap());
    assert_eq!(complaint("parity", length("0")), "`parity` needs sequences of at least 1 token, got length 0");
    assert_eq!(
        complaint("missing-duplicate", length("1..9")),
        "`missing-duplicate` needs sequences of at least 2 tokens, got length 1..9"
    );
    assert_eq!(
        complaint("solve-equation", length("2")),
        "`solve-equation` needs sequences of at least 3 tokens, got length 2"
    );
    assert_eq!(complaint("flip-flop", length("3")), "`flip-flop` needs sequences of at least 4 tokens, got length 3");
    assert_eq!(complaint("listops", length("2")), "a ListOps expression has 1 token or at least 4, never 2");
    assert_eq!(
        complaint("listops", length("30..31")),
        "no length lies strictly between the bounds of `30..31`; `listops` excludes both"
    );
    let shallow = complaint("listops:depth=2", DataSettings::default());
    assert!(shallow.starts_with("`listops:depth=2` found no expression of length 500..600 in"), "{shallow}");
    let wrong = |text: &str| Tasks::standard().find(text).unwrap_err().to_string();
    assert!(wrong("listops:operators=1.5").contains("`operators` in `listops:operators=1.5` must be at most 1"));
    assert!(wrong("listops:args=1").contains("must be at least 2"));
}

#[test]
fn lengths_are_read_and_written() {
    for text in ["40", "20..40", "7..7"] {
        assert_eq!(text.parse::<Length>().unwrap().to_string(), text);
    }
    let complaint = |text: &str| text.parse::<Length>().unwrap_err();
    assert_eq!(complaint("x"), "expected a length such as `40`, or a range such as `20..40`, not `x`");
    assert_eq!(complaint("40..20"), "the range `40..20` is empty; write `20..40`?");
    assert_eq!(complaint("99999999999999999999999"), "lengths go up to 100000, not `99999999999999999999999`");
    for text in ["", "-1", "..", "1..", "..4", "1..2..3", "1.5", "+4"] {
        assert!(text.parse::<Length>().is_err(), "{text}");
    }
}

#[test]
fn unknown_names_are_explained() {
    let tasks = Tasks::standard();
    let complaint = |name: &str| tasks.find(name).unwrap_err().to_string();
    assert_eq!(complaint("paritty"), "unknown task `paritty`; did you mean `parity`?");
    assert_eq!(complaint("Even_Pairs"), "unknown task `Even_Pairs`; did you mean `even-pairs`?");
    assert_eq!(
        complaint("modular-arithmetics"),
        "unknown task `modular-arithmetics`; did you mean `modular-arithmetic`?"
    );
    assert!(
        complaint("chess").contains("unknown task `chess`; known are `listops`, `parity`"),
        "{}",
        complaint("chess")
    );
}

/// Values belong to the task, so that one thing is written in one way.
#[test]
fn values_change_the_data_and_have_one_spelling() {
    let spelled = |text: &str| task(text).spec.to_string();
    assert_eq!(spelled("listops:depth=10,args=10"), "listops", "defaults are left out");
    assert_eq!(spelled("listops:operators=0.50,depth=05"), "listops:depth=5,operators=0.5");
    let settings = small(Some(Length::Between(4, 60)));
    let data = |text: &str| Dataset::generate(&task(text), &settings, 1).unwrap();
    assert_eq!(data("listops:depth=10").train, data("listops").train);
    assert_ne!(data("listops:depth=3").train, data("listops").train);
    let is_flat = |tokens: &[Token]| tokens.iter().filter(|&&token| (10..14).contains(&token)).count() <= 1;
    assert!(data("listops:depth=2").train.iter().all(|(tokens, _)| is_flat(tokens)));
    assert!(!data("listops").train.iter().all(|(tokens, _)| is_flat(tokens)));
}
