//! Measures the attention of a model over fixed examples.

use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;
use semfocus_core::{At, Head, RelevantKeys};
use semfocus_nn::{Model, ObservedRow, Pass, RowObserver, Selection};
use semfocus_store::records::{LayerRecord, ProbeRecord, QUANTILES, Relevance, Summary};
use semfocus_tasks::{GenerateError, Source, Split};

use super::Sketch;
use crate::Trial;
use crate::spectrum::norms::model_norms;
use crate::training::{BATCH, batch};

/// Probes models of one trial, always over the same examples.
#[derive(Clone, Debug)]
pub struct Prober {
    seed: u64,
    examples: Split,
    /// The relevant keys of every example, if the task knows them.
    relevant: Option<Vec<Arc<RelevantKeys>>>,
}

impl Prober {
    /// Over the first `samples` examples of a split, or all if there are fewer.
    ///
    /// # Errors
    /// If the task gives relevant positions that cannot be.
    pub fn new(trial: &Trial, split: &Split, samples: usize) -> Result<Self, GenerateError> {
        let samples = samples.min(split.len());
        let examples = Split {
            tokens: split.tokens[..samples * split.length].to_vec(),
            questions: split.questions.select(0..samples),
            lengths: split.lengths[..samples].to_vec(),
            length: split.length,
            floor: None,
            characters: None,
        };
        let relevant = match trial.source.as_ref() {
            Source::Task(task) => {
                let sequences = examples.tokens.par_chunks(examples.length);
                Some(sequences.map(|tokens| task.relevant_keys(tokens).map(Arc::new)).collect::<Result<_, _>>()?)
            }
            Source::Own(_) | Source::Text(_) => None,
        };
        Ok(Prober { seed: trial.settings.seed, examples, relevant })
    }

    /// Measures a model after `epoch` epochs. `earlier` is a model of the same trial whose kept keys are compared with those of
    /// this one.
    pub fn measure(&self, model: &dyn Model, epoch: usize, earlier: Option<&dyn Model>) -> ProbeRecord {
        let began = Instant::now();
        let device = model.device();
        let chooses: Vec<bool> =
            (0..model.config().blocks).map(|block| chooses_keys(model, block, self.examples.length)).collect();
        // What one mechanism kept says nothing about the stability of another.
        let is_comparable = |earlier: &&dyn Model| earlier.attention().to_string() == model.attention().to_string();
        let earlier = earlier.filter(is_comparable).filter(|_| chooses.contains(&true));
        let width = self.examples.length;
        let sums = |block| LayerSums { is_softmax: is_softmax(model, block, width), ..LayerSums::default() };
        let mut layers: Vec<LayerSums> = (0..model.config().blocks).map(sums).collect();
        // A model without blocks has no attention to tell the length by.
        let mut length = self.examples.length + model.attention().globals();
        let (mut max_kept, mut min_kept) = (0, usize::MAX);
        for (number, first) in (0..self.examples.len()).step_by(BATCH).enumerate() {
            let last = self.examples.len().min(first + BATCH);
            let tokens = batch(&self.examples, first..last, &device).tokens;
            let pass = Pass::evaluation(self.seed, number as u64);
            let relevant = self.relevant.as_ref().map(|all| &all[first..last]);
            let observer = BatchObserver { relevant, keep_rows: earlier.is_some() };
            let observed = model.observe(tokens.clone(), pass, &observer);
            let before = earlier.map(|earlier| earlier.observe(tokens, pass, &observer));
            for (layer, (sums, observed)) in layers.iter_mut().zip(&observed).enumerate() {
                sums.add_deviations(observed.min_deviations);
                for (place, sequence) in observed.sequences.iter().enumerate() {
                    sums.add(sequence);
                    (length, max_kept) = (sequence.length, sequence.max_kept.max(max_kept));
                    min_kept = sequence.min_kept.min(min_kept);
                    if let Some(before) = before.as_ref().filter(|_| chooses[layer]) {
                        sums.compare(&sequence.rows, &before[layer].sequences[place].rows);
                    }
                }
            }
        }
        let mut pooled = Sketches::default();
        layers.iter().flat_map(|layer| &layer.heads).for_each(|head| pooled.join(head));
        ProbeRecord {
            epoch,
            samples: self.examples.len(),
            length,
            kept: max_kept,
            min_kept: min_kept.min(max_kept),
            pooled: pooled.summary(),
            layers: layers.iter().map(LayerSums::record).collect(),
            norms: model_norms(model),
            asks_at_tokens: model.config().head == Head::Last
                || self.examples.questions.all().iter().any(|question| question.at != At::Mean),
            seconds: Some(began.elapsed().as_secs_f64()),
        }
    }
}

