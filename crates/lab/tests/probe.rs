//! Probes against a slow reference: the definition in double precision, exact quantiles, every score stored.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use semfocus_analysis::theory::lipschitz::Profile;
use semfocus_core::{Experiment, Request, TrialSettings};
use semfocus_lab::probing::Prober;
use semfocus_lab::relevance::relevance;
use semfocus_lab::training::batch;
use semfocus_lab::{Lab, Trial};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::conformance::with_stand_ins;
use semfocus_nn::parameters::to_f64;
use semfocus_nn::{Encoder, Named, Pass, Registry};
use semfocus_store::records::{ProbeRecord, QUANTILES, Summary};
use semfocus_tasks::{
    Answers, At, Illegal, Lengths, Question, Random, Split, Symbol, Target, Task, TaskInfo, Token, Unlikely, symbol,
};

const SAMPLES: usize = 12;

/// At the first and at every odd token: which bit stands at half the position?
const HALF_WAY: TaskInfo =
    TaskInfo { alphabet: BITS, classes: BITS, ..TaskInfo::new("half-way", |_| Ok(Arc::new(HalfWay))) };
const BITS: &[Symbol] = &[symbol("0", "zero"), symbol("1", "one")];

#[derive(Debug)]
struct HalfWay;

impl Task for HalfWay {
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        out.extend((0..random.within(lengths)).map(|_| random.below(2) as Token));
        Ok(self.answers(out).expect("all bits are legal"))
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        let asked = [0].into_iter().chain((1..bits.len()).step_by(2));
        let target = |position: usize| Target::Class(bits[position / 2]);
        Ok(asked.map(|at| Question { at: At::Token(at as u32), target: target(at), weight: 1.0 }).collect())
    }

    /// Of the first question it says nothing, and of the others also the token after, which causal models need not see.
    fn relevant_to_questions(&self, bits: &[Token]) -> Option<Vec<Vec<usize>>> {
        let odd = (1..bits.len()).step_by(2).map(|at| vec![at / 2, (at + 1).min(bits.len() - 1)]);
        Some([vec![]].into_iter().chain(odd).collect())
    }
}

fn trial(mechanism: &str, overrides: &[&str]) -> Trial {
    let small =
        ["data.length=9", "data.train=40", "data.held_out=10", "model.d_model=12", "model.blocks=2", "model.heads=2"];
    let lab = Lab::standard().with(HALF_WAY);
    let request = Request {
        experiment: "even-pairs".to_owned(),
        mechanisms: Some(vec![mechanism.to_owned()]),
        seeds: Some(1),
        overrides: small.iter().chain(overrides).map(|text| (*text).to_owned()).collect(),
        ..Request::default()
    };
    lab.plan(&Experiment::resolve(&request, &lab).unwrap()).unwrap().trials.remove(0)
}

fn model(trial: &Trial, seed: u64) -> Encoder {
    let attention = Registry::standard().parse(&trial.settings.mechanism).unwrap();
    Encoder::new(trial.settings.model.clone(), attention, seed, &Device::flex()).unwrap()
}

fn training(trial: &Trial) -> Split {
    trial.source.dataset(&trial.settings.data, trial.settings.seed).unwrap().train
}

/// One head of one sequence: rows of queries × keys.
struct HeadTrace {
    layer: usize,
    head: usize,
    scores: Vec<Vec<f64>>,
    kept: Vec<Vec<usize>>,
    weights: Vec<Vec<f64>>,
}

fn traces(model: &Encoder, trial: &Trial) -> Vec<HeadTrace> {
    let tokens = batch(&training(trial), 0..SAMPLES, &Device::flex()).tokens;
    let (_, layers) = model.trace(0, model.embedded(tokens), None, Pass::evaluation(trial.settings.seed, 0));
    let mut all = Vec::new();
    for (layer, trace) in layers.iter().map(|layer| &layer.attention).enumerate() {
        let [batch, heads, queries, keys] = trace.scores.dims();
        let floats = |tensor: &Tensor<4>| tensor.clone().into_data().iter::<f64>().collect::<Vec<_>>();
        let (scores, weights) = (floats(&trace.scores), floats(&trace.weights));
        let kept: Vec<bool> = trace.kept.clone().into_data().iter::<bool>().collect();
        for place in 0..batch * heads {
            let row = |query: usize| (place * queries + query) * keys..(place * queries + query + 1) * keys;
            let of = |values: &[f64]| (0..queries).map(|query| values[row(query)].to_vec()).collect();
            let keys_of = |query: usize| (0..keys).filter(|key| kept[row(query)][*key]).collect();
            all.push(HeadTrace {
                layer,
                head: place % heads,
                scores: of(&scores),
                kept: (0..queries).map(keys_of).collect(),
                weights: of(&weights),
            });
        }
    }
    all
}

