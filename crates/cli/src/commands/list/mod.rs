//! `semfocus list`: generated from the registries.

mod experiments;

use std::io::Write;

use clap::Subcommand;
use semfocus_core::TrialSettings;
use semfocus_core::names::nearest;
use semfocus_core::settings::{self, Setting};
use semfocus_lab::Lab;
use semfocus_nn::{MechanismInfo, Named};
use semfocus_tasks::text::TextInfo;
use semfocus_tasks::{BuiltTask, Length, Symbol, TaskInfo};
use serde::Serialize;

use crate::output::emit;
use crate::screen::text_width;
use crate::text::{counted, paragraph, wrap};
use crate::{Error, Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// The experiments that come with the program
    ///
    /// There is one for each task, and one for each panel of the study's figures and of Table 6. The list says about how long
    /// each takes on this machine and what the record has of it. The first time, this measures some steps for a second or two.
    Experiments(experiments::Args),
    /// The settings that an experiment file, a grid or -s can name
    Settings {
        /// Only those with this text in their name or meaning: `semfocus list settings rate`
        text: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The attention mechanisms
    ///
    /// They are written `name`, `name:value` or `name:key=value,key=value`, such as `full` or `topk:5`. `+gN`
    /// appends N learned global tokens to every sequence: they attend to all tokens, and all tokens attend to them.
    Mechanisms {
        /// Only those with this text in their name or description: `semfocus list mechanisms topk`
        text: Option<String>,
        /// Print JSON, with sources and limits
        #[arg(long)]
        json: bool,
    },
    /// The tasks
    ///
    /// Every command that takes a task also takes the path of a data file of your own: one example per line, tokens
    /// separated by blanks, then a tab and the label; or CSV (.csv), or JSON lines (.jsonl).
    Tasks {
        /// Only those with this text in their name or description
        text: Option<String>,
        /// Print JSON, with the ids and meanings of all tokens and classes
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    match args {
        Args::Experiments(args) => experiments::run(args, lab, out),
        Args::Settings { text, json } => {
            // Mechanisms and seeds are given together; see the first lines of any preset.
            let is_listed = |setting: &&Setting| *json || !["mechanism", "seed"].contains(&setting.path);
            let entries = settings::all().iter().filter(is_listed).map(SettingEntry::new);
            let entries = found(text, "setting", entries, |entry| [entry.path.to_owned(), entry.meaning.to_owned()])?;
            emit(out, *json, &entries, |out| print_settings(&entries, out))
        }
        Args::Mechanisms { text, json } => {
            let words = |MechanismEntry { form, info, .. }: &MechanismEntry<'_>| {
                let words = format!("{form} {} {} {} {}", info.family, info.summary, info.formula, info.isolates);
                [info.name.to_owned(), words]
            };
            let entries = found(text, "mechanism", lab.mechanisms.iter().map(MechanismEntry::new), words)?;
            emit(out, *json, &entries, |out| print_mechanisms(&entries, out))
        }
        Args::Tasks { text, json } => {
            let words =
                |task: &BuiltTask| [task.name().to_owned(), format!("{} {}", task.info.summary, task.info.tests)];
            // The task that needs a text is not among those that make their examples.
            let is_text = text.as_ref().is_some_and(|text| *text == TextInfo.name());
            let tasks = if is_text { Vec::new() } else { found(text, "task", lab.tasks.examples(), words)? };
            let entries: Vec<TaskEntry> = tasks.iter().map(TaskEntry::new).collect();
            let is_whole = text.is_some();
            emit(out, *json, &entries, |out| {
                tasks.iter().try_for_each(|task| print_task(task, is_whole, out))?;
                if is_text || !is_whole {
                    print_text_task(is_whole, out)?;
                }
                if !is_whole {
                    writeln!(out, "`semfocus list tasks NAME` adds values, tokens, classes and the source.")?;
                }
                Ok(())
            })
        }
    }
}

/// The entries with a text in their name or description and the one whose name is nearest; all of them if there is no text.
fn found<T>(
    text: &Option<String>,
    kind: &str,
    entries: impl Iterator<Item = T>,
    words: impl Fn(&T) -> [String; 2],
) -> Result<Vec<T>, Error> {
    let entries: Vec<T> = entries.collect();
    let Some(text) = text else { return Ok(entries) };
    let names: Vec<String> = entries.iter().map(|entry| words(entry)[0].clone()).collect();
    let (wanted, near) = (text.to_lowercase(), nearest(text, names.iter().map(String::as_str)));
    let is_found = |entry: &T| {
        let [name, description] = words(entry);
        near == Some(&name) || [name, description].iter().any(|words| words.to_lowercase().contains(&wanted))
    };
    let found: Vec<T> = entries.into_iter().filter(is_found).collect();
    match found.is_empty() {
        true => Err(format!("no {kind} has `{text}` in its name or description").into()),
        false => Ok(found),
    }
}

/// A mechanism as it is listed.
#[derive(Serialize)]
struct MechanismEntry<'a> {
    form: String,
    example: String,
    #[serde(flatten)]
    info: &'a MechanismInfo,
    fast_form: bool,
}

