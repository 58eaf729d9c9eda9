//! One JSON object on each line; a missing value, and a number that is not finite, is null.

use std::io::{self, Write};

use serde_json::{Map, Value as Json};

use super::{Export, Format};
use crate::frame::{Frame, Value};

pub struct JsonLines;

impl Export<Frame> for JsonLines {
    fn format(&self) -> Format {
        Format { name: "JSON Lines", extension: "jsonl", media_type: "application/jsonl" }
    }

    fn write(&self, frame: &Frame, out: &mut dyn Write) -> io::Result<()> {
        for row in 0..frame.len() {
            let field = |(name, values): &(String, crate::frame::Values)| {
                let value = match values.get(row) {
                    Value::Missing => Json::Null,
                    Value::Text(text) => text.into(),
                    Value::Integer(value) => value.into(),
                    Value::Number(value) => value.into(),
                };
                (name.clone(), value)
            };
            let object: Map<String, Json> = frame.columns.iter().map(field).collect();
            writeln!(out, "{}", Json::Object(object))?;
        }
        Ok(())
    }
}
