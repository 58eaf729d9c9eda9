//! Targets: a quantity and the value that it is to reach. A trial may end early at a target, and comparisons ask when it was
//! reached.

use std::fmt;
use std::str::FromStr;

use crate::metric::{Better, Metric, Metrics};
use crate::names::nearest;
use crate::quantity::{DataFacts, Fact, Quantity};

/// A target such as `train_accuracy >= 0.99` or `heldout_learned >= 0.5`: accuracies and shares rise to it, losses fall to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// What is measured.
    pub quantity: Quantity,
    /// The value to reach.
    pub value: f64,
}

/// A bound on a metric that epochs record: what a target is for a trial whose data are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    metric: Metric,
    value: f64,
}

/// A target that means nothing for some data.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the target `{goal}` needs {}", .fact.words())]
pub struct UnknownFact {
    /// The target.
    pub goal: Goal,
    /// What is not known of the data.
    pub fact: Fact,
}

impl Goal {
    /// Whether more is better.
    fn rises(&self) -> bool {
        self.quantity.better() == Some(Better::Higher)
    }

    /// What the target is for a trial whose data have these facts.
    ///
    /// # Errors
    /// If a fact that it needs is not known.
    pub fn threshold(&self, facts: &DataFacts) -> Result<Threshold, UnknownFact> {
        let value = self.quantity.to_base(self.value, facts);
        let value = value.map_err(|fact| UnknownFact { goal: *self, fact })?;
        Ok(Threshold { metric: self.quantity.base(), value })
    }

    /// The fact that it needs and that some data do not have.
    ///
    /// # Errors
    /// If there is one.
    pub fn check(&self, has: impl Fn(Fact) -> bool) -> Result<(), UnknownFact> {
        let missing = self.quantity.needs().iter().find(|fact| !has(**fact));
        missing.map_or(Ok(()), |fact| Err(UnknownFact { goal: *self, fact: *fact }))
    }
}