/// Whether the kept keys of a block depend on the scores.
fn chooses_keys(model: &dyn Model, block: usize, length: usize) -> bool {
    let attention = model.attention().of_block(block);
    let fixed = attention.mechanism.selection(length + attention.spec.globals);
    let drops_nothing = matches!(fixed, Some(Selection::All)) && attention.mechanism.weighting().is_softmax();
    !drops_nothing && !matches!(fixed, Some(Selection::Pattern(_)))
}

/// Whether the weights of a block are the softmax of the model's own scores over the kept keys, which the theory is about.
fn is_softmax(model: &dyn Model, block: usize, length: usize) -> bool {
    let attention = model.attention().of_block(block);
    attention.mechanism.weighting().is_softmax() && !attention.changes_scores(length)
}

/// Observes the attention rows of a batch.
struct BatchObserver<'a> {
    /// The relevant keys of every sequence of the batch, if they are known.
    relevant: Option<&'a [Arc<RelevantKeys>]>,
    /// Whether the kept keys themselves are needed.
    keep_rows: bool,
}

/// The statistics of one sequence in one layer.
#[derive(Default)]
struct SequenceStatistics {
    length: usize,
    max_kept: usize,
    min_kept: usize,
    heads: Vec<HeadStatistics>,
    relevant: Option<Arc<RelevantKeys>>,
    relevance: RelevanceSums,
    /// The kept keys of each head and query, if they are needed.
    rows: Vec<Vec<u32>>,
}

/// What is summarised of each row, in the order of its [`Sketches`]; `popularity` has one entry per key: how many queries keep it.
#[derive(Default)]
struct HeadStatistics {
    rows: [Vec<f32>; 4],
    popularity: Vec<u32>,
}

impl RowObserver for BatchObserver<'_> {
    type Observation = SequenceStatistics;

    fn begin(&self, sequence: usize) -> SequenceStatistics {
        let relevant = self.relevant.map(|all| all[sequence].clone());
        SequenceStatistics { min_kept: usize::MAX, relevant, ..SequenceStatistics::default() }
    }

    fn row(&self, seen: &mut SequenceStatistics, row: &ObservedRow<'_>) {
        seen.length = row.scores.len();
        seen.max_kept = seen.max_kept.max(row.kept.len());
        seen.min_kept = seen.min_kept.min(row.kept.len());
        if seen.heads.len() <= row.head {
            seen.heads.push(HeadStatistics::default());
        }
        let head = &mut seen.heads[row.head];
        // In causal models every query sees one key more.
        head.popularity.resize(row.scores.len().max(head.popularity.len()), 0);
        let values = [row.dispersion, row.separation, row.entropy, Some(row.full_mass)];
        head.rows.iter_mut().zip(values).for_each(|(all, value)| all.extend(value));
        row.kept.iter().for_each(|&key| head.popularity[key as usize] += 1);
        let relevant = seen.relevant.as_ref().and_then(|keys| keys.of_query(row.query, row.scores.len()));
        if let Some(relevant) = relevant.filter(|keys| !keys.is_empty()) {
            seen.relevance.add(row, relevant);
        }
        if self.keep_rows {
            seen.rows.push(row.kept.to_vec());
        }
    }
}

/// Sums over queries of precision, recall, mass, random precision and random recall; see [`Relevance`].
#[derive(Clone, Copy, Default)]
struct RelevanceSums {
    rows: f64,
    sums: [f64; 5],
}

