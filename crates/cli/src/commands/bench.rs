//! `semfocus bench`: time of a training step and an evaluation step, of the study's model or of the model and the data of an
//! experiment, against the speed of matrix products measured in the same process.

use std::io::Write;
use std::time::{Duration, Instant};

use burn::module::Module;
use clap::Args as ClapArgs;
use semfocus_core::measurement::Count;
use semfocus_core::{Allocation, Experiment, MechanismList, Request};
use semfocus_lab::estimate::random_batch;

use semfocus_lab::training::batch;
use semfocus_lab::{Device, Lab};
use semfocus_nn::{Attention, Encoder, Engine, InstructionSet, ModelConfig, Pass, conformance, cost, train};

use serde::Serialize;

use crate::output::emit;
use crate::talk::say;
use crate::text::counted;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Measure the model and the data of an experiment: the name of a preset, or the path of a file [default: the study's model]
    #[arg(conflicts_with_all = ["length", "width", "mlp", "blocks", "batch", "classes", "per_token", "heads", "head_width"])]
    experiment: Option<String>,
    /// Override a setting of the experiment, e.g. -s model.blocks=3
    #[arg(short, long = "set", value_name = "KEY=VALUE", requires = "experiment")]
    set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<Count<1, 1024>>,
    /// Mechanisms to measure [default: full,topk:5,banded:5, or those of the experiment]
    #[arg(long, value_name = "A,B,…")]
    mechanisms: Option<Vec<MechanismList>>,
    /// Sequence lengths to measure: 600 has 10 blocks and 10 classes, as in the study, any other 5 and 2
    #[arg(long, value_name = "L,…", value_delimiter = ',', default_value = "40,600")]
    length: Vec<Count<1, 100_000>>,
    /// Width of the model
    #[arg(long, value_name = "D", default_value = "64")]
    width: Count<1, 4096>,
    /// Width of the hidden layer of its MLPs [default: the width of the model]
    #[arg(long, value_name = "D")]
    mlp: Option<Count<1, 16_384>>,
    /// Blocks, whatever the length
    #[arg(long, value_name = "N")]
    blocks: Option<Count<0, 1000>>,
    /// Sequences of a step
    #[arg(long, value_name = "N", default_value = "25")]
    batch: Count<1, 100_000>,
    /// Classes, whatever the length, and as many tokens in the vocabulary
    #[arg(long, value_name = "N")]
    classes: Option<Count<2, 65_535>>,
    /// Ask for a class at every token, as language models do, instead of once at the mean
    #[arg(long)]
    per_token: bool,
    /// Attention heads
    #[arg(long, value_name = "H", default_value = "1")]
    heads: Count<1, 256>,
    /// Width of a head [default: the width of the model divided by the heads]
    #[arg(long, value_name = "W")]
    head_width: Option<Count<1, 4096>>,
    /// Seconds to spend on each measurement
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Measure the reference form instead of the fused operators
    #[arg(long)]
    reference: bool,
    /// Instruction set of the fused operators [default: the best of this machine]
    ///
    /// Results do not depend on it, only speed does. The environment variable SEMFOCUS_INSTRUCTIONS chooses one for every
    /// command.
    #[arg(long, value_name = "portable|avx2|avx512|neon", value_parser = InstructionSet::from_name)]
    instructions: Option<InstructionSet>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 3600".to_owned()),
    }
}

const LEARNING_RATE: f64 = 0.1;
const MAX_GRADIENT_NORM: f64 = 0.5;

#[derive(Serialize)]
struct Report {
    gemm_gflops: f64,
    threads: usize,
    instructions: &'static str,
    cases: Vec<Case>,
}

#[derive(Serialize)]
struct Case {
    length: usize,
    blocks: usize,
    batch: usize,
    width: usize,
    heads: usize,
    head_width: usize,
    classes: usize,
    /// Questions that a sequence asks, on average.
    questions: f64,
    mechanism: String,
    /// Median of a step in milliseconds.
    train_ms: f64,
    eval_ms: f64,
    train_tokens_per_second: f64,
    eval_tokens_per_second: f64,
    /// Useful operations of a training step over what matrix products could have done in that time.
    gemm_share: f64,
    eval_gemm_share: f64,
    /// Largest resident memory of the process during the case; none where the system does not tell.
    peak_rss_mib: Option<f64>,
}

