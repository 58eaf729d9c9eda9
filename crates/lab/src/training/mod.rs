//! How a trial is trained.
//!
//! | to find | look in |
//! |---|---|
//! | steps, epochs and evaluation of a model: no files | [`trainer`] |
//! | a trial in its folder: going on from a checkpoint, saving after every epoch | [`session`] |
//! | loss and accuracy from logits | [`evaluation`] |
//! | batches: order and tensors | `batches` |

pub(crate) mod batches;
pub mod evaluation;
pub mod session;
pub mod trainer;

pub use batches::batch as batch_of;
pub use evaluation::{Evaluation, Tally};
pub use session::{Outcome, SessionError, Threads, Watch, run};
pub use trainer::{EpochEnd, Trainer, TrainingError};
