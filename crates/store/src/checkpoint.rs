//! Checkpoints: everything a trial needs to continue, in one SafeTensors file.
//!
//! | tensor | what |
//! |---|---|
//! | `embedding`, `blocks.0.attention.query.weight`, …, `classifier.bias` | the parameters, by their names in the model |
//! | `optimizer.momentum.` + parameter | velocity of SGD with momentum |
//! | `optimizer.first_moment.` + parameter, `optimizer.second_moment.` + parameter | moments of Adam and AdamW |
//!
//! All are F32; weights are `[inputs, outputs]`. The metadata has one entry, `semfocus`, which is JSON: the version of the
//! format, the id and the settings of the trial, how far it is, and a checksum over all of it. Random numbers have no state
//! but their position: data and initial weights follow from the seed, the order of a pass over the examples from seed and
//! pass, dropout and examples that are drawn for a step from seed and step; so epoch and step are all there is to keep.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use safetensors::SafeTensorError;
use safetensors::tensor::{self, Dtype, SafeTensors, TensorView};
use semfocus_core::{TrialId, TrialSettings, file, fnv_1a};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::status::Best;

/// Version of the format that is read and written.
pub const FORMAT_VERSION: u32 = 3;

const METADATA: &str = "semfocus";

/// Bytes of the largest header that is read, several times that of a model of 1000 blocks, which is the largest number.
const MAX_HEADER: u64 = 32 << 20;

/// Rows of all tables of a model together: at most 2^16 tokens and 2^16 classes, and positions.
const MAX_ROWS: u64 = 1 << 18;

/// How far a trial is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Epochs that are complete.
    pub epoch: usize,
    /// Steps of the next epoch that are done.
    pub step: usize,
    /// Steps of all epochs that are done: the position in the examples and in the dropout stream.
    pub total_steps: u64,
    /// Sum of the gradient norms of those steps of the next epoch.
    pub gradient_norm: f64,
    /// Seconds that those steps took.
    pub seconds: f64,
    /// The best epoch so far.
    pub best: Option<Best>,
}

/// A tensor: its shape and its values, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its values.
    pub values: Vec<f32>,
}

/// The contents of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The trial it belongs to.
    pub trial: TrialId,
    /// The trial's settings as in `trial.toml`, without epochs and goal.
    pub settings: String,
    /// How far it is.
    pub progress: Progress,
    /// Hash of the record of the epochs that are complete; none in a file that is only there to look at the model.
    pub record: Option<String>,
    /// Steps that the optimiser made.
    pub optimizer_steps: u64,
    /// Parameters and state of the optimiser, by name.
    pub tensors: BTreeMap<String, Values>,
}

/// Why a checkpoint is of no use.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Refused {
    /// The system refused to read it. That says nothing about its contents.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// It is good, and for another version of the program.
    #[error(
        "it has format version {0}, and this program reads version {FORMAT_VERSION}; use the version that wrote it"
    )]
    Version(u32),
    /// It is damaged, or another file than it should be.
    #[error("{0}")]
    Contents(String),
}

impl Refused {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Refused::Unreadable(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the file will never be of use. Anything else may pass, or is good for another version of the program.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Refused::Unreadable(_) | Refused::Version(_))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    format_version: u32,
    trial: String,
    settings: String,
    progress: Progress,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<String>,
    optimizer_steps: u64,
    /// Empty while the checksum itself is computed.
    checksum: String,
}

impl Checkpoint {
    /// The same without the state of the optimiser: enough to look at the model, not to continue its training.
    pub fn weights_only(mut self) -> Self {
        self.tensors.retain(|name, _| !is_of_optimizer(name));
        (self.optimizer_steps, self.record) = (0, None);
        // An interruption before the first step leaves its time here, and the same weights must give the same file.
        (self.progress.seconds, self.progress.gradient_norm) = (0.0, 0.0);
        self
    }

    /// Checksum of the weights alone: the same for every file that holds them.
    pub fn weights_checksum(&self) -> u64 {
        let weights = self.tensors.iter().filter(|(name, _)| !is_of_optimizer(name));
        let bytes = weights.flat_map(|(name, Values { shape, values })| {
            let sizes = shape.iter().flat_map(|size| (*size as u64).to_le_bytes());
            name.bytes().chain(sizes).chain(values.iter().flat_map(|value| value.to_le_bytes()))
        });
        fnv_1a(bytes)
    }