/// What is measured: a model and a batch.
struct Subject {
    config: ModelConfig,
    attention: Attention,
    batch: train::Batch,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    if let Some(instructions) = args.instructions {
        instructions.force();
    }
    let subjects = match &args.experiment {
        Some(experiment) => subjects_of_experiment(experiment, args, lab)?,
        None => subjects_of_shape(args, lab)?,
    };
    let threads = args.threads.map_or_else(|| Allocation::here().cores, Count::get);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let time = Duration::from_secs_f64(args.seconds);
    say!("measuring matrix products on {} …", counted(threads, "thread"));
    let mut report = Report {
        gemm_gflops: pool.install(|| cost::matmul_gflops(&Device::cpu().plain())),
        threads,
        instructions: InstructionSet::current().name(),
        cases: Vec::new(),
    };
    for subject in subjects {
        say!("measuring length {}, {} …", subject.batch.tokens.dims()[1], subject.attention.spec);
        let case = pool.install(|| measure(subject, time, report.gemm_gflops))?;
        report.cases.push(case);
    }
    emit(out, args.json, &report, |out| print_table(&report, out))
}

/// The mechanisms that are named on the command line, if any.
fn mechanisms(args: &Args) -> Option<Vec<String>> {
    args.mechanisms.as_ref().map(|lists| lists.iter().flat_map(|list| list.0.clone()).collect())
}

fn engine(args: &Args, usual: Engine) -> Engine {
    if args.reference { Engine::Reference } else { usual }
}

/// The model of the study with the shape that the options say, and random tokens.
fn subjects_of_shape(args: &Args, lab: &Lab) -> Result<Vec<Subject>, Error> {
    let names = mechanisms(args).unwrap_or_else(|| ["full", "topk:5", "banded:5"].map(str::to_owned).to_vec());
    let (width, heads) = (args.width.get(), args.heads.get());
    let mut subjects = Vec::new();
    for length in args.length.iter().map(|length| length.get()) {
        let (vocabulary, classes, blocks) = if length == 600 { (16, 10, 10) } else { (3, 2, 5) };
        let classes = args.classes.map(Count::get).map_or((vocabulary, classes), |classes| (classes, classes));
        for name in &names {
            let config = ModelConfig {
                blocks: args.blocks.map_or(blocks, Count::get),
                d_model: width,
                d_mlp: args.mlp.map_or(width, Count::get),
                heads,
                d_head: Some(args.head_width.map_or_else(|| width / heads, Count::get).max(1)),
                engine: engine(args, Engine::default()),
                ..ModelConfig::new(classes.0, classes.1)
            };
            let batch = random_batch(&config, args.batch.get(), length, args.per_token);
            subjects.push(Subject { config, attention: lab.attention(name)?, batch });
        }
    }
    Ok(subjects)
}

/// The model of an experiment with each of its mechanisms, and the first batch of its training examples: of a grid, the first point.
fn subjects_of_experiment(experiment: &str, args: &Args, lab: &Lab) -> Result<Vec<Subject>, Error> {
    let request = |more: &[String]| Request {
        experiment: experiment.to_owned(),
        mechanisms: mechanisms(args),
        seeds: Some(1),
        overrides: args.set.iter().chain(more).cloned().collect(),
        ..Request::default()
    };
    // A batch is all that is needed of the data.
    let size = lab.plan(&Experiment::resolve(&request(&[]), lab)?)?.trials[0].settings.training.batch;
    let few = [format!("data.train={size}"), "data.held_out=1".to_owned(), "data.test=0".to_owned()];
    let trials = lab.plan(&Experiment::resolve(&request(&few), lab)?)?.trials;
    let mut subjects = Vec::new();
    for trial in trials.iter().filter(|trial| trial.point == trials[0].point) {
        let settings = &trial.settings;
        let train = trial.source.dataset(&settings.data, settings.seed)?.train;
        subjects.push(Subject {
            config: ModelConfig { engine: engine(args, settings.model.engine), ..settings.model.clone() },
            attention: lab.attention(&settings.mechanism)?,
            batch: batch(&train, 0..size.min(train.len()), &Device::cpu().plain()),
        });
    }
    Ok(subjects)
}

