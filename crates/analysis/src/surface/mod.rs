//! The surface of the training loss around the weights of a model.
//!
//! | to find | look in |
//! |---|---|
//! | the mean loss over fixed examples and its gradient, as functions of all weights in one row | [`objective`] |
//! | sharpness: the largest eigenvalues of the Hessian and its trace | [`sharpness`] |
//! | eigenvalues and trace of any symmetric operator that can only be applied | [`spectrum`] |
//! | eigenvalues of a tridiagonal matrix | [`tridiagonal`] |

pub mod objective;
pub mod sharpness;
pub mod spectrum;
pub mod tridiagonal;
