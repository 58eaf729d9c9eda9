//! The head against its definition in plain `f64` loops: losses, answers and every gradient; both of its forms, all instruction sets.

use semfocus_core::{At, Question, Questions, Target};
use semfocus_kernels::{
    Answer, Dropout, EmbeddingKernel, HeadKernel, Inference, InstructionSet, Key, LinearView, SMALL_HEAD, Training,
    TrainingGradients, cross_entropy,
};

/// Uniform values in (-1, 1).
fn values(seed: u64, n: usize) -> Vec<f32> {
    let key = Key::new(seed);
    (0..n).map(|i| key.bits_at(i as u32) as f32 / 2f32.powi(31) - 1.0).collect()
}

fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// A model without blocks: rows are those of the table.
struct Case {
    width: usize,
    length: usize,
    classes: usize,
    table: Vec<f32>,
    positions: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    tokens: Vec<usize>,
    questions: Questions,
}

const VOCABULARY: usize = 7;

impl Case {
    /// Sequence 0 asks nothing, 1 at the mean and at tokens, 2 with distributions and weight 0, the others at a token each.
    fn new(width: usize, length: usize, classes: usize, scale: f32) -> Self {
        let sequences = 11;
        let mut distributions: Vec<f32> = values(7, 2 * classes).iter().map(|value| value.max(0.0)).collect();
        for row in distributions.chunks_exact_mut(classes) {
            row[0] += 0.01;
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|value| *value /= sum);
        }
        let mut questions = Questions::with_distributions(distributions, classes);
        let ask = |at, target, weight| Question { at, target, weight };
        let (last, last_token) = ((classes - 1) as u16, At::Token(length as u32 - 1));
        questions.push([]);
        questions.push([
            Question::classify(last),
            ask(At::Token(0), Target::Class(0), 0.5),
            ask(last_token, Target::Class(last / 2), 2.0),
            ask(last_token, Target::Class(last / 3), 1.0),
            ask(At::Mean, Target::Class(0), 0.25),
        ]);
        questions.push([
            ask(At::Mean, Target::Soft(1), 1.5),
            ask(At::Token(0), Target::Soft(0), 1.0),
            ask(last_token, Target::Class(0), 0.0),
        ]);
        for sequence in 3..sequences {
            let class = (sequence * 31 % classes) as u16;
            questions.push([ask(At::Token((sequence % length) as u32), Target::Class(class), 1.0)]);
        }
        Case {
            width,
            length,
            classes,
            table: values(1, VOCABULARY * width),
            positions: values(2, length * width),
            weight: values(3, width * classes).iter().map(|value| value * scale).collect(),
            bias: values(4, classes),
            tokens: (0..sequences * length).map(|i| i * i % VOCABULARY).collect(),
            questions,
        }
    }

    fn embedding(&self) -> EmbeddingKernel<'_> {
        EmbeddingKernel {
            width: self.width,
            table: &self.table,
            positions: &self.positions,
            learns_positions: false,
            scale: 1.5,
            dropout: Dropout::NONE,
            site: Key::new(1),
        }
    }

    fn head(&self) -> HeadKernel<'_> {
        HeadKernel { width: self.width, map: LinearView { weight: &self.weight, bias: &self.bias }, norm: None }
    }

    fn train(&self) -> TrainingGradients {
        let training = Training::new(self.embedding(), Vec::new(), self.head(), self.tokens.len());
        training.expect("no block needs another example").gradients(&self.tokens, &self.questions)
    }

    fn inference(&self) -> Inference<'_> {
        Inference::new(self.embedding(), Vec::new(), self.head(), self.tokens.len()).expect("whole vectors")
    }

    /// Loss, gradients of table, weight and bias, and the loss and answer of each question.
    fn definition(&self) -> (f64, [Vec<f64>; 3], Vec<Answer>) {
        let Case { width, length, classes, questions, .. } = self;
        let (table, positions, weight) = (to_f64(&self.table), to_f64(&self.positions), to_f64(&self.weight));
        let mut gradients = [vec![0.0; table.len()], vec![0.0; weight.len()], vec![0.0; *classes]];
        let (mut loss, mut answers) = (0.0, Vec::new());
        for (sequence, tokens) in self.tokens.chunks(*length).enumerate() {
            for question in questions.of_sequence(sequence) {
                let places: Vec<usize> = match question.at {
                    At::Mean => (0..*length).collect(),
                    At::Token(t) => vec![t as usize],
                };
                let share = 1.0 / places.len() as f64;
                let value = |t: usize, k: usize| 1.5 * table[tokens[t] * width + k] + positions[t * width + k];
                let row: Vec<f64> =
                    (0..*width).map(|k| share * places.iter().map(|&t| value(t, k)).sum::<f64>()).collect();
                let logit = |class: usize| {
                    f64::from(self.bias[class])
                        + row.iter().enumerate().map(|(k, value)| value * weight[k * classes + class]).sum::<f64>()
                };
                let mut logits: Vec<f64> = (0..*classes).map(logit).collect();
                let class = (0..*classes).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
                let of_question = cross_entropy(&mut logits, questions, question.target);
                answers.push(Answer { loss: of_question, class });
                let factor = f64::from(question.weight) / questions.total_weight();
                loss += factor * of_question;
                for (class, error) in logits.iter().enumerate() {
                    gradients[2][class] += factor * error;
                    for (k, value) in row.iter().enumerate() {
                        gradients[1][k * classes + class] += factor * error * value;
                        for &t in &places {
                            gradients[0][tokens[t] * width + k] +=
                                1.5 * share * factor * error * weight[k * classes + class];
                        }
                    }
                }
            }
        }
        (loss, gradients, answers)
    }
}

