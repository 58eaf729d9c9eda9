//! How a line of a data file is divided into tokens and a label: tab-separated, CSV or JSON lines.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;

use crate::formats::TSV_HEADER;
use crate::lines::{LineError, end_column, shown, words};

/// Names of the column with the tokens, in any case; the first one that a header has counts.
const TOKEN_NAMES: [&str; 6] = ["tokens", "text", "sequence", "sentence", "source", "input"];

/// Names of the column with the label.
const LABEL_NAMES: [&str; 6] = ["label", "labels", "class", "category", "target", "output"];

/// How the lines of a file are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layout {
    /// Tokens, a tab, the label.
    #[default]
    Tabs,
    /// The same below the header of the interchange format, with round brackets, which are dropped.
    Interchange,
    /// Columns between tabs or commas; between commas they may be in quotes.
    Columns { separator: char, tokens: usize, label: usize, columns: usize },
    /// A JSON object with tokens and a label.
    JsonLines,
}

/// What the first line of a file says about the others.
pub(super) struct Opening {
    pub(super) layout: Layout,
    /// Whether the line is a header and no example.
    pub(super) is_header: bool,
}

/// The parts of a line, each with the column where it starts.
pub(super) struct Row<'a> {
    pub(super) words: Vec<(usize, Cow<'a, str>)>,
    pub(super) label: Cow<'a, str>,
    pub(super) label_column: usize,
    /// The column after the tokens.
    pub(super) end: usize,
}

impl Layout {
    /// The layout of a file, told by the end of its name and its first line.
    pub(super) fn detect(file: &str, first: &str) -> Result<Opening, LineError> {
        let extension = Path::new(file).extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("jsonl" | "ndjson" | "json") => Ok(Opening { layout: Layout::JsonLines, is_header: false }),
            // Files with tabs were read whatever their names.
            Some("csv") if !first.contains('\t') => Layout::detect_csv(first),
            _ => Ok(Layout::detect_tabs(first)),
        }
    }

    fn detect_tabs(first: &str) -> Opening {
        if first == TSV_HEADER {
            return Opening { layout: Layout::Interchange, is_header: true };
        }
        match header(first.split('\t')) {
            None | Some((0, 1, 2)) => Opening { layout: Layout::Tabs, is_header: header(first.split('\t')).is_some() },
            Some((tokens, label, columns)) => {
                Opening { layout: Layout::Columns { separator: '\t', tokens, label, columns }, is_header: true }
            }
        }
    }

    fn detect_csv(first: &str) -> Result<Opening, LineError> {
        let fields = fields(first, ',')?;
        let named = header(fields.iter().map(|(_, field)| field.as_ref()));
        let is_header = named.is_some();
        let (tokens, label, columns) = match (named, fields.len()) {
            (Some(named), _) => named,
            (None, 2) => (0, 1, 2),
            (None, columns) => {
                let reason = format!(
                    "a CSV file needs two columns, tokens and label, or a first line that names the columns `text` and \
                     `label`; this line has {columns}, and none of them {} such a name",
                    if columns == 1 { "is" } else { "has" }
                );
                return LineError::at(1, reason);
            }
        };
        Ok(Opening { layout: Layout::Columns { separator: ',', tokens, label, columns }, is_header })
    }

    /// Divides a line.
    pub(super) fn row<'a>(&self, line: &'a str) -> Result<Row<'a>, LineError> {
        let row = match *self {
            Layout::Tabs | Layout::Interchange => tab_row(line)?,
            Layout::Columns { separator, tokens, label, columns } => {
                column_row(line, separator, [tokens, label], columns)?
            }
            Layout::JsonLines => json_row(line)?,
        };
        if let Some(place) = row.label.find(char::is_whitespace) {
            let column = row.label_column + row.label[..place].chars().count();
            let place = if matches!(self, Layout::Tabs | Layout::Interchange) { " at the end of the line" } else { "" };
            return LineError::at(column, format!("the label must be a single word{place}"));
        }
        Ok(row)
    }
}

/// Which columns hold tokens and label, and how many there are, if these are the names of columns.
fn header<'a>(names: impl Iterator<Item = &'a str>) -> Option<(usize, usize, usize)> {
    let names: Vec<String> = names.map(|name| name.trim().to_lowercase()).collect();
    let place = |known: &[&str]| known.iter().find_map(|known| names.iter().position(|name| name == known));
    Some((place(&TOKEN_NAMES)?, place(&LABEL_NAMES)?, names.len()))
}

fn tab_row(line: &str) -> Result<Row<'_>, LineError> {
    let Some((sequence, rest)) = line.split_once('\t') else {
        return match line.trim() {
            "" => LineError::at(1, "the line is empty; every line must hold tokens, a tab and a label"),
            text if text.starts_with('{') || text.contains(',') => LineError::at(
                end_column(line),
                "a tab and a label must follow the tokens; a file with commas must be called .csv, a file of JSON \
                 objects .jsonl",
            ),
            _ => LineError::at(end_column(line), "a tab and a label must follow the tokens"),
        };
    };
    let label = rest.trim_matches(' ');
    let blanks = rest.len() - rest.trim_start_matches(' ').len();
    let label_column = end_column(sequence) + 1 + blanks;
    if label.is_empty() {
        return LineError::at(end_column(sequence) + 1, "a label must follow the tab");
    }
    let words = words(sequence).map(|(column, word)| (column, Cow::from(word))).collect();
    Ok(Row { words, label: label.into(), label_column, end: end_column(sequence) })
}

