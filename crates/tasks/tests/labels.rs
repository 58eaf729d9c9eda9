//! Compares generators with evaluators, and evaluators with independent implementations.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Classify, all_sequences, draw, task};
use proptest::prelude::*;
use semfocus_tasks::{Label, Tasks, Token, single_label};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The label that the generator knows from its construction is the one that the evaluator reads from the sequence.
    #[test]
    fn generator_and_evaluator_agree(seed: u64, which in 0usize..9, low in 4usize..70, more in 0usize..30) {
        let tasks = Tasks::standard();
        let task = tasks.examples().nth(which).unwrap();
        let lengths = low..=low + if task.name() == "listops" { more + 20 } else { more };
        let (tokens, constructed) = draw(&task, &lengths, seed);
        prop_assert_eq!(task.label(&tokens), Ok(constructed));
        prop_assert!(lengths.contains(&tokens.len()));
        prop_assert!(tokens.iter().all(|&token| usize::from(token) < task.vocabulary()));
        prop_assert!(usize::from(constructed) < task.classes.len());
        // Padding at the end changes nothing.
        let padded: Vec<Token> = tokens.iter().copied().chain([task.pad(); 3]).collect();
        prop_assert_eq!(task.label(&padded), Ok(constructed));
    }

    /// No sequence of numbers makes an evaluator panic, and its error points into the sequence or just behind its end.
    #[test]
    fn any_tokens_are_judged_without_panic(tokens in prop::collection::vec(0u16..20, 0..40)) {
        for task in Tasks::standard().examples() {
            match task.answers(&tokens) {
                Ok(answers) => {
                    let classes = task.classes.len();
                    prop_assert!(answers.questions.iter().all(|asked| answers.correct_class(asked.target, classes).is_some()));
                    prop_assert!(!task.task.explain(task.without_padding(&tokens)).is_empty());
                }
                Err(illegal) => prop_assert!(illegal.index <= tokens.len() && !illegal.reason.is_empty()),
            }
        }
    }
}

/// Compares a task with `expected` (`None` for illegal) on all sequences over its alphabet up to a length, and checks that
/// the generator produces all legal ones of `generated_length` and no others.
fn brute_force(name: &str, longest: usize, generated_length: usize, expected: impl Fn(&[Token]) -> Option<Label>) {
    let task = task(name);
    let mut legal = BTreeSet::new();
    for length in 1..=longest.max(generated_length) {
        for tokens in all_sequences(task.alphabet.len() as Token, length) {
            let label = expected(&tokens);
            assert_eq!(task.label(&tokens).ok(), label, "{name} {tokens:?}");
            if length == generated_length && label.is_some() {
                legal.insert(tokens);
            }
        }
    }
    let lengths = generated_length..=generated_length;
    let drawn: BTreeSet<Vec<Token>> = (0..30_000).map(|seed| draw(&task, &lengths, seed).0).collect();
    assert_eq!(drawn, legal, "{name} generates all legal sequences of length {generated_length} and no others");
}

#[test]
fn parity_by_brute_force() {
    brute_force("parity", 10, 6, |bits| Some(bits.iter().sum::<Token>() % 2));
}

#[test]
fn even_pairs_by_brute_force() {
    brute_force("even-pairs", 10, 6, |bits| {
        let changes = (1..bits.len()).filter(|&i| bits[i - 1] != bits[i]).count();
        Some(changes as Label % 2)
    });
}

#[test]
fn missing_duplicate_by_brute_force() {
    brute_force("missing-duplicate", 8, 6, |tokens| {
        let fits = |bit: Token| {
            let whole: Vec<Token> = tokens.iter().map(|&t| if t == 2 { bit } else { t }).collect();
            let half = whole.len() / 2;
            whole.len().is_multiple_of(2) && whole[..half] == whole[half..]
        };
        let hidden = tokens.iter().filter(|&&t| t == 2).count();
        (hidden == 1).then(|| (0..2).find(|&bit| fits(bit))).flatten()
    });
}

#[test]
fn flip_flop_by_brute_force() {
    // Every legal text, from the definition, with its label.
    let mut legal = BTreeMap::new();
    let mut beginnings = vec![("W0".to_owned(), 0), ("W1".to_owned(), 1)];
    for _ in 0..3 {
        legal.extend(beginnings.iter().map(|(text, bit)| (format!("{text}R?"), *bit)));
        let longer = beginnings.iter().flat_map(|(text, bit)| {
            let pairs = [("W0", 0), ("W1", 1), ("I0", *bit), ("I1", *bit), (["R0", "R1"][usize::from(*bit)], *bit)];
            pairs.map(|(pair, bit)| (format!("{text}{pair}"), bit))
        });
        beginnings = longer.collect();
    }
    assert_eq!(legal.len(), 2 + 10 + 50);
    brute_force("flip-flop", 7, 8, |tokens| legal.get(&written(tokens, "01WIR?")).copied());
}

