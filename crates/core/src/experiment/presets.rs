//! The experiments of the study and a few more, embedded in the program.

use std::sync::{LazyLock, OnceLock};

use super::error::ExperimentError;
use super::layer::Layer;
use crate::names::nearest;

/// An experiment that comes with the program.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name: that of the file, and that of the panel if the file has panels.
    pub name: String,
    file: &'static File,
    panel: Option<String>,
}

#[derive(Debug)]
struct File {
    name: &'static str,
    text: &'static str,
    layer: OnceLock<Result<Layer, ExperimentError>>,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(File { name: $name, layer: OnceLock::new(), text: include_str!(concat!("../../../../experiments/", $name, ".toml")) }),*]
    };
}

/// Tasks first, then causes, then figures and tables.
static FILES: [File; 48] = files![
    "even-pairs",
    "parity",
    "missing-duplicate",
    "cycle-navigation",
    "stack-manipulation",
    "modular-arithmetic",
    "solve-equation",
    "listops",
    "flip-flop",
    "recall",
    "mqar",
    "mqar-zoology",
    "induction",
    "selective-copy",
    "sparse-average",
    "markov-chain",
    "mess3",
    "mess3-product",
    "rrxor",
    "dyck",
    "text",
    "causes",
    "figure-1",
    "figure-2",
    "figure-3",
    "figure-5",
    "figure-7",
    "figure-8",
    "figure-9",
    "figure-10",
    "figure-11",
    "figure-12",
    "figure-13",
    "figure-14",
    "figure-15",
    "figure-16",
    "figure-17",
    "figure-18",
    "figure-19",
    "figure-20",
    "figure-21",
    "figure-22",
    "figure-23",
    "figure-24",
    "figure-25",
    "figure-26",
    "figure-27",
    "table-6",
];

impl File {
    /// Its contents. Every file is read once.
    fn layer(&self) -> Result<Layer, ExperimentError> {
        self.layer.get_or_init(|| Layer::parse(&format!("experiments/{}.toml", self.name), self.text)).clone()
    }
}

/// All presets, in the order in which they are listed.
pub fn presets() -> &'static [Preset] {
    static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(read_presets);
    &PRESETS
}

fn read_presets() -> Vec<Preset> {
    let of_file = |file: &'static File| -> Vec<Preset> {
        let panels = file.layer().expect("presets are tested").panels;
        if panels.is_empty() {
            return vec![Preset { name: file.name.to_owned(), file, panel: None }];
        }
        panels
            .into_keys()
            .map(|panel| Preset { name: format!("{}{panel}", file.name), file, panel: Some(panel) })
            .collect()
    };
    FILES.iter().flat_map(of_file).collect()
}

/// The preset of a name.
pub(super) fn find(name: &str) -> Option<&'static Preset> {
    presets().iter().find(|preset| preset.name == name)
}

/// The layers of a preset, bases first.
pub(super) fn layers(name: &str) -> Result<Vec<Layer>, ExperimentError> {
    let presets = presets();
    let preset = presets.iter().find(|preset| preset.name == name).ok_or_else(|| {
        let error = ExperimentError::new(format!("there is no experiment `{name}`"));
        let panels: Vec<&str> =
            presets.iter().filter(|preset| preset.file.name == name).map(|preset| preset.name.as_str()).collect();
        match nearest(name, presets.iter().map(|preset| preset.name.as_str())) {
            _ if !panels.is_empty() => error.help(format!("it has panels: {}", panels.join(", "))),
            Some(near) => {
                error.help(format!("did you mean `{near}`? A file is named by its path, such as ./{name}.toml"))
            }
            None => error.help("`semfocus list experiments` shows all; a file is named by its path"),
        }
    })?;
    let mut layer = preset.file.layer()?;
    match &preset.panel {
        None => with_bases(layer),
        Some(panel) => {
            let panel = layer.panels.remove(panel).expect("a preset's panel is in its file");
            layer.panels.clear();
            // The base of the panel comes before the file: the file says what its panels share.
            let mut layers = match &panel.base {
                Some(_) => with_bases(Layer { base: panel.base.clone(), ..Layer::default() })?,
                None => Vec::new(),
            };
            layers.extend(with_bases(layer)?);
            layers.push(panel);
            Ok(layers)
        }
    }
}

/// A layer after the bases it names.
pub(super) fn with_bases(layer: Layer) -> Result<Vec<Layer>, ExperimentError> {
    let mut layers = Vec::new();
    if let Some(base) = &layer.base {
        let known = FILES.iter().find(|file| file.name == base.value).ok_or_else(|| {
            let error = ExperimentError::new(format!("there is no preset `{}`", base.value)).at(&base.place);
            match nearest(&base.value, FILES.iter().map(|file| file.name)) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help("`semfocus list experiments` shows all"),
            }
        })?;
        let base_layer = known.layer()?;
        if !base_layer.panels.is_empty() || base_layer.base.is_some() {
            let message = format!("`{}` cannot be a base: it has a base or panels itself", base.value);
            return Err(ExperimentError::new(message)
                .at(&base.place)
                .help("take one of the tasks, such as `even-pairs`"));
        }
        // A claim about the base alone says nothing about what is built on it.
        let scales =
            base_layer.scales.into_iter().map(|(scale, layer)| (scale, Layer { claim: None, ..layer })).collect();
        layers.push(Layer { claim: None, expect: None, scales, ..base_layer });
    }
    layers.push(layer);
    Ok(layers)
}
