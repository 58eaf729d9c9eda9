//! `bigbird[:w=a,g=b,r=c]`: every query keeps a window of `w` keys around itself (shifted inwards at both ends as in `banded`), the first `g`
//! keys, and `r` keys drawn once for each layer, head and query; the first `g` queries keep everything.
//!
//! The published form works on blocks of 64 tokens; this one works on single tokens.

use std::sync::Arc;

use semfocus_core::spec::{Literal, MAX_SIZE, Parameter};
use semfocus_kernels::{Row, RowRule, RuleScores};

use super::randomk::draw_into;
use super::rows::{ByRow, window};
use crate::info::{Family, MechanismInfo};

/// A window, global tokens and random keys.
#[derive(Clone, Copy, Debug)]
struct BigBird {
    /// Keys in the window.
    width: usize,
    /// First tokens that see everything and are seen by every query.
    firsts: usize,
    /// Keys that are drawn.
    random: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputAgnostic,
    summary: "w keys around the query, the first g keys and r random ones",
    source: "Zaheer et al., Big Bird: Transformers for Longer Sequences, 2020",
    formula: "p = softmax of z over window, first g and r drawn keys; all if i < g",
    isolates: "the strongest published fixed pattern: local, global and random keys",
    parameters: &[
        Parameter::size("w", "the width of the window", 3).keyed().default(Literal::Number(3.0)),
        Parameter::whole("g", "the number of global first tokens", 0, MAX_SIZE, 2).default(Literal::Number(2.0)),
        Parameter::whole("r", "the number of random keys", 0, MAX_SIZE, 3).default(Literal::Number(3.0)),
    ],
    ..MechanismInfo::new("bigbird", |values| {
        let (width, firsts, random) = (values.whole("w"), values.whole("g"), values.whole("r"));
        Ok(Arc::new(ByRow(BigBird { width, firsts, random })))
    })
};

impl RowRule for BigBird {
    fn scores(&self) -> RuleScores {
        RuleScores::None
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        if row.query < self.firsts {
            kept.extend(0..row.visible as u32);
            return;
        }
        draw_into(row.fixed_key, row.visible, self.random, kept);
        kept.extend(0..self.firsts.min(row.visible) as u32);
        kept.extend(window(row.query, row.visible, self.width).map(|key| key as u32));
        kept.sort_unstable();
        kept.dedup();
    }
}