impl RelevanceSums {
    /// Adds a query with its relevant keys, of which there are some.
    fn add(&mut self, row: &ObservedRow<'_>, relevant: &[u32]) {
        let (mut hits, mut mass, mut rest) = (0, 0.0, relevant);
        for (&key, &weight) in row.kept.iter().zip(row.weights) {
            rest = &rest[rest.partition_point(|&other| other < key)..];
            if rest.first() == Some(&key) {
                (hits, mass) = (hits + 1, mass + f64::from(weight));
            }
        }
        let (hits, kept, keys) = (f64::from(hits), row.kept.len() as f64, row.scores.len() as f64);
        let relevant = relevant.len() as f64;
        // A query without keys looks at nothing relevant.
        let precision = if kept > 0.0 { hits / kept } else { 0.0 };
        self.join(&Self { rows: 1.0, sums: [precision, hits / relevant, mass, relevant / keys, kept / keys] });
    }

    fn join(&mut self, other: &RelevanceSums) {
        self.rows += other.rows;
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, value)| *sum += value);
    }

    fn means(&self) -> Option<Relevance> {
        let [precision, recall, mass, random_precision, random_recall] = self.sums.map(|sum| sum / self.rows);
        (self.rows > 0.0).then_some(Relevance { precision, recall, mass, random_precision, random_recall })
    }
}

/// The statistics of a layer over all sequences.
#[derive(Default)]
struct LayerSums {
    is_softmax: bool,
    heads: Vec<Sketches>,
    min_deviations: Option<[f64; 2]>,
    relevance: RelevanceSums,
    /// Sum of the overlaps of all rows, and their number.
    overlap: (f64, usize),
}

impl LayerSums {
    fn add_deviations(&mut self, [attention, mlp]: [f64; 2]) {
        let [min_attention, min_mlp] = self.min_deviations.unwrap_or([f64::INFINITY; 2]);
        self.min_deviations = Some([attention.min(min_attention), mlp.min(min_mlp)]);
    }

    fn add(&mut self, sequence: &SequenceStatistics) {
        self.heads.resize_with(sequence.heads.len(), Sketches::default);
        for (sketches, seen) in self.heads.iter_mut().zip(&sequence.heads) {
            sketches.add(seen);
        }
        self.relevance.join(&sequence.relevance);
    }

    fn compare(&mut self, rows: &[Vec<u32>], before: &[Vec<u32>]) {
        for (now, before) in rows.iter().zip(before) {
            let common = now.iter().filter(|key| before.contains(key)).count();
            let either = now.len() + before.len() - common;
            // Where neither keeps a key there is nothing to compare.
            if either > 0 {
                self.overlap.0 += common as f64 / either as f64;
                self.overlap.1 += 1;
            }
        }
    }

    fn record(&self) -> LayerRecord {
        let mut all = Sketches::default();
        self.heads.iter().for_each(|head| all.join(head));
        LayerRecord {
            is_softmax: self.is_softmax,
            all: all.summary(),
            heads: self.heads.iter().map(Sketches::summary).collect(),
            least_deviations: self.min_deviations.unwrap_or_default(),
            overlap: (self.overlap.1 > 0).then(|| self.overlap.0 / self.overlap.1 as f64),
            relevance: self.relevance.means(),
        }
    }
}

/// Of dispersion, separation, entropy, share of the full mass, and how many queries keep a key.
#[derive(Clone, Debug, Default)]
struct Sketches([Sketch; 5]);

impl Sketches {
    fn add(&mut self, seen: &HeadStatistics) {
        let [of_rows @ .., sink] = &mut self.0;
        for (sketch, values) in of_rows.iter_mut().zip(&seen.rows) {
            values.iter().for_each(|value| sketch.add(*value));
        }
        seen.popularity.iter().for_each(|count| sink.add(*count as f32));
    }

    fn join(&mut self, other: &Sketches) {
        self.0.iter_mut().zip(&other.0).for_each(|(sketch, other)| sketch.join(other));
    }

    fn summary(&self) -> Summary {
        let quantiles = |sketch: &Sketch| QUANTILES.iter().filter_map(|q| sketch.quantile(q / 100.0)).collect();
        let [dispersion, separation, entropy, full_mass, sink] = self.0.each_ref().map(quantiles);
        Summary { dispersion, separation, entropy, sink, full_mass }
    }
}
