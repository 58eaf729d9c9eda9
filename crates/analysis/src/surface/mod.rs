//! The surface of the training loss around the weights of a model.
//!
//! | to find | look in |
//! |---|---|
//! | eigenvalues and trace of any symmetric operator that can only be applied | [`spectrum`] |
//! | eigenvalues of a tridiagonal matrix | [`tridiagonal`] |

pub mod spectrum;
pub mod tridiagonal;
