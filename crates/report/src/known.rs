//! What is known of the data of a run, by which its losses are read: the best possible loss, the unigram loss, the length of a text.

use maud::{Markup, html};
use semfocus_analysis::stats::median;
use semfocus_core::quantity::Derived;
use semfocus_core::{DataFacts, Metric, Quantity, SplitFacts};
use semfocus_store::TrialData;

pub(crate) const LOSS: Quantity = Quantity::Recorded(Metric::HeldoutLoss);
pub(crate) const EXCESS: Quantity = Quantity::Derived(Derived::HeldoutExcess);
pub(crate) const LEARNED: Quantity = Quantity::Derived(Derived::HeldoutLearned);
pub(crate) const PERPLEXITY: Quantity = Quantity::Derived(Derived::HeldoutPerplexity);
pub(crate) const BITS: Quantity = Quantity::Derived(Derived::HeldoutBitsPerCharacter);

/// What is known of the data of some trials: medians over those that know it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Known {
    train: Lines,
    held_out: Lines,
    is_text: bool,
}

/// Losses that stay the same during training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lines {
    /// Of the best possible prediction.
    floor: Option<f64>,
    /// Of always giving the frequencies of the training split.
    unigram: Option<f64>,
}

impl Known {
    /// None if nothing is known by which a loss is read.
    pub(crate) fn new<'a>(trials: impl Iterator<Item = &'a TrialData>) -> Option<Self> {
        let trials: Vec<_> = trials.collect();
        let facts: Vec<DataFacts> = trials.iter().filter_map(|trial| trial.facts).collect();
        let of = |split: fn(&DataFacts) -> &SplitFacts, fact: fn(&SplitFacts) -> Option<f64>| {
            median(&facts.iter().filter_map(|facts| fact(split(facts))).collect::<Vec<_>>())
        };
        let lines = |split| Lines { floor: of(split, |split| split.floor), unigram: of(split, |split| split.unigram) };
        let is_text = of(|facts| &facts.held_out, |split| split.characters).is_some();
        let known = Known { train: lines(|facts| &facts.train), held_out: lines(|facts| &facts.held_out), is_text };
        let asks_at_tokens = trials.iter().any(|trial| !trial.slices.is_empty());
        let is_read_by = is_text || known.has_floor() || asks_at_tokens && known.held_out.unigram.is_some();
        is_read_by.then_some(known)
    }

    /// Whether the best possible loss is another one than 0.
    pub(crate) fn has_floor(&self) -> bool {
        self.held_out.floor.is_some_and(|floor| floor > 0.0)
    }

    /// Whether the unigram loss and the floor are known.
    pub(crate) fn has_both(&self) -> bool {
        self.held_out.unigram.is_some() && self.held_out.floor.is_some()
    }

    /// Whether the data are text.
    pub(crate) fn is_text(&self) -> bool {
        self.is_text
    }

    /// The lines in a panel that shows a loss.
    pub(crate) fn levels(&self, quantity: Quantity) -> Vec<(f64, String)> {
        let lines = match quantity {
            Quantity::Recorded(Metric::TrainLoss) => self.train,
            Quantity::Recorded(Metric::HeldoutLoss) => self.held_out,
            _ => return Vec::new(),
        };
        let level = |value: Option<f64>, label: &str| Some((value?, label.to_owned()));
        let floor = level(lines.floor.filter(|floor| *floor > 0.0), "floor");
        level(lines.unigram, "unigram").into_iter().chain(floor).collect()
    }

    /// What the lines are.
    pub(crate) fn words(&self) -> Markup {
        let nats = |value: f64| format!("{value:.3} nats");
        html! {
            p {
                @if let Some(unigram) = self.held_out.unigram {
                    "Always predicting the frequencies of the training split has a held-out loss of " (nats(unigram)) " (unigram). "
                }
                @match self.held_out.floor {
                    Some(floor) if floor > 0.0 => { "The best possible prediction has a held-out loss of " (nats(floor)) " (floor)." }
                    Some(_) => { "The answers follow from the tokens, so the best possible loss is 0." }
                    None => { "Nobody knows the best possible loss." }
                }
            }
        }
    }

    /// What figures show in addition to the loss.
    pub(crate) fn derived(&self) -> Vec<Quantity> {
        let floor = self.has_floor().then_some(EXCESS);
        floor.into_iter().chain(self.is_text.then_some([PERPLEXITY, BITS]).into_iter().flatten()).collect()
    }
}
