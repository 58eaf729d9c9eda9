//! Numbers that say how good a model is: metrics that epochs record, and numbers that follow from a loss and what is known of the
//! data, such as the perplexity.

use std::collections::BTreeMap;
use std::f64::consts::LN_2;

use serde::{Deserialize, Serialize};

use crate::metric::{Better, Metric, Metrics};

/// What is known of the data of a trial, by which its losses are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataFacts {
    /// Of the training split.
    pub train: SplitFacts,
    /// Of the held-out split.
    pub held_out: SplitFacts,
    /// Of the test split.
    pub test: SplitFacts,
}

/// What is known of a split. What is not known is None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitFacts {
    /// Mean loss of the best possible predictor, in nats. Data files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Mean loss, in nats, of the predictor that always gives the frequencies of the classes in the training split.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unigram: Option<f64>,
    /// Characters of the text for each question, where the data are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub characters: Option<f64>,
}

/// One of the numbers that [`SplitFacts`] may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// [`SplitFacts::floor`].
    Floor,
    /// [`SplitFacts::unigram`].
    Unigram,
    /// [`SplitFacts::characters`].
    Characters,
}

impl Fact {
    /// Which data have it, in words.
    pub fn words(self) -> &'static str {
        match self {
            Fact::Floor => {
                "the loss of the best possible predictor, which is not known of data files and of some tasks"
            }
            Fact::Unigram => "the loss of the unigram predictor",
            Fact::Characters => "the number of characters, which only text has",
        }
    }
}

impl SplitFacts {
    /// One of them, or which one is missing.
    fn get(&self, fact: Fact) -> Result<f64, Fact> {
        let value = match fact {
            Fact::Floor => self.floor,
            Fact::Unigram => self.unigram,
            Fact::Characters => self.characters,
        };
        value.ok_or(fact)
    }
}

/// A number that follows from a loss and the facts of its split. [`DERIVED`] says what each of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Derived {
    /// exp(training loss).
    TrainPerplexity,
    /// Training loss above the floor.
    TrainExcess,
    /// Training loss in bits for each character.
    TrainBitsPerCharacter,
    /// exp(held-out loss).
    HeldoutPerplexity,
    /// Held-out loss above the floor.
    HeldoutExcess,
    /// Held-out loss in bits for each character.
    HeldoutBitsPerCharacter,
    /// Share of the way from the unigram loss to the floor.
    HeldoutLearned,
}

/// What is to be known of a derived number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivedInfo {
    /// Which one it is.
    pub derived: Derived,
    /// Its name in targets, exported tables and JSON.
    pub name: &'static str,
    /// Its name for people.
    pub words: &'static str,
    /// The loss that it follows from.
    pub base: Metric,
    /// How it follows.
    scale: Scale,
}

/// How a number follows from a loss. All of them are monotone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Perplexity,
    Excess,
    BitsPerCharacter,
    Learned,
}

/// All derived numbers, in the order in which they are listed. To add one, add a variant and its entry here.
pub const DERIVED: [DerivedInfo; 7] = {
    use Derived::{
        HeldoutBitsPerCharacter, HeldoutExcess, HeldoutLearned, HeldoutPerplexity, TrainBitsPerCharacter, TrainExcess,
        TrainPerplexity,
    };
    let (train, held_out) = (Metric::TrainLoss, Metric::HeldoutLoss);
    [
        entry(TrainPerplexity, "train_perplexity", "training perplexity", train, Scale::Perplexity),
        entry(TrainExcess, "train_excess", "training excess loss", train, Scale::Excess),
        entry(
            TrainBitsPerCharacter,
            "train_bits_per_character",
            "training loss in bits per character",
            train,
            Scale::BitsPerCharacter,
        ),
        entry(HeldoutPerplexity, "heldout_perplexity", "held-out perplexity", held_out, Scale::Perplexity),
        entry(HeldoutExcess, "heldout_excess", "held-out excess loss", held_out, Scale::Excess),
        entry(
            HeldoutBitsPerCharacter,
            "heldout_bits_per_character",
            "held-out loss in bits per character",
            held_out,
            Scale::BitsPerCharacter,
        ),
        entry(HeldoutLearned, "heldout_learned", "learned share of the held-out loss", held_out, Scale::Learned),
    ]
};

const fn entry(derived: Derived, name: &'static str, words: &'static str, base: Metric, scale: Scale) -> DerivedInfo {
    DerivedInfo { derived, name, words, base, scale }
}