fn column_row(line: &str, separator: char, used: [usize; 2], columns: usize) -> Result<Row<'_>, LineError> {
    let mut fields = fields(line, separator)?;
    if line.trim().is_empty() {
        return LineError::at(1, "the line is empty; every line must hold an example");
    }
    if fields.len() != columns {
        let found = fields.len();
        let hint = if separator == ',' { "; text that contains commas must be in \"quotes\"" } else { "" };
        return LineError::at(end_column(line), format!("the line has {found} columns instead of {columns}{hint}"));
    }
    let [tokens, label] = used.map(|index| std::mem::take(&mut fields[index]));
    let (start, text) = tokens;
    let (label_column, label) = label;
    let label = label.trim().to_owned();
    if label.is_empty() {
        return LineError::at(label_column, "the label is missing");
    }
    let end = start + text.chars().count();
    Ok(Row { words: text_words(&text, start), label: label.into(), label_column, end })
}

/// The words of a text, separated by white space, as if the text stood at this column.
fn text_words<'a>(text: &str, start: usize) -> Vec<(usize, Cow<'a, str>)> {
    let text = text.replace(|letter: char| letter.is_whitespace(), " ");
    words(&text).map(|(column, word)| (start + column - 1, Cow::from(word.to_owned()))).collect()
}

/// The fields of a line and the columns where they start. Between commas, `"` around a field allows commas in it, and `""` in
/// such a field stands for a quote.
fn fields(line: &str, separator: char) -> Result<Vec<(usize, Cow<'_, str>)>, LineError> {
    let (mut found, mut rest, mut column) = (Vec::new(), line, 1);
    loop {
        let (field, after) = match rest.strip_prefix('"').filter(|_| separator == ',') {
            Some(quoted) => {
                let Some((text, bytes)) = unquoted(quoted) else {
                    return LineError::at(
                        column,
                        "the quote is not closed on this line; an example must stand on one line",
                    );
                };
                if !rest[bytes + 1..].is_empty() && !rest[bytes + 1..].starts_with(separator) {
                    let reason = "a comma must follow the closing quote; a quote inside quotes is written \"\"";
                    return LineError::at(column + rest[..=bytes].chars().count(), reason);
                }
                (Cow::from(text), bytes + 1)
            }
            None => {
                let end = rest.find(separator).unwrap_or(rest.len());
                (Cow::from(&rest[..end]), end)
            }
        };
        found.push((column, field));
        if after == rest.len() {
            return Ok(found);
        }
        column += rest[..=after].chars().count();
        rest = &rest[after + 1..];
    }
}

/// The text up to the closing quote, and the number of bytes up to and with it.
fn unquoted(text: &str) -> Option<(String, usize)> {
    let (mut field, mut start) = (String::new(), 0);
    loop {
        let end = start + text[start..].find('"')?;
        field.push_str(&text[start..end]);
        if !text[end + 1..].starts_with('"') {
            return Some((field, end + 1));
        }
        field.push('"');
        start = end + 2;
    }
}

fn json_row(line: &str) -> Result<Row<'_>, LineError> {
    const EXPECTED: &str = "every line must hold an object such as {\"text\": \"a good film\", \"label\": \"yes\"}";
    let object: serde_json::Map<String, Value> = serde_json::from_str(line).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        LineError { column: error.column().max(1), reason: format!("{reason}; {EXPECTED}") }
    })?;
    let find = |names: &[&str]| names.iter().find_map(|name| object.get(*name));
    let Some(tokens) = find(&TOKEN_NAMES) else {
        return LineError::at(1, format!("the object has no `tokens` or `text`; {EXPECTED}"));
    };
    let Some(label) = find(&LABEL_NAMES) else {
        return LineError::at(1, format!("the object has no `label`; {EXPECTED}"));
    };
    let words = match tokens {
        Value::String(text) => text_words(text, 1),
        Value::Array(tokens) => {
            let words: Result<Vec<_>, _> =
                tokens.iter().map(|token| Ok((1, Cow::from(json_word(token, "token")?)))).collect();
            words?
        }
        other => return LineError::at(1, format!("tokens are a text or a list, not {}", shown(&other.to_string()))),
    };
    let label = json_word(label, "label")?;
    Ok(Row { words, label: label.into(), label_column: 1, end: end_column(line) })
}

/// A token or label of a JSON object: a text, a whole number, true or false.
fn json_word(value: &Value, what: &str) -> Result<String, LineError> {
    match value {
        Value::String(text) if text.is_empty() => LineError::at(1, format!("the {what} is an empty text")),
        Value::String(text) if what == "token" && text.contains(char::is_whitespace) => {
            LineError::at(1, format!("the token {} has a blank in it", shown(text)))
        }
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) if number.is_u64() || number.is_i64() => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        other => LineError::at(1, format!("a {what} is a word or a whole number, not {}", shown(&other.to_string()))),
    }
}
