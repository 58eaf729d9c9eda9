//! Optimisers: how a gradient changes a parameter. The formulas are PyTorch's; the tests compare with its results.

pub use semfocus_core::{Decayed, LrFactors, OptimizerConfig, Rule};

/// A parameter of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its number in the order of the model.
    pub number: usize,
    /// Its name, such as `blocks.0.attention.query.weight`.
    pub name: &'a str,
}

/// How a gradient changes a parameter.
///
/// Optimisers work on plain slices: for parameters of this size the bookkeeping of tensor operations would cost more than
/// the arithmetic.
pub trait Optimizer {
    /// Called once before the updates of each step.
    fn begin_step(&mut self) {}

    /// Updates a parameter, which is `values`.
    fn update(&mut self, parameter: Parameter<'_>, values: &mut [f32], gradient: &[f32], learning_rate: f64);
}

/// Plain stochastic gradient descent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sgd;

impl Optimizer for Sgd {
    fn update(&mut self, _parameter: Parameter<'_>, values: &mut [f32], gradient: &[f32], learning_rate: f64) {
        descend(values, gradient, learning_rate as f32);
    }
}

/// What an optimiser carries from one step to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Number of steps so far.
    pub steps: u64,
    /// `[slot][parameter][value]`; the slots are those of [`OptimizerConfig::slot_names`]. A parameter that was never
    /// updated has no values.
    pub slots: Vec<Vec<Vec<f32>>>,
}

/// SGD, Adam or AdamW, with its state.
#[derive(Clone, Debug)]
pub struct StandardOptimizer {
    config: OptimizerConfig,
    state: State,
    /// Steps before the first one of each parameter; 0 for those that are not listed.
    steps_before: Vec<u64>,
}

impl StandardOptimizer {
    /// An optimiser before its first step.
    pub fn new(config: OptimizerConfig) -> Self {
        let slots = vec![Vec::new(); config.slot_names().len()];
        StandardOptimizer { config, state: State { steps: 0, slots }, steps_before: Vec::new() }
    }

    /// The settings it was built with.
    pub fn config(&self) -> &OptimizerConfig {
        &self.config
    }

    /// The state after the last step, as checkpoints store it.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Continues from the state of an optimiser with the same settings.
    ///
    /// # Panics
    /// If the state does not have the number of slots that the settings need.
    pub fn restore(&mut self, state: State) {
        assert_eq!(state.slots.len(), self.state.slots.len(), "the state belongs to another rule");
        self.state = state;
    }

    /// Says how many steps were made before each parameter, by its number, was there. Its own steps count from then on.
    pub fn set_steps_before(&mut self, steps_before: Vec<u64>) {
        self.steps_before = steps_before;
    }
}

impl Optimizer for StandardOptimizer {
    fn begin_step(&mut self) {
        self.state.steps += 1;
    }

    fn update(&mut self, parameter: Parameter<'_>, values: &mut [f32], gradient: &[f32], learning_rate: f64) {
        let OptimizerConfig { rule, momentum, beta1, beta2, epsilon, weight_decay_of, lr_factors, .. } = self.config;
        let weight_decay = if weight_decay_of.includes(parameter.name) { self.config.weight_decay } else { 0.0 };
        let State { steps, slots } = &mut self.state;
        let factor = lr_factors.for_parameter(parameter.name).unwrap_or(1.0);
        let parameter = parameter.number;
        let steps = *steps - self.steps_before.get(parameter).copied().unwrap_or(0);
        if factor == 0.0 {
            // Not even the sign of a zero changes. The state, which nothing depends on, stays zero.
            for slots in slots {
                slot(slots, parameter, values.len());
            }
            return;
        }
        let learning_rate = learning_rate * factor;
        let rate = learning_rate as f32;
        let coupled_decay = if rule == Rule::AdamW { 0.0 } else { weight_decay as f32 };
        match (rule, &mut slots[..]) {
            (Rule::Sgd, [velocity]) => {
                let velocity = slot(velocity, parameter, values.len());
                // The first velocity is the first gradient itself.
                let momentum = if steps <= 1 { 0.0 } else { momentum as f32 };
                for ((value, gradient), velocity) in values.iter_mut().zip(gradient).zip(velocity) {
                    *velocity = momentum * *velocity + (gradient + coupled_decay * *value);
                    *value -= rate * *velocity;
                }
            }
            (Rule::Sgd, _) if coupled_decay == 0.0 => descend(values, gradient, rate),
            (Rule::Sgd, _) => {
                for (value, gradient) in values.iter_mut().zip(gradient) {
                    *value -= rate * (gradient + coupled_decay * *value);
                }
            }
            (Rule::Adam | Rule::AdamW, [first, second]) => {
                if rule == Rule::AdamW {
                    let shrink = (1.0 - learning_rate * weight_decay) as f32;
                    values.iter_mut().for_each(|value| *value *= shrink);
                }
                let power = i32::try_from(steps).unwrap_or(i32::MAX);
                let rate = (learning_rate / (1.0 - beta1.powi(power))) as f32;
                let root_correction = (1.0 - beta2.powi(power)).sqrt() as f32;
                let (keep1, keep2, epsilon) = (beta1 as f32, beta2 as f32, epsilon as f32);
                let (add1, add2) = ((1.0 - beta1) as f32, (1.0 - beta2) as f32);
                let first = slot(first, parameter, values.len());
                let second = slot(second, parameter, values.len());
                for (((value, gradient), first), second) in values.iter_mut().zip(gradient).zip(first).zip(second) {
                    let gradient = gradient + coupled_decay * *value;
                    *first = keep1 * *first + add1 * gradient;
                    *second = keep2 * *second + add2 * (gradient * gradient);
                    *value -= rate * *first / (second.sqrt() / root_correction + epsilon);
                }
            }
            (Rule::Adam | Rule::AdamW, _) => unreachable!("Adam has two slots"),
        }
    }
}

