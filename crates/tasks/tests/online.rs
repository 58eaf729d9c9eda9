//! New examples for every step of online training.

mod common;

use std::collections::HashSet;
use std::io::Write;

use common::{at_least, task};
use semfocus_tasks::{
    DataSettings, Dataset, Evaluator, FileSet, Length, Sizes, Source, Split, SplitName, Tasks, Token,
};

fn source(name: &str) -> Source {
    Source::find(name, &Tasks::standard(), &FileSet::default()).unwrap()
}

/// Settings with sequences that are quickly generated.
fn settings(name: &str, length: usize) -> DataSettings {
    let length = if name == "listops" { Length::Between(4, length + 2) } else { at_least(&task(name), length) };
    let sizes = Sizes { train: 500, held_out: 500, test: 500 };
    DataSettings { length: Some(length), sizes, online: true, ..DataSettings::default() }
}

fn sequences(split: &Split, pad: Token) -> HashSet<Vec<Token>> {
    let unpadded = |tokens: &[Token]| tokens[..tokens.iter().rposition(|&t| t != pad).map_or(0, |i| i + 1)].to_vec();
    split.iter().map(|(tokens, _)| unpadded(tokens)).collect()
}

/// Stored results depend on these numbers: if one changes, the examples of every online trial have changed.
#[test]
fn bytes_never_change() {
    let mut found = String::new();
    for task in Tasks::standard().examples() {
        let source = source(task.name());
        let settings = settings(task.name(), 20);
        let sums = [0, 1, 1 << 40].map(|step| source.draw(&settings, 1, step, 7).unwrap().checksum());
        found += &format!("{} {:016x} {:016x} {:016x}\n", task.name(), sums[0], sums[1], sums[2]);
    }
    assert_eq!(found, PINNED, "\n{found}");
}

const PINNED: &str = "\
listops f732631407f348ef 9d4efd3c63af6d0b 70c2e7e0c2ce5eca
parity 047b2f27f7988e5d 86d8a089b6cb9325 bd3c7a77de082b8d
even-pairs f99d9fffdb5e1e95 04a84745e87a325d a3e79598a00a1dec
missing-duplicate 90a2f8c9ac100987 3a982b5ce3ad52d7 42892991ba36c30f
cycle-navigation 226f8364d63246f4 8f392573b425804d 7964cca57b794889
stack-manipulation 247a5f6d8878b8ce 6396e7673833e30b 39d7a4bdacfd159a
modular-arithmetic 916bbfef0a7f9237 b2bf3318d489a5e7 4d1cc5bf775d309c
solve-equation 3760b78845c1fb08 446a2a4cefc23f68 7509df3883a9184c
flip-flop 47e24c74c3da4bc8 fbf83916ec644317 37a13f3f5f02487f
recall 1a9136808edbc976 a2f20c942b2a8b69 276bfd9bb4a1b7d7
mqar 1aeb281c4bc37301 4a705b8309dd065d 636c440ba8650eeb
induction a5b0ec1c47cf673d d0fc8acb66cedae1 0cd902e70ae15337
selective-copy 2a060ab3b0bd8365 7da6d589e2d1fd7d 48e868f2ee399e6d
sparse-average b51826f9db22e849 506b0b702e5d9781 be01870cd22e4fd1
markov-chain dedabee301952d48 579e086c6ffb7ac8 21c9dbe8ce6d96ca
mess3 dbf73d031fae3467 e38fcbc1aafc7bbe 05aa79cee63f40be
rrxor c0b13e278272c030 a748775719b662c0 ada29ad5c66d1349
hmm bedad50a855714c9 cdf19464696cdaf0 ff19d2ce49edd9c0
dyck dfe565d4797b8946 7898b41ea2c9123c 7c2887f77c7e9670
";

