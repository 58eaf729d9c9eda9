//! A task that asks at every token goes through the same generator, splits, files and audit as classification.

use std::sync::Arc;

use semfocus_tasks::{
    Answers, At, Audit, BuiltTask, DataSettings, Dataset, Examples, FileSet, Format, Illegal, Length, Lengths, Literal,
    Parameter, Question, Random, Slice, SliceTable, Source, Symbol, Target, Task, TaskInfo, Tasks, Token, TrivialRule,
    Unlikely, Writer, answer_line, symbol,
};

/// At every token from `from` on: is the number of ones so far odd?
const RUNNING_PARITY: TaskInfo = TaskInfo {
    summary: "the parity of the bits so far",
    parameters: &[Parameter::whole("from", "the first token that is asked", 0, 1000, 1).default(Literal::Number(0.0))],
    ..TaskInfo::new("running-parity", |values| Ok(Arc::new(RunningParity { from: values.whole("from") })))
};

#[derive(Debug)]
struct RunningParity {
    from: usize,
}

impl RunningParity {
    fn asked(&self, parities: Vec<u16>) -> Answers {
        let asked = |(position, class)| Question { at: At::Token(position), target: Target::Class(class), weight: 1.0 };
        (0..).zip(parities).skip(self.from).map(asked).collect()
    }
}

impl Task for RunningParity {
    fn alphabet(&self) -> Vec<Symbol> {
        vec![symbol("0", "bit 0"), symbol("1", "bit 1")]
    }

    fn classes(&self) -> Vec<Symbol> {
        vec![symbol("even", "an even number of ones"), symbol("odd", "an odd number of ones")]
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let mut parities = Vec::new();
        for _ in 0..random.within(lengths) {
            let bit = random.below(2) as Token;
            parities.push(parities.last().map_or(bit, |before| before ^ bit));
            out.push(bit);
        }
        Ok(self.asked(parities))
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        let ones = |end: usize| bits[..=end].iter().filter(|&&bit| bit == 1).count();
        Ok(self.asked((0..bits.len()).map(|end| (ones(end) % 2) as u16).collect()))
    }

    fn slices(&self) -> Vec<Slice> {
        vec![
            Slice { name: "ones", words: "ones so far" },
            Slice { name: "zeros", words: "zeros so far, of odd questions" },
        ]
    }

    fn slice_values(&self, bits: &[Token]) -> Vec<Vec<Option<u32>>> {
        let values = |question: Question| {
            let At::Token(position) = question.at else { unreachable!("it asks at tokens") };
            let count = |bit| bits[..=position as usize].iter().filter(|&&other| other == bit).count() as u32;
            vec![Some(count(1)), (question.target == Target::Class(1)).then(|| count(0))]
        };
        self.answers(bits).unwrap().questions.into_iter().map(values).collect()
    }

    fn trivial_rules(&self) -> Vec<TrivialRule> {
        let part: fn(&[Token]) -> Vec<Token> = |bits| bits[bits.len().saturating_sub(2)..].to_vec();
        vec![TrivialRule { name: "last-two-tokens", looks_at: "The last two tokens", part }]
    }
}

fn task(text: &str) -> BuiltTask {
    Tasks::standard().with(RUNNING_PARITY).find(text).unwrap()
}

#[test]
fn splits_hold_a_question_for_every_token() {
    let settings = DataSettings::with_length(Length::Between(3, 12));
    let data = Dataset::generate(&task("running-parity:from=1"), &settings, 1).unwrap();
    let held_out = &data.held_out;
    assert_eq!((held_out.len(), held_out.length, data.classes), (2000, 12, 2));
    let answers: usize = held_out.lengths.iter().map(|length| length - 1).sum();
    assert_eq!((held_out.questions.all().len(), held_out.labels().len()), (answers, answers));
    for ((tokens, asked), &length) in held_out.iter().zip(&held_out.lengths) {
        let mut parity = tokens[0];
        assert_eq!(asked.len(), length - 1, "padding is not asked about");
        for (position, question) in (1..).zip(asked) {
            parity ^= tokens[position];
            assert_eq!((question.at, question.target), (At::Token(position as u32), Target::Class(parity)));
        }
    }
    let other = Dataset::generate(&task("running-parity"), &settings, 1).unwrap();
    assert_eq!(other.train.tokens, data.train.tokens, "another question about the same data");
    assert_ne!(other.train.checksum(), data.train.checksum());
}

