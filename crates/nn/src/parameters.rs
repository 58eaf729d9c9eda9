//! Parameters and gradients by name: `embedding`, `blocks.0.attention.query.weight`, …, `classifier.bias`.

use std::collections::{BTreeMap, HashMap};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Gradients, Tensor, TensorData};
use semfocus_kernels::LinearGradient;

/// All parameters with their names, such as `blocks.0.attention.query.weight`, in the order of the model.
pub fn named_parameters(model: &impl Module) -> Vec<(String, TensorData)> {
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
pub fn named_gradients(model: &impl Module, gradients: &Gradients) -> Vec<(String, TensorData)> {
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

/// The gradients of the parameters of a model, by their names. `None` stands for a parameter that the loss does not depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedGradients(Vec<(String, Option<Vec<f32>>)>);

impl NamedGradients {
    /// Gradients of a loss that depends on nothing.
    pub(crate) fn zeros(model: &impl Module) -> Self {
        let zeros = |(name, data): (String, TensorData)| (name, Some(vec![0.0; data.num_elements()]));
        NamedGradients(named_parameters(model).into_iter().map(zeros).collect())
    }

    /// Adds the gradient of a parameter.
    pub fn add(&mut self, name: String, gradient: Option<Vec<f32>>) {
        self.0.push((name, gradient));
    }

    /// Adds the gradients of `NAME.weight` and `NAME.bias`.
    pub(crate) fn add_linear(&mut self, name: &str, LinearGradient { weight, bias }: LinearGradient) {
        self.add(format!("{name}.weight"), Some(weight));
        self.add(format!("{name}.bias"), Some(bias));
    }

    /// Adds the gradients of `NAME.scale` and `NAME.shift`, if there are such.
    pub(crate) fn add_norm(&mut self, name: &str, gradients: Option<[Vec<f32>; 2]>) {
        if let Some([scale, shift]) = gradients {
            self.add(format!("{name}.scale"), Some(scale));
            self.add(format!("{name}.shift"), Some(shift));
        }
    }

    /// Takes the gradients of a model's parameters out of the result of a backward pass.
    pub fn take(model: &impl Module, gradients: Gradients) -> Self {
        struct Take(Gradients, NamedGradients);
        impl Visit for Take {
            fn visit<const D: usize>(&mut self, name: String, parameter: &Param<Tensor<D>>) {
                let gradient = parameter.val().grad_remove(&mut self.0);
                let values = |gradient: Tensor<D>| gradient.into_data().try_into_vec::<f32>();
                let values = gradient.map(|gradient| values(gradient).expect("models are trained in single precision"));
                self.1.add(name, values);
            }
        }
        let mut take = Take(gradients, NamedGradients::default());
        visit(model, &mut take);
        take.1
    }

    /// All gradients with the names of their parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&[f32]>)> {
        self.0.iter().map(|(name, gradient)| (name.as_str(), gradient.as_deref()))
    }

    /// All values of all gradients that there are, gradient after gradient.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Vec<f32>> {
        self.0.iter_mut().filter_map(|(_, gradient)| gradient.as_mut())
    }

    /// The model with each parameter changed by `update`, which gets its number in the order of the model, its name, its values and its
    /// gradient. Autodiff does not track the new parameters. Parameters that the loss does not depend on stay as they are.
    ///
    /// # Panics
    /// If a parameter has no gradient, or not one of its size, and if a gradient has no parameter: the model and the code that
    /// computes its gradients disagree.
    pub(crate) fn apply<M: Module>(self, model: M, mut update: impl FnMut(usize, &str, &mut [f32], &[f32])) -> M {
        let mut left: HashMap<String, Option<Vec<f32>>> = self.0.into_iter().collect();
        let mut number = 0;
        let model = map(model, Tracking::Off, |name, mut value| {
            let gradient = left.remove(name).unwrap_or_else(|| panic!("the parameter `{name}` has no gradient"));
            let values = value.as_mut_slice::<f32>().expect("models are trained in single precision");
            if let Some(gradient) = gradient {
                assert_eq!(gradient.len(), values.len(), "values of `{name}` and of its gradient");
                update(number, name, values, &gradient);
            }
            number += 1;
            let dtype = value.dtype();
            (value, dtype)
        });
        assert!(left.is_empty(), "there are gradients of unknown parameters: {:?}", left.keys());
        model
    }
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
pub fn set_parameters<M: Module>(
    model: M,
    parameters: impl IntoIterator<Item = (String, TensorData)>,
) -> Result<M, ParameterError> {
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
pub fn to_f64<M: Module>(model: M) -> M {
    map(model, Tracking::AsBefore, |_, present| (present, DType::F64))
}

/// Called with every parameter and its name.
pub(crate) trait Visit {
    fn visit<const D: usize>(&mut self, name: String, parameter: &Param<Tensor<D>>);
}

/// Shows all parameters to `visitor`, in the order of the model.
pub(crate) fn visit(model: &impl Module, visitor: &mut impl Visit) {
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
pub(crate) fn tracked<M: Module>(model: M) -> M {
    map(model, Tracking::On, |_, present| {
        let dtype = present.dtype();
        (present, dtype)
    })
}

/// Replaces every parameter, in the order of the model, by what `new` returns for its name and present values: the new values
/// and their precision.
pub(crate) fn map<M: Module>(
    model: M,
    tracking: Tracking,
    new: impl FnMut(&str, TensorData) -> (TensorData, DType),
) -> M {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Linear;

    fn linear() -> Linear {
        let device = burn::tensor::Device::flex();
        Linear {
            weight: Param::from_tensor(Tensor::from_data([[1.0, 2.0], [3.0, 4.0]], &device)),
            bias: Param::from_tensor(Tensor::from_data([5.0, 6.0], &device)),
        }
    }

    /// Subtracts gradients that are given by name from the parameters, and returns the weight and the bias.
    fn descend(gradients: &[(&str, Option<&[f32]>)]) -> [Vec<f32>; 2] {
        let mut named = NamedGradients::default();
        gradients.iter().for_each(|(name, values)| named.add((*name).to_owned(), values.map(<[f32]>::to_vec)));
        let model = named.apply(linear(), |_, _, values, gradient| {
            values.iter_mut().zip(gradient).for_each(|(value, gradient)| *value -= gradient);
        });
        [model.weight.val().into_data(), model.bias.val().into_data()].map(|data| data.iter::<f32>().collect())
    }

    const WEIGHT: (&str, Option<&[f32]>) = ("weight", Some(&[1.0, 1.0, 1.0, 0.5]));
    const BIAS: (&str, Option<&[f32]>) = ("bias", Some(&[2.0, -2.0]));

    #[test]
    fn gradients_find_their_parameters_by_name() {
        let expected = [vec![0.0, 1.0, 2.0, 3.5], vec![3.0, 8.0]];
        assert_eq!(descend(&[WEIGHT, BIAS]), expected);
        assert_eq!(descend(&[BIAS, WEIGHT]), expected, "the order does not matter");
        assert_eq!(descend(&[WEIGHT, ("bias", None)])[1], [5.0, 6.0], "the loss does not depend on it");
    }

    #[test]
    #[should_panic(expected = "the parameter `bias` has no gradient")]
    fn a_parameter_without_gradient_is_noticed() {
        descend(&[WEIGHT]);
    }

    #[test]
    #[should_panic(expected = "gradients of unknown parameters: [\"scale\"]")]
    fn a_gradient_without_parameter_is_noticed() {
        descend(&[WEIGHT, BIAS, ("scale", Some(&[1.0]))]);
    }

    #[test]
    #[should_panic(expected = "values of `bias` and of its gradient")]
    fn a_gradient_of_another_size_is_noticed() {
        descend(&[WEIGHT, ("bias", Some(&[1.0]))]);
    }
}
