//! A transformer encoder whose attention mechanism is exchangeable, on Burn.
//!
//! | to find | look in |
//! |---|---|
//! | what a mechanism is: the choice of keys, the weighting, the fast form | [`mechanism`] |
//! | the mechanisms themselves, one file each | [`mechanisms`] |
//! | the list of mechanisms, and how `topk:5` becomes one | [`info`], [`registry`] |
//! | the settings of a model | [`semfocus_core::model`] |
//! | the parameters of a model | [`weights`] |
//! | what else a forward pass takes: tokens, keys of random decisions | [`Pass`], [`TokenRows`] |
//! | what the laboratory asks of a model | [`Model`] |
//! | the model of the study: building it, forward pass in either form | [`Encoder`] |
//! | the definition of the model as plain tensor code: embedding, loop over the blocks, both sublayers | [`reference`](mod@reference) |
//! | the same as single operators on the CPU, with hand-written gradients | [`fused`] |
//! | what both forms of a sublayer take, and what a mechanism sees of a layer | [`sublayer`], [`LayerContext`] |
//! | what can be observed of a forward pass | [`ObservedLayer`], [`LayerTrace`] |
//! | parameters and gradients by name | [`parameters`] |
//! | the training step: loss, gradients, clipping, update | [`train`] |
//! | SGD with momentum, Adam, AdamW | [`optimizer`] |
//! | where every random number comes from | [`streams`] |
//! | how much arithmetic a model needs, and how fast this machine is | [`cost`] |
//! | how the fast form of a mechanism is compared with its reference form | [`conformance`] |
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

mod block_attentions;
pub mod conformance;
mod context;
pub mod cost;
mod encoder;
pub mod fused;
pub mod info;
mod initial;
mod input;
mod loss;
pub mod mechanism;
pub mod mechanisms;
pub mod model;
mod observer;
pub mod optimizer;
pub mod parameters;
mod positions;
pub mod reference;
pub mod registry;
pub mod streams;
pub mod sublayer;
mod trace;
pub mod train;
mod weighting;
pub mod weights;

pub use block_attentions::BlockAttentions;
pub use context::LayerContext;
pub use encoder::Encoder;
pub use info::{Family, MechanismInfo};
pub use input::{Pass, Relevance, TokenRows};
pub use mechanism::{FastForm, HeadTensors, LayerShape, Mechanism, MechanismParameter};
pub use model::Model;
pub use observer::ObservedLayer;
pub use optimizer::{OptimizerConfig, StandardOptimizer};
pub use registry::{Attention, Registry};
pub use semfocus_core::spec::Named;
pub use semfocus_core::{
    Activation, ConfigError, Engine, Head, Initialisation, Key, LrFactors, ModelConfig, Parameter, PositionKind,
    Quirks, Schedule, Spec, SpecError, Values, Visibility,
};
pub use semfocus_kernels::{
    Answer, Dropout, FusedWeighting, InstructionSet, KeptKeys, ObservedRow, RelevantKeys, Row, RowObserver, RowRule,
    RuleScores, SMALL_HEAD, Selection, cross_entropy, keep_freed_memory,
};
pub use sublayer::{AttentionSublayer, MlpSublayer};
pub use trace::{AttentionTrace, LayerTrace};
pub use weighting::{Content, WeightFunction, Weighting};
