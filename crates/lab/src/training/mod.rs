//! How a model is trained. No files.
//!
//! | to find | look in |
//! |---|---|
//! | steps, epochs and evaluation of a model | [`Trainer`] |
//! | how many steps make an epoch | [`Schedule`] |
//! | loss and accuracy from logits | [`evaluation`] |
//! | batches: order and tensors | [`batch`] |

mod batches;
pub mod evaluation;
mod schedule;
mod trainer;

pub use batches::batch;
pub(crate) use batches::labels;
pub use evaluation::{BATCH, Tally};
pub use schedule::Schedule;
pub(crate) use trainer::with_stored_weights;
pub use trainer::{Trainer, TrainingError};
