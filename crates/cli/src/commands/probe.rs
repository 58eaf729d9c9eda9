//! `semfocus probe`: what the attention of trained models does with its scores.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::theory::lipschitz::Profile;
use semfocus_analysis::theory::pairs::{Row, table};
use semfocus_lab::Store;
use semfocus_lab::TrialSettings;
use semfocus_lab::probe::{LayerRecord, ProbeRecord, Prober, QUANTILES, Summary};
use semfocus_lab::store::{CheckpointName, TrialFolder};
use semfocus_lab::trained::Trained;
use serde::Serialize;

use crate::Error;
use crate::commands::show::find_trial;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folders of trials, or of runs: all their trials that have a checkpoint
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Training examples to look at
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// The model after its best epoch instead of the last
    #[arg(long)]
    best: bool,
    /// Show every layer, also where there are several trials
    #[arg(long)]
    layers: bool,
    /// Print JSON, with all quantiles of every layer and head
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    quantiles: [f64; 11],
    probes: Vec<Entry>,
    pairs: Vec<Pair>,
}

#[derive(Serialize)]
struct Entry {
    trial: PathBuf,
    mechanism: String,
    seed: u64,
    #[serde(skip)]
    settings: TrialSettings,
    #[serde(flatten)]
    record: ProbeRecord,
    /// Decimal logarithms of bounds on the norm of the loss's gradient.
    lipschitz: Profile,
}

/// A model against the one with full attention and the same seed.
#[derive(Serialize)]
struct Pair {
    mechanism: String,
    seed: u64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let name = if args.best { CheckpointName::Best } else { CheckpointName::Last };
    let folders = folders(args, name)?;
    let mut probes = Vec::new();
    for (number, folder) in folders.iter().enumerate() {
        probes.push(probe(folder, name, args.samples as usize, (number + 1, folders.len()))?);
    }
    let pairs = pairs(&probes);
    let report = Report { quantiles: QUANTILES, probes, pairs };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        return Ok(writeln!(out)?);
    }
    print(&report, args.layers || folders.len() == 1, out)
}

/// The trials that are meant and have a checkpoint.
fn folders(args: &Args, name: CheckpointName) -> Result<Vec<TrialFolder>, Error> {
    let mut folders = Vec::new();
    for path in &args.runs {
        if path.join("experiment.toml").is_file() {
            let trials = Store::open(path)?.trials()?.into_iter().map(|(_, folder)| folder);
            folders.extend(trials.filter(|folder| folder.checkpoint(name).is_file()));
        } else {
            folders.push(find_trial(path)?);
        }
    }
    if folders.is_empty() {
        return Err("no trial of these runs has a checkpoint yet".into());
    }
    Ok(folders)
}

/// Looks at one model, and adds what was found to the record of its trial.
fn probe(folder: &TrialFolder, name: CheckpointName, samples: usize, of: (usize, usize)) -> Result<Entry, Error> {
    let Trained { trial, model, epoch } = Trained::read(folder, name)?;
    let settings = &trial.settings;
    eprint!("{} of {}: {} seed {} …", of.0, of.1, settings.mechanism, settings.seed);
    let data = trial.source.dataset(&settings.data, settings.seed)?;
    let before = folder.snapshots().into_iter().rfind(|kept| *kept < epoch);
    let before = before.map(|kept| Trained::of(&trial, &folder.snapshot(kept))).transpose()?;
    let earlier = before.as_ref().map(|trained| &trained.model);
    let record = Prober::new(&trial, &data.train, samples).look(&model, epoch, earlier);
    eprintln!(" {:.1} s", record.seconds);
    match folder.lock() {
        Ok(Ok(lock)) => {
            if let Err(error) = folder.record_probe(&lock, &record) {
                eprintln!("not recorded: {error}");
            }
        }
        Ok(Err(_)) => eprintln!("not recorded: another process trains this trial"),
        Err(error) => eprintln!("not recorded: {error}"),
    }
    let (mechanism, seed) = (settings.mechanism.clone(), settings.seed);
    let lipschitz = Profile::from_probe(&record);
    Ok(Entry { trial: folder.path().to_owned(), mechanism, seed, settings: trial.settings, record, lipschitz })
}

/// Every model of another mechanism with that of full attention whose settings are the same but for the mechanism.
fn pairs(probes: &[Entry]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for full in probes.iter().filter(|entry| entry.mechanism == "full") {
        let is_partner = |other: &&Entry| {
            let same = TrialSettings { mechanism: full.mechanism.clone(), ..other.settings.clone() };
            other.mechanism != full.mechanism && same.identity() == full.settings.identity()
        };
        for other in probes.iter().filter(is_partner) {
            let rows = table(&full.record, &other.record);
            pairs.push(Pair { mechanism: other.mechanism.clone(), seed: other.seed, rows });
        }
    }
    pairs
}

fn print(report: &Report, layers: bool, out: &mut dyn Write) -> Result<(), Error> {
    let width = report.probes.iter().map(|probe| probe.mechanism.chars().count()).max().unwrap_or(0).max(9);
    writeln!(out, "medians over queries, of the sink over keys")?;
    writeln!(out)?;
    writeln!(out, "{:width$}       seed  epoch  dispersion  separation  entropy  sink  full mass", "mechanism")?;
    for Entry { mechanism, seed, record, .. } in &report.probes {
        let Summary { dispersion, separation, entropy, sink, full_mass } = &record.pooled;
        let [dispersion, separation, entropy] = [dispersion, separation, entropy].map(|values| middle(values, 3));
        let (sink, mass) = (middle(sink, 0), middle(full_mass, 3));
        let epoch = record.epoch;
        writeln!(
            out,
            "{mechanism:width$}  {seed:>9}  {epoch:>5}  {dispersion:>10}  {separation:>10}  {entropy:>7}  {sink:>4}  {mass:>9}"
        )?;
    }
    if layers {
        report.probes.iter().try_for_each(|entry| print_layers(entry, out))?;
    }
    print_pairs(report, out)?;
    writeln!(out)?;
    writeln!(out, "full mass: weight that the softmax over all keys would give to the kept ones").map_err(Error::from)
}

fn middle(values: &[f64], digits: usize) -> String {
    Summary::at(values, 50.0).map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

/// What belongs to single layers: norms of the matrices, and where the attention looks.
fn print_layers(entry: &Entry, out: &mut dyn Write) -> Result<(), Error> {
    let Entry { mechanism, seed, record, .. } = entry;
    writeln!(out)?;
    writeln!(out, "{mechanism} seed {seed}, layer by layer; shares of relevant keys / of random ones")?;
    writeln!(out, "layer      δ        Δ entropy     Γ     Υ     B precision    recall      mass")?;
    for (number, (layer, norms)) in record.layers.iter().zip(&record.norms.layers).enumerate() {
        let LayerRecord { all, relevance, .. } = layer;
        let shares = relevance.map_or_else(Default::default, |r| {
            [(r.precision, r.random_precision), (r.recall, r.random_recall), (r.mass, r.random_precision)]
                .map(|(found, random)| format!("{found:.2}/{random:.2}"))
        });
        let greatest = norms.score.iter().copied().fold(0.0, f64::max);
        writeln!(
            out,
            "{number:>5}{:>7}{:>9}{:>8}{greatest:>6.1}{:>6.1}{:>6.1}{:>10}{:>10}{:>10}",
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

fn print_pairs(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    for Pair { mechanism, seed, rows } in report.pairs.iter().filter(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "{mechanism} against full, seed {seed}")?;
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
    if report.pairs.iter().any(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "A condition holds where its number is below 1; Δ is at the opposite quantile.")?;
    }
    Ok(())
}
