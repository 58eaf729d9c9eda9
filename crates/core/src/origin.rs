//! Where the weights of a trial come from, if it does not start with those of its seed.

use std::fmt;
use std::str::FromStr;

use crate::trial::TrialId;

/// The stored weights that a trial starts with: those of another trial after an epoch. Written `TRIAL@EPOCH:WEIGHTS`, in
/// which `WEIGHTS` is a checksum of the weights, as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The trial that trained them.
    pub trial: TrialId,
    /// How many epochs it had trained them for.
    pub epoch: usize,
    /// Checksum of the weights.
    pub weights: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{:016x}", self.trial, self.epoch, self.weights)
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hash = |text: &&str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parse = || {
            let (trial, rest) = text.split_once('@')?;
            let (epoch, weights) = rest.split_once(':')?;
            Some(Origin {
                trial: Some(trial).filter(is_hash)?.parse().ok()?,
                epoch: Some(epoch).filter(|epoch| epoch.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?,
                weights: Some(weights).filter(is_hash).and_then(|weights| u64::from_str_radix(weights, 16).ok())?,
            })
        };
        parse().ok_or_else(|| {
            format!(
                "`{text}` does not name stored weights as TRIAL@EPOCH:CHECKSUM; give `--from RUN/TRIAL@EPOCH` to \
                 `semfocus run`, which fills it in"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_written_as_they_are_read() {
        let text = "6dd70808d11e42eb@10:00000000000000ff";
        let origin: Origin = text.parse().unwrap();
        assert_eq!((origin.epoch, origin.weights, origin.to_string().as_str()), (10, 255, text));
        for wrong in ["", "6dd7@10:ff", "6dd70808d11e42eb@10", "6dd70808d11e42eb@:00000000000000ff", "x@1:y"] {
            assert!(wrong.parse::<Origin>().unwrap_err().contains("--from"), "{wrong}");
        }
    }
}
