//! Tasks that ask at tokens: every example is legal and asks where it should, and what a task says about its questions holds.

mod common;

use common::task;
use semfocus_core::Key;
use semfocus_tasks::{
    Audit, BuiltTask, DataSettings, Dataset, Evaluator, Examples, FileSet, Length, Question, Random, Sizes, Source,
    Target, Tasks, Token,
};

/// Tasks with lengths that they can have.
const KINDS: &[(&str, &str)] = &[
    ("recall", "17..40"),
    ("recall:pairs=1,keys=1,values=2", "3..9"),
    ("recall:4,keys=4,values=3", "9"),
    ("mqar", "16..64"),
    ("mqar:1,vocabulary=4", "4..9"),
    ("mqar:pairs=6,fewest=2,vocabulary=20,power=1", "8..40"),
    ("mqar:pairs=3,vocabulary=30,fillers=random,power=0", "12..31"),
    ("mqar:mix=zoology", "64..256"),
    ("mqar:mix=zoology-test", "64..1024"),
    ("induction", "3..20"),
    ("induction:vocabulary=3", "256"),
    ("markov-chain", "2..20"),
    ("markov-chain:3,graph=icl,roots=uniform", "5..9"),
    ("markov-chain:4,graph=tree,alpha=1", "20"),
    ("markov-chain:3,graph=forest,roots=uniform,draw=7", "20"),
    ("markov-chain:5,graph=multi-parent", "32"),
    ("markov-chain:3,ask=all", "20"),
    ("markov-chain:3,ask=all,roots=uniform,graph=tree", "20"),
    ("markov-chain:2,ask=all,graph=multi-parent", "9"),
    ("mess3", "1..20"),
    ("mess3:x=0.15,a=0.6,factors=2", "8"),
    ("mess3:a=1", "8"),
    ("rrxor", "1..36"),
    ("rrxor:factors=3", "12"),
    ("hmm", "12"),
    ("hmm:process=even,p=0.3", "12"),
    ("hmm:process=z1r", "12"),
    ("selective-copy:3,vocabulary=4", "6..20"),
    ("selective-copy", "256"),
    ("sparse-average", "19..48"),
    ("sparse-average:q=1,questions=2,positions=5,digits=2", "9"),
    ("sparse-average:q=4,questions=1,positions=9,digits=7", "9..14"),
    ("dyck", "1..40"),
    ("dyck:1,m=2", "12"),
    ("dyck:3,m=2,p=0.8", "12"),
];

fn settings(length: &str) -> DataSettings {
    let sizes = Sizes { train: 60, held_out: 40, test: 20 };
    DataSettings { sizes, ..DataSettings::with_length(length.parse().unwrap()) }
}

fn position(question: &Question) -> usize {
    let semfocus_tasks::At::Token(position) = question.at else { panic!("{question:?}") };
    position as usize
}

/// An example as the generator makes it: the tokens and what it says about them.
fn draw(task: &BuiltTask, length: &str, seed: u64) -> (Vec<Token>, semfocus_tasks::Answers) {
    let mut tokens = Vec::new();
    let lengths = task.task.lengths(length.parse().unwrap()).unwrap();
    let answers = task.task.generate(&lengths, &mut Random::new(Key::new(seed)), &mut tokens).unwrap();
    assert!(lengths.contains(&tokens.len()));
    (tokens, answers)
}

#[test]
fn every_example_is_legal_and_its_questions_are_described() {
    for (name, length) in KINDS {
        let task = task(name);
        let slices = task.task.slices().len();
        for seed in 0..40 {
            let (tokens, drawn) = draw(&task, length, seed);
            let context = format!("{name}: {tokens:?}");
            assert!(tokens.iter().all(|&token| usize::from(token) < task.alphabet.len()), "{context}");
            let answers = task.answers(&tokens).unwrap_or_else(|illegal| panic!("{context}: {illegal}"));
            if task.task.evaluator() == Evaluator::Exact {
                assert_eq!(answers, drawn, "{context}");
            }
            let padded: Vec<Token> = tokens.iter().copied().chain([task.pad(); 2]).collect();
            assert_eq!(task.answers(&padded).unwrap(), answers, "{context}");
            let places: Vec<usize> = answers.questions.iter().map(position).collect();
            assert!(
                !places.is_empty() && places.is_sorted() && places.iter().all(|&at| at < tokens.len()),
                "{context}"
            );
            assert_eq!(places, drawn.questions.iter().map(position).collect::<Vec<_>>(), "{context}");
            let rows = task.task.slice_values(&tokens);
            assert!(
                slices == 0 || rows.len() == places.len() && rows.iter().all(|row| row.len() == slices),
                "{context}"
            );
            let all = task.relevant_positions(&tokens);
            assert!(all.is_sorted_by(|one, next| one < next) && all.iter().all(|&at| at < tokens.len()), "{context}");
            let Some(of_questions) = task.task.relevant_to_questions(&tokens) else { continue };
            assert_eq!(of_questions.len(), places.len(), "{context}");
            for (found, &at) in of_questions.iter().zip(&places) {
                assert!(found.is_sorted_by(|one, next| one < next) && found.iter().all(|&key| key <= at), "{context}");
                assert!(found.iter().all(|key| all.contains(key)), "{context}: {found:?} of {all:?}");
            }
            assert!(!task.task.explain(&tokens).is_empty(), "{context}");
        }
    }
}

