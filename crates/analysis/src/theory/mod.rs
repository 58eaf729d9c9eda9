//! The theory: when should attention to few keys learn faster?
//!
//! | to find | look in |
//! |---|---|
//! | how much the weights of attention can change when scores do | [`stability`] |
//! | when the guarantee of top-k attention is the better one | [`conditions`] |
//! | how steep the loss of a model can be, layer by layer | [`lipschitz`] |
//! | what both look like in trained models, pair by pair | [`pairs`] |
//!
//! Statements and proofs are in `docs/theory.md`.

pub mod conditions;
pub mod lipschitz;
pub mod pairs;
pub mod stability;
