//! The theory: when should attention to few keys learn faster?
//!
//! | to find | look in |
//! |---|---|
//! | how much the weights of attention can change when scores do | [`stability`] |
//! | when the guarantee of top-k attention is the better one | [`conditions`] |
//!
//! Statements and proofs are in `docs/theory.md`.

pub mod conditions;
pub mod stability;