impl<'a> MechanismEntry<'a> {
    fn new(info: &'a MechanismInfo) -> Self {
        MechanismEntry { form: info.form(), example: info.example().to_string(), info, fast_form: info.has_fast_form() }
    }
}

fn print_mechanisms(entries: &[MechanismEntry<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let names = |entry: &MechanismEntry<'_>| [entry.form.chars().count(), entry.info.family.to_string().len()];
    let widths = entries.iter().map(names).reduce(|[a, b], [c, d]| [a.max(c), b.max(d)]);
    let [first, second] = widths.unwrap_or_default().map(|width| width.max("mechanism".len()));
    let mut row = |form: &str, family: &str, fast: &str, texts: [&str; 3]| -> Result<(), Error> {
        writeln!(out, "{form:first$}  {family:second$}  {fast}")?;
        for line in texts.into_iter().flat_map(|text| wrap(text, text_width().saturating_sub(INDENT).max(20))) {
            writeln!(out, "{:INDENT$}{line}", "")?;
        }
        Ok(())
    };
    row("mechanism", "family", "fast form", ["kept keys", "weights", "what it isolates"])?;
    for MechanismEntry { form, info, fast_form, .. } in entries {
        let texts = [info.summary, info.formula, info.isolates];
        row(form, &info.family.to_string(), if *fast_form { "yes" } else { "no" }, texts)?;
    }
    Ok(writeln!(out, "\n{}", counted(entries.len(), "mechanism"))?)
}

/// Columns before the text below a mechanism.
const INDENT: usize = 4;

/// A setting as it is listed.
#[derive(Serialize)]
struct SettingEntry {
    path: &'static str,
    meaning: &'static str,
    expected: String,
    default: Option<toml::Value>,
}

impl SettingEntry {
    fn new(setting: &Setting) -> Self {
        let default = setting.get(&TrialSettings::default());
        let (path, meaning) = (setting.path, setting.meaning);
        // These three have no default: they are what is compared.
        let default = if ["task", "mechanism", "seed"].contains(&path) { None } else { default };
        SettingEntry { path, meaning, expected: setting.expected(), default }
    }
}

fn print_settings(entries: &[SettingEntry], out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "In an experiment file, `model.blocks` is the key `blocks` of the table [model].")?;
    writeln!(out, "Tasks of the study have their own blocks, learning rate, decay and epochs.")?;
    writeln!(out, "An experiment file also has: base, name, claim, mechanisms, seeds, figure, and")?;
    writeln!(out, "the tables [expect], [grid], [panel.NAME] and [scale.NAME].")?;
    for SettingEntry { path, meaning, expected, default } in entries {
        let default = default.as_ref().map_or(String::new(), |default| format!(" [{default}]"));
        writeln!(out)?;
        writeln!(out, "{path}{default}")?;
        paragraph(out, "    ", &format!("{meaning}: {expected}"))?;
    }
    Ok(writeln!(out, "\n{}", counted(entries.len(), "setting"))?)
}

/// A task as it is listed.
#[derive(Serialize)]
struct TaskEntry<'a> {
    #[serde(flatten)]
    info: &'a TaskInfo,
    form: String,
    alphabet: Vec<SymbolEntry<'a>>,
    pad: u16,
    /// The first id that global tokens may take.
    first_global: usize,
    vocabulary: usize,
    classes: Vec<SymbolEntry<'a>>,
    default_length: String,
    max_length: usize,
    min_length: usize,
    excludes_bounds: bool,
    distinct: bool,
}

