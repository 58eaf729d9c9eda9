//! What is wrong with an experiment, where, and what to do.

use std::fmt;

use super::source::Place;
use crate::names::shortened;

/// Characters of a line that a message shows before the place, and in all.
const MAX_BEFORE: usize = 80;
const MAX_SHOWN: usize = 160;

/// What is wrong with an experiment. Its text shows the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError {
    place: Option<Place>,
    message: String,
    help: Option<String>,
    /// What is wrong elsewhere.
    others: Vec<ExperimentError>,
}

impl ExperimentError {
    /// An error that is about no particular place.
    pub fn new(message: impl Into<String>) -> Self {
        ExperimentError { place: None, message: message.into(), help: None, others: Vec::new() }
    }

    pub(crate) fn at(mut self, place: &Place) -> Self {
        self.place = Some(place.clone());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Both errors.
    pub(super) fn and(mut self, other: ExperimentError) -> Self {
        self.others.push(other);
        self
    }

    /// What is wrong and in which line, without the name of the file and the line itself.
    pub fn in_short(&self) -> String {
        match self.line_and_column() {
            Some((line, _)) => format!("line {line}: {}", self.message),
            None => self.message.clone(),
        }
    }

    /// Line and column in the file, both from 1, if it is about a file.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        match &self.place {
            Some(Place::File(source, span)) => {
                let before = &source.text[..span.start.min(source.text.len())];
                let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
                Some((before.matches('\n').count() + 1, before[line_start..].chars().count() + 1))
            }
            _ => None,
        }
    }
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            None => write!(f, "{}", self.message)?,
            Some(Place::Option(option)) => write!(f, "`{}`: {}", shortened(option), self.message)?,
            Some(Place::File(source, span)) => {
                let (line, column) = self.line_and_column().expect("it is about a file");
                let text = source.text.lines().nth(line - 1).unwrap_or_default();
                // Of a long line, the part around the place.
                let before = if column <= MAX_BEFORE { 0 } else { column - 1 - MAX_BEFORE / 2 };
                let text: String = text.chars().skip(before).take(MAX_SHOWN).collect();
                let indent = column - 1 - before;
                let gutter = line.to_string().len();
                let rest = text.chars().count().saturating_sub(indent);
                let marked = source.text.get(span.clone()).unwrap_or_default();
                let marked = marked.lines().next().unwrap_or_default().chars().count().clamp(1, rest.max(1));
                writeln!(f, "{}:{line}:{column}: {}", source.name, self.message)?;
                writeln!(f, "{:gutter$} |", "")?;
                writeln!(f, "{line} | {text}")?;
                write!(f, "{:gutter$} | {:indent$}{}", "", "", "^".repeat(marked))?;
            }
        }
        if let Some(help) = &self.help {
            write!(f, "\nhelp: {help}")?;
        }
        self.others.iter().try_for_each(|other| write!(f, "\n\n{other}"))
    }
}

impl std::error::Error for ExperimentError {}