impl Derived {
    /// What is known of it.
    pub fn info(self) -> &'static DerivedInfo {
        const { &DERIVED }.get(self as usize).expect("every derived number has an entry")
    }

    /// The facts that it needs.
    pub fn needs(self) -> &'static [Fact] {
        match self.info().scale {
            Scale::Perplexity => &[],
            Scale::Excess => &[Fact::Floor],
            Scale::BitsPerCharacter => &[Fact::Characters],
            Scale::Learned => &[Fact::Unigram, Fact::Floor],
        }
    }

    /// The facts of the split that it is about.
    fn split(self, facts: &DataFacts) -> &SplitFacts {
        if self.info().base == Metric::TrainLoss { &facts.train } else { &facts.held_out }
    }

    /// What it is at a loss, or the fact that is not known.
    fn of_loss(self, loss: f64, facts: &DataFacts) -> Result<f64, Fact> {
        let facts = self.split(facts);
        Ok(match self.info().scale {
            Scale::Perplexity => libm::exp(loss),
            Scale::Excess => loss - facts.get(Fact::Floor)?,
            Scale::BitsPerCharacter => loss / LN_2 / facts.get(Fact::Characters)?,
            Scale::Learned => {
                let (unigram, floor) = (facts.get(Fact::Unigram)?, facts.get(Fact::Floor)?);
                (unigram - loss) / (unigram - floor)
            }
        })
    }

    /// The loss at which it has a value, or the fact that is not known.
    fn to_loss(self, value: f64, facts: &DataFacts) -> Result<f64, Fact> {
        let facts = self.split(facts);
        Ok(match self.info().scale {
            Scale::Perplexity => libm::log(value),
            Scale::Excess => value + facts.get(Fact::Floor)?,
            Scale::BitsPerCharacter => value * LN_2 * facts.get(Fact::Characters)?,
            Scale::Learned => {
                let (unigram, floor) = (facts.get(Fact::Unigram)?, facts.get(Fact::Floor)?);
                unigram - value * (unigram - floor)
            }
        })
    }
}

/// What a target is about and figures show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    /// A metric that every epoch records.
    Recorded(Metric),
    /// A number that follows from one.
    Derived(Derived),
}

impl From<Metric> for Quantity {
    fn from(metric: Metric) -> Self {
        Quantity::Recorded(metric)
    }
}

impl Quantity {
    /// All that say how good a model is, the recorded ones first. They can be targets.
    pub fn of_quality() -> impl Iterator<Item = Quantity> {
        let recorded = Metric::of_quality().map(|info| Quantity::Recorded(info.metric));
        recorded.chain(Quantity::derived())
    }

    /// Those that follow from a loss.
    pub fn derived() -> impl Iterator<Item = Quantity> {
        DERIVED.iter().map(|info| Quantity::Derived(info.derived))
    }