#[derive(Serialize)]
struct SymbolEntry<'a> {
    id: usize,
    #[serde(flatten)]
    symbol: &'a Symbol,
}

fn numbered(symbols: &[Symbol]) -> Vec<SymbolEntry<'_>> {
    symbols.iter().enumerate().map(|(id, symbol)| SymbolEntry { id, symbol }).collect()
}

impl<'a> TaskEntry<'a> {
    fn new(task: &'a BuiltTask) -> Self {
        TaskEntry {
            info: &task.info,
            form: task.info.form(),
            alphabet: numbered(&task.alphabet),
            pad: task.pad(),
            first_global: task.vocabulary(),
            vocabulary: task.vocabulary(),
            classes: numbered(&task.classes),
            default_length: task.task.default_length().to_string(),
            max_length: task.task.default_length().max(),
            min_length: task.task.min_length(),
            excludes_bounds: excludes_bounds(task),
            distinct: task.task.is_distinct(),
        }
    }
}

/// More tokens than these are not listed one by one.
const MOST_SYMBOLS: usize = 20;

/// Whether the bounds of a range of lengths do not occur.
fn excludes_bounds(task: &BuiltTask) -> bool {
    let Length::Between(min, max) = task.task.default_length() else { return false };
    task.task.lengths(Length::Between(min, max)) != Ok(min..=max)
}

/// The task that needs a text of the user's.
fn print_text_task(is_whole: bool, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "{}", TextInfo.form())?;
    let values = TextInfo.parameters().iter().map(|parameter| format!("{} {}", parameter.name, parameter.meaning));
    let values: Vec<String> = values.collect();
    for (head, text) in [
        ("label", TextInfo::SUMMARY),
        ("values", values.join("; ").as_str()),
        ("needs", "a text of yours: `data.train_file` and `data.held_out_file`"),
    ] {
        if is_whole || head != "values" {
            paragraph(out, &format!("  {head:9}"), text)?;
        }
    }
    Ok(writeln!(out)?)
}

/// Describes a task: as a whole, or only what is asked and how long its sequences are.
fn print_task(task: &BuiltTask, is_whole: bool, out: &mut dyn Write) -> Result<(), Error> {
    let exclusive = if excludes_bounds(task) { " (bounds excluded)" } else { "" };
    let digits = task.alphabet.iter().take_while(|s| s.meaning == format!("digit {}", s.text)).count();
    let mut tokens = Vec::new();
    if digits > 0 {
        tokens.push(format!("0–{} digits", digits - 1));
    }
    tokens.extend((digits..task.alphabet.len().min(MOST_SYMBOLS)).map(|id| {
        let Symbol { text, meaning } = &task.alphabet[id];
        format!("{id} `{text}` {meaning}")
    }));
    if task.alphabet.len() > MOST_SYMBOLS {
        tokens.push(format!("… {} in all", task.alphabet.len()));
    }
    tokens.push(format!("{} pad", task.pad()));
    let classes = task.classes.iter().map(|class| format!("{} {}", class.text, class.meaning));
    let classes: Vec<String> = classes.collect();
    let classes = match task.classes.len() {
        0..=3 => classes.join("; "),
        count => format!("{}; … {}", classes[0], classes[count - 1]),
    };
    let values = task.info.parameters.iter().map(|parameter| format!("{} {}", parameter.name, parameter.meaning));
    let values: Vec<String> = values.collect();
    writeln!(out, "{}", task.info.form())?;
    for (head, text) in [
        ("label", task.info.summary.to_owned()),
        ("values", values.join("; ")),
        ("tests", task.info.tests.to_owned()),
        ("length", format!("{}{exclusive}, at least {}", task.task.default_length(), task.task.min_length())),
        ("tokens", tokens.join("; ")),
        ("classes", classes),
        ("source", task.info.source.to_owned()),
    ] {
        if !text.is_empty() && (is_whole || ["label", "length"].contains(&head)) {
            paragraph(out, &format!("  {head:9}"), &text)?;
        }
    }
    Ok(writeln!(out)?)
}