#[test]
fn a_step_depends_on_its_number_and_the_seed_alone() {
    let source = source("parity");
    let settings = settings("parity", 12);
    let steps: Vec<Split> = (0..20).map(|step| source.draw(&settings, 3, step, 25).unwrap()).collect();
    assert_eq!(source.draw(&settings, 3, 17, 25).unwrap(), steps[17]);
    let distinct: HashSet<u64> = steps.iter().map(Split::checksum).collect();
    assert_eq!(distinct.len(), 20, "every step has examples of its own");
    assert_ne!(source.draw(&settings, 4, 17, 25).unwrap(), steps[17], "another seed, other examples");
    // A smaller batch is the beginning of a larger one, and the seed of the data takes precedence.
    assert_eq!(source.draw(&settings, 3, 17, 10).unwrap().labels(), steps[17].labels()[..10]);
    let fixed = DataSettings { seed: Some(3), ..settings.clone() };
    assert_eq!(source.draw(&fixed, 99, 17, 25).unwrap(), steps[17]);
    // What is measured is the data set that there would be without online training.
    let offline = DataSettings { online: false, ..settings.clone() };
    assert_eq!(source.dataset(&settings, 3).unwrap(), source.dataset(&offline, 3).unwrap());
}

#[test]
fn a_thousand_steps_share_no_sequence_with_held_out_and_test() {
    for task in Tasks::standard().examples() {
        // At length 8 some tasks have only a few hundred sequences, which come up again and again.
        for length in [8, 20] {
            let (source, settings) = (source(task.name()), settings(task.name(), length));
            let data = match Dataset::generate(&task, &settings, 5) {
                Ok(data) => data,
                // Too few for 500 different ones in every split.
                Err(_) if task.task.is_distinct() => continue,
                Err(error) => panic!("{}: {error}", task.name()),
            };
            let [train, held_out, test] = data.splits().map(|(_, split)| sequences(split, data.pad));
            let mut drawn = HashSet::new();
            for step in 0..1000 {
                let batch = source.draw(&settings, 5, step, 25).unwrap();
                assert_eq!((batch.len(), batch.length), (25, data.length));
                for ((tokens, answers), length) in batch.iter().zip(&batch.lengths) {
                    if task.task.evaluator() == Evaluator::Exact {
                        assert_eq!(task.answers(tokens).unwrap().questions, answers);
                    }
                    assert!(tokens[*length..].iter().all(|&token| token == data.pad));
                }
                drawn.extend(sequences(&batch, data.pad));
            }
            assert!(drawn.is_disjoint(&held_out) && drawn.is_disjoint(&test), "{} at length {length}", task.name());
            assert!(drawn.iter().all(|tokens| SplitName::for_sequence(5, tokens) == SplitName::Train));
            assert!(drawn.len() >= train.len().min(100), "{}: {} sequences", task.name(), drawn.len());
        }
    }
}

#[test]
fn few_sequences_are_drawn_again_and_again() {
    // ListOps allows no expression twice in a split, and there are ten of one token. A step is not a split.
    let settings = DataSettings { online: true, ..DataSettings::with_length(Length::Exactly(1)) };
    let batch = source("listops").draw(&settings, 1, 0, 200).unwrap();
    let digits = sequences(&batch, task("listops").pad());
    assert!((2..10).contains(&digits.len()), "those of the ten that belong to train: {digits:?}");
}

#[test]
fn labels_are_as_frequent_as_in_the_training_split() {
    let (source, settings) = (source("cycle-navigation"), settings("cycle-navigation", 30));
    let mut counts = [0f64; 5];
    for step in 0..400 {
        source
            .draw(&settings, 2, step, 25)
            .unwrap()
            .labels()
            .iter()
            .for_each(|&label| counts[usize::from(label)] += 1.0);
    }
    // Five positions, 2,000 each; chi-squared with 4 degrees of freedom exceeds 18.5 once in a thousand times.
    let chi2: f64 = counts.iter().map(|count| (count - 2000.0).powi(2) / 2000.0).sum();
    assert!(chi2 < 18.5, "{counts:?}");
}

#[test]
fn a_file_has_no_new_examples() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("online-{}.txt", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    (0..20).for_each(|bit| writeln!(file, "{} {} 1\t{}", bit % 2, bit / 2 % 2, bit % 2).unwrap());
    let own = source(path.to_str().unwrap());
    let message = own.draw(&DataSettings::default(), 1, 0, 5).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(message.ends_with("is a file with its own examples: none can be drawn for a step"), "{message}");
}