    /// The parameters of the model, by name.
    pub fn parameters(self) -> impl Iterator<Item = (String, Values)> {
        self.tensors.into_iter().filter(|(name, _)| !is_of_optimizer(name))
    }

    /// The bytes of the file: the same contents give the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let data: BTreeMap<&String, Vec<u8>> = self
            .tensors
            .iter()
            .map(|(name, tensor)| (name, tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect()))
            .collect();
        let views = self.tensors.iter().map(|(name, tensor)| {
            let view = TensorView::new(Dtype::F32, tensor.shape.clone(), &data[name]);
            (name, view.expect("a tensor has as many values as its shape says"))
        });
        let views: Vec<_> = views.collect();
        let mut metadata = Metadata {
            format_version: FORMAT_VERSION,
            trial: self.trial.to_string(),
            settings: self.settings.clone(),
            progress: self.progress.clone(),
            record: self.record.clone(),
            optimizer_steps: self.optimizer_steps,
            checksum: String::new(),
        };
        metadata.checksum = checksum(&metadata, views.iter().map(|(name, view)| (name.as_str(), view)));
        let metadata = serde_json::to_string(&metadata).expect("plain fields can be written");
        let metadata = HashMap::from([(METADATA.to_owned(), metadata)]);
        safetensors::serialize(views, Some(metadata)).expect("names are distinct and sizes fit")
    }

    /// Bytes of the tensors that a checkpoint of a trial with these settings has at most. The settings do not say how many tokens and
    /// classes the data has, so this is several times the true size.
    pub fn max_size(settings: &TrialSettings) -> u64 {
        let model = &settings.model;
        let inner = model.heads.saturating_mul(model.head_width());
        let [d_model, blocks] = [model.d_model, model.blocks].map(|size| size as u64);
        let widths = (inner.saturating_add(model.d_mlp) as u64).saturating_add(d_model + 1);
        let in_blocks = widths.saturating_mul(widths).saturating_mul(4 * blocks);
        let in_tables = MAX_ROWS * (d_model + 1);
        let copies = 1 + settings.training.optimizer.slot_names().len() as u64;
        in_blocks.saturating_add(in_tables).saturating_mul(copies * size_of::<f32>() as u64)
    }

    /// Reads a file; `trial` is the one it must belong to, if that matters.
    pub fn read(path: &Path, trial: Option<TrialId>) -> Result<Self, Refused> {
        let bytes = disk::read_with(path, |file| contents(file, trial));
        let bytes = bytes.and_then(|bytes| bytes.ok_or_else(|| io::ErrorKind::NotFound.into()));
        Checkpoint::from_bytes(&bytes.map_err(Refused::Unreadable)??, trial)
    }

    /// Reads the bytes of a file.
    pub fn from_bytes(bytes: &[u8], trial: Option<TrialId>) -> Result<Self, Refused> {
        let (_, mut metadata) = header(bytes)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
        let stored = std::mem::take(&mut metadata.checksum);
        let mut views = tensors.tensors();
        views.sort_by(|(one, _), (other, _)| one.cmp(other));
        if stored != checksum(&metadata, views.iter().map(|(name, view)| (name.as_str(), view))) {
            return Err(damaged());
        }
        let id = metadata.check_trial(trial)?;
        let values = |(name, view): (String, TensorView<'_>)| {
            if view.dtype() != Dtype::F32 {
                return Err(Refused::Contents(format!("`{name}` is not F32")));
            }
            let (chunks, _) = view.data().as_chunks::<4>();
            let values = chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            Ok((name, Values { shape: view.shape().to_vec(), values }))
        };
        Ok(Checkpoint {
            trial: id,
            settings: metadata.settings,
            progress: metadata.progress,
            record: metadata.record,
            optimizer_steps: metadata.optimizer_steps,
            tensors: views.into_iter().map(values).collect::<Result<_, _>>()?,
        })
    }
}

