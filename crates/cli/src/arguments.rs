//! Kinds of arguments that several commands have.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::value::Error;
use serde::de::{DeserializeOwned, IntoDeserializer};

/// One of these names of values, each with a word of help.
pub(crate) fn one_of<T>(names: &[(&'static str, &'static str)]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = names.iter().map(|(name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values).try_map(|name| T::deserialize(IntoDeserializer::<Error>::into_deserializer(name)))
}
