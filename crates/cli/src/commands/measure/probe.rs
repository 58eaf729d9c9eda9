//! `semfocus probe`: what the attention of trained models does with its scores.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_analysis::theory::lipschitz::Profile;
use semfocus_analysis::theory::pairs::{Row, table as rows_of_pair};
use semfocus_core::measurement::{self, Count, Measurement};
use semfocus_core::study::seed_name;
use semfocus_core::{BASELINE, Point, TrialSettings};
use semfocus_lab::Lab;
use semfocus_lab::jobs::Probe;
use semfocus_store::records::{LayerRecord, ProbeRecord, QUANTILES, Summary};
use serde::Serialize;

use super::View;
use crate::models::{Entry, ModelArgs, labelled, table};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    models: ModelArgs,
    /// Training examples to use
    #[arg(long, value_name = "N", default_value_t = measurement::Probe::default().samples)]
    samples: Count<1>,
    /// Show every layer even if there are several trials
    #[arg(long)]
    layers: bool,
}

/// Probes as they are shown; in JSON with all quantiles of every layer and head.
#[derive(Serialize)]
pub(super) struct Report {
    quantiles: [f64; 11],
    probes: Vec<Entry<Probed>>,
    pairs: Vec<Pair>,
}

#[derive(Serialize)]
pub(super) struct Probed {
    #[serde(flatten)]
    record: ProbeRecord,
    /// Decimal logarithms of bounds on the norm of the loss's gradient; none where nothing is proved.
    lipschitz: Option<Profile>,
}

/// A model against the one with full attention and the same seed.
#[derive(Serialize)]
struct Pair {
    mechanism: String,
    point: Point,
    seed: u64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let models = args.models.choice(measurement::Probe::default().models);
    let measurement = Measurement::Probe(measurement::Probe { models, samples: args.samples });
    let view = View { again: true, layers: args.layers, json: args.models.json, ..View::default() };
    super::run(&measurement, &args.models, &view, lab, out)
}

/// The probe that was just recorded for a model.
pub(super) fn entry(job: &Probe) -> Result<Entry<Probed>, Error> {
    let probed = |record: ProbeRecord| Probed { lipschitz: Profile::from_record(&record), record };
    Entry::new(job.model(), job.record().map(|found| found.map(probed)))
}

/// Pairs each model of another mechanism with the full-attention model whose other settings are the same.
fn pairs(probes: &[Entry<Probed>]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for full in probes.iter().filter(|entry| entry.mechanism == BASELINE) {
        let is_partner = |other: &&Entry<Probed>| {
            let same = TrialSettings { mechanism: full.mechanism.clone(), ..other.settings.clone() };
            other.mechanism != full.mechanism && same.identity() == full.settings.identity()
        };
        for other in probes.iter().filter(is_partner) {
            let rows = rows_of_pair(&full.record.record, &other.record.record);
            let (mechanism, point) = (other.mechanism.clone(), other.point.clone());
            pairs.push(Pair { mechanism, point, seed: other.seed, rows });
        }
    }
    pairs
}

impl Report {
    pub(super) fn new(probes: Vec<Entry<Probed>>) -> Self {
        Report { quantiles: QUANTILES, pairs: pairs(&probes), probes }
    }

    pub(super) fn print(&self, layers: bool, out: &mut dyn Write) -> Result<(), Error> {
        writeln!(out, "Medians over queries; sink: median over keys.")?;
        writeln!(out)?;
        let head = "epoch  dispersion  separation  entropy  sink  full mass";
        table(out, &self.probes, head, |Probed { record, .. }| {
            let Summary { dispersion, separation, entropy, sink, full_mass } = &record.pooled;
            let [dispersion, separation, entropy] = [dispersion, separation, entropy].map(|values| middle(values, 3));
            let (epoch, sink, mass) = (record.epoch, middle(sink, 0), middle(full_mass, 3));
            format!("{epoch:>5}  {dispersion:>10}  {separation:>10}  {entropy:>7}  {sink:>4}  {mass:>9}")
        })?;
        if layers || self.probes.len() == 1 {
            self.probes.iter().try_for_each(|entry| print_layers(entry, out))?;
        }
        print_pairs(&self.pairs, out)?;
        writeln!(out)?;
        writeln!(out, "full mass: weight that a softmax over all keys would give to the kept keys")?;
        Ok(writeln!(out, "–: not defined, such as the separation where no key is dropped")?)
    }
}

fn middle(values: &[f64], digits: usize) -> String {
    Summary::at(values, 50.0).map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// Per layer: norms of the matrices, and how much attention goes to relevant keys.
fn print_layers(entry: &Entry<Probed>, out: &mut dyn Write) -> Result<(), Error> {
    let Entry { mechanism, point, seed, record: Probed { record, .. }, .. } = entry;
    let mechanism = labelled(mechanism, point);
    writeln!(out)?;
    writeln!(out, "{mechanism}, seed {}, by layer; shares of relevant keys / of random keys", seed_name(*seed))?;
    writeln!(out, "layer      δ        Δ entropy     Γ     Υ     B precision    recall      mass")?;
    for (number, (layer, norms)) in
        record.layers.iter().zip(record.norms.iter().flat_map(|norms| &norms.layers)).enumerate()
    {
        let LayerRecord { all, relevance, .. } = layer;
        let shares = relevance.map_or_else(Default::default, |r| {
            [(r.precision, r.random_precision), (r.recall, r.random_recall), (r.mass, r.random_precision)]
                .map(|(found, random)| format!("{found:.2}/{random:.2}"))
        });
        let score = norms.score.iter().copied().fold(0.0, f64::max);
        writeln!(
            out,
            "{number:>5}{:>7}{:>9}{:>8}{score:>6.1}{:>6.1}{:>6.1}{:>10}{:>10}{:>10}",
            middle(&all.dispersion, 2),
            middle(&all.separation, 4),
            middle(&all.entropy, 2),
            norms.value.weight,
            norms.mlp_hidden.weight.max(norms.mlp_output.weight),
            shares[0],
            shares[1],
            shares[2],
        )?;
    }
    Ok(())
}

fn print_pairs(pairs: &[Pair], out: &mut dyn Write) -> Result<(), Error> {
    for Pair { mechanism, point, seed, rows } in pairs.iter().filter(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "{} against full, seed {}", labelled(mechanism, point), seed_name(*seed))?;
        writeln!(out, "quantile     δs     δh         Δ      b      (W)      (X)")?;
        for row in rows {
            let Row { quantile, full_dispersion, dispersion, separation, sink, conditions } = row;
            writeln!(
                out,
                "{quantile:6} % {full_dispersion:7.2}{dispersion:7.2}{separation:10.2e}{sink:7.1}{:9.3}{:9.3}",
                conditions.w_lhs, conditions.x_lhs
            )?;
        }
    }
    if pairs.iter().any(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "A condition holds where its number is below 1; Δ is at the opposite quantile.")?;
    }
    Ok(())
}
