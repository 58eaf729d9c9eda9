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

/// The stored models that choose the keys of other models, one for each seed. Written `SEED=TRIAL@EPOCH:WEIGHTS`, with spaces in
/// between.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Donors(Vec<(u64, Origin)>);

impl Donors {
    /// Donors with their seeds, of which each is there once.
    pub fn new(mut donors: Vec<(u64, Origin)>) -> Result<Self, String> {
        donors.sort_by_key(|(seed, _)| *seed);
        match donors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(format!("there are two donors with the seed {}", pair[0].0)),
            None => Ok(Donors(donors)),
        }
    }

    /// The donor with a seed.
    pub fn with_seed(&self, seed: u64) -> Option<Origin> {
        self.iter().find(|(other, _)| *other == seed).map(|(_, origin)| origin)
    }

    /// The donor with a seed alone; empty if there is none.
    pub fn only(&self, seed: u64) -> Self {
        Donors(self.iter().filter(|(other, _)| *other == seed).collect())
    }

    /// All of them, by ascending seed.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Origin)> {
        self.0.iter().copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Donors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (seed, origin)) in self.iter().enumerate() {
            write!(f, "{}{seed}={origin}", if number == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl FromStr for Donors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let donor = |text: &str| {
            let (seed, origin) = text.split_once('=')?;
            Some((seed.parse().ok()?, origin.parse().ok()?))
        };
        let donors: Option<Vec<(u64, Origin)>> = text.split_whitespace().map(donor).collect();
        let expected = || {
            format!(
                "`{text}` does not name stored models as SEED=TRIAL@EPOCH:CHECKSUM; give `--donor RUN/TRIAL@EPOCH` to \
                 `semfocus run`, which fills it in"
            )
        };
        Donors::new(donors.ok_or_else(expected)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn donors_are_written_as_they_are_read() {
        let text = "3=6dd70808d11e42eb@10:00000000000000ff 12=6dd70808d11e42ec@last:00000000000000ff";
        assert!(text.parse::<Donors>().unwrap_err().contains("--donor"));
        let text = text.replace("last", "7");
        let donors: Donors = text.parse().unwrap();
        assert_eq!(donors.to_string(), text);
        assert_eq!((donors.with_seed(12).unwrap().epoch, donors.with_seed(4)), (7, None));
        assert_eq!(donors.only(3).to_string(), "3=6dd70808d11e42eb@10:00000000000000ff");
        assert!(donors.only(4).is_empty() && "".parse::<Donors>().unwrap().is_empty());
        assert!(text.replace("12=", "3=").parse::<Donors>().unwrap_err().contains("two donors with the seed 3"));
    }

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