fn measure(Subject { config, attention, batch }: Subject, time: Duration, gemm_gflops: f64) -> Result<Case, Error> {
    reset_peak_memory();
    let device = Device::cpu().autodiff();
    let [size, length] = batch.tokens.dims();
    let ModelConfig { blocks, classes, d_model: width, heads, .. } = config;
    let head_width = config.head_width();
    let questions = batch.questions.all().len() as f64 / size as f64;
    let flops = cost::flops(&config, &attention.clone().into(), length + attention.spec.globals, questions);
    let mechanism = attention.spec.to_string();
    let model = conformance::with_stand_ins(Encoder::new(config, attention, 1, &device)?);
    let mut model = Some(model);

    let mut optimizer = train::Sgd;
    let mut step = 0;
    let train_ms = median_ms(time, || {
        let present = model.take().expect("every step gives the model back");
        let pass = Pass::training(1, step);
        let (next, report) =
            train::step(present, &mut optimizer, batch.clone(), pass, LEARNING_RATE, MAX_GRADIENT_NORM);
        assert!(report.loss.is_finite(), "the benchmark's loss must stay finite");
        model = Some(next);
        step += 1;
    });
    let model = model.expect("every step gives the model back").valid();
    let tokens = model.token_rows(batch.tokens);
    let eval_ms = median_ms(time, || {
        std::hint::black_box(model.answers(&tokens, &batch.questions, Pass::evaluation(1, 0)));
    });

    let tokens_per_second = |ms: f64| (size * length) as f64 / ms * 1e3;
    let share = |flops: f64, ms: f64| size as f64 * flops / (ms * 1e-3) / (gemm_gflops * 1e9);
    Ok(Case {
        length,
        blocks,
        batch: size,
        width,
        heads,
        head_width,
        classes,
        questions,
        mechanism,
        train_ms,
        eval_ms,
        train_tokens_per_second: tokens_per_second(train_ms),
        eval_tokens_per_second: tokens_per_second(eval_ms),
        gemm_share: share(flops.training, train_ms),
        eval_gemm_share: share(flops.evaluation, eval_ms),
        peak_rss_mib: peak_memory_mib(),
    })
}

/// Median time of `work` after three rounds of warm-up, over at least five rounds and about `time`.
fn median_ms(time: Duration, mut work: impl FnMut()) -> f64 {
    for _ in 0..3 {
        work();
    }
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || start.elapsed() < time {
        let round = Instant::now();
        work();
        times.push(round.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Makes the kernel forget the process's peak memory, so that the next reading is that of one case.
fn reset_peak_memory() {
    // Only Linux can do this; elsewhere there is no reading either.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}

fn print_table(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let Report { gemm_gflops, threads, instructions, cases } = report;
    writeln!(out, "{}, {instructions}; matrix products reach {gemm_gflops:.0} GFLOP/s", counted(*threads, "thread"))?;
    // All cases have the same model but for its mechanism and the length.
    if let Some(Case { batch, width, heads, head_width, .. }) = cases.first() {
        writeln!(out, "batch {batch}, width {width}, {} of width {head_width}", counted(*heads, "head"))?;
    }
    writeln!(out, "share = useful arithmetic / what matrix products could do")?;
    writeln!(out)?;
    writeln!(out, "                            training              evaluation            peak")?;
    writeln!(out, "length  blocks  mechanism   ms/step   ktok/s share  ms/step   ktok/s share   MiB")?;
    for case in cases {
        let memory = case.peak_rss_mib.map_or_else(|| "-".to_owned(), |mib| format!("{mib:.0}"));
        writeln!(
            out,
            "{:6}  {:6}  {:10} {:8.2} {:8.0} {:4.0}% {:8.2} {:8.0} {:4.0}% {memory:>5}",
            case.length,
            case.blocks,
            case.mechanism,
            case.train_ms,
            case.train_tokens_per_second / 1e3,
            100.0 * case.gemm_share,
            case.eval_ms,
            case.eval_tokens_per_second / 1e3,
            100.0 * case.eval_gemm_share,
        )?;
    }
    Ok(())
}