/// Dispersion, separation, entropy, sinks and full mass of some heads, by their definitions.
fn by_definition<'a>(heads: impl Iterator<Item = &'a HeadTrace>) -> [Vec<f64>; 5] {
    let mut found: [Vec<f64>; 5] = Default::default();
    for head in heads {
        for ((scores, kept), weights) in head.scores.iter().zip_eq(&head.kept).zip_eq(&head.weights) {
            let dropped: Vec<f64> =
                (0..scores.len()).filter(|key| !kept.contains(key)).map(|key| scores[key]).collect();
            let kept_scores: Vec<f64> = kept.iter().map(|key| scores[*key]).collect();
            let max = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let min = kept_scores.iter().copied().fold(f64::INFINITY, f64::min);
            found[0].push(max(&kept_scores) - min);
            if !dropped.is_empty() {
                found[1].push(min - max(&dropped));
            }
            found[2].push(weights.iter().filter(|w| **w > 0.0).map(|w| -w * w.ln()).sum());
            let mass: f64 = kept_scores.iter().map(|score| score.exp()).sum();
            found[4].push(mass / scores.iter().map(|score| score.exp()).sum::<f64>());
        }
        found[3].extend(
            (0..head.scores[0].len()).map(|key| head.kept.iter().filter(|kept| kept.contains(&key)).count() as f64),
        );
    }
    found
}

fn agrees(summary: &Summary, heads: [Vec<f64>; 5], what: &str) {
    let Summary { dispersion, separation, entropy, sink, full_mass } = summary;
    let names = ["dispersion", "separation", "entropy", "sink", "full mass"];
    for ((found, values), name) in
        [dispersion, separation, entropy, sink, full_mass].into_iter().zip_eq(heads).zip_eq(names)
    {
        assert_eq!(found.is_empty(), values.is_empty(), "{what}, {name}");
        if values.is_empty() {
            continue;
        }
        for (percent, found) in QUANTILES.iter().zip_eq(found) {
            let exact = exact_quantile(&values, percent / 100.0);
            // The buckets are a thousandth wide; scores are in single precision.
            assert!(
                (found - exact).abs() < 1.1e-3 * exact.abs() + 2e-5,
                "{what}, {name} at {percent} %: {found}, not {exact}"
            );
        }
    }
}

/// NumPy's linear quantile, by sorting.
fn exact_quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let position = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + position.fract() * (above - below)
}

#[test]
fn a_probe_finds_what_the_slow_reference_finds() {
    for mechanism in ["full", "topk:3", "banded:3", "block:3", "banded:3+g1", "bottomk:2", "block:3+g2"] {
        for engine in ["fused", "reference"] {
            let trial = trial(mechanism, &[&format!("model.engine={engine}")]);
            let model = model(&trial, 5);
            let record = Prober::new(&trial, &training(&trial), SAMPLES).unwrap().measure(&model, 7, None);
            let slow = traces(&to_f64(model.clone()), &trial);
            let what = |part: &str| format!("{mechanism}, {engine}, {part}");
            agrees(&record.pooled, by_definition(slow.iter()), &what("pooled"));
            for (layer, found) in record.layers.iter().enumerate() {
                agrees(&found.all, by_definition(slow.iter().filter(|t| t.layer == layer)), &what("layer"));
                for (head, found) in found.heads.iter().enumerate() {
                    let of_head = slow.iter().filter(|t| (t.layer, t.head) == (layer, head));
                    agrees(found, by_definition(of_head), &what("head"));
                }
            }
            let counts = || slow.iter().flat_map(|head| &head.kept).map(Vec::len);
            assert_eq!((record.kept, record.min_kept), (counts().max().unwrap(), counts().min().unwrap()));
            assert_eq!((record.epoch, record.samples, record.length), (7, SAMPLES, slow[0].scores.len()));
            relevance_agrees(&record, &slow, &what("relevance"));
        }
    }
}

/// Even pairs hang on the first and the last bit.
fn relevance_agrees(record: &ProbeRecord, slow: &[HeadTrace], what: &str) {
    let relevant = [0, 8];
    for (layer, found) in record.layers.iter().enumerate() {
        let (mut precision, mut recall, mut mass, mut kept_share, mut rows) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for head in slow.iter().filter(|head| head.layer == layer) {
            for (kept, weights) in head.kept.iter().zip_eq(&head.weights) {
                let hits = relevant.iter().filter(|key| kept.contains(key)).count() as f64;
                precision += hits / kept.len() as f64;
                recall += hits / 2.0;
                mass += relevant.iter().map(|key| weights[*key]).sum::<f64>();
                kept_share += kept.len() as f64 / weights.len() as f64;
                rows += 1.0;
            }
        }
        let found = found.relevance.unwrap();
        let close = |a: f64, b: f64| assert!((a - b / rows).abs() < 1e-5, "{what}: {a}, not {}", b / rows);
        close(found.precision, precision);
        close(found.recall, recall);
        close(found.mass, mass);
        close(found.random_recall, kept_share);
        close(found.random_precision, 2.0 / record.length as f64 * rows);
    }
}

