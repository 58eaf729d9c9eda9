//! How a model is trained. No files.
//!
//! | to find | look in |
//! |---|---|
//! | steps, epochs and evaluation of a model | [`Trainer`] |
//! | loss and accuracy from answers | [`evaluation`] |
//! | loss and accuracy by properties of the questions | `slices.rs` |
//! | batches: order and tensors | [`batch`] |

mod batches;
pub mod evaluation;
mod slices;
mod trainer;

pub use batches::batch;
pub use evaluation::{BATCH, Tally};
pub(crate) use trainer::with_stored_weights;
pub use trainer::{Trainer, TrainingError};
