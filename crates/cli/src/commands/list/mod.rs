//! `semfocus list`: generated from the registries.

mod experiments;

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand};
use semfocus_core::TrialSettings;
use semfocus_core::settings::{self, Setting};
use semfocus_lab::Lab;
use semfocus_nn::{MechanismInfo, Named};
use semfocus_tasks::{BuiltTask, Length, Parameter, Symbol};
use serde::Serialize;

use crate::Error;
use crate::output::emit;
use crate::screen::text_width;
use crate::text::{paragraph, wrap};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The experiments that come with the program
    ///
    /// One for each task, and one for each panel of the study's figures and of Table 6: how long they take on this machine, by
    /// estimate, and what the record says about them. For the first time, some steps are measured for a second or two.
    Experiments {
        /// Say everything about this experiment
        name: Option<String>,
        /// List the figures of the study too
        #[arg(short, long)]
        all: bool,
        /// With --json: estimate how long each takes on this machine, with one trial on each core
        ///
        /// The first time, this measures some steps for a second or two.
        #[arg(short, long)]
        times: bool,
        /// Print JSON, with all experiments
        #[arg(long)]
        json: bool,
    },
    /// The settings that an experiment file, a grid or -s can name
    Settings {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The attention mechanisms
    ///
    /// They are written `name`, `name:value` or `name:key=value,key=value`, such as `full` or `topk:5`. `+gN`
    /// appends N learned global tokens to every sequence: they attend to all tokens, and all tokens attend to them.
    Mechanisms {
        /// Print JSON, with sources and limits
        #[arg(long)]
        json: bool,
    },
    /// The tasks
    ///
    /// Every command that takes a task also takes the path of a data file of your own: one example per line, tokens
    /// separated by blanks, then a tab and the label; or CSV (.csv), or JSON lines (.jsonl).
    Tasks {
        /// Print JSON, with the ids and meanings of all tokens and classes
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<(), Error> {
    match args.what {
        What::Experiments { ref name, all, times, json } => {
            experiments::run(&experiments::Wanted { name: name.as_deref(), all, times, json }, lab, out)
        }
        What::Settings { json } => {
            let entries: Vec<SettingEntry> = settings::all().iter().map(SettingEntry::new).collect();
            emit(out, json, &entries, |out| print_settings(&entries, out))
        }
        What::Mechanisms { json } => {
            let entries: Vec<Entry> = lab.mechanisms.iter().map(Entry::new).collect();
            emit(out, json, &entries, |out| print_table(&entries, out))
        }
        What::Tasks { json } => {
            let tasks: Vec<BuiltTask> = lab.tasks.examples().collect();
            let entries: Vec<TaskEntry> = tasks.iter().map(TaskEntry::new).collect();
            emit(out, json, &entries, |out| {
                tasks.iter().enumerate().try_for_each(|(index, task)| print_task(index, task, out))
            })
        }
    }
}

/// A mechanism as it is listed.
#[derive(Serialize)]
struct Entry<'a> {
    form: String,
    example: String,
    #[serde(flatten)]
    info: &'a MechanismInfo,
    fast_form: bool,
}

impl<'a> Entry<'a> {
    fn new(info: &'a MechanismInfo) -> Self {
        Entry { form: info.form(), example: info.example().to_string(), info, fast_form: info.has_fast_form() }
    }
}

fn print_table(entries: &[Entry<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let head = ["mechanism", "family", "fast form", "kept keys\nweights\nwhat it isolates"].map(str::to_owned);
    let rows = entries.iter().map(|entry| {
        let fast = if entry.fast_form { "yes" } else { "no" };
        let MechanismInfo { family, summary, formula, isolates, .. } = entry.info;
        [entry.form.clone(), family.to_string(), fast.to_owned(), format!("{summary}\n{formula}\n{isolates}")]
    });
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    for [form, family, fast, text] in &rows {
        writeln!(out, "{form:first$}  {family:second$}  {fast}")?;
        for line in text.lines().flat_map(|line| wrap(line, text_width().saturating_sub(INDENT).max(20))) {
            writeln!(out, "{:INDENT$}{line}", "")?;
        }
    }
    Ok(())
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
        // Mechanisms and seeds are given together; see the first lines of any preset.
        if ["mechanism", "seed"].contains(path) {
            continue;
        }
        let default = default.as_ref().map_or(String::new(), |default| format!(" [{default}]"));
        writeln!(out)?;
        writeln!(out, "{path}{default}")?;
        paragraph(out, "    ", &format!("{meaning}: {expected}"))?;
    }
    Ok(())
}

/// A task as it is listed.
#[derive(Serialize)]
struct TaskEntry<'a> {
    name: &'a str,
    form: String,
    parameters: &'static [Parameter],
    summary: &'a str,
    tests: &'a str,
    source: &'a str,
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
            name: task.name(),
            form: task.info.form(),
            parameters: task.info.parameters,
            summary: task.info.summary,
            tests: task.info.tests,
            source: task.info.source,
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
const MOST_SYMBOLS: usize = 40;

/// Whether the bounds of a range of lengths do not occur.
fn excludes_bounds(task: &BuiltTask) -> bool {
    let Length::Between(min, max) = task.task.default_length() else { return false };
    task.task.lengths(Length::Between(min, max)) != Ok(min..=max)
}

fn print_task(index: usize, task: &BuiltTask, out: &mut dyn Write) -> Result<(), Error> {
    if index > 0 {
        writeln!(out)?;
    }
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
        if !text.is_empty() {
            paragraph(out, &format!("  {head:9}"), &text)?;
        }
    }
    Ok(())
}
