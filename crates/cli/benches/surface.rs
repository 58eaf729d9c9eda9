//! How long the cells of a loss surface take: `cargo bench --bench surface [-- OPTIONS]`.

mod common;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::Parser;
use common::{Error, Output, cores};
use semfocus_core::MechanismList;
use semfocus_lab::surface::directions::{Plane, Scaling};
use semfocus_lab::surface::evaluator::{Evaluator, evaluate};
use semfocus_lab::{Device, Lab};
use semfocus_nn::Encoder;
use semfocus_store::Grid;
use serde::Serialize;

/// Measure cells of loss surfaces of even-pairs models with the published settings
#[derive(Debug, Parser)]
struct Args {
    /// Mechanisms, one after another
    #[arg(long, value_name = "A,B,…", default_value = "full,topk:5")]
    mechanisms: Vec<MechanismList>,
    /// Cells to evaluate
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    cells: u32,
    /// Training examples in every cell
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Report {
    threads: usize,
    cases: Vec<Case>,
}

#[derive(Serialize)]
struct Case {
    mechanism: String,
    length: usize,
    blocks: usize,
    cells: usize,
    samples: usize,
    seconds: f64,
    /// Wall time over cells.
    cell_ms: f64,
}

fn main() -> ExitCode {
    let measure = |args: &Args| {
        let (lab, threads) = (Lab::standard(), args.threads.map_or_else(cores, usize::from));
        let cases =
            args.mechanisms.iter().flat_map(|list| &list.0).map(|mechanism| measure(args, &lab, mechanism, threads));
        Ok(Report { threads, cases: cases.collect::<Result<_, Error>>()? })
    };
    common::main(|args: &Args| &args.output, measure, print)
}

fn measure(args: &Args, lab: &Lab, mechanism: &str, threads: usize) -> Result<Case, Error> {
    let overrides = [format!("data.train={}", args.samples), "data.held_out=1".to_owned()];
    let trial = common::plan(lab, "even-pairs", mechanism, 1, &overrides)?.1.trials.remove(0);
    let (settings, device) = (&trial.settings, Device::cpu());
    let data = trial.source.dataset(&settings.data, settings.seed)?;
    let attention = lab.attention(mechanism)?;
    let model = Encoder::new(settings.model.clone(), attention, settings.seed, &device.plain())?;
    let evaluator = Evaluator::new(&model, &data.train, args.samples as usize, false, &device);
    let plane = Plane::random(&model, Scaling::Tensor, 1, 0);
    let cells = args.cells as usize;
    let side = (cells as f64).sqrt().ceil().max(3.0) as usize;
    let grid = Grid { side, range: 1.0 };
    eprintln!("evaluating {cells} cells of {mechanism} …");
    let began = Instant::now();
    let stop = AtomicBool::new(false);
    evaluate(&evaluator, &plane, &grid, 0..cells, threads, &stop, |_, _| Ok::<(), Error>(()))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Case {
        mechanism: mechanism.to_owned(),
        length: data.length,
        blocks: settings.model.blocks,
        cells,
        samples: data.train.len(),
        seconds,
        cell_ms: 1000.0 * seconds / cells as f64,
    })
}

fn print(report: &Report) {
    let Report { threads, cases } = report;
    println!("mechanism  cells  examples  threads  seconds  ms/cell  41 × 41 cells");
    for Case { mechanism, cells, samples, seconds, cell_ms, .. } in cases {
        let grid = cell_ms * 1.681;
        println!("{mechanism:9}  {cells:5}  {samples:8}  {threads:7}  {seconds:7.1}  {cell_ms:7.1}  {grid:11.0} s");
    }
}