/// Averages from the definition, and where they are looked up.
#[test]
fn averages_are_rounded_half_up() {
    let task = task("sparse-average:2,questions=2,positions=4,digits=4");
    // Digits 3 0 1 2; names 4 to 7, mark 8: (3 + 0) / 2 and (1 + 0) / 2.
    let tokens = [3, 0, 1, 2, 4, 5, 8, 6, 5, 8];
    let answers = task.answers(&tokens).unwrap();
    let found: Vec<_> = answers.questions.iter().map(|asked| (position(asked), asked.target)).collect();
    assert_eq!(found, [(6, Target::Class(2)), (9, Target::Class(1))]);
    assert_eq!(task.task.relevant_to_questions(&tokens).unwrap(), [[0, 1], [1, 2]]);
    assert_eq!(task.relevant_positions(&tokens), [0, 1, 2, 4, 5, 7, 8]);
    assert_eq!(task.task.slice_values(&tokens), [[Some(6)], [Some(8)]]);
}

#[test]
fn brackets_to_close_are_found() {
    let dyck = task("dyck:2,m=3,p=0.25");
    let tokens = [0, 1, 0, 2, 3, 2];
    let answers = dyck.answers(&tokens).unwrap();
    let rows: Vec<&[f32]> = answers.distributions.chunks(4).collect();
    let (outer, inner) = ([0.125, 0.125, 0.75, 0.0], [0.125, 0.125, 0.0, 0.75]);
    assert_eq!(rows, [outer, inner, [0.0, 0.0, 1.0, 0.0], inner, outer, [0.5, 0.5, 0.0, 0.0]]);
    let found = dyck.task.relevant_to_questions(&tokens).unwrap();
    assert_eq!(found, [vec![0], vec![1], vec![2], vec![1], vec![0], vec![]]);
    let depths = [(1, Some(0)), (2, Some(0)), (3, Some(0)), (2, Some(2)), (1, Some(4)), (0, None)];
    assert_eq!(dyck.task.slice_values(&tokens), depths.map(|(depth, distance)| vec![Some(depth), distance]));
}

#[test]
fn tokens_are_copied_in_their_order() {
    let copy = task("selective-copy:2,vocabulary=4");
    let tokens = [4, 3, 4, 0, 5, 5];
    let found: Vec<_> =
        copy.answers(&tokens).unwrap().questions.iter().map(|asked| (position(asked), asked.target)).collect();
    assert_eq!(found, [(4, Target::Class(3)), (5, Target::Class(0))]);
    assert_eq!(copy.task.relevant_to_questions(&tokens).unwrap(), [[1], [3]]);
    assert_eq!(copy.task.slice_values(&tokens), [[Some(0), Some(3)], [Some(1), Some(2)]]);
}

/// What a question is looked up from decides its answer: a change there changes it, and one elsewhere changes nothing.
#[test]
fn what_is_looked_up_is_the_answer() {
    for (name, length) in
        [("recall", "17..30"), ("mqar", "16..40"), ("mqar:3,vocabulary=30,fillers=random", "24"), ("induction", "9")]
    {
        let task = task(name);
        for seed in 0..200 {
            let (tokens, answers) = draw(&task, length, seed);
            let found = task.task.relevant_to_questions(&tokens).unwrap();
            for (question, places) in answers.questions.iter().zip(&found) {
                let &[place] = &places[..] else { panic!("{name}: {places:?}") };
                assert_eq!(question.target, Target::Class(tokens[place]), "{name} {tokens:?}");
                let (key, query) = (place - 1, position(question));
                assert_eq!(tokens[key], tokens[query], "{name} {tokens:?}");
                // As in all tasks, the distance is that from the key to the question.
                let distances = task.task.slice_values(&tokens);
                assert!(distances.iter().any(|row| row.last() == Some(&Some((query - key) as u32))));
            }
        }
    }
}