#[test]
fn queries_that_ask_are_compared_with_what_they_need() {
    for mechanism in ["full", "topk:3", "oracle:2", "antioracle:2"] {
        for (visibility, engine) in
            ["all", "causal"].map(|v| ["fused", "reference"].map(|e| (v, e))).into_iter().flatten()
        {
            let settings = [format!("model.visibility={visibility}"), format!("model.engine={engine}")];
            let trial = trial(mechanism, &["task=half-way", &settings[0], &settings[1]]);
            let model = model(&trial, 5).with_relevance(relevance(&trial.source, &trial.attention));
            let record = Prober::new(&trial, &training(&trial), SAMPLES).unwrap().measure(&model, 1, None);
            let what = format!("{mechanism}, {visibility}, {engine}");
            let tokens = batch(&training(&trial), 0..SAMPLES, &Device::flex()).tokens;
            let rows = model.token_rows(tokens.clone());
            let pass = Pass::evaluation(trial.settings.seed, 0);
            let (_, layers) = model.trace(0, model.embedded(tokens), Some(&rows), pass);
            for (found, trace) in record.layers.iter().zip_eq(&layers) {
                let found = found.relevance.unwrap();
                let kept: Vec<bool> = trace.attention.kept.to_data().iter::<bool>().collect();
                let weights: Vec<f64> = trace.attention.weights.to_data().iter::<f64>().collect();
                let mut sums = [0.0; 5];
                let places = (0..SAMPLES * 2).flat_map(|place| (1..9).step_by(2).map(move |query| (place, query)));
                for (place, query) in places.clone() {
                    let visible = if visibility == "causal" { query + 1 } else { 9 };
                    let relevant: Vec<usize> =
                        [query / 2, (query + 1).min(8)].into_iter().filter(|&key| key < visible).collect();
                    let at = |key: &usize| (place * 9 + query) * 9 + key;
                    let of_row = (0..visible).filter(|key| kept[at(key)]).count() as f64;
                    let hits = relevant.iter().filter(|key| kept[at(key)]).count() as f64;
                    let mass: f64 = relevant.iter().map(|key| weights[at(key)]).sum();
                    let (relevant, visible) = (relevant.len() as f64, visible as f64);
                    let values = [hits / of_row, hits / relevant, mass, relevant / visible, of_row / visible];
                    sums.iter_mut().zip_eq(values).for_each(|(sum, value)| *sum += value);
                }
                let expected = sums.map(|sum| sum / places.clone().count() as f64);
                let found = [found.precision, found.recall, found.mass, found.random_precision, found.random_recall];
                let is_close = found.iter().zip_eq(expected).all(|(found, expected)| (found - expected).abs() < 1e-5);
                assert!(is_close, "{what}: {found:?}, not {expected:?}");
                match mechanism {
                    "oracle:2" => assert_eq!(found[1], 1.0, "{what}"),
                    "antioracle:2" => assert_eq!((found[0], found[2]), (0.0, 0.0), "{what}"),
                    _ => assert!(found[2] > 0.0 && found[2] < 1.0, "{what}: {found:?}"),
                }
            }
        }
    }
}