fn assert_close(name: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected.iter().fold(0f64, |largest, value| largest.max(value.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (f64::from(*found) - expected).abs();
        assert!(difference <= tolerance * largest, "{name} {at}: {found} instead of {expected}, largest {largest}");
    }
}

const SHAPES: [(usize, usize, usize); 8] = [
    (16, 3, 2),
    (7, 5, 3),
    (20, 2, SMALL_HEAD),
    (20, 2, SMALL_HEAD + 1),
    (16, 70, 127),
    (33, 4, 129),
    (64, 3, 1000),
    (5, 2, 65_535),
];

#[test]
fn losses_gradients_and_answers_equal_the_definition() {
    for (width, length, classes) in SHAPES {
        for scale in [1.0, 300.0] {
            let case = Case::new(width, length, classes, scale);
            let name = format!("width {width}, length {length}, {classes} classes, scale {scale}");
            let (loss, [table, weight, bias], answers) = case.definition();
            // A difference of logits of some thousands has an error of 1e-3 in single precision.
            let tolerance = if scale > 1.0 { 2e-3 } else { 2e-5 };
            let found = case.train();
            assert!((found.loss - loss).abs() <= 1e-6 * loss, "{name}: loss {} instead of {loss}", found.loss);
            assert_close(&format!("{name}: table"), &found.table, &table, tolerance);
            assert_close(&format!("{name}: weight"), &found.head.weight, &weight, tolerance);
            assert_close(&format!("{name}: bias"), &found.head.bias, &bias, tolerance);
            if width % 16 == 0 {
                let found = case.inference().answers(&case.tokens, &case.questions);
                assert_eq!(found.len(), answers.len(), "{name}");
                for (found, expected) in found.iter().zip(&answers) {
                    let near = (found.loss - expected.loss).abs() <= 1e-5 * (1.0 + expected.loss);
                    assert!(near && found.class == expected.class, "{name}: {found:?} instead of {expected:?}");
                }
            }
        }
    }
}

/// Bits of everything that a case computes.
fn bits(case: &Case) -> Vec<u32> {
    let TrainingGradients { loss, table, head, .. } = case.train();
    let values = table.iter().chain(&head.weight).chain(&head.bias).map(|value| value.to_bits());
    let mut bits: Vec<u32> = [loss.to_bits() as u32, (loss.to_bits() >> 32) as u32].into_iter().chain(values).collect();
    if case.width.is_multiple_of(16) {
        let inference = case.inference();
        let answers = inference.answers(&case.tokens, &case.questions);
        bits.extend(answers.iter().flat_map(|answer| [answer.loss.to_bits() as u32, answer.class as u32]));
        bits.extend(inference.logits(&case.tokens, &case.questions).iter().map(|logit| logit.to_bits()));
    }
    bits
}

#[test]
fn bits_depend_neither_on_instructions_nor_on_threads() {
    let best = InstructionSet::current();
    for (width, length, classes) in &SHAPES[..7] {
        let case = Case::new(*width, *length, *classes, 3.0);
        let expected = bits(&case);
        for set in InstructionSet::available() {
            set.force();
            assert!(bits(&case) == expected, "{set:?}, {classes} classes");
        }
        best.force();
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| bits(&case)) == expected, "{threads} threads, {classes} classes");
        }
    }
}