#[test]
fn an_audit_counts_answers_and_finds_their_shortcuts() {
    let tasks = Tasks::standard().with(RUNNING_PARITY);
    let source = Source::find("running-parity", &tasks, &FileSet::default()).unwrap();
    let data = source.dataset(&DataSettings::with_length(Length::Exactly(14)), 1).unwrap();
    let audit = Audit::new(&data, &source.trivial_rules());
    assert_eq!((audit.splits[1].examples, audit.splits[1].labels.iter().sum::<usize>()), (2000, 2000 * 14));
    assert_eq!((audit.contradictions, audit.overlaps[0].sequences), (0, 0));
    let accuracy = |name: &str| audit.baselines.iter().find(|rule| rule.name == name).unwrap().accuracy;
    // The first bit is its own parity; after that the last bit alone says nothing.
    assert!((accuracy("last-token") - (0.5 + 0.5 / 14.0)).abs() < 0.02, "{}", accuracy("last-token"));
    assert!((accuracy("last-two-tokens") - (0.5 + 1.0 / 14.0)).abs() < 0.02, "{}", accuracy("last-two-tokens"));
    assert!(accuracy("token-counts") == 1.0 && accuracy("bag-of-tokens") < 0.6);
    assert!(audit.findings.iter().any(|found| found.contains("The order of the tokens does not matter")));
}

#[test]
fn files_and_labels_show_where_each_answer_belongs() {
    let task = task("running-parity:from=2");
    let tokens = [1, 0, 0, 1, 1];
    let answers = task.answers(&tokens).unwrap();
    let line = |format: Format| {
        let mut line = Vec::new();
        Writer::new(&task, format, 6).unwrap().example(&tokens, &answers, &mut line).unwrap();
        String::from_utf8(line).unwrap()
    };
    assert_eq!(line(Format::Tokens), "1 0 0 1 1 2\t2:1 3:0 4:1\n");
    assert_eq!(line(Format::Text), "1 0 0 1 1\t2:odd 3:even 4:odd\n");
    assert_eq!(answer_line(&task, "1 0 0 1 1 2").unwrap(), answers);
    assert_eq!(task.relevant_positions(&[1, 0, 0]), [0, 1, 2]);
}

/// An evaluator that disagrees about one of many answers is found out.
#[test]
fn every_answer_is_checked() {
    #[derive(Debug)]
    struct Wrong;
    impl Task for Wrong {
        fn alphabet(&self) -> Vec<Symbol> {
            RunningParity { from: 0 }.alphabet()
        }
        fn classes(&self) -> Vec<Symbol> {
            RunningParity { from: 0 }.classes()
        }
        fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
            RunningParity { from: 0 }.generate(lengths, random, out)
        }
        fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
            let mut answers = RunningParity { from: 0 }.answers(bits)?;
            answers.questions.last_mut().unwrap().target = Target::Class(0);
            Ok(answers)
        }
    }
    const WRONG: TaskInfo = TaskInfo::new("wrong", |_| Ok(Arc::new(Wrong)));
    let task = Tasks::standard().with(WRONG).find("wrong").unwrap();
    let examples = Examples::new(&task, &DataSettings::default(), 1, None).unwrap();
    let message = examples.take(100).find_map(Result::err).unwrap().to_string();
    assert!(message.contains("the task `wrong` is wrongly defined: its generator asks"), "{message}");
}

#[test]
fn questions_are_split_by_position_and_by_what_the_task_names() {
    let source = |name: &str| {
        let tasks = Tasks::standard().with(RUNNING_PARITY);
        Source::find(name, &tasks, &FileSet::default()).unwrap()
    };
    let settings = DataSettings::with_length(Length::Between(120, 130));
    let split = source("running-parity:from=90").dataset(&settings, 1).unwrap().held_out;
    let tables = source("running-parity:from=90").slice_tables(&split).unwrap();
    let names: Vec<&str> = tables.iter().map(|table| table.slice.name).collect();
    assert_eq!(names, ["position", "ones", "zeros"]);
    let [position, ones, zeros] = &tables[..] else { unreachable!() };
    assert_eq!(position.values, [90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 110, 120], "two digits from 100 on");
    let value = |table: &SliceTable, question: usize| table.places[question].map(|place| table.values[place as usize]);
    let mut question = 0;
    for (tokens, asked) in split.iter() {
        for Question { at, target, .. } in asked {
            let At::Token(at) = *at else { panic!("{at:?}") };
            let counted = tokens[..=at as usize].iter().filter(|&&bit| bit == 1).count() as u32;
            assert_eq!(value(position, question), Some(if at < 100 { at } else { at / 10 * 10 }));
            assert_eq!(value(ones, question), Some(counted).map(|ones| if ones < 100 { ones } else { ones / 10 * 10 }));
            assert_eq!(value(zeros, question).is_some(), *target == Target::Class(1), "the others are left out");
            question += 1;
        }
    }
    assert_eq!((position.places.len(), ones.places.len(), zeros.places.len()), (question, question, question));
    // Classification has no slices.
    let parity = source("parity");
    assert_eq!(parity.slice_tables(&parity.dataset(&DataSettings::default(), 1).unwrap().held_out).unwrap(), []);
}

