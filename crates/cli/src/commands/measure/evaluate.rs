//! `semfocus evaluate`: trained models on other data.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_core::Measurement;
use semfocus_core::measurement::{Count, Evaluate};
use semfocus_lab::Lab;
use semfocus_store::EvaluationRecord;

use super::View;
use crate::models::{Entry, ModelArgs};
use crate::table::Table;
use crate::text::{paragraph, short};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Examples to use: the first ones of the held-out split
    #[arg(long, value_name = "N", default_value_t = Evaluate::default().samples)]
    samples: Count<1>,
    #[command(flatten)]
    models: ModelArgs,
}

pub(crate) fn run(mut args: Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let models = args.models.choice(Evaluate::default().models);
    let Measurement::Evaluate(data) = Measurement::read("evaluate", &args.models.take_settings().join(" "))? else {
        unreachable!("it is read as an evaluation")
    };
    let measurement = Measurement::Evaluate(Evaluate { models, samples: args.samples, ..data });
    super::run(&measurement, &args.models, &View { json: args.models.json, ..View::default() }, lab, out)
}

pub(super) fn print(entries: &[Entry<EvaluationRecord>], out: &mut dyn Write) -> Result<(), Error> {
    if let Some(Entry { record: EvaluationRecord { data, samples, .. }, .. }) = entries.first() {
        let changed = data.to_string().trim().replace('\n', ", ");
        let data =
            if changed.is_empty() { "the data of the trials".to_owned() } else { format!("data with {changed}") };
        paragraph(out, "", &format!("On the held-out split of {data}, at most {samples} examples:"))?;
        writeln!(out)?;
    }
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut table = Table::new(["mechanism", ">seed", ">epoch", ">loss", ">accuracy", ">majority"]);
    for entry in entries {
        let EvaluationRecord { epoch, evaluation, majority, .. } = &entry.record;
        let ((mechanism, seed), loss) = (entry.names(), short(evaluation.loss));
        let (accuracy, majority) = (percent(evaluation.accuracy), percent(*majority));
        table.row_at(&entry.point, [mechanism, seed, epoch.to_string(), loss, accuracy, majority]);
    }
    table.print(out)?;
    writeln!(out)?;
    Ok(paragraph(out, "", "majority: the accuracy of a model that always gives the most frequent answer")?)
}