#[test]
fn cycle_navigation_by_brute_force() {
    brute_force("cycle-navigation", 8, 6, |moves| {
        let ring = [0, 1, 2, 3, 4];
        let end = moves.iter().fold(10_000i32, |at, &step| at + i32::from(step) - 1);
        Some(ring[end as usize % 5])
    });
}

#[test]
fn stack_manipulation_by_brute_force() {
    brute_force("stack-manipulation", 7, 5, |tokens| {
        let text: String = tokens.iter().map(|t| t.to_string()).collect();
        let bits = text.trim_end_matches(['2', '3', '4']);
        let actions = text.strip_prefix(bits)?;
        if bits.is_empty() || actions.is_empty() || bits.contains(['2', '3', '4']) {
            return None;
        }
        let mut stack = bits.to_owned();
        for action in actions.chars() {
            match action {
                '2' => drop(stack.pop()),
                '3' => stack.push('0'),
                _ => stack.push('1'),
            }
        }
        Some(stack.pop().map_or(2, |top| top.to_digit(10).unwrap() as Label))
    });
}

/// All expressions of up to `longest` characters with their values over the integers, from the definition.
fn expressions(longest: usize, operators: &str) -> Vec<BTreeMap<String, i64>> {
    let mut by_length: Vec<BTreeMap<String, i64>> = vec![BTreeMap::new(); longest + 1];
    for length in 1..=longest {
        let mut found = BTreeMap::new();
        for d in 0..5i64 {
            match length {
                1 => found.insert(format!("{d}"), d),
                2 => found.insert(format!("-{d}"), -d),
                3 => found.insert(format!("({d})"), d),
                4 => found.insert(format!("(-{d})"), -d),
                _ => None,
            };
        }
        for left_length in 1..=length.saturating_sub(4) {
            let (left, right) = (&by_length[left_length], &by_length[length - left_length - 3]);
            for (a, x) in left {
                for (b, y) in right {
                    for operator in operators.chars() {
                        let value = match operator {
                            '+' => x + y,
                            '-' => x - y,
                            _ => x * y,
                        };
                        found.insert(format!("({a}{operator}{b})"), value);
                    }
                }
            }
        }
        by_length[length] = found;
    }
    by_length
}

fn written(tokens: &[Token], alphabet: &str) -> String {
    tokens.iter().map(|&token| alphabet.as_bytes()[usize::from(token)] as char).collect()
}

#[test]
fn modular_arithmetic_by_brute_force() {
    let language = expressions(9, "+-*");
    let alphabet = "01234+-*()";
    brute_force("modular-arithmetic", 5, 6, |tokens| {
        let value = language[tokens.len()].get(&written(tokens, alphabet));
        value.map(|value| value.rem_euclid(5) as Label)
    });
    let task = task("modular-arithmetic");
    for (text, value) in language.iter().flatten() {
        let tokens: Vec<Token> = text.chars().map(|c| alphabet.find(c).unwrap() as Token).collect();
        assert_eq!(task.label(&tokens), Ok(value.rem_euclid(5) as Label), "{text}");
    }
}

#[test]
fn solve_equation_by_brute_force() {
    let language = expressions(8, "+-");
    let alphabet = "01234+-()x=";
    let holds = |text: &str| {
        text.split_once('=').is_some_and(|(left, right)| {
            let left = language.get(left.len()).and_then(|language| language.get(left));
            right.len() == 1 && left.is_some_and(|left| right.parse() == Ok(left.rem_euclid(5)))
        })
    };
    let solve = |text: &str| {
        let solutions: Vec<Label> = (0..5).filter(|x| holds(&text.replace('x', &x.to_string()))).collect();
        let hides_one_digit = text.matches('x').count() == 1 && !text.ends_with('x');
        (hides_one_digit && !solutions.is_empty()).then(|| {
            assert_eq!(solutions.len(), 1);
            solutions[0]
        })
    };
    brute_force("solve-equation", 5, 4, |tokens| solve(&written(tokens, alphabet)));
    let task = task("solve-equation");
    for (left, value) in language.iter().flatten() {
        let equation = format!("{left}={}", value.rem_euclid(5));
        for place in (0..equation.len()).filter(|&place| equation.as_bytes()[place].is_ascii_digit()) {
            let text = format!("{}x{}", &equation[..place], &equation[place + 1..]);
            let tokens: Vec<Token> = text.chars().map(|c| alphabet.find(c).unwrap() as Token).collect();
            let hidden = equation[place..=place].parse().ok().filter(|_| place < left.len());
            assert_eq!(task.label(&tokens).ok(), hidden, "{text}");
        }
    }
}