#[test]
fn splits_share_no_sequence_and_never_change() {
    let mut found = String::new();
    for (name, length) in KINDS {
        let source = Source::find(name, &Tasks::standard(), &FileSet::default()).unwrap();
        let Source::Task(task) = &source else { unreachable!() };
        // A few of these tasks have hardly any sequences at their shortest lengths.
        let (length, few) = match name.contains("keys=1,") || name.contains("vocabulary=4") {
            true => ("9", true),
            false => (*length, false),
        };
        let Ok(data) = Dataset::generate(task, &settings(length), 3) else {
            assert!(few, "{name}");
            continue;
        };
        let all = |split: usize| data.splits()[split].1.iter().map(|(tokens, _)| tokens.to_vec()).collect::<Vec<_>>();
        assert!(all(0).iter().all(|tokens| !all(1).contains(tokens) && !all(2).contains(tokens)), "{name}");
        assert_eq!((data.train.len(), data.held_out.len(), data.test.len()), (60, 40, 20));
        let tables = source.slice_tables(&data.held_out).unwrap();
        assert_eq!(tables[0].slice.name, "position", "{name}");
        let asked = data.held_out.questions.all().len();
        assert!(tables.iter().all(|table| table.places.len() == asked), "{name}");
        found += &format!("{name} {:016x} {:016x}\n", data.train.checksum(), data.held_out.checksum());
    }
    assert_eq!(found, include_str!("sequences.txt"), "\n{found}");
}

#[test]
fn values_and_lengths_that_do_not_go_together_are_explained() {
    let complaint = |name: &str| Tasks::standard().find(name).unwrap_err().to_string();
    for (name, words) in [
        ("recall:40", "40 pairs need as many different keys, and there are 32; write for instance keys=40"),
        ("mqar:fewest=5", "`fewest` must not exceed the number of pairs, 4"),
        ("mqar:mix=zoology,fewest=2", "the mixture says how many pairs there are; leave `pairs` and `fewest` out"),
        ("mqar:mix=zoology,fillers=random", "with random fillers nobody can tell how many pairs a sequence has"),
        ("mqar:40,vocabulary=64", "40 pairs need as many different keys: a vocabulary of at least 82, not 64"),
        ("sparse-average:40", "40 different digits cannot be named among 32; write for instance positions=40"),
        ("markov-chain:graph=multi-parent,roots=stationary", "with two parents there is no stationary distribution"),
    ] {
        assert!(complaint(name).contains(words), "{}", complaint(name));
    }
    let refusal =
        |name: &str, length: &str| Dataset::generate(&task(name), &settings(length), 1).unwrap_err().to_string();
    for (name, length, words) in [
        ("recall", "16", "`recall` needs sequences of at least 17 tokens, got length 16"),
        ("mqar", "15..30", "`mqar` needs sequences of at least 16 tokens, got length 15..30"),
        ("mqar:mix=zoology", "64", "lengths of its own, 64..256; leave the length out instead of 64"),
        ("induction", "2", "`induction` needs sequences of at least 3 tokens"),
        ("selective-copy", "31", "`selective-copy` needs sequences of at least 32 tokens"),
        (
            "sparse-average",
            "60",
            "with 32 positions and 16 tokens of questions a sequence has up to 48 tokens, not 60; write for instance positions=44",
        ),
    ] {
        assert!(refusal(name, length).contains(words), "{}", refusal(name, length));
    }
}

