//! TOML files, with the places of their values, for messages that show them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::error::ExperimentError;

/// A file that was read, for messages that show its lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceText {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Bytes of a file.
    File(Arc<SourceText>, Range<usize>),
    /// An option of the command line, as it was given.
    Option(String),
}

/// A value and where it was written, in case it is found wrong later.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T = Value> {
    /// The value.
    pub value: T,
    pub(crate) place: Place,
}

impl<T> Located<T> {
    /// An error that shows the place.
    pub fn error(&self, message: impl Into<String>) -> ExperimentError {
        ExperimentError::new(message).at(&self.place)
    }

    /// Converts the value and keeps the place.
    pub(crate) fn map<U>(self, read: impl FnOnce(T) -> Result<U, String>) -> Result<Located<U>, ExperimentError> {
        match read(self.value) {
            Ok(value) => Ok(Located { value, place: self.place }),
            Err(message) => Err(ExperimentError::new(message).at(&self.place)),
        }
    }
}

/// A value of a file.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    source: &'a Arc<SourceText>,
    value: &'a toml::Spanned<DeValue<'a>>,
}

/// A key of a table with its value.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    /// Where the name stands.
    pub(super) key: Place,
    pub(super) node: Node<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn place(&self) -> Place {
        Place::File(self.source.clone(), self.value.span())
    }

    /// The value as it is, with its place.
    pub(super) fn located(&self) -> Located {
        Located { value: to_value(self.value.get_ref()), place: self.place() }
    }

    /// The value as something else, or an error that shows its place.
    pub(super) fn read<T>(&self, read: impl FnOnce(Value) -> Result<T, String>) -> Result<T, ExperimentError> {
        self.located().map(read).map(|located| located.value)
    }

    /// The entries, if it is a table.
    pub(super) fn table(&self) -> Option<Vec<Entry<'a>>> {
        self.value.get_ref().as_table().map(|table| entries(table, self.source))
    }

    /// The values, if it is a list.
    pub(super) fn list(&self) -> Option<Vec<Node<'a>>> {
        let DeValue::Array(values) = self.value.get_ref() else { return None };
        Some(values.iter().map(|value| Node { source: self.source, value }).collect())
    }

    pub(super) fn error(&self, message: impl Into<String>) -> ExperimentError {
        ExperimentError::new(message).at(&self.place())
    }
}

/// The entries of a table, in the order in which they are written.
fn entries<'a>(table: &'a DeTable<'a>, source: &'a Arc<SourceText>) -> Vec<Entry<'a>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (&'a toml::Spanned<Cow<'a, str>>, &'a toml::Spanned<DeValue<'a>>)| Entry {
        name: key.get_ref().as_ref(),
        key: Place::File(source.clone(), key.span()),
        node: Node { source, value },
    };
    entries.into_iter().map(entry).collect()
}

/// Reads the table of a TOML file.
pub(super) fn parse_toml<T>(
    name: &str,
    text: &str,
    read: impl FnOnce(Vec<Entry<'_>>) -> Result<T, ExperimentError>,
) -> Result<T, ExperimentError> {
    let source = Arc::new(SourceText { name: name.to_owned(), text: text.to_owned() });
    let table = DeTable::parse(text).map_err(|error| {
        let place = Place::File(source.clone(), error.span().unwrap_or(0..0));
        ExperimentError::new(format!("this is not TOML: {}", error.message())).at(&place)
    })?;
    read(entries(table.get_ref(), &source))
}

/// Reads all entries of a table, and says everything that is wrong with them.
pub(super) fn for_each(
    entries: Vec<Entry<'_>>,
    mut read: impl FnMut(Entry<'_>) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    let errors = entries.into_iter().filter_map(|entry| read(entry).err());
    errors.reduce(ExperimentError::and).map_or(Ok(()), Err)
}

/// A value without its places.
fn to_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        // No setting takes a number beyond the range of TOML; keep the text for the message.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), Value::Integer),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(values) => Value::Array(values.iter().map(|value| to_value(value.get_ref())).collect()),
        DeValue::Table(table) => {
            let entry = |(key, value): (&toml::Spanned<Cow<'_, str>>, &toml::Spanned<DeValue<'_>>)| {
                (key.get_ref().to_string(), to_value(value.get_ref()))
            };
            Value::Table(table.iter().map(entry).collect())
        }
    }
}