/// A recursive evaluator of ListOps, to compare with the one under test, which keeps tallies.
fn listops_value(tokens: &mut &[Token]) -> Option<Label> {
    let (&head, rest) = tokens.split_first()?;
    *tokens = rest;
    if head < 10 {
        return Some(head);
    }
    if head == 14 {
        return None;
    }
    let mut values = Vec::new();
    while *tokens.first()? != 14 {
        values.push(listops_value(tokens)?);
    }
    *tokens = &tokens[1..];
    values.sort();
    let middle = values.len() / 2;
    Some(match head {
        10 => *values.first()?,
        11 => *values.last()?,
        12 if values.len() % 2 == 1 => values[middle],
        12 => (values.get(middle.wrapping_sub(1))? + values[middle]) / 2,
        _ if values.is_empty() => return None,
        _ => values.iter().sum::<Label>() % 10,
    })
}

#[test]
fn listops_by_brute_force() {
    let task = task("listops");
    for length in 1..=5 {
        for tokens in all_sequences(15, length) {
            let mut rest = &tokens[..];
            let value = listops_value(&mut rest).filter(|_| rest.is_empty());
            assert_eq!(task.label(&tokens).ok(), value, "{tokens:?}");
        }
    }
    for seed in 0..300 {
        let (tokens, label) = draw(&task, &(50..=400), seed);
        assert_eq!(listops_value(&mut &tokens[..]), Some(label));
    }
}

#[test]
fn labels_made_by_the_independent_script() {
    let mut checked = 0;
    for line in include_str!("independent/fixture.tsv").lines().filter(|line| !line.starts_with(['#'])) {
        let [name, sequence, label] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("three columns: {line}") };
        if name != "listops-shares" {
            let got = semfocus_tasks::answer_line(&task(name), sequence).unwrap();
            assert_eq!(single_label(&got).unwrap().to_string(), label, "{line}");
            checked += 1;
        }
    }
    assert_eq!(checked, 8 * 32 + 20);
}

#[test]
fn examples_of_the_definitions() {
    let label = |name: &str, tokens: &[Token]| task(name).label(tokens);
    assert_eq!(label("missing-duplicate", &[0, 1, 0, 2, 3]), Ok(1), "odd lengths end with a pad");
    assert_eq!(label("cycle-navigation", &[0]), Ok(4));
    assert_eq!(label("stack-manipulation", &[1, 2, 2, 4]), Ok(1), "POP on empty does nothing");
    assert_eq!(label("stack-manipulation", &[1, 2]), Ok(2));
    assert_eq!(label("listops", &[12, 1, 4, 14]), Ok(2), "the median of 1 and 4 is 2.5");
    assert_eq!(label("listops", &[13, 9, 9, 9, 14]), Ok(7));
    let complaint = |name: &str, tokens: &[Token]| label(name, tokens).unwrap_err().to_string();
    assert_eq!(complaint("parity", &[0, 2, 1]), "token 2: the pad token 2 is only allowed at the end");
    assert_eq!(
        complaint("parity", &[0, 7]),
        "token 2: there is no token 7; `parity` has tokens 0 to 1 and pads with 2"
    );
    assert_eq!(complaint("parity", &[2, 2]), "token 1: the sequence is empty");
    assert_eq!(complaint("listops", &[11, 3, 4]), "token 4: ends too early: [MAX at token 1 lacks its `]`");
    assert_eq!(complaint("listops", &[3, 4]), "token 2: the expression was complete before this token");
    assert_eq!(complaint("listops", &[11, 14]), "token 2: [MAX has no arguments");
    assert_eq!(complaint("modular-arithmetic", &[8, 1, 5]), {
        "token 4: ends too early: a digit, `-` and a digit, or `(` must follow"
    });
    assert_eq!(complaint("modular-arithmetic", &[8, 8, 1, 9, 9]), {
        "token 5: brackets around brackets: expected an operator"
    });
    assert_eq!(label("solve-equation", &[7, 6, 9, 8, 10, 3]), Ok(2), "(-x) = 3");
    assert_eq!(complaint("solve-equation", &[3, 10, 9]), "token 3: x must stand in the expression, before `=`");
    assert_eq!(
        complaint("missing-duplicate", &[0, 1, 2, 0]),
        "token 4: differs from token 2, its counterpart in the first half"
    );
}

