//! `semfocus probe`: what the attention of trained models does with its scores.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_analysis::stats::quantile;
use semfocus_analysis::theory::conditions::Conditions;
use semfocus_analysis::theory::lipschitz::Profile;
use semfocus_analysis::theory::pairs::{self, Row};
use semfocus_core::measurement::{self, Count, Measurement};
use semfocus_core::study::seed_name;
use semfocus_core::{BASELINE, Point, TrialSettings};
use semfocus_lab::Lab;
use semfocus_lab::jobs::Probe;
use semfocus_store::records::{LayerRecord, ProbeRecord, QUANTILES, Summary};
use serde::Serialize;

use super::View;
use crate::models::{Entry, ModelArgs, labelled};
use crate::table::Table;
use crate::text::{counted, paragraph};
use crate::{Error, Exit};

/// The quantile of the summary, in per cent: that of the theory's predictions.
const QUANTILE: f64 = 75.0;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Training examples to use
    #[arg(long, value_name = "N", default_value_t = measurement::Probe::default().samples)]
    samples: Count<1>,
    /// Show every layer even if there are several trials
    #[arg(long)]
    layers: bool,
    #[command(flatten)]
    models: ModelArgs,
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
            let rows = pairs::table(&full.record.record, &other.record.record);
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
        let heads = ["mechanism", ">seed", ">epoch", ">dispersion", ">separation", ">entropy", ">sink", ">full mass"];
        let mut table = Table::new(heads);
        for entry in &self.probes {
            let ProbeRecord { epoch, pooled, .. } = &entry.record.record;
            let ((mechanism, seed), epoch) = (entry.names(), epoch.to_string());
            let [dispersion, separation, entropy, mass] =
                [&pooled.dispersion, &pooled.separation, &pooled.entropy, &pooled.full_mass].map(|all| middle(all, 3));
            let cells = [mechanism, seed, epoch, dispersion, separation, entropy, middle(&pooled.sink, 0), mass];
            table.row_at(&entry.point, cells);
        }
        table.print(out)?;
        if layers || self.probes.len() == 1 {
            self.probes.iter().try_for_each(|entry| print_layers(entry, out))?;
        }
        print_pairs(&self.pairs, out)?;
        writeln!(out)?;
        writeln!(out, "full mass: weight that a softmax over all keys would give to the kept keys")?;
        writeln!(out, "–: not defined, such as the separation where no key is dropped")?;
        writeln!(out)?;
        Ok(paragraph(out, "", &self.summary())?)
    }

    /// What the probes show, in a sentence or two.
    fn summary(&self) -> String {
        let mut names: Vec<&String> = Vec::new();
        for probe in &self.probes {
            if !names.contains(&&probe.mechanism) {
                names.push(&probe.mechanism);
            }
        }
        let dispersion = |name: &&String| {
            let probes = self.probes.iter().filter(|probe| probe.mechanism == **name);
            let values = probes.filter_map(|probe| Summary::at(&probe.record.record.pooled.dispersion, 50.0));
            let middle = quantile(&values.collect::<Vec<f64>>(), 0.5);
            format!("{:.2} under {name}", middle.unwrap_or(f64::NAN))
        };
        let dispersions = names.iter().map(dispersion).collect::<Vec<_>>().join(", ");
        let mut text = format!("Result: the dispersion of the scores is {dispersions} (medians).");
        for name in names {
            let rows = self.pairs.iter().filter(|pair| pair.mechanism == *name);
            let rows: Vec<&Row> =
                rows.filter_map(|pair| pair.rows.iter().find(|row| row.quantile == QUANTILE)).collect();
            let holding = |holds: fn(&Conditions) -> bool| rows.iter().filter(|row| holds(&row.conditions)).count();
            let (w, x, models) = (holding(|found| found.w_holds), holding(|found| found.x_holds), rows.len());
            if models > 0 {
                let models = counted(models, "model");
                text += &format!(
                    " At the {QUANTILE} % quantile (W) holds for {w} and (X) for {x} of {models} with {name}."
                );
            }
        }
        text
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
    writeln!(out, "{mechanism}, seed {}, by layer", seed_name(*seed))?;
    let legend = "δ: dispersion. Δ: separation. Γ, Υ, B: norms of the score, value and MLP matrices (docs/theory.md). The last \
                  columns: shares of relevant keys / of random keys.";
    paragraph(out, "", legend)?;
    writeln!(out, "layer      δ        Δ entropy     Γ     Υ     B precision    recall      mass")?;
    for (number, layer) in record.layers.iter().enumerate() {
        let LayerRecord { all, relevance, .. } = layer;
        let [precision, recall, mass] = relevance.map_or_else(Default::default, |r| {
            [(r.precision, r.random_precision), (r.recall, r.random_recall), (r.mass, r.random_precision)]
                .map(|(found, random)| format!("{found:.2}/{random:.2}"))
        });
        let [dispersion, separation, entropy] = [(&all.dispersion, 2), (&all.separation, 4), (&all.entropy, 2)]
            .map(|(values, digits)| middle(values, digits));
        let norms = record.norms.as_ref().and_then(|norms| norms.layers.get(number)).map(|norms| {
            let score = norms.score.iter().copied().fold(0.0, f64::max);
            [score, norms.value.weight, norms.mlp_hidden.weight.max(norms.mlp_output.weight)]
        });
        let [score, value, mlp] =
            [0, 1, 2].map(|place| norms.map_or_else(|| "–".to_owned(), |norms| format!("{:.1}", norms[place])));
        writeln!(
            out,
            "{number:>5}{dispersion:>7}{separation:>9}{entropy:>8}{score:>6}{value:>6}{mlp:>6}{precision:>10}{recall:>10}{mass:>10}"
        )?;
    }
    if record.norms.is_none() {
        let reason = "There are no norms: they belong to bounds on the steepness of the loss, which are proved for models with the \
                      structure of the study alone.";
        paragraph(out, "", reason)?;
    }
    Ok(())
}

fn print_pairs(pairs: &[Pair], out: &mut dyn Write) -> Result<(), Error> {
    for Pair { mechanism, point, seed, rows } in pairs.iter().filter(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "{} against full, seed {}", labelled(mechanism, point), seed_name(*seed))?;
        writeln!(out, "quantile     δs     δh         Δ      b      (W)      (X)")?;
        for Row { quantile, full_dispersion, dispersion, separation, sink, conditions } in rows {
            let (w, x) = (conditions.w_lhs, conditions.x_lhs);
            writeln!(
                out,
                "{quantile:6} % {full_dispersion:7.2}{dispersion:7.2}{separation:10.2e}{sink:7.1}{w:9.3}{x:9.3}"
            )?;
        }
    }
    if pairs.iter().any(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        let legend = "δs: dispersion of all scores under full attention. δh: dispersion of the kept scores. Δ: separation, at the \
                      opposite quantile. b: sink count. (W), (X): left-hand sides of the conditions in the attention \
                      parameters and in the block input; a condition holds where its number is below 1 (docs/theory.md).";
        paragraph(out, "", legend)?;
    }
    Ok(())
}