    /// Its name in targets, tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Recorded(metric) => metric.name(),
            Quantity::Derived(derived) => derived.info().name,
        }
    }

    /// Its name for people.
    pub fn words(self) -> &'static str {
        match self {
            Quantity::Recorded(metric) => metric.info().words,
            Quantity::Derived(derived) => derived.info().words,
        }
    }

    /// Which values are better; none if that cannot be said.
    pub fn better(self) -> Option<Better> {
        match self {
            Quantity::Recorded(metric) => metric.info().better,
            Quantity::Derived(Derived::HeldoutLearned) => Some(Better::Higher),
            Quantity::Derived(_) => Some(Better::Lower),
        }
    }

    /// Whether it is a share, which is written in per cent for people.
    pub fn is_share(self) -> bool {
        match self {
            Quantity::Recorded(metric) => metric.info().is_share,
            Quantity::Derived(derived) => derived == Derived::HeldoutLearned,
        }
    }

    /// The smallest value that can be a target.
    pub(crate) fn min(self) -> f64 {
        match self {
            Quantity::Recorded(metric) => *metric.info().range.start(),
            Quantity::Derived(derived) if derived.info().scale == Scale::Perplexity => 1.0,
            Quantity::Derived(_) => 0.0,
        }
    }

    /// The metric that it is or follows from.
    pub fn base(self) -> Metric {
        match self {
            Quantity::Recorded(metric) => metric,
            Quantity::Derived(derived) => derived.info().base,
        }
    }

    /// The facts that it needs.
    pub fn needs(self) -> &'static [Fact] {
        match self {
            Quantity::Recorded(_) => &[],
            Quantity::Derived(derived) => derived.needs(),
        }
    }

    /// Its value in an epoch of a trial whose data have these facts. None if a fact is not known, or the value is not finite.
    pub fn value(self, metrics: &Metrics, facts: &DataFacts) -> Option<f64> {
        let base = metrics[self.base()];
        let value = match self {
            Quantity::Recorded(_) => base,
            Quantity::Derived(derived) => derived.of_loss(base, facts).ok()?,
        };
        value.is_finite().then_some(value)
    }

    /// The values of all that are known in an epoch, by their names.
    pub fn all_values(metrics: &Metrics, facts: &DataFacts) -> BTreeMap<&'static str, f64> {
        let known = |quantity: Quantity| Some((quantity.name(), quantity.value(metrics, facts)?));
        Quantity::of_quality().filter_map(known).collect()
    }

    /// The value of the metric at which it has a value, or the fact that is not known.
    pub(crate) fn to_base(self, value: f64, facts: &DataFacts) -> Result<f64, Fact> {
        match self {
            Quantity::Recorded(_) => Ok(value),
            Quantity::Derived(derived) => derived.to_loss(value, facts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> DataFacts {
        let split = |floor, characters| SplitFacts { floor: Some(floor), unigram: Some(2.0), characters };
        DataFacts { train: split(0.25, None), held_out: split(0.5, Some(4.0)), test: SplitFacts::default() }
    }

    fn value(derived: Derived, loss: f64) -> Option<f64> {
        // Each loss is wrong for the other split.
        let base = derived.info().base;
        let metrics = Metrics::new(|metric| if metric == base { loss } else { 99.0 });
        Quantity::Derived(derived).value(&metrics, &facts())
    }

    #[test]
    fn every_derived_number_has_its_entry_and_its_name_alone() {
        for (place, info) in DERIVED.iter().enumerate() {
            assert_eq!((info.derived as usize, info.derived.info()), (place, info));
            assert!(matches!(info.base, Metric::TrainLoss | Metric::HeldoutLoss), "{}", info.name);
        }
        let names: std::collections::HashSet<&str> = Quantity::of_quality().map(Quantity::name).collect();
        assert_eq!(names.len(), 4 + DERIVED.len());
    }

    #[test]
    fn they_follow_from_the_loss_of_their_own_split() {
        let close = |derived, loss, expected: f64| {
            let found = value(derived, loss).unwrap();
            assert!((found - expected).abs() < 1e-12, "{derived:?}: {found}");
        };
        close(Derived::TrainPerplexity, 1.0, std::f64::consts::E);
        close(Derived::HeldoutPerplexity, 0.0, 1.0);
        close(Derived::TrainExcess, 1.0, 0.75);
        close(Derived::HeldoutExcess, 1.0, 0.5);
        close(Derived::HeldoutBitsPerCharacter, 4.0 * LN_2, 1.0);
        close(Derived::HeldoutLearned, 2.0, 0.0);
        close(Derived::HeldoutLearned, 0.5, 1.0);
        close(Derived::HeldoutLearned, 0.875, 0.75);
        assert_eq!(value(Derived::TrainBitsPerCharacter, 1.0), None, "the training split has no characters here");
        assert_eq!(value(Derived::HeldoutPerplexity, 1e4), None, "not finite");
    }

    #[test]
    fn losses_come_back() {
        let facts = DataFacts { train: facts().held_out, ..facts() };
        for quantity in Quantity::of_quality() {
            for wanted in [1.0, 1.5, 40.0] {
                let base = quantity.to_base(wanted, &facts).unwrap();
                let metrics = Metrics::new(|metric| if metric == quantity.base() { base } else { f64::NAN });
                let found = quantity.value(&metrics, &facts).unwrap();
                assert!((found - wanted).abs() < 1e-12 * wanted.abs().max(1.0), "{}: {found}", quantity.name());
            }
            for fact in quantity.needs() {
                let unknown = quantity.to_base(1.0, &DataFacts::default()).unwrap_err();
                assert!(quantity.needs().contains(&unknown), "{fact:?}");
            }
        }
    }

    #[test]
    fn facts_are_written_as_far_as_they_are_known() {
        let text = toml::to_string(&facts()).unwrap();
        let numbers = text.lines().filter(|line| line.contains(" = ")).count();
        assert_eq!((numbers, toml::from_str::<DataFacts>(&text).unwrap()), (5, facts()), "{text}");
    }
}