/// In associative recall an oracle that keeps a few keys keeps those that hold the answer.
#[test]
fn oracles_know_where_associative_recall_has_its_answers() {
    for task in ["mqar:pairs=3,vocabulary=32", "recall", "induction"] {
        for (mechanism, expected) in [("oracle:4", 1.0), ("antioracle:4", 0.0)] {
            for engine in ["fused", "reference"] {
                let settings = [format!("task={task}"), format!("model.engine={engine}")];
                let trial =
                    trial(mechanism, &["model.visibility=causal", "data.length=24", &settings[0], &settings[1]]);
                let model = model(&trial, 5).with_relevance(relevance(&trial.source, &trial.attention));
                let record = Prober::new(&trial, &training(&trial), SAMPLES).unwrap().measure(&model, 1, None);
                for layer in &record.layers {
                    let found = layer.relevance.unwrap();
                    assert_eq!(found.recall, expected, "{task} {mechanism} {engine}: {found:?}");
                    assert_eq!(found.mass > 0.0, expected > 0.0, "{task} {mechanism} {engine}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn kept_keys_of_two_models_are_compared() {
    let trial = trial("topk:3", &[]);
    let (one, other) = (model(&trial, 5), model(&trial, 6));
    let prober = Prober::new(&trial, &training(&trial), SAMPLES).unwrap();
    let overlap = |earlier: &Encoder| prober.measure(&one, 1, Some(earlier)).layers[1].overlap.unwrap();
    assert_eq!(overlap(&one), 1.0);
    let (now, before) = (traces(&one, &trial), traces(&other, &trial));
    let rows = now
        .iter()
        .zip_eq(&before)
        .filter(|(now, _)| now.layer == 1)
        .flat_map(|(now, before)| now.kept.iter().zip_eq(&before.kept));
    let shares: Vec<f64> = rows
        .map(|(now, before)| {
            let common = now.iter().filter(|key| before.contains(key)).count() as f64;
            common / (6.0 - common)
        })
        .collect();
    let expected = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!((overlap(&other) - expected).abs() < 1e-12 && expected < 0.9, "{expected}");
    let full = self::trial("full", &[]);
    let model = model(&full, 5);
    let record = Prober::new(&full, &training(&full), SAMPLES).unwrap().measure(&model, 1, Some(&model));
    assert_eq!(record.layers[0].overlap, None, "full attention keeps all keys, always");
}

#[test]
fn threads_change_nothing() {
    let trial = trial("topk:3", &[]);
    let (model, data) = (model(&trial, 5), training(&trial));
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let record = pool.install(|| Prober::new(&trial, &data, 40).unwrap().measure(&model, 1, Some(&model)));
        ProbeRecord { seconds: None, ..record }
    };
    assert_eq!(with(1), with(4));
}

#[test]
fn probes_of_every_mechanism_say_what_is_defined() {
    for info in Registry::standard().iter() {
        let mechanism = info.example().to_string();
        let settings = TrialSettings { mechanism: mechanism.clone(), ..trial("full", &[]).settings };
        let trial = Trial { settings, ..trial("full", &[]) };
        let model = with_stand_ins(model(&trial, 5));
        let record = Prober::new(&trial, &training(&trial), SAMPLES).unwrap().measure(&model, 1, Some(&model));
        let all = &record.pooled;
        assert!(record.min_kept <= record.kept && record.kept <= record.length, "{mechanism}: {record:?}");
        let finite = [&all.dispersion, &all.separation, &all.entropy, &all.sink, &all.full_mass];
        assert!(finite.iter().all(|values| values.iter().all(|value| value.is_finite())), "{mechanism}: {all:?}");
        assert!(!all.sink.is_empty() && !all.full_mass.is_empty(), "{mechanism}");
        let by_scores = !["linear", "differential"].contains(&info.name);
        assert_eq!(!all.dispersion.is_empty(), by_scores, "{mechanism}: weights that do not follow from scores");
        assert!(all.separation.is_empty() || by_scores, "{mechanism}");
        // Negative weights have no entropy.
        assert!(!all.entropy.is_empty() || info.name == "differential", "{mechanism}");
        let other = ["sparsemax", "entmax", "sigmoid", "relu", "linear", "differential", "temperature", "ssmax"];
        assert_eq!(record.layers[0].is_softmax, !other.contains(&info.name), "{mechanism}");
        assert_eq!(Profile::from_record(&record).is_some(), !other.contains(&info.name), "{mechanism}");
        if info.name == "sparsemax" {
            // Keys without weight are dropped, and they are those with the lowest scores.
            assert!(record.min_kept >= 1 && record.min_kept < record.length, "{record:?}");
            assert!(
                all.separation[0] > 0.0 && all.dispersion[10] <= 1.0,
                "the support is within 1 of the best score: {all:?}"
            );
            assert_eq!(record.layers[0].overlap, Some(1.0), "the kept keys of the same model are the same");
        }
        if info.name == "relu" {
            assert!(record.min_kept < record.length, "negative scores have no weight: {record:?}");
        }
    }
}

/// Every query of a causal model sees one key more than the one before.
#[test]
fn causal_models_are_probed() {
    for (mechanism, most, least) in [("full", 9.0, 1.0), ("banded:3", 7.0, 0.0), ("topk:3", 9.0, 0.0)] {
        for engine in ["fused", "reference"] {
            let trial = trial(mechanism, &["model.visibility=causal", &format!("model.engine={engine}")]);
            let record = Prober::new(&trial, &training(&trial), SAMPLES).unwrap().measure(&model(&trial, 5), 1, None);
            let sink = &record.pooled.sink;
            assert!(sink[10] <= most && sink[0] >= least, "{mechanism} {engine}: {sink:?}");
            assert_eq!((record.length, record.min_kept), (9, 1), "{mechanism} {engine}");
            if mechanism == "full" {
                assert_eq!(
                    (sink[10], sink[0], sink[5]),
                    (most, least, 5.0),
                    "{engine}: every key is kept by those after it"
                );
            }
        }
    }
}