impl Metadata {
    /// The trial, if it is the one that is expected.
    fn check_trial(&self, expected: Option<TrialId>) -> Result<TrialId, Refused> {
        let id: TrialId = self.trial.parse().map_err(|_| damaged())?;
        match expected {
            Some(expected) if expected != id => {
                Err(Refused::Contents(format!("it belongs to trial {id}, which has other settings")))
            }
            _ => Ok(id),
        }
    }

    /// The settings of the trial, whose hash is its id.
    fn check_settings(&self, expected: Option<TrialId>) -> Result<TrialSettings, Refused> {
        let id = self.check_trial(expected)?;
        let table: toml::Table = self.settings.parse().map_err(|_| damaged())?;
        let settings = TrialSettings::from_table(&table).map_err(|_| damaged())?;
        match TrialId::new(&settings) {
            of_settings if of_settings == id => Ok(settings),
            other => Err(Refused::Contents(format!("it has the settings of trial {other}"))),
        }
    }
}

fn damaged() -> Refused {
    Refused::Contents("its checksum is wrong: it was damaged".to_owned())
}

fn not_safetensors(error: SafeTensorError) -> Refused {
    Refused::Contents(format!("it is cut off or no SafeTensors file ({error})"))
}

/// What the header of a file says: the bytes of all tensors, and the metadata.
fn header(bytes: &[u8]) -> Result<(u64, Metadata), Refused> {
    let (length, rest) = bytes.split_first_chunk().ok_or_else(|| not_safetensors(SafeTensorError::HeaderTooSmall))?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    let json = rest.get(..length).ok_or_else(|| not_safetensors(SafeTensorError::InvalidHeaderLength))?;
    let header: tensor::Metadata = serde_json::from_slice(json)
        .map_err(|error| not_safetensors(SafeTensorError::InvalidHeaderDeserialization(error)))?;
    let metadata = header.metadata().as_ref().and_then(|entries| entries.get(METADATA));
    let metadata = metadata.ok_or_else(|| Refused::Contents("it was not written by semfocus".to_owned()))?;
    // A later version may have other fields.
    let version: serde_json::Value = serde_json::from_str(metadata).map_err(|_| damaged())?;
    match version.get("format_version").and_then(serde_json::Value::as_u64) {
        Some(version) if version != u64::from(FORMAT_VERSION) => {
            Err(Refused::Version(u32::try_from(version).unwrap_or(u32::MAX)))
        }
        _ => Ok((header.data_len() as u64, serde_json::from_str(metadata).map_err(|_| damaged())?)),
    }
}

/// The contents of a file whose size agrees with its header and with the settings of its trial. Of another one no more is read than
/// shows that it is damaged.
fn contents(file: &mut File, trial: Option<TrialId>) -> io::Result<Result<Vec<u8>, Refused>> {
    let mut bytes = Vec::new();
    file.by_ref().take(8).read_to_end(&mut bytes)?;
    let length = bytes.as_slice().try_into().map_or(0, u64::from_le_bytes);
    file.by_ref().take(length.min(MAX_HEADER)).read_to_end(&mut bytes)?;
    let checked = header(&bytes).and_then(|(size, metadata)| {
        let limit = Checkpoint::max_size(&metadata.check_settings(trial)?);
        let too_large = || Refused::Contents(file::TooLarge { length: size, limit }.to_string());
        if size > limit { Err(too_large()) } else { Ok(size) }
    });
    match checked {
        // One byte more than there should be is seen, too.
        Ok(size) => file.by_ref().take(size.saturating_add(1)).read_to_end(&mut bytes).map(|_| Ok(bytes)),
        Err(refused) => Ok(Err(refused)),
    }
}

fn is_of_optimizer(name: &str) -> bool {
    name.starts_with("optimizer.")
}

