//! `semfocus data show`: a task as a lesson.

use std::collections::HashSet;
use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_lab::Lab;
use semfocus_tasks::text::TextInfo;
use semfocus_tasks::{
    Answers, BuiltTask, DataSettings, Example, Examples, Format, GenerateError, Length, OwnData, Sizes, Source,
    TaskInfo, TextData, Writer, label, single_label,
};
use serde::Serialize;

use super::{Answered, FileArgs, Shape, find};
use crate::output::emit;
use crate::screen::text_width;
use crate::text::{paragraph, wrap};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Name of a task, see `semfocus list tasks`, or path of a data file
    task: String,
    /// Number of worked examples
    #[arg(short, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    n: u16,
    /// Seed of the examples
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    files: FileArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Lesson {
    task: String,
    summary: &'static str,
    tests: &'static str,
    examples: Vec<Worked>,
}

#[derive(Serialize)]
struct Worked {
    tokens: Vec<u16>,
    text: String,
    #[serde(flatten)]
    answers: Answered,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<String>,
    /// The answers in words.
    #[serde(skip)]
    answer: String,
    steps: Vec<String>,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    match find(lab, &args.task, &args.files.settings(args.shape.settings()))? {
        Source::Task(task) => show_task(args, &task, out),
        Source::Own(data) => show_file(args, &data, out),
        Source::Text(data) => show_text(args, &data, out),
    }
}

/// The first examples of the seed, reordered so that labels repeat only after all of them have occurred.
fn choose(args: &Args, task: &BuiltTask, settings: &DataSettings) -> Result<Vec<Example>, Error> {
    let wanted = usize::from(args.n);
    let mut source = Examples::new(task, settings, args.seed, None)?;
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    while chosen.len() < wanted && others.len() < 20 + wanted {
        let example = match source.draw() {
            Ok(example) => example,
            // Where the task runs out of different sequences, those there are will do.
            Err(GenerateError::Exhausted { .. }) => break,
            Err(error) => return Err(error.into()),
        };
        if seen.insert(single_label(&example.answers)) {
            chosen.push(example);
        } else {
            others.push(example);
        }
        if seen.len() == task.classes.len() {
            seen.clear();
        }
    }
    let missing = wanted - chosen.len();
    chosen.extend(others.into_iter().take(missing));
    Ok(chosen)
}

fn worked(task: &BuiltTask, example: Example) -> Result<Worked, Error> {
    let sequence = task.without_padding(&example.tokens);
    let symbols: Vec<&str> = example.tokens.iter().map(|&token| task.text(token)).collect();
    Ok(Worked {
        text: symbols.join(" "),
        meaning: single_label(&example.answers).map(|label| task.classes[usize::from(label)].meaning.to_string()),
        answer: answer(task, &example.answers)?,
        answers: Answered::new(&example.answers, task.classes.len()),
        steps: task.task.explain(sequence),
        tokens: example.tokens,
    })
}

/// `label 1`, or what is asked where.
fn answer(task: &BuiltTask, answers: &Answers) -> Result<String, Error> {
    let written = Writer::new(task, Format::Tokens, 0)?.answers(answers);
    Ok(format!("{} {written}", if single_label(answers).is_some() { "label" } else { "answers" }))
}

fn show_task(args: &Args, task: &BuiltTask, out: &mut dyn Write) -> Result<Exit, Error> {
    let mut settings = args.shape.settings();
    settings.length.get_or_insert(task.task.lesson_length());
    let examples = choose(args, task, &settings)?.into_iter().map(|example| worked(task, example));
    let TaskInfo { summary, tests, source, .. } = task.info;
    let lesson = Lesson { task: task.spec.to_string(), summary, tests, examples: examples.collect::<Result<_, _>>()? };
    emit(out, args.json, &lesson, |out| {
        lesson.print_title(&format!("The label is {summary}."), out)?;
        writeln!(out)?;
        print_alphabet(task, out)?;
        lesson.print_examples(out)?;
        writeln!(out)?;
        for (head, text) in [("What it tests: ", tests), ("Source: ", source)] {
            if !text.is_empty() {
                paragraph(out, head, &format!("{text}."))?;
            }
        }
        if args.shape.length.is_none() { full_example(args, task, out) } else { Ok(()) }
    })
}

/// A data file has no rule to explain, so this shows only what was read.
fn show_file(args: &Args, data: &OwnData, out: &mut dyn Write) -> Result<Exit, Error> {
    let writer = data.writer(Format::Text)?;
    let examples = data.iter().take(usize::from(args.n)).map(|(tokens, class)| Worked {
        tokens: tokens.to_vec(),
        text: writer.symbols(tokens),
        answers: Answered::new(&label(class), data.classes.len()),
        meaning: Some(data.classes[usize::from(class)].clone()),
        answer: format!("label {class}"),
        steps: Vec::new(),
    });
    let (task, examples) = (data.name.clone(), examples.collect());
    let lesson = Lesson { task, summary: "the label in the file", tests: "", examples };
    let tokens = data.alphabet.len();
    let facts = format!(
        "{} examples of up to {} tokens; {tokens} different tokens, pad {tokens}; {} classes.",
        data.len(),
        data.length(),
        data.classes.len()
    );
    emit(out, args.json, &lesson, |out| lesson.print_title(&facts, out).and_then(|()| lesson.print_examples(out)))
}