#[test]
fn mistakes_are_found_where_they_are() {
    let complaint = |name: &str, tokens: &[Token]| task(name).answers(tokens).unwrap_err().to_string();
    // Values 0 to 2, keys 3 to 6, filler 7.
    let recall = |tokens: &[Token]| complaint("recall:2,keys=4,values=3", tokens);
    assert!(task("recall:2,keys=4,values=3").answers(&[3, 0, 5, 2, 7, 5]).is_ok());
    assert_eq!(recall(&[3, 0, 5, 2]), "token 5: expected 2 pairs and a key at the end, got the end");
    assert_eq!(recall(&[3, 5, 5, 2, 3]), "token 2: expected a value, got token 5");
    assert_eq!(recall(&[0, 0, 5, 2, 3]), "token 1: expected a key, got token 0");
    assert_eq!(recall(&[3, 0, 3, 2, 3]), "token 3: the key 3 has a value already");
    assert_eq!(recall(&[3, 0, 5, 2, 5, 3]), "token 5: expected a filler, got token 5");
    assert_eq!(recall(&[3, 0, 5, 2, 7, 4]), "token 6: expected one of the keys of the pairs, got token 4");
    // Keys 1 to 4, values 5 to 9.
    let mqar = |tokens: &[Token]| complaint("mqar:2,vocabulary=10", tokens);
    assert!(task("mqar:2,vocabulary=10").answers(&[1, 5, 4, 9, 4, 0, 1, 0, 0]).is_ok());
    assert_eq!(mqar(&[1, 5, 4, 0, 1, 0, 4, 0]), "token 3: expected 2 pairs of a key and a value, got 1");
    assert_eq!(mqar(&[1, 5, 1, 9, 4, 0, 1, 0]), "token 3: pairs share no key and no value, and this is token 1 again");
    assert_eq!(mqar(&[1, 5, 4, 5, 4, 0, 1, 0]), "token 4: pairs share no key and no value, and this is token 2 again");
    assert_eq!(mqar(&[1, 5, 4, 9, 0, 4, 1, 0]), "token 6: a key is asked for at a distance of an odd number of tokens");
    assert_eq!(mqar(&[1, 5, 4, 9, 4, 0, 4, 0]), "token 7: the key 4 is asked for a second time");
    assert_eq!(mqar(&[1, 5, 4, 9, 4, 0, 2, 0]), "token 7: expected a filler (0) or a key of the pairs, got token 2");
    assert_eq!(mqar(&[1, 5, 4, 9, 4, 0, 0, 0]), "token 9: the key 1 is never asked for");
    let induction = |tokens: &[Token]| complaint("induction:vocabulary=4", tokens);
    assert!(task("induction:vocabulary=4").answers(&[0, 3, 2, 3]).is_ok());
    assert_eq!(induction(&[0, 3, 2, 1]), "token 5: expected the special token, for the second time, got the end");
    assert_eq!(induction(&[3, 2, 3, 1]), "token 4: expected the special token, for the second time, got token 1");
    assert_eq!(induction(&[0, 2, 3, 3]), "token 4: an ordinary token must stand between the two special ones");
    assert_eq!(induction(&[3, 2, 3, 3]), "token 4: the special token stands here for a third time; it has two places");
    // Tokens 0 to 3, blank 4, copy mark 5.
    let copy = |tokens: &[Token]| complaint("selective-copy:2,vocabulary=4", tokens);
    assert!(task("selective-copy:2,vocabulary=4").answers(&[4, 0, 3, 5, 5]).is_ok());
    assert_eq!(copy(&[0, 5, 5]), "token 4: expected 2 tokens to copy and 2 copy marks, got the end");
    assert_eq!(copy(&[0, 3, 4, 5]), "token 3: expected a copy mark, got token 4");
    assert_eq!(copy(&[0, 5, 3, 5, 5]), "token 2: only the last 2 tokens are copy marks");
    assert_eq!(copy(&[0, 3, 3, 5, 5]), "token 4: expected 2 tokens to copy before the copy marks, got 3");
    // Digits 0 and 1, names 2 to 6, mark 7.
    let average = |tokens: &[Token]| complaint("sparse-average:2,questions=1,positions=5,digits=2", tokens);
    assert!(task("sparse-average:2,questions=1,positions=5,digits=2").answers(&[0, 1, 1, 4, 2, 7]).is_ok());
    assert_eq!(average(&[0, 4, 2, 7]), "token 5: expected 2 digits or more, and 3 tokens of questions, got the end");
    assert_eq!(average(&[0, 2, 1, 4, 2, 7]), "token 2: expected a digit, got token 2");
    assert_eq!(average(&[0, 1, 1, 4, 4, 7]), "token 5: this position is named already");
    assert_eq!(average(&[0, 1, 1, 4, 5, 7]), "token 5: expected the name of the position of a digit, got token 5");
    assert_eq!(average(&[0, 1, 1, 4, 2, 3]), "token 6: expected the mark `=`, got token 3");
    assert_eq!(average(&[0, 1, 1, 1, 1, 1, 4, 2, 7]), "token 6: only 5 digits have positions with names");
    let dyck = |tokens: &[Token]| complaint("dyck:2,m=2", tokens);
    assert!(task("dyck:2,m=2").answers(&[0, 1, 3, 2, 1]).is_ok());
    assert_eq!(dyck(&[0, 1, 0]), "token 3: 2 brackets are open, and no more are allowed");
    assert_eq!(dyck(&[0, 2, 3]), "token 3: no bracket is open");
    assert_eq!(dyck(&[0, 3]), "token 2: closes another bracket than token 1 opens");
    assert_eq!(complaint("rrxor", &[0, 0, 1, 1, 1, 1, 1, 0]), "token 7: 1 cannot follow the tokens before it");
    assert_eq!(complaint("markov-chain", &[1]), "token 2: ends too early: at least 2 tokens are needed");
}

