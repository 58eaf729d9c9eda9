//! A transformer encoder whose attention mechanism is exchangeable, on Burn.
//!
//! | to find | look in |
//! |---|---|
//! | what a mechanism is: the trait, its reference form and its fast form | [`mechanism`] |
//! | the mechanisms themselves, one file each | [`mechanisms`] |
//! | the list of them, and how `topk:5` becomes one | [`registry`], [`spec`] |
//! | the settings of a model | [`config`] |
//! | the model: parameters, initialisation, forward pass | [`model`] |
//! | the embedding and the two sublayers of a block as plain tensor code: the definition | [`reference`](mod@reference) |
//! | the same as single operators on the CPU, with hand-written gradients | [`fused`] |
//! | what both forms of a sublayer are told | [`sublayer`] |
//! | parameters and gradients by name | [`parameters`] |
//! | spectral norms of the parameters | [`norms`] |
//! | the training step: loss, gradients, clipping, update | [`train`] |
//! | SGD with momentum, Adam, AdamW | [`optimizer`] |
//! | where every random number comes from | [`streams`] |
//! | how much arithmetic a model asks for | [`cost`] |
//! | how the fast form of a mechanism is held to its reference form | [`conformance`] |
//!
//! ```
//! use burn::tensor::{Device, Int, Tensor};
//! use semfocus_nn::{Encoder, ModelConfig, Pass, Registry};
//!
//! let device = Device::flex();
//! let attention = Registry::standard().parse("topk:5")?;
//! let model = Encoder::new(ModelConfig::new(2, 2), attention, 1, &device)?;
//! let tokens = Tensor::<2, Int>::from_data([[0, 1, 1, 0], [1, 1, 0, 0]], &device);
//! let logits = model.forward(tokens, Pass::evaluation(1, 0));
//! assert_eq!(logits.dims(), [2, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod conformance;
pub mod cost;
pub mod fused;
pub mod mechanism;
pub mod mechanisms;
pub mod model;
pub mod norms;
pub mod optimizer;
pub mod parameters;
mod positions;
pub mod reference;
pub mod registry;
pub mod spec;
pub mod streams;
pub mod sublayer;
pub mod train;

pub use config::{Activation, ConfigError, Engine, ModelConfig, Oddities};
pub use mechanism::{FastForm, Mechanism, Site};
pub use model::{Encoder, Pass};
pub use norms::ModelNorms;
pub use optimizer::{OptimizerConfig, StandardOptimizer};
pub use registry::{Attention, Family, MechanismInfo, Registry};
pub use semfocus_kernels::{Dropout, KeptKeys, Key, RowRule, SeenRow, Watch};
pub use spec::{MechanismSpec, SpecError};