/// The first sequences of a text, and what follows.
fn show_text(args: &Args, data: &TextData, out: &mut dyn Write) -> Result<Exit, Error> {
    let wanted = usize::from(args.n);
    let all = data.all_sizes();
    let dataset = data
        .dataset(&DataSettings { sizes: Sizes { train: all.train, held_out: 0, test: 0 }, ..DataSettings::default() });
    let piece = |token: u16| data.names()[usize::from(token)].as_str();
    let examples = dataset.train.iter().zip(&dataset.train.lengths).take(wanted).map(|((tokens, asked), length)| {
        let tokens = &tokens[..*length];
        let next: Vec<u16> = asked.iter().map(|asked| dataset.train.questions.correct_class(asked.target)).collect();
        let answers = Answers { questions: asked.to_vec(), distributions: Vec::new() };
        Worked {
            tokens: tokens.to_vec(),
            text: tokens.iter().map(|token| piece(*token)).collect::<Vec<_>>().join(" "),
            answers: Answered::new(&answers, dataset.classes),
            meaning: None,
            answer: format!("followed by {}", next.iter().map(|token| piece(*token)).collect::<Vec<_>>().join(" ")),
            steps: Vec::new(),
        }
    });
    let lesson =
        Lesson { task: dataset.name.clone(), summary: TextInfo::SUMMARY, tests: "", examples: examples.collect() };
    emit(out, args.json, &lesson, |out| {
        lesson.print_title(&format!("The label is {}.", TextInfo::SUMMARY), out)?;
        lesson.print_examples(out)
    })
}

impl Lesson {
    fn print_title(&self, facts: &str, out: &mut dyn Write) -> Result<(), Error> {
        writeln!(out, "{}\n{}\n", self.task, "=".repeat(self.task.chars().count()))?;
        Ok(paragraph(out, "", facts)?)
    }

    fn print_examples(&self, out: &mut dyn Write) -> Result<(), Error> {
        for (number, Worked { tokens, text, answer, meaning, steps, .. }) in (1..).zip(&self.examples) {
            writeln!(out, "\nExample {number}, {} tokens", tokens.len())?;
            wrap(text, text_width() - 4).iter().try_for_each(|line| writeln!(out, "    {line}"))?;
            if !steps.is_empty() {
                writeln!(out)?;
            }
            print_steps(steps, out)?;
            let meaning = meaning.as_ref().map_or_else(String::new, |meaning| format!(": {meaning}"));
            writeln!(out, "  {}{meaning}", capitalised(answer))?;
        }
        Ok(())
    }
}

/// Prints steps unchanged if they fit, otherwise wrapped and indented.
fn print_steps(steps: &[String], out: &mut dyn Write) -> Result<(), Error> {
    for step in steps {
        if step.chars().count() + 2 <= text_width() {
            writeln!(out, "  {step}")?;
        } else {
            paragraph(out, "  ", step)?;
        }
    }
    Ok(())
}

/// More tokens than these are not listed one by one.
const MOST_SYMBOLS: usize = 40;

fn print_alphabet(task: &BuiltTask, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "id  token  meaning")?;
    for (id, symbol) in task.alphabet.iter().enumerate().take(MOST_SYMBOLS) {
        writeln!(out, "{id:2}  {:5}  {}", symbol.text, symbol.meaning)?;
    }
    if task.alphabet.len() > MOST_SYMBOLS {
        writeln!(out, "…   {} tokens in all", task.alphabet.len())?;
    }
    writeln!(out, "{:2}  {:5}  padding at the end; global tokens take the ids after it", task.pad(), "_")?;
    Ok(())
}

/// What the model is given: an example of the usual length, as ids.
fn full_example(args: &Args, task: &BuiltTask, out: &mut dyn Write) -> Result<(), Error> {
    let settings = DataSettings { length: None, ..args.shape.settings() };
    let example = Examples::new(task, &settings, args.seed, None)?.draw()?;
    let kind = match task.task.default_length() {
        Length::Exactly(length) => format!("{length} tokens"),
        Length::Between(low, high) => format!("{low} to {high} tokens"),
    };
    writeln!(out, "\nWhat a model is given: ids, usually {kind}. Here with {}:", answer(task, &example.answers)?)?;
    let ids: Vec<String> = example.tokens.iter().map(u16::to_string).collect();
    let lines = wrap(&ids.join(" "), text_width() - 4);
    for line in lines.iter().take(3) {
        writeln!(out, "    {line}")?;
    }
    if lines.len() > 3 {
        writeln!(out, "    … and so on, {} tokens in all", example.tokens.len())?;
    }
    Ok(())
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
