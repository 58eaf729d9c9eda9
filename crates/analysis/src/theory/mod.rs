//! The theory: when should attention that keeps few keys learn faster?
//!
//! | to find | look in |
//! |---|---|
//! | how much attention weights can change with the scores | [`stability`] |
//! | when top-k attention has the better guarantee | [`conditions`] |
//! | how steep the loss of a model can be, layer by layer | [`lipschitz`] |
//! | the conditions in trained models, pair by pair | [`pairs`] |
//!
//! Statements and proofs are in `docs/theory.md`.

pub mod conditions;
pub mod lipschitz;
pub mod pairs;
pub mod stability;