#[test]
fn audits_of_many_classes_find_no_typing_errors() {
    let audit = |name: &str, train: usize| {
        let source = Source::find(name, &Tasks::standard(), &FileSet::default()).unwrap();
        let sizes = Sizes { train, held_out: 1000, test: 0 };
        let data = source.dataset(&DataSettings { sizes, ..DataSettings::default() }, 1).unwrap();
        Audit::new(&data, &source.trivial_rules())
    };
    let mqar = audit("mqar", 2000);
    assert_eq!(mqar.splits[0].labels.iter().sum::<usize>(), 8000);
    assert!(mqar.findings.iter().all(|finding| !finding.contains("Rare")), "{:?}", mqar.findings);
    assert!(mqar.baselines.iter().all(|rule| rule.accuracy < 0.01), "{:?}", mqar.baselines);
    // The third of three bits is the exclusive or of the two before; which one is the third has to be found out.
    let rrxor = audit("rrxor", 4000);
    let accuracy = |name: &str| rrxor.baselines.iter().find(|rule| rule.name == name).unwrap().accuracy;
    assert!(accuracy("last-two-tokens") > accuracy("majority-class") + 0.02, "{:?}", rrxor.baselines);
    assert_eq!((rrxor.contradictions, rrxor.splits[0].duplicates), (0, 0));
    let recall = audit("recall", 4000);
    assert!(recall.baselines.iter().all(|rule| rule.accuracy < 0.2), "{:?}", recall.baselines);
}

#[test]
fn floors_of_held_out_splits_are_the_best_losses() {
    let floor = |name: &str, length: &str| {
        let sizes = Sizes { train: 0, held_out: 3000, test: 0 };
        let data = Dataset::generate(&task(name), &DataSettings { sizes, ..settings(length) }, 1).unwrap();
        data.held_out.floor
    };
    // The mean of the best losses at the tokens two to eight of the definition; this is a sample of the sequences.
    let mean = [0.857719, 0.813356, 0.798118, 0.794740, 0.793783, 0.793543, 0.793480].iter().sum::<f64>() / 7.0;
    assert!((floor("mess3", "7").unwrap() - mean).abs() < 0.01);
    let single = floor("mess3:x=0.15,a=0.6", "12").unwrap();
    assert!((floor("mess3:x=0.15,a=0.6,factors=2", "12").unwrap() - 2.0 * single).abs() < 0.001, "independent copies");
    assert_eq!(floor("markov-chain", "20"), None, "nobody knows the best prediction");
    assert_eq!(floor("mqar", "64"), Some(0.0));
    // One transition is known: the row of the last token has a count of one with probability 1/2, otherwise none.
    let entropy = |shares: [f64; 2]| -shares.iter().map(|share| share * share.ln()).sum::<f64>();
    let expected = 0.5 * entropy([0.5, 0.5]) + 0.5 * entropy([2.0 / 3.0, 1.0 / 3.0]);
    let length = Length::Exactly(3);
    let data = DataSettings { sizes: Sizes { train: 0, held_out: 0, test: 0 }, ..DataSettings::with_length(length) };
    let chain = task("markov-chain:2,alpha=1,roots=uniform");
    let mut examples = Examples::new(&chain, &data, 1, None).unwrap();
    let found = examples.take_split(4000).unwrap().floor.unwrap();
    assert!((found - expected).abs() < 0.01, "{found}, expected {expected}");
}
