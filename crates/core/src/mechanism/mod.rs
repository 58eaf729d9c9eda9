//! How attention is written.
//!
//! | | for instance |
//! |---|---|
//! | a mechanism: a [spec](crate::spec) | `full`, `topk:5`, `topk:5,ties=random`, `moba:block=8,k=2`, `banded:5+g1` |
//! | one for each block of the model | `topk:5/full/full` |
//! | a change during training | `full@0,topk:5@10`: epochs 1 to 10 with `full`, from then on `topk:5` |
//! | a list | `full,topk:5,moba:block=8,k=2,full@0,topk:5@10` |

mod list;
mod schedule;

pub use list::{MechanismList, split_list};
pub use schedule::{Layers, Schedule, Stage};

/// The mechanism that all others are compared with.
pub const BASELINE: &str = "full";
