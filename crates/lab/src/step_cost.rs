//! What a step costs on this machine: measured once for a few kinds of steps, and kept for later.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semfocus_core::{At, Key, ModelConfig, Question, Questions, Target, TrialSettings};
use semfocus_nn::conformance::BothEnds;
use semfocus_nn::{Pass, StandardOptimizer, train};
use semfocus_store::files;
use serde::{Deserialize, Serialize};

use crate::model::new_model;
use crate::threads::on_one_thread;
use crate::{Device, Lab};

/// What a step costs on one thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCost {
    /// Seconds of a training step.
    pub train: f64,
    /// Seconds of evaluating as many examples.
    pub evaluate: f64,
}

/// Measures a training step and an evaluation of the same size on one thread, for about `time`.
pub(crate) fn measure(lab: &Lab, settings: &TrialSettings, width: usize, time: Duration) -> StepCost {
    on_one_thread(|| {
        let attention = lab.attention(&settings.mechanism).expect("planned trials have known mechanisms");
        let model = new_model(&settings.model, attention, 1, Some(Arc::new(BothEnds)), &Device::cpu().autodiff());
        let mut model = Some(model.expect("planned trials have possible models"));
        let mut optimizer = StandardOptimizer::new(settings.training.optimizer);
        let batch = random_batch(&settings.model, settings.training.batch, width, false);
        let train = seconds_of(time, |number| {
            let present = model.take().expect("every step gives the model back");
            let pass = Pass::training(1, number);
            let (next, _) = train::step(present, &mut optimizer, batch.clone(), pass, 1e-3, 0.5);
            model = Some(next);
        });
        let model = model.expect("every step gives the model back").without_autodiff();
        let tokens = model.token_rows(batch.tokens);
        let evaluate = seconds_of(time / 4, |number| {
            std::hint::black_box(model.answers(&tokens, &batch.questions, Pass::evaluation(1, number)));
        });
        StepCost { train, evaluate }
    })
}

/// Seconds that a piece of work takes, after a warm-up. The shortest time counts, or the processor's time if that is
/// shorter: other load on the machine only adds to the time.
fn seconds_of(time: Duration, mut work: impl FnMut(u64)) -> f64 {
    work(0);
    let (began, busy) = (Instant::now(), processor_time());
    let mut shortest = f64::INFINITY;
    let mut rounds = 0;
    while rounds == 0 || began.elapsed() < time {
        rounds += 1;
        let round = Instant::now();
        work(rounds);
        shortest = shortest.min(round.elapsed().as_secs_f64());
    }
    match (busy, processor_time()) {
        (Some(before), Some(after)) if after > before => shortest.min((after - before) / rounds as f64),
        _ => shortest,
    }
}

/// Seconds that this thread has been on a processor, if the system says.
fn processor_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-9)
}

/// A batch of random tokens, with random answers at every token or at the mean.
pub fn random_batch(model: &ModelConfig, batch: usize, length: usize, per_token: bool) -> train::Batch {
    use burn::tensor::{Int, Tensor, TensorData};
    let random = |key: u64, count: usize, below: usize| -> Vec<u32> {
        (0..count).map(|i| Key::new(key).below(i as u32, below as u32)).collect()
    };
    let tokens = random(1, batch * length, model.vocabulary).into_iter().map(i64::from).collect::<Vec<_>>();
    let per_sequence = if per_token { length } else { 1 };
    let classes = random(2, batch * per_sequence, model.classes);
    let mut questions = Questions::default();
    for classes in classes.chunks_exact(per_sequence) {
        questions.push((0..).zip(classes).map(|(t, &class)| Question {
            at: if per_token { At::Token(t) } else { At::Mean },
            target: Target::Class(class as u16),
            weight: 1.0,
        }));
    }
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [batch, length]), &Device::cpu().plain());
    train::Batch { tokens, questions }
}

/// A file with what was measured before, by the same program on the same machine. It is only there to save time: if it
/// cannot be read or written, everything is measured again.
#[derive(Clone, Debug)]
pub struct CostFile {
    /// Where it is.
    pub path: PathBuf,
    /// Version of the program and name of the processor: what was measured with others does not count.
    pub measured_with: String,
}

impl CostFile {
    /// What it holds.
    pub(crate) fn read(&self) -> BTreeMap<String, StepCost> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let costs = toml::from_str::<Costs>(&text).ok().filter(|costs| costs.measured_with == self.measured_with);
        let mut seconds = costs.map(|costs| costs.seconds).unwrap_or_default();
        let is_possible = |seconds: f64| seconds > 0.0 && seconds.is_finite();
        seconds.retain(|_, cost| is_possible(cost.train) && is_possible(cost.evaluate));
        seconds
    }

    /// Replaces what it holds.
    pub(crate) fn write(&self, costs: &BTreeMap<String, StepCost>) {
        let costs = Costs { measured_with: self.measured_with.clone(), seconds: costs.clone() };
        let (Ok(text), Some(folder)) = (toml::to_string(&costs), self.path.parent()) else { return };
        if std::fs::create_dir_all(folder).is_ok() {
            // Without the file, the next estimate takes a second longer.
            let _ = files::write_whole(&self.path, text.as_bytes());
        }
    }
}

/// The contents of a [`CostFile`].
#[derive(Serialize, Deserialize)]
struct Costs {
    measured_with: String,
    seconds: BTreeMap<String, StepCost>,
}