#[test]
fn mistakes_in_flip_flop_are_found_where_they_are() {
    let read = |text: &str| -> Result<Label, String> {
        let tokens: Vec<Token> = text.split(' ').map(|symbol| "01WIR?_".find(symbol).unwrap() as Token).collect();
        task("flip-flop").label(&tokens).map_err(|illegal| illegal.to_string())
    };
    assert_eq!(read("W 1 R ?"), Ok(1), "the shortest sequence");
    assert_eq!(read("W 1 I 0 W 0 I 1 R 0 I 1 R ? _"), Ok(0), "odd lengths end with a pad");
    assert_eq!(read("W 1 R 1 R 1 W 0 W 1 R ?"), Ok(1));
    let complaint = |text: &str| read(text).unwrap_err();
    for text in ["I 1 R ?", "R ?", "I", "R 0 R ?"] {
        assert_eq!(complaint(text), "token 1: the first instruction must be W (2)", "{text}");
    }
    assert_eq!(complaint("0 1 R ?"), "token 1: expected an instruction: W, I or R (2, 3 or 4)");
    assert_eq!(complaint("W 1 0 R ?"), "token 3: expected an instruction: W, I or R (2, 3 or 4)");
    assert_eq!(complaint("W 1 ?"), "token 3: expected an instruction: W, I or R (2, 3 or 4)");
    assert_eq!(complaint("W R ?"), "token 2: expected a bit, 0 or 1, after W");
    assert_eq!(complaint("W 1 I W 0 R ?"), "token 4: expected a bit, 0 or 1, after I");
    assert_eq!(complaint("W 1 R 0 R ?"), "token 4: R must be followed by the bit last written, 1 at token 2");
    assert_eq!(
        complaint("W 1 W 0 I 1 R 0 R 1 R ?"),
        "token 10: R must be followed by the bit last written, 0 at token 4"
    );
    assert_eq!(complaint("W ?"), "token 2: `?` must follow R, not W");
    assert_eq!(complaint("W 1 I ? R ?"), "token 4: `?` must follow R, not I");
    assert_eq!(complaint("W 1 R ? R ?"), "token 4: `?` is only allowed at the end");
    assert_eq!(complaint("W 1 R ? I"), "token 4: `?` is only allowed at the end");
    for (text, end) in [("W", 2), ("W 1", 3), ("W 1 I 0", 5), ("W 1 R 1", 5), ("W 1 R", 4)] {
        assert_eq!(complaint(text), format!("token {end}: ends too early: the last pair must be R ? (4 5)"));
    }
}

#[test]
fn deep_expressions_do_not_exhaust_the_stack() {
    let depth = 1_000_000;
    let mut tokens = vec![11; depth];
    tokens.push(3);
    tokens.extend(vec![14; depth]);
    assert_eq!(task("listops").label(&tokens), Ok(3));
    let mut tokens = vec![8; depth];
    tokens.push(3);
    for _ in 0..depth {
        tokens.extend([5, 1, 9]);
    }
    assert_eq!(task("modular-arithmetic").label(&tokens), Ok(((3 + depth) % 5) as Label));
}

#[test]
fn every_task_is_described_completely() {
    for task in Tasks::standard().examples() {
        for text in [task.info.summary, task.info.tests, task.info.source] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{}: {text}", task.name());
        }
        assert!(task.alphabet.iter().all(|s| !s.text.contains([' ', '\t']) && !s.text.is_empty()));
        let texts: BTreeSet<&str> = task.alphabet.iter().map(|s| &*s.text).collect();
        assert_eq!(texts.len(), task.alphabet.len(), "symbols of {} are distinct", task.name());
        for (id, class) in task.classes.iter().enumerate() {
            assert_eq!(class.text, id.to_string(), "classes are written as their ids");
        }
    }
    let ids = |name: &str| (task(name).alphabet.len(), task(name).pad(), task(name).classes.len());
    assert_eq!(ids("listops"), (15, 15, 10));
    assert_eq!(ids("parity"), (2, 2, 2));
    assert_eq!(ids("even-pairs"), (2, 2, 2));
    assert_eq!(ids("missing-duplicate"), (3, 3, 2));
    assert_eq!(ids("cycle-navigation"), (3, 3, 5));
    assert_eq!(ids("stack-manipulation"), (5, 5, 3));
    assert_eq!(ids("modular-arithmetic"), (10, 10, 5));
    assert_eq!(ids("solve-equation"), (11, 11, 5));
    assert_eq!(ids("flip-flop"), (6, 6, 2));
}
