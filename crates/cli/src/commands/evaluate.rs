//! `semfocus evaluate`: trained models on other data.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_core::Measurement;
use semfocus_core::measurement::{Count, Evaluate};
use semfocus_core::study::seed_name;
use semfocus_lab::{Lab, jobs};
use semfocus_store::EvaluationRecord;

use crate::execute::{Execution, as_jobs};
use crate::models::{Entry, ModelArgs, mechanism_width};
use crate::output::emit;
use crate::text::{paragraph, rows_by_point, short};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    models: ModelArgs,
    /// Examples to use: the first ones of the held-out split
    #[arg(long, value_name = "N", default_value_t = Evaluate::default().samples)]
    samples: Count<1>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(mut args: Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let models = args.models.choice(Evaluate::default().models);
    let Measurement::Evaluate(data) = Measurement::read("evaluate", &args.models.take_settings().join(" "))? else {
        unreachable!("it is read as an evaluation")
    };
    let options = Evaluate { models, samples: args.samples, ..data };
    let jobs = jobs::Evaluate::all(&options, &args.models.models(lab, &options.models)?);
    args.models.execute(lab, |execution| measure(jobs, execution, args.json, out))
}

/// Evaluates models, and prints what is on record then.
pub(crate) fn measure(
    jobs: Vec<jobs::Evaluate>,
    execution: &Execution<'_>,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Error> {
    if let Some(exit) = execution.one_by_one(&as_jobs(&jobs), None)? {
        return Ok(exit);
    }
    let entries = jobs.iter().map(|job| Entry::new(job.model(), job.record()?));
    let entries = entries.collect::<Result<Vec<_>, Error>>()?;
    emit(out, json, &entries, |out| print(&entries, out))?;
    Ok(Exit::Done)
}

fn print(entries: &[Entry<EvaluationRecord>], out: &mut dyn Write) -> Result<(), Error> {
    let width = mechanism_width(entries.iter().map(|entry| &entry.mechanism));
    if let Some(Entry { record: EvaluationRecord { data, samples, .. }, .. }) = entries.first() {
        let changed = data.to_string().trim().replace('\n', ", ");
        let data =
            if changed.is_empty() { "the data of the trials".to_owned() } else { format!("data with {changed}") };
        paragraph(out, "", &format!("On the held-out split of {data}, at most {samples} examples:"))?;
        writeln!(out)?;
    }
    writeln!(out, "{:width$}  {:>4}  epoch      loss  accuracy  majority", "mechanism", "seed")?;
    rows_by_point(
        out,
        entries,
        |entry| &entry.point,
        |out, Entry { mechanism, seed, record, .. }| {
            let (seed, epoch, loss) = (seed_name(*seed), record.epoch, short(record.evaluation.loss));
            let [accuracy, majority] =
                [record.evaluation.accuracy, record.majority].map(|share| format!("{:.1} %", 100.0 * share));
            Ok(writeln!(out, "{mechanism:width$}  {seed:>4}  {epoch:>5}  {loss:>8}  {accuracy:>8}  {majority:>8}")?)
        },
    )?;
    writeln!(out)?;
    Ok(paragraph(out, "", "majority: the accuracy of a model that always gives the most frequent answer")?)
}
