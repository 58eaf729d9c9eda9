//! The id of a trial.

use std::fmt;
use std::str::FromStr;

use crate::random::{Key, fnv_1a};

/// The id of a trial: a hash of the settings that determine its results, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrialId(u64);

impl TrialId {
    /// The id of a trial whose [identity](crate::TrialSettings::identity) is given.
    pub(crate) fn from_identity(identity: &str) -> Self {
        // FNV leaves similar texts with similar high bits; the key mixes them, so that a few digits tell trials apart.
        TrialId(Key::new(fnv_1a(identity.bytes())).bits())
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for TrialId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(TrialId)
    }
}

impl serde::Serialize for TrialId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for TrialId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The values of a trial on the axes of a grid: paths of settings and values as text, in the order of the axes.
pub type Point = Vec<(String, String)>;
