//! The surface of the training loss around the weights of a model.
//!
//! | to find | look in |
//! |---|---|
//! | planes through the weights: random, along the training path, through given models | [`directions`] |
//! | loss and accuracy over a grid of a plane, on all cores | [`landscape`] |
//! | empirical Lipschitz constants of such a grid | [`steepness`] |
//! | surfaces and sharpness in a run store | [`record`] |
//! | the mean loss over fixed examples and its gradient, as functions of all weights in one row | [`objective`] |
//! | sharpness: the largest eigenvalues of the Hessian and its trace | [`sharpness`] |
//! | eigenvalues and trace of any symmetric operator that can only be applied | [`spectrum`] |
//! | eigenvalues of a tridiagonal matrix | [`tridiagonal`] |

pub mod directions;
pub mod landscape;
pub mod objective;
pub mod record;
pub mod sharpness;
pub mod spectrum;
pub mod steepness;
pub mod tridiagonal;
