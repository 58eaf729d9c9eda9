//! `semfocus landscape`: the loss around trained models.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::steepness::{PERCENTILES, Steepness};
use semfocus_core::measurement::{Count, Directions, Positive, Surface};
use semfocus_core::{BASELINE, Measurement};
use semfocus_lab::Lab;
use semfocus_store::{StoredSurface, SurfaceSettings};
use serde::Serialize;

use super::View;
use crate::arguments::one_of;
use crate::models::{Entry, ModelArgs};
use crate::table::Table;
use crate::text::{counted, paragraph, short};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Cells along each side of the grid
    #[arg(long, value_name = "N", default_value_t = options().grid)]
    grid: Count<3, 501>,
    /// How far the grid extends, in units of the norm of the weights
    #[arg(long, value_name = "R", default_value_t = options().range)]
    range: Positive,
    /// Compute the loss over the first N training examples
    #[arg(long, value_name = "N", default_value_t = options().samples)]
    samples: Count<1>,
    /// Leave dropout of the attention weights on, drawn afresh for every cell, as the published code does
    ///
    /// This adds noise to the loss of every cell, and the empirical Lipschitz constants divide it by the distance of the
    /// cells.
    #[arg(long)]
    attention_dropout: bool,
    /// How many pairs of random directions to draw
    #[arg(long, value_name = "N", default_value_t = options().draws)]
    draws: Count<1, 1000>,
    /// How directions are chosen
    #[arg(long, value_parser = one_of::<Directions>(DIRECTIONS), default_value = "tensor")]
    directions: Directions,
    /// Use the plane through the model and two other checkpoint files of its trial, which lie at (1, 0) and (0, 1)
    #[arg(long, value_names = ["FILE", "FILE"], num_args = 2, conflicts_with = "directions")]
    through: Option<Vec<PathBuf>>,
    /// Seed of random directions
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Threads [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    models: ModelArgs,
}

/// The default options.
fn options() -> Surface {
    Surface::default()
}

/// The ways to choose directions.
const DIRECTIONS: &[(&str, &str)] = &[
    ("tensor", "Random, with each parameter tensor scaled to the norm of its weights, as in the study"),
    ("filter", "Random, with the part of each unit scaled to the norm of that unit's weights"),
    ("path", "The two principal directions of the training path, from the models that probes saved"),
];

/// A surface as it is shown.
#[derive(Serialize)]
pub(super) struct Shown {
    settings: SurfaceSettings,
    /// At the trained model, or the cell nearest to it.
    loss: f64,
    accuracy: f64,
    /// Cells whose loss is infinite or undefined.
    undefined: usize,
    percentiles: [f64; 4],
    lipschitz: Steepness,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let options = Surface {
        models: args.models.choice(options().models),
        grid: args.grid,
        range: args.range,
        samples: args.samples,
        attention_dropout: args.attention_dropout,
        draws: args.draws,
        directions: args.directions,
        through: args.through.clone().unwrap_or_default(),
        seed: args.seed,
    };
    let view = View { threads: args.jobs.map(usize::from), json: args.models.json, ..View::default() };
    super::run(&Measurement::Surface(options), &args.models, &view, lab, out)
}

impl Shown {
    pub(super) fn new(StoredSurface { settings, values }: StoredSurface) -> Self {
        let losses: Vec<f64> = values.iter().map(|value| value.loss).collect();
        let middle = values[losses.len() / 2];
        Shown {
            loss: middle.loss,
            accuracy: middle.accuracy,
            undefined: losses.iter().filter(|loss| !loss.is_finite()).count(),
            percentiles: PERCENTILES,
            lipschitz: Steepness::new(&settings.grid, &losses),
            settings,
        }
    }
}

pub(super) fn print(entries: &[Entry<Shown>], out: &mut dyn Write) -> Result<(), Error> {
    let range = entries.first().map_or(1.0, |entry| entry.record.settings.grid.range);
    let radii = [range / 4.0, range / 2.0, range];
    let text = "Change of the loss from cell to cell divided by the distance (empirical Lipschitz constant): 50th / 95th \
                percentile over the cells of a square around the model.";
    paragraph(out, "", text)?;
    writeln!(out)?;
    let heads = radii.map(|radius| format!("±{radius:.2}"));
    let [first, second, third] = heads.each_ref().map(String::as_str);
    let mut table = Table::new(["mechanism", ">seed", ">draw", ">loss", first, second, third]);
    for entry in entries {
        let Shown { settings, loss, lipschitz, .. } = &entry.record;
        let [first, second, third] = radii.map(|radius| match lipschitz.within(radius) {
            Some([p50, _, p95, _]) => format!("{} / {}", short(p50), short(p95)),
            None => "–".to_owned(),
        });
        let ((mechanism, seed), draw) = (entry.names(), settings.draw.to_string());
        table.row_at(&entry.point, [mechanism, seed, draw, short(*loss), first, second, third]);
    }
    table.print(out)?;
    let undefined: usize = entries.iter().map(|entry| entry.record.undefined).sum();
    if undefined > 0 {
        writeln!(out, "\nthe loss is infinite or undefined in {}", counted(undefined, "cell"))?;
    }
    writeln!(out)?;
    paragraph(out, "", &summary(entries, range))?;
    Ok(writeln!(out, "`semfocus report RUN` draws the surfaces.")?)
}

/// How the steepness of the loss compares with that around full attention, in a sentence.
fn summary(entries: &[Entry<Shown>], range: f64) -> String {
    let steepness = |entry: &Entry<Shown>| entry.record.lipschitz.within(range).map(|[_, _, p95, _]| p95);
    let mut ratios: Vec<(&str, Vec<f64>)> = Vec::new();
    for entry in entries.iter().filter(|entry| entry.mechanism != BASELINE) {
        let is_partner = |full: &&Entry<Shown>| {
            let pair = |entry: &Entry<Shown>| (entry.point.clone(), entry.seed, entry.record.settings.draw);
            full.mechanism == BASELINE && pair(full) == pair(entry)
        };
        let full = entries.iter().find(is_partner).and_then(steepness);
        let logarithm = steepness(entry).zip(full).map(|(this, full)| (this / full).ln()).filter(|log| log.is_finite());
        match ratios.iter_mut().find(|(mechanism, _)| *mechanism == entry.mechanism) {
            Some((_, logarithms)) => logarithms.extend(logarithm),
            None => ratios.push((&entry.mechanism, logarithm.into_iter().collect())),
        }
    }
    ratios.retain(|(_, logarithms)| !logarithms.is_empty());
    if ratios.is_empty() {
        return "To compare mechanisms, evaluate them together with full attention and the same seeds.".to_owned();
    }
    let words = ratios.iter().map(|(mechanism, logarithms)| {
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        format!("{} times for {mechanism} ({})", short(mean.exp()), counted(logarithms.len(), "pair"))
    });
    let words = words.collect::<Vec<_>>().join(", ");
    format!("Result: within ±{range:.2} the 95th percentile is, compared with full attention, {words}.")
}