#[test]
fn a_task_that_forgets_values_of_slices_is_wrong() {
    #[derive(Debug)]
    struct Forgetful(usize);
    impl Task for Forgetful {
        fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
            RunningParity { from: 0 }.generate(lengths, random, out)
        }
        fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
            RunningParity { from: 0 }.answers(bits)
        }
        fn slices(&self) -> Vec<Slice> {
            RunningParity { from: 0 }.slices()
        }
        fn slice_values(&self, bits: &[Token]) -> Vec<Vec<Option<u32>>> {
            vec![vec![Some(1)]; bits.len().min(self.0)]
        }
    }
    const SYMBOLS: &[Symbol] = &[symbol("0", "zero"), symbol("1", "one")];
    const ROWS: TaskInfo =
        TaskInfo { alphabet: SYMBOLS, classes: SYMBOLS, ..TaskInfo::new("rows", |_| Ok(Arc::new(Forgetful(3)))) };
    const VALUES: TaskInfo =
        TaskInfo { alphabet: SYMBOLS, classes: SYMBOLS, ..TaskInfo::new("values", |_| Ok(Arc::new(Forgetful(9)))) };
    for (info, problem) in [
        (ROWS, "it asks 5 questions and gives values of slices for 3"),
        (VALUES, "it has 2 slices and gives 1 values for a question"),
    ] {
        let source = Source::find(info.name, &Tasks::standard().with(info.clone()), &FileSet::default()).unwrap();
        let split = source.dataset(&DataSettings::with_length(Length::Exactly(5)), 1);
        let error = source.slice_tables(&split.unwrap().train).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

/// Three questions about three bits; the lists are what the task calls relevant to them.
fn looking_at(lists: fn() -> Vec<Vec<usize>>) -> BuiltTask {
    #[derive(Debug)]
    struct Looking(fn() -> Vec<Vec<usize>>);
    impl Task for Looking {
        fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
            RunningParity { from: 0 }.generate(lengths, random, out)
        }
        fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
            RunningParity { from: 0 }.answers(bits)
        }
        fn relevant_to_questions(&self, _bits: &[Token]) -> Option<Vec<Vec<usize>>> {
            Some(self.0())
        }
    }
    let built = task("running-parity");
    BuiltTask { task: Arc::new(Looking(lists)), ..built }
}

#[test]
fn every_question_has_its_own_relevant_positions() {
    let task = looking_at(|| vec![vec![0], vec![], vec![0, 2]]);
    let keys = task.relevant_keys(&[1, 0, 0, 2, 2]).unwrap();
    let of = |query| keys.of_query(query, 5);
    assert_eq!([0, 1, 2, 3].map(of), [Some(&[0][..]), None, Some(&[0, 2]), None], "padding asks nothing");
    assert_eq!(task.relevant_keys(&[1, 7]).unwrap().of_query(0, 2), Some(&[][..]), "illegal sequences have none");
    let shared = self::task("running-parity").relevant_keys(&[1, 0, 0]).unwrap();
    assert_eq!(shared.of_query(1, 3), Some(&[0, 1, 2][..]));
}

#[test]
fn a_task_with_positions_that_cannot_be_is_wrong() {
    for (lists, problem) in [
        (
            (|| vec![vec![0], vec![1]]) as fn() -> Vec<Vec<usize>>,
            "it asks 3 questions and gives relevant positions for 2",
        ),
        (
            || vec![vec![0], vec![1], vec![3]],
            "the relevant positions [3] of a question are not positions of its 3 tokens",
        ),
        (|| vec![vec![0], vec![1, 1], vec![2]], "the relevant positions [1, 1] of a question are not positions"),
        (|| vec![vec![0], vec![2, 1], vec![2]], "the relevant positions [2, 1] of a question are not positions"),
    ] {
        let error = looking_at(lists).relevant_keys(&[1, 0, 1]).unwrap_err().to_string();
        assert!(
            error.starts_with("the task `running-parity` is wrongly defined: ") && error.contains(problem),
            "{error}"
        );
        assert!(error.ends_with("the sequence is `1 0 1`"), "{error}");
    }
}
