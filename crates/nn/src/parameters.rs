//! Parameters and gradients by name: `embedding`, `blocks.0.attention.query.weight`, …, `classifier.bias`.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Gradients, Tensor, TensorData};

use crate::model::Encoder;

/// All parameters with their names, such as `blocks.0.attention.query.weight`, in the order of the model.
pub fn named_parameters(model: &Encoder) -> Vec<(String, TensorData)> {
    struct Values(Vec<(String, TensorData)>);
    impl Visit for Values {
        fn visit<const D: usize>(&mut self, name: String, parameter: &Param<Tensor<D>>) {
            self.0.push((name, parameter.val().into_data()));
        }
    }
    let mut values = Values(Vec::new());
    visit(model, &mut values);
    values.0
}

/// The gradients of all parameters with their names; zeros for a parameter that the loss does not depend on.
pub fn named_gradients(model: &Encoder, gradients: &Gradients) -> Vec<(String, TensorData)> {
    struct Grads<'a>(&'a Gradients, Vec<(String, TensorData)>);
    impl Visit for Grads<'_> {
        fn visit<const D: usize>(&mut self, name: String, parameter: &Param<Tensor<D>>) {
            let value = parameter.val();
            let gradient = value.grad(self.0).unwrap_or_else(|| value.inner().zeros_like());
            self.1.push((name, gradient.into_data()));
        }
    }
    let mut grads = Grads(gradients, Vec::new());
    visit(model, &mut grads);
    grads.1
}

/// Why parameters could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A parameter of the model was not given.
    #[error("parameter `{0}` is missing")]
    Missing(String),
    /// A given parameter is not in the model.
    #[error("the model has no parameter `{0}`")]
    Unknown(String),
    /// A given parameter has the wrong shape.
    #[error("parameter `{name}` has shape {given:?}, the model needs {needed:?}")]
    Shape {
        /// Name of the parameter.
        name: String,
        /// Shape given.
        given: Vec<usize>,
        /// Shape in the model.
        needed: Vec<usize>,
    },
}

/// The model with all its parameters replaced; their precision stays that of the model.
pub fn set_parameters(
    model: Encoder,
    parameters: impl IntoIterator<Item = (String, TensorData)>,
) -> Result<Encoder, ParameterError> {
    let mut parameters: BTreeMap<String, TensorData> = parameters.into_iter().collect();
    let mut known = Vec::new();
    for (name, present) in named_parameters(&model) {
        let given = parameters.get(&name).ok_or_else(|| ParameterError::Missing(name.clone()))?;
        let (given, needed) = (given.shape().to_vec(), present.shape().to_vec());
        if given != needed {
            return Err(ParameterError::Shape { name, given, needed });
        }
        known.push(name);
    }
    if let Some(name) = parameters.keys().find(|name| !known.contains(name)) {
        return Err(ParameterError::Unknown(name.clone()));
    }
    Ok(map(model, Tracking::AsBefore, |name, present| {
        (parameters.remove(name).expect("checked above"), present.dtype())
    }))
}

/// The model with all its parameters in double precision, for finite differences.
pub fn to_f64(model: Encoder) -> Encoder {
    map(model, Tracking::AsBefore, |_, present| (present, DType::F64))
}

/// Called with every parameter and its name.
pub(crate) trait Visit {
    fn visit<const D: usize>(&mut self, name: String, parameter: &Param<Tensor<D>>);
}

/// Shows all parameters to `visitor`, in the order of the model.
pub(crate) fn visit(model: &Encoder, visitor: &mut impl Visit) {
    struct Named<'a, V> {
        path: Vec<String>,
        visitor: &'a mut V,
    }
    impl<V: Visit> ModuleVisitor for Named<'_, V> {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
            self.visitor.visit(self.path.join("."), parameter);
        }
    }
    model.visit(&mut Named { path: Vec::new(), visitor });
}

/// Whether autodiff tracks parameters that replace others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracking {
    /// If it tracked those that they replace.
    AsBefore,
    /// Yes: a loss has gradients in them.
    On,
    /// No. Autodiff remembers every tracked parameter until a backward pass, so a model that is trained without one must not
    /// have tracked parameters after each step.
    Off,
}

/// The model with parameters that autodiff tracks.
pub(crate) fn tracked(model: Encoder) -> Encoder {
    map(model, Tracking::On, |_, present| {
        let dtype = present.dtype();
        (present, dtype)
    })
}

/// Replaces every parameter, in the order of the model, by what `new` returns for its name and present values: the new values
/// and their precision.
pub(crate) fn map(
    model: Encoder,
    tracking: Tracking,
    new: impl FnMut(&str, TensorData) -> (TensorData, DType),
) -> Encoder {
    struct Named<F> {
        path: Vec<String>,
        tracking: Tracking,
        new: F,
    }
    impl<F: FnMut(&str, TensorData) -> (TensorData, DType)> ModuleMapper for Named<F> {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.path.pop();
        }
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            let name = self.path.join(".");
            parameter.map(|value| {
                let device = value.device();
                let is_tracked = match self.tracking {
                    Tracking::AsBefore => value.is_require_grad(),
                    Tracking::On => true,
                    Tracking::Off => false,
                };
                let (data, dtype) = (self.new)(&name, value.into_data());
                let value = Tensor::from_data(data, (&device, dtype));
                if is_tracked { value.require_grad() } else { value }
            })
        }
    }
    model.map(&mut Named { path: Vec::new(), tracking, new })
}