#[test]
fn the_gradient_keeps_its_digits_when_the_answer_is_almost_certain() {
    // The logit of the right class is 30 above the others: 1 − p ≈ classes · e^-30.
    for classes in [100, 5000] {
        let mut case = Case::new(16, 1, classes, 0.0);
        case.bias.fill(0.0);
        case.bias[3] = 30.0;
        case.questions = Questions::classification(vec![3; case.tokens.len()]);
        let found = case.train();
        let others = (classes - 1) as f64 * (-30f64).exp();
        assert!((found.loss / others - 1.0).abs() < 1e-5, "{} instead of {others}", found.loss);
        assert!((f64::from(found.head.bias[3]) / -others - 1.0).abs() < 1e-5, "{}", found.head.bias[3]);
        assert!((f64::from(found.head.bias[4]) / (-30f64).exp() - 1.0).abs() < 1e-5, "{}", found.head.bias[4]);
    }
}

#[test]
fn a_batch_without_weight_has_no_loss_and_no_gradient() {
    for classes in [5, 200] {
        let mut case = Case::new(16, 2, classes, 1.0);
        for weight in [None, Some(0.0)] {
            let mut questions = Questions::default();
            for _ in 0..case.tokens.len() / 2 {
                questions.push(weight.map(|weight| Question { weight, ..Question::classify(1) }));
            }
            case.questions = questions;
            let found = case.train();
            assert_eq!(found.loss, 0.0);
            assert!(found.table.iter().chain(&found.head.weight).chain(&found.head.bias).all(|&value| value == 0.0));
        }
    }
}

#[test]
fn logits_that_are_not_finite_give_a_loss_that_is_not_finite() {
    for classes in [5, 200] {
        for (at, value) in [(0, f32::NAN), (classes - 1, f32::NAN), (3, f32::INFINITY)] {
            let mut case = Case::new(16, 2, classes, 1.0);
            case.bias[at] = value;
            assert!(!case.train().loss.is_finite(), "{classes} classes, {value} at {at}");
            let answers = case.inference().answers(&case.tokens, &case.questions);
            assert!(answers.iter().any(|answer| !answer.loss.is_finite()));
        }
    }
}

#[test]
fn loss_and_gradient_of_a_few_logits() {
    let check = |logits: &[f64], class: u16, loss: f64, gradient: &[f64]| {
        let mut errors = logits.to_vec();
        let found = cross_entropy(&mut errors, &Questions::default(), Target::Class(class));
        assert!((found - loss).abs() <= 1e-15 * loss, "loss {found} instead of {loss}");
        let near = errors.iter().zip(gradient).all(|(a, b)| (a - b).abs() <= 1e-15 * b.abs());
        assert!(near && errors.len() == gradient.len(), "{errors:?} instead of {gradient:?}");
    };
    let p = 1.0 / (1.0 + 2f64.exp());
    // ln(1 + e^-2), ln(1 + e^2), from the definition.
    check(&[2.0, 0.0], 0, 0.126_928_011_042_972_5, &[-p, p]);
    check(&[2.0, 0.0], 1, 2.126_928_011_042_972_5, &[1.0 - p, p - 1.0]);
    // Far beyond the digits of a number close to 1: 1 − p ≈ e^−50.
    let tiny = (-50f64).exp();
    check(&[0.0, 50.0], 1, tiny, &[tiny, -tiny]);
    check(&[0.0, -50.0, -50.0], 0, 2.0 * tiny, &[-2.0 * tiny, tiny, tiny]);
    check(&[1e4, -1e4, 0.0], 1, 2e4, &[1.0, -1.0, 0.0]);
    assert!(cross_entropy(&mut [f64::NAN, 0.0], &Questions::default(), Target::Class(1)).is_nan());
    // A distribution: 0.25 and 0.75 of the losses above.
    let mut questions = Questions::with_distributions(vec![0.25, 0.75], 2);
    questions.push([]);
    let mut errors = [2.0, 0.0];
    let loss = cross_entropy(&mut errors, &questions, Target::Soft(0));
    assert!((loss - (0.126_928_011_042_972_5 + 1.5)).abs() < 1e-14, "{loss}");
    assert!((errors[0] - (0.75 - p)).abs() < 1e-15 && (errors[1] - (p - 0.75)).abs() < 1e-15, "{errors:?}");
}