/// FNV-1a over everything, in the order of the names: every flipped bit changes it.
fn checksum<'a>(metadata: &Metadata, tensors: impl Iterator<Item = (&'a str, &'a TensorView<'a>)>) -> String {
    let mut bytes = serde_json::to_vec(metadata).expect("plain fields can be written");
    for (name, view) in tensors {
        bytes.extend(name.bytes());
        bytes.extend(view.shape().iter().flat_map(|size| size.to_le_bytes()));
        bytes.extend(view.data());
    }
    format!("{:016x}", fnv_1a(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Checkpoint {
        let values = |shape: &[usize], start: f32| {
            let count = shape.iter().product::<usize>();
            Values { shape: shape.to_vec(), values: (0..count).map(|i| start + i as f32 * 0.1).collect() }
        };
        Checkpoint {
            trial: "00f1".parse().unwrap(),
            settings: "task = \"parity\"\n".to_owned(),
            progress: Progress {
                epoch: 3,
                step: 7,
                total_steps: 607,
                gradient_norm: 0.1 + 0.2,
                seconds: 0.1 + 0.2,
                best: Some(Best { epoch: 2, heldout_accuracy: 1.0 / 3.0 }),
            },
            record: Some("00ff00ff00ff00ff".to_owned()),
            optimizer_steps: 607,
            tensors: [
                ("embedding".to_owned(), values(&[3, 4], -1.0)),
                ("classifier.bias".to_owned(), values(&[2], f32::MIN_POSITIVE)),
            ]
            .into(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let checkpoint = example();
        let bytes = checkpoint.to_bytes();
        assert_eq!(bytes, checkpoint.to_bytes());
        let read = Checkpoint::from_bytes(&bytes, Some(checkpoint.trial)).unwrap();
        assert_eq!((read.tensors, read.settings), (checkpoint.tensors.clone(), checkpoint.settings.clone()));
        assert_eq!(read.progress.gradient_norm, checkpoint.progress.gradient_norm);
        assert_eq!(read.progress.best, checkpoint.progress.best);
    }

    #[test]
    fn any_number_comes_back_with_the_same_bits() {
        for index in 0..20_000u32 {
            let number = f64::from(semfocus_core::Key::new(1).bits_at(index)) / 3e9 + f64::from(index) * 1e-7;
            let mut checkpoint = example();
            checkpoint.tensors.clear();
            checkpoint.progress.seconds = number;
            checkpoint.progress.best = Some(Best { epoch: 1, heldout_accuracy: number / 7.0 });
            let read = Checkpoint::from_bytes(&checkpoint.to_bytes(), None).unwrap();
            assert_eq!(read.progress, checkpoint.progress);
        }
    }

    #[test]
    fn no_damage_goes_unnoticed() {
        let bytes = example().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = Checkpoint::from_bytes(&damaged, None) {
                // Blanks in the header carry no meaning.
                assert_eq!(read.tensors, example().tensors, "bit {bit}");
                assert_eq!(read.progress, example().progress, "bit {bit}");
            }
        }
        for length in 0..bytes.len() {
            assert!(Checkpoint::from_bytes(&bytes[..length], None).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn foreign_files_are_refused_with_a_reason() {
        let bytes = example().to_bytes();
        let message = |result: Result<Checkpoint, Refused>| result.unwrap_err().to_string();
        let other = Some("00f2".parse().unwrap());
        assert_eq!(
            message(Checkpoint::from_bytes(&bytes, other)),
            "it belongs to trial 00000000000000f1, which has other settings"
        );
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains(r#"format_version\":3"#));
        let at = bytes.windows(18).position(|window| window == br#"format_version\":3"#).unwrap() + 17;
        let newer: Vec<u8> = bytes.iter().enumerate().map(|(i, byte)| if i == at { b'4' } else { *byte }).collect();
        let newer = Checkpoint::from_bytes(&newer, None).unwrap_err();
        assert!(!newer.is_damage());
        assert_eq!(
            newer.to_string(),
            "it has format version 4, and this program reads version 3; use the version that wrote it"
        );
        assert!(
            message(Checkpoint::from_bytes(b"not a checkpoint", None)).starts_with("it is cut off or no SafeTensors")
        );
        let view = TensorView::new(Dtype::F32, vec![1], &[0, 0, 0, 0]).unwrap();
        let plain = safetensors::serialize([("x", view)], None).unwrap();
        assert_eq!(message(Checkpoint::from_bytes(&plain, None)), "it was not written by semfocus");
    }
}
