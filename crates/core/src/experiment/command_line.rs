//! The layer of the command line: `key=value`, and options for what is changed most often.

use std::path::Path;

use toml::Value;

use super::error::ExperimentError;
use super::layer::{self, Layer};
use super::source::{Located, Place};
use super::{Names, Request, paths};
use crate::measurement::plain_value;
use crate::mechanism::split_list;
use crate::settings;

/// Reads the layer. A value with commas, or a list, makes an axis of the grid.
pub(super) fn command_line(request: &Request, names: &dyn Names) -> Result<Layer, ExperimentError> {
    let mut layer = Layer::default();
    for text in &request.overrides {
        add(&mut layer, text)?;
    }
    if let Some(mechanisms) = &request.mechanisms {
        let place = Place::Option(format!("--mechanisms {}", mechanisms.join(",")));
        layer.mechanisms = Some(Located { value: mechanisms.clone(), place });
    }
    if let Some(seeds) = request.seeds {
        let place = Place::Option(format!("--seeds {seeds}"));
        layer.seeds = Some(Located { value: Value::Integer(seeds as i64), place }.map(layer::seeds)?);
    }
    if let Some(epochs) = request.epochs {
        let place = Place::Option(format!("--epochs {epochs}"));
        layer.set("training.epochs", &place, Located { value: Value::Integer(epochs as i64), place: place.clone() })?;
    }
    paths::make_absolute(&mut layer, Path::new(""), names);
    Ok(layer)
}

/// Adds what one `key=value` says.
fn add(layer: &mut Layer, text: &str) -> Result<(), ExperimentError> {
    let place = Place::Option(format!("-s {text}"));
    let Some((path, value)) = text.split_once('=') else {
        return Err(ExperimentError::new("an override is written key=value").at(&place));
    };
    let (path, value) = (path.trim(), value.trim());
    // `grid.` says what the commas say too.
    let path = path.strip_prefix("grid.").unwrap_or(path);
    let is_file = settings::find(path).is_some_and(|setting| setting.is_file());
    let value = match plain_value(value) {
        Value::String(text) if !is_file && !value.starts_with(['"', '\'']) && text.contains(',') => {
            let has_specs = ["mechanisms", "training.evaluate_as", "task"].contains(&path);
            match if has_specs { split_list(&text) } else { parts(&text) } {
                parts if has_specs && parts.len() == 1 => Value::String(parts[0].clone()),
                parts => Value::Array(parts.iter().map(|part| plain_value(part)).collect()),
            }
        }
        value => value,
    };
    let given = Located { value, place: place.clone() };
    match path {
        "seeds" => layer.seeds = Some(given.map(layer::seeds)?),
        "mechanisms" => layer.mechanisms = Some(given.map(|value| layer::texts(list(value)))?),
        "claim" => layer.claim = Some(Located { value: text_after_sign(text), place }),
        "target" => layer.target = Some(Located { value: text_after_sign(text), place }.map(|text| text.parse())?),
        "name" => layer.name = Some(given.map(layer::plain_name)?),
        _ if path.starts_with("after.") => layer.after.set(&path["after.".len()..], given)?,
        "after" | "base" | "figure" | "grid" | "panel" | "scale" => {
            let message = format!("`{path}` is a key of experiment files and cannot be set here");
            let error = ExperimentError::new(message).at(&place);
            return Err(if path == "scale" { error.help("use --scale quick, medium or full") } else { error });
        }
        _ => match given.value {
            Value::Array(values) => {
                let values = values.into_iter().map(|value| Located { value, place: place.clone() }).collect();
                layer.add_axis(path, &place, Located { value: values, place: place.clone() })?;
            }
            _ => layer.set(path, &place, given)?,
        },
    }
    Ok(())
}

fn parts(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn list(value: Value) -> Value {
    if value.is_array() { value } else { Value::Array(vec![value]) }
}

fn text_after_sign(text: &str) -> String {
    text.split_once('=').map_or(text, |(_, value)| value.trim()).to_owned()
}
