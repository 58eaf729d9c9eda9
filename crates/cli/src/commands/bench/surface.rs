//! `semfocus bench surface`: how long the cells of a loss surface take.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use burn::tensor::Device;
use clap::Args as ClapArgs;
use semfocus_analysis::surface::directions::{Plane, Scaling};
use semfocus_analysis::surface::landscape::{Evaluator, Grid, evaluate};
use semfocus_lab::{Experiment, Request, Scale};
use semfocus_nn::{Encoder, Registry};
use serde::Serialize;

use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Mechanisms, one after another
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', default_value = "full,topk:5")]
    mechanisms: Vec<String>,
    /// Cells to evaluate
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    cells: u32,
    /// Training examples in every cell
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Threads; as many as there are cores unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(cores, usize::from);
    let cases = args.mechanisms.iter().map(|mechanism| measure(args, mechanism, threads)).collect::<Result<_, _>>()?;
    let report = Report { threads, cases };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "mechanism  cells  examples  threads  seconds  ms a cell  41 × 41 cells")?;
    for Case { mechanism, cells, samples, seconds, cell_ms, .. } in &report.cases {
        let grid = cell_ms * 1.681;
        writeln!(
            out,
            "{mechanism:9}  {cells:5}  {samples:8}  {threads:7}  {seconds:7.1}  {cell_ms:9.1}  {grid:11.0} s"
        )?;
    }
    Ok(())
}

fn measure(args: &Args, mechanism: &str, threads: usize) -> Result<Case, Error> {
    let experiment = Experiment::resolve(&Request {
        experiment: "even-pairs".to_owned(),
        scale: Some(Scale::Full),
        mechanisms: Some(vec![mechanism.to_owned()]),
        seeds: Some(1),
        overrides: vec![format!("data.train={}", args.samples), "data.held_out=1".to_owned()],
        ..Request::default()
    })?;
    let trial = experiment.plan()?.trials.remove(0);
    let settings = &trial.settings;
    let data = trial.source.dataset(&settings.data, settings.seed)?;
    let attention = Registry::standard().parse(mechanism)?;
    let model = Encoder::new(settings.model.clone(), attention, settings.seed, &Device::flex())?;
    let evaluator = Evaluator::new(&model, &data.train, args.samples as usize);
    let plane = Plane::random(&model, Scaling::Tensor, 1, 0);
    let cells: Vec<usize> = (0..args.cells as usize).collect();
    let side = (args.cells as f64).sqrt().ceil().max(3.0) as usize;
    let grid = Grid { side, range: 1.0 };
    eprintln!("evaluating {} cells of {mechanism} …", args.cells);
    let began = Instant::now();
    evaluate(&evaluator, &plane, &grid, &cells, threads, &AtomicBool::new(false), |_| Ok::<(), Error>(()))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Case {
        mechanism: mechanism.to_owned(),
        length: data.width,
        blocks: settings.model.blocks,
        cells: cells.len(),
        samples: data.train.len(),
        seconds,
        cell_ms: 1000.0 * seconds / cells.len() as f64,
    })
}