fn descend(values: &mut [f32], gradient: &[f32], rate: f32) {
    for (value, gradient) in values.iter_mut().zip(gradient) {
        *value -= rate * gradient;
    }
}

/// The state of a parameter in one slot, zeros at first.
fn slot(slots: &mut Vec<Vec<f32>>, parameter: usize, len: usize) -> &mut [f32] {
    if slots.len() <= parameter {
        slots.resize(parameter + 1, Vec::new());
    }
    slots[parameter].resize(len, 0.0);
    &mut slots[parameter]
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 5] = [0.1, 0.05, 0.2, 0.1, 0.1];
    const NAMES: [&str; 2] = ["blocks.0.attention.query.weight", "classifier.bias"];

    fn gradients(step: usize) -> [Vec<f32>; 2] {
        let t = step as f32;
        let sign = if step.is_multiple_of(2) { 1.0 } else { -1.0 };
        [vec![0.1 * (t + 1.0), -0.2, 0.3 * sign, 1e-3], vec![0.5 - t * 0.25]]
    }

    fn run(mut optimizer: StandardOptimizer, steps: std::ops::Range<usize>, values: &mut [Vec<f32>]) -> State {
        for step in steps {
            optimizer.begin_step();
            for (parameter, (values, gradient)) in values.iter_mut().zip(gradients(step)).enumerate() {
                let parameter = Parameter { number: parameter, name: NAMES[parameter] };
                optimizer.update(parameter, values, &gradient, RATES[step]);
            }
        }
        optimizer.state
    }

    fn start() -> Vec<Vec<f32>> {
        vec![vec![0.5, -1.0, 2.0, 0.001], vec![3.0]]
    }

    /// What `torch.optim` (PyTorch 2.15) makes of the same two parameters, gradients and rates.
    fn cases() -> Vec<(OptimizerConfig, [f32; 5])> {
        let plain = OptimizerConfig::default();
        let adam = OptimizerConfig { rule: Rule::Adam, ..plain };
        let adamw = OptimizerConfig { rule: Rule::AdamW, weight_decay: 0.1, ..plain };
        vec![
            (plain, [0.33, -0.890_000_05, 1.925, 0.000_45, 3.0125]),
            (
                OptimizerConfig { weight_decay: 0.1, ..plain },
                [0.305_501_3, -0.838_415_6, 1.818_907_7, 0.000_407_524, 2.853_374_5],
            ),
            (
                OptimizerConfig { momentum: 0.9, weight_decay: 0.1, ..plain },
                [0.074_750_65, -0.563_553_6, 1.610_762_4, -0.000_600_303_5, 2.353_708_3],
            ),
            (adam, [-0.032_624_1, -0.450_000_02, 1.820_294_5, -0.548_994_5, 2.693_987]),
            (
                OptimizerConfig { beta1: 0.8, beta2: 0.95, epsilon: 1e-3, weight_decay: 0.1, ..adam },
                [-0.049_421_88, -0.455_082_24, 1.626_609_7, -0.000_583_790_2, 2.569_919_8],
            ),
            (adamw, [-0.048_444_76, -0.407_524_14, 1.718_182_1, -0.537_662_9, 2.541_843_4]),
        ]
    }

    #[test]
    fn rules_are_those_of_pytorch() {
        for (config, expected) in cases() {
            let mut values = start();
            run(StandardOptimizer::new(config), 0..5, &mut values);
            for (value, expected) in values.concat().iter().zip(expected) {
                assert!((value - expected).abs() < 2e-6, "{config:?}: {values:?}, PyTorch {expected:?}");
            }
        }
    }

    #[test]
    fn a_restored_optimiser_goes_on_with_the_same_bits() {
        for (config, _) in cases() {
            let mut straight = start();
            run(StandardOptimizer::new(config), 0..5, &mut straight);
            let mut resumed = start();
            let state = run(StandardOptimizer::new(config), 0..2, &mut resumed);
            assert_eq!(state.slots.len(), config.slot_names().len());
            let mut second = StandardOptimizer::new(config);
            second.restore(state);
            run(second, 2..5, &mut resumed);
            assert_eq!(straight, resumed, "{config:?}");
        }
    }

    #[test]
    fn without_momentum_and_decay_it_is_plain_descent() {
        let (mut a, mut b) = (start(), start());
        run(StandardOptimizer::new(OptimizerConfig::default()), 0..5, &mut a);
        for (step, &rate) in RATES.iter().enumerate() {
            for (values, gradient) in b.iter_mut().zip(gradients(step)) {
                Sgd.update(Parameter { number: 0, name: NAMES[0] }, values, &gradient, rate);
            }
        }
        assert_eq!(a, b);
    }

    #[test]
    fn decay_of_matrices_leaves_the_others_as_without_decay() {
        for (config, _) in cases().into_iter().filter(|(config, _)| config.weight_decay > 0.0) {
            let values = |config| {
                let mut values = start();
                run(StandardOptimizer::new(config), 0..5, &mut values);
                values
            };
            let of_matrices = values(OptimizerConfig { weight_decay_of: Decayed::Matrices, ..config });
            let (of_all, of_none) = (values(config), values(OptimizerConfig { weight_decay: 0.0, ..config }));
            assert_eq!(of_matrices, [of_all[0].clone(), of_none[1].clone()], "{config:?}");
            assert_ne!(of_all, of_none, "{config:?}");
        }
    }

    fn with_factors(config: OptimizerConfig, query: f64, classifier: f64) -> StandardOptimizer {
        let lr_factors = LrFactors { query, classifier, ..LrFactors::default() };
        StandardOptimizer::new(OptimizerConfig { lr_factors, ..config })
    }

    #[test]
    fn a_factor_is_a_learning_rate_of_its_own() {
        for (config, _) in cases() {
            let (mut values, mut plain) = (start(), start());
            run(with_factors(config, 4.0, 1.0), 0..5, &mut values);
            run(StandardOptimizer::new(config), 0..5, &mut plain);
            // The first parameter as an optimiser with four times the rate makes it; four times a rate is exact.
            let mut faster = StandardOptimizer::new(config);
            let mut expected = start().swap_remove(0);
            for (step, rate) in RATES.iter().enumerate() {
                faster.begin_step();
                let parameter = Parameter { number: 0, name: NAMES[0] };
                faster.update(parameter, &mut expected, &gradients(step)[0], 4.0 * rate);
            }
            assert_eq!(values[0], expected, "{config:?}");
            assert_ne!(values[0], plain[0], "{config:?}");
            assert_eq!(values[1], plain[1], "{config:?}: the other parameter has factor 1");
        }
    }

    #[test]
    fn factor_zero_keeps_every_bit_and_can_be_restored() {
        for (config, _) in cases() {
            let mut values = start();
            // Subtracting a zero would turn this one into +0.
            values[0][0] = -0.0;
            let before: Vec<u32> = values[0].iter().map(|value| value.to_bits()).collect();
            let state = run(with_factors(config, 0.0, 1.0), 0..5, &mut values);
            assert_eq!(values[0].iter().map(|value| value.to_bits()).collect::<Vec<_>>(), before, "{config:?}");
            assert_ne!(values[1], start()[1], "{config:?}");
            // As checkpoints need it, the state is complete.
            assert!(state.slots.iter().all(|slot| slot[0] == [0.0; 4] && slot[1].len() == 1), "{state:?}");
        }
    }
}