impl Threshold {
    /// Whether an epoch reached the target.
    pub fn is_reached(&self, metrics: &Metrics) -> bool {
        let value = metrics[self.metric];
        if self.metric.info().better == Some(Better::Higher) { value >= self.value } else { value <= self.value }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.quantity.name(), if self.rises() { ">=" } else { "<=" }, self.value)
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let example = "write for instance `train_accuracy >= 0.99` or `heldout_loss <= 0.1`";
        let wrong = || format!("`{text}` is not a target; {example}");
        let (name, is_at_least, value) = match (text.split_once(">="), text.split_once("<=")) {
            (Some((name, value)), None) => (name.trim(), true, value.trim()),
            (None, Some((name, value))) => (name.trim(), false, value.trim()),
            _ => return Err(wrong()),
        };
        let quantity = Quantity::of_quality().find(|quantity| quantity.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Quantity::of_quality().map(Quantity::name).collect();
            let hint =
                nearest(name, names.iter().copied()).map_or(String::new(), |near| format!("did you mean `{near}`? "));
            format!("there is no metric `{name}`; {hint}the metrics are {}", names.join(", "))
        })?;
        let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(wrong)?;
        let goal = Goal { quantity, value };
        if goal.rises() != is_at_least {
            let direction = if goal.rises() { "rises: write `>=`" } else { "falls: write `<=`" };
            return Err(format!("{name} {direction}, as in `{goal}`"));
        }
        if quantity.is_share() && !(0.0..=1.0).contains(&value) {
            return Err(format!("{name} is a fraction from 0 to 1, got {value}"));
        }
        if value < quantity.min() {
            return Err(format!("{name} is at least {}, got {value}", quantity.min()));
        }
        Ok(goal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::SplitFacts;

    fn record(accuracy: f64, loss: f64) -> Metrics {
        Metrics::new(|metric| match metric {
            Metric::TrainLoss => loss,
            Metric::TrainAccuracy => accuracy,
            Metric::HeldoutLoss => 9.0,
            _ => 0.0,
        })
    }

    fn goal(text: &str) -> Goal {
        text.parse().unwrap()
    }

    #[test]
    fn goals_are_read_and_reached() {
        let is_reached =
            |text: &str, metrics| goal(text).threshold(&DataFacts::default()).unwrap().is_reached(&metrics);
        assert_eq!(goal("train_accuracy>=0.95").to_string(), "train_accuracy >= 0.95");
        let accuracy = |metrics| is_reached("train_accuracy>=0.95", metrics);
        assert!(accuracy(record(0.95, 1.0)) && !accuracy(record(0.949, 0.0)));
        let loss = |metrics| is_reached("train_loss <= 0.1", metrics);
        assert!(loss(record(0.0, 0.1)) && !loss(record(1.0, 0.11)) && !loss(record(1.0, f64::NAN)));
        let perplexity = |metrics| is_reached("train_perplexity <= 2", metrics);
        assert!(perplexity(record(0.0, 0.693)) && !perplexity(record(0.0, 0.694)), "it needs no facts");
    }

    #[test]
    fn targets_on_the_way_to_the_floor_are_those_of_the_trial() {
        let facts = |floor, unigram| {
            let held_out = SplitFacts { floor: Some(floor), unigram: Some(unigram), characters: None };
            DataFacts { held_out, ..DataFacts::default() }
        };
        let held_out = |loss| Metrics::new(|metric| if metric == Metric::HeldoutLoss { loss } else { 0.0 });
        let half = goal("heldout_learned >= 0.5");
        for (facts, bound) in [(facts(0.5, 2.0), 1.25), (facts(0.0, 1.0), 0.5)] {
            let threshold = half.threshold(&facts).unwrap();
            assert!(threshold.is_reached(&held_out(bound)) && !threshold.is_reached(&held_out(bound + 1e-9)));
        }
        let excess = goal("heldout_excess <= 0.01").threshold(&facts(0.5, 2.0)).unwrap();
        assert!(excess.is_reached(&held_out(0.51)) && !excess.is_reached(&held_out(0.52)));
        let unknown = half.threshold(&DataFacts::default()).unwrap_err();
        assert_eq!(unknown.to_string(), "the target `heldout_learned >= 0.5` needs the loss of the unigram predictor");
        let unknown = half.check(|fact| fact == Fact::Unigram).unwrap_err();
        assert!(unknown.to_string().contains("needs the loss of the best possible predictor, which is not known"));
        assert_eq!((half.check(|_| true), goal("heldout_loss <= 1").check(|_| false)), (Ok(()), Ok(())));
    }

    #[test]
    fn senseless_goals_are_refused() {
        let message = |text: &str| text.parse::<Goal>().unwrap_err();
        assert!(message("train_acuracy >= 0.9").contains("did you mean `train_accuracy`?"));
        assert!(message("heldout_learnt >= 0.9").contains("did you mean `heldout_learned`?"));
        assert_eq!(message("train_accuracy <= 0.9"), "train_accuracy rises: write `>=`, as in `train_accuracy >= 0.9`");
        assert_eq!(message("train_loss >= 1"), "train_loss falls: write `<=`, as in `train_loss <= 1`");
        assert_eq!(message("train_accuracy >= 95"), "train_accuracy is a fraction from 0 to 1, got 95");
        assert_eq!(message("heldout_learned >= 1.5"), "heldout_learned is a fraction from 0 to 1, got 1.5");
        assert_eq!(message("heldout_perplexity <= 0.5"), "heldout_perplexity is at least 1, got 0.5");
        assert_eq!(message("heldout_excess <= -1"), "heldout_excess is at least 0, got -1");
        assert_eq!(
            message("speed >= 0.9"),
            "there is no metric `speed`; the metrics are train_loss, train_accuracy, heldout_loss, heldout_accuracy, \
             train_perplexity, train_excess, train_bits_per_character, heldout_perplexity, heldout_excess, \
             heldout_bits_per_character, heldout_learned"
        );
        assert!(message("grad_norm <= 1").contains("there is no metric `grad_norm`"));
        assert!(message("soon").contains("is not a target"));
        assert!(message("train_loss <= nan").contains("is not a target"));
    }
}
