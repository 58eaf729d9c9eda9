//! A task of your own: a generator, and an evaluator that is written apart from it. `docs/adding-a-task.md` walks through
//! this file.

use semfocus::tasks::{Illegal, Label, Length, Random, Recipe, Symbol, TaskInfo, Token, Unlikely, symbol};

// [definition]
const BITS: &[Symbol] = &[symbol("0", "a zero"), symbol("1", "a one")];
const CLASSES: &[Symbol] = &[symbol("0", "zeros have the majority"), symbol("1", "ones have the majority")];

/// What `list tasks` says about it, and how its examples are made.
pub(crate) const MAJORITY: TaskInfo = TaskInfo {
    summary: "the more frequent of the bits, whose number is odd",
    tests: "comparing two counts",
    default_length: Length::Exactly(21),
    lesson_length: Length::Exactly(7), // for `data show`
    explain: |bits| vec![format!("{} of {} bits are ones.", ones(bits), bits.len())],
    ..TaskInfo::new("majority", BITS, CLASSES, generate, evaluate)
};

fn ones(bits: &[Token]) -> usize {
    bits.iter().filter(|&&bit| bit == 1).count()
}

/// Keeps a balance while drawing; the evaluator counts afterwards.
fn generate(recipe: &Recipe, random: &mut Random, out: &mut Vec<Token>) -> Result<Label, Unlikely> {
    let mut balance = 0;
    for _ in 0..recipe.draw_length(random) {
        let bit = random.below(2) as Token;
        balance += 2 * i32::from(bit) - 1;
        out.push(bit);
    }
    Ok(Label::from(balance > 0))
}

fn evaluate(bits: &[Token]) -> Result<Label, Illegal> {
    if bits.len().is_multiple_of(2) {
        return Illegal::at(bits.len(), "the number of bits must be odd");
    }
    Ok(Label::from(2 * ones(bits) > bits.len()))
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
        assert_eq!((data.train.len(), data.held_out.len(), data.width, data.pad), (5000, 2000, 21, 2));
        for (bits, label) in data.train.iter().chain(data.held_out.iter()) {
            let sum: Token = bits.iter().sum();
            assert_eq!(label, Label::from(sum > 10), "{bits:?}");
        }
        assert_eq!(MAJORITY.label(&[1, 0, 1, 2, 2]), Ok(1), "padding is ignored");
        assert_eq!(MAJORITY.label(&[1, 0]).unwrap_err().to_string(), "token 3: the number of bits must be odd");
        assert_eq!(MAJORITY.relevant_positions(&[1, 0, 1]), [0, 2]);
        assert!(Source::find("majority", &Tasks::standard(), &FileSet::default()).is_err(), "only where it was added");
    }

    #[test]
    #[should_panic(expected = "there is a task named `majority` already")]
    fn a_name_can_be_taken_only_once() {
        let _ = Tasks::standard().with(MAJORITY).with(MAJORITY);
    }

    #[test]
    fn mistakes_in_a_definition_are_found_when_examples_are_drawn() {
        let complaint = |task: TaskInfo| Dataset::generate(&task, &DataSettings::default(), 1).unwrap_err().to_string();
        let disagrees =
            complaint(TaskInfo { evaluate: |bits| Ok(bits[0]), default_length: Length::Exactly(3), ..MAJORITY });
        assert!(
            disagrees.starts_with("the task `majority` is wrongly defined: its generator says the label is"),
            "{disagrees}"
        );
        let rejected = complaint(TaskInfo { default_length: Length::Exactly(4), ..MAJORITY });
        assert!(rejected.contains("its evaluator rejects token 5: the number of bits must be odd"), "{rejected}");
        let classless = complaint(TaskInfo { classes: &CLASSES[..1], ..MAJORITY });
        assert!(classless.contains("it has no class for the label 1"), "{classless}");
        let too_long = TaskInfo {
            generate: |recipe, random, out| {
                out.extend([0, 0]);
                generate(recipe, random, out).map(|_| Label::from(2 * ones(out) > out.len()))
            },
            ..MAJORITY
        };
        let mut examples = Examples::new(&too_long, &DataSettings::default(), 1, None).unwrap();
        let message = examples.draw().unwrap_err().to_string();
        assert!(message.contains("21 to 21 tokens were asked for, 23 generated"), "{message}");
    }
}
