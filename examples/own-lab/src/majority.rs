//! A task of your own: a generator, and an evaluator that is written apart from it. `docs/adding-a-task.md` walks through
//! this file.

use std::sync::Arc;

use semfocus::tasks::{
    Answers, Illegal, Length, Lengths, Literal, Parameter, Random, Symbol, Task, TaskInfo, Token, Unlikely, label,
};

// [definition]
/// What `list tasks` says about it, the values that it takes, and how it is built from them.
pub(crate) const MAJORITY: TaskInfo = TaskInfo {
    summary: "the most frequent of the tokens",
    tests: "comparing counts",
    parameters: &[Parameter::whole("of", "the number of different tokens", 2, 1000, 5).default(Literal::Number(2.0))],
    ..TaskInfo::new("majority", |values| Ok(Arc::new(Majority { symbols: values.whole("of") })))
};

#[derive(Debug)]
struct Majority {
    symbols: usize,
}

impl Task for Majority {
    fn alphabet(&self) -> Vec<Symbol> {
        let symbol = |n| Symbol { text: format!("{n}").into(), meaning: format!("digit {n}").into() };
        (0..self.symbols).map(symbol).collect()
    }

    fn classes(&self) -> Vec<Symbol> {
        let class = |n| Symbol { text: format!("{n}").into(), meaning: format!("{n} is the most frequent").into() };
        (0..self.symbols).map(class).collect()
    }

    /// Counts while drawing, and draws again if two tokens are equally frequent.
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let start = out.len();
        loop {
            let mut counts = vec![0; self.symbols];
            out.truncate(start);
            for _ in 0..random.within(lengths) {
                let token = random.below(self.symbols as u32) as Token;
                counts[usize::from(token)] += 1;
                out.push(token);
            }
            let most = counts.iter().max().copied().unwrap_or(0);
            let mut winners = (0..).zip(counts).filter(|(_, count)| *count == most);
            if let (Some((winner, _)), None) = (winners.next(), winners.next()) {
                return Ok(label(winner));
            }
        }
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let mut sorted = tokens.to_vec();
        sorted.sort_unstable();
        let mut groups: Vec<&[Token]> = sorted.chunk_by(|one, other| one == other).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        match groups[..] {
            [first, second, ..] if first.len() == second.len() => {
                Illegal::at(tokens.len(), format!("{} and {} are equally frequent", first[0], second[0]))
            }
            _ => Ok(label(groups[0][0])),
        }
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let count = |symbol: usize| tokens.iter().filter(|&&token| usize::from(token) == symbol).count();
        (0..self.symbols).map(|symbol| format!("{symbol} occurs {} times.", count(symbol))).collect()
    }

    fn default_length(&self) -> Length {
        Length::Exactly(21)
    }

    /// For `data show`.
    fn lesson_length(&self) -> Length {
        Length::Exactly(7)
    }
}
// [end of definition]

#[cfg(test)]
mod tests {
    use semfocus::tasks::{DataSettings, Dataset, Examples, FileSet, Source, Tasks};

    use super::*;

    #[test]
    fn it_is_a_task_like_any_other() {
        let tasks = Tasks::standard().with(MAJORITY);
        assert_eq!(tasks.iter().count(), Tasks::standard().iter().count() + 1);
        let source = Source::find("majority", &tasks, &FileSet::default()).unwrap();
        let data = source.dataset(&DataSettings::default(), 1).unwrap();
        assert_eq!((data.train.len(), data.held_out.len(), data.length, data.pad), (5000, 2000, 21, 2));
        for (bits, answers) in data.train.iter().chain(data.held_out.iter()) {
            let sum: Token = bits.iter().sum();
            assert_eq!(answers, label(Token::from(sum > 10)).questions, "{bits:?}");
        }
        let majority = tasks.find("majority").unwrap();
        assert_eq!(majority.answers(&[1, 0, 1, 2, 2]), Ok(label(1)), "padding is ignored");
        assert_eq!(majority.answers(&[1, 0]).unwrap_err().to_string(), "token 3: 0 and 1 are equally frequent");
        assert_eq!(majority.relevant_positions(&[1, 0, 1]), [0, 2]);
        assert!(Source::find("majority", &Tasks::standard(), &FileSet::default()).is_err(), "only where it was added");
    }

    #[test]
    fn its_value_is_seen_by_generator_and_evaluator() {
        let tasks = Tasks::standard().with(MAJORITY);
        let nine = tasks.find("majority:of=9").unwrap();
        assert_eq!((nine.spec.to_string().as_str(), nine.vocabulary(), nine.classes.len()), ("majority:9", 10, 9));
        assert_eq!(tasks.find("majority:of=2").unwrap().spec.to_string(), "majority", "the default is left out");
        assert_eq!(nine.answers(&[8, 1, 8, 9]), Ok(label(8)), "9 is the pad token here");
        let data = Dataset::generate(&nine, &DataSettings::default(), 1).unwrap();
        let mut classes = data.held_out.labels();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes, (0..9).collect::<Vec<_>>());
        let message = tasks.find("majority:of=1").unwrap_err().to_string();
        assert!(message.starts_with("`of` in `majority:of=1` must be at least 2"), "{message}");
    }

    #[test]
    #[should_panic(expected = "`majority` is the name of another task already")]
    fn a_name_can_be_taken_only_once() {
        let _ = Tasks::standard().with(MAJORITY).with(MAJORITY);
    }

    /// Draws as `majority` does, with a mistake.
    #[derive(Debug)]
    struct Wrong {
        evaluate: fn(&[Token]) -> Result<Answers, Illegal>,
        too_many: usize,
    }

    impl Task for Wrong {
        fn alphabet(&self) -> Vec<Symbol> {
            Majority { symbols: 2 }.alphabet()
        }

        fn classes(&self) -> Vec<Symbol> {
            self.alphabet()
        }

        fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
            let answers = Majority { symbols: 2 }.generate(lengths, random, out)?;
            out.extend(vec![0; self.too_many]);
            Ok(if self.too_many > 0 { label(0) } else { answers })
        }

        fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
            (self.evaluate)(tokens)
        }
    }

    #[test]
    fn mistakes_in_a_definition_are_found_when_examples_are_drawn() {
        const DISAGREES: TaskInfo =
            TaskInfo::new("wrong", |_| Ok(Arc::new(Wrong { evaluate: |_| Ok(label(0)), too_many: 0 })));
        const REJECTS: TaskInfo = TaskInfo::new("wrong", |_| {
            Ok(Arc::new(Wrong { evaluate: |bits| Illegal::at(bits.len(), "it is too short"), too_many: 0 }))
        });
        const TOO_LONG: TaskInfo =
            TaskInfo::new("wrong", |_| Ok(Arc::new(Wrong { evaluate: |_| Ok(label(0)), too_many: 2 })));
        let complaint = |task: TaskInfo| {
            let task = Tasks::standard().with(task).find("wrong").unwrap();
            let examples = Examples::new(&task, &DataSettings::default(), 1, None).unwrap();
            examples.take(100).find_map(Result::err).unwrap().to_string()
        };
        let disagrees = complaint(DISAGREES);
        let expected = "the task `wrong` is wrongly defined: its generator says the label is 1, its evaluator says 0";
        assert!(disagrees.starts_with(expected), "{disagrees}");
        let rejected = complaint(REJECTS);
        assert!(rejected.contains("its evaluator rejects token 41: it is too short"), "{rejected}");
        let too_long = complaint(TOO_LONG);
        assert!(too_long.contains("40 to 40 tokens were asked for, 42 generated"), "{too_long}");
    }
}
