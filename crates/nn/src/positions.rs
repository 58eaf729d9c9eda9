//! Sinusoidal positions.

use std::sync::{Arc, Mutex};

use burn::tensor::{DType, Device, Tensor, TensorData};

/// The position vectors. Each table is kept after its first use, because training needs the same one at every step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    known: Arc<Mutex<Vec<Tensor<2>>>>,
}

impl Positions {
    /// `[length, width]`: feature `2i` is `sin(position / 10000^(2i / width))`, feature `2i + 1` the cosine.
    pub(crate) fn get(&self, length: usize, width: usize, device: &Device, dtype: DType) -> Tensor<2> {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fits = |t: &&Tensor<2>| t.dims() == [length, width] && t.dtype() == dtype && t.device() == *device;
        if let Some(positions) = known.iter().find(fits) {
            return positions.clone();
        }
        let data = TensorData::new(sinusoids(length, width), [length, width]);
        let positions = Tensor::from_data(data, (&device.clone().inner(), dtype));
        known.push(positions.clone());
        positions
    }
}

/// Row-major `[length, width]`, in double precision: single precision loses digits of the angle at far positions.
fn sinusoids(length: usize, width: usize) -> Vec<f64> {
    let value = |position: usize, feature: usize| {
        let pair = feature - feature % 2;
        let angle = position as f64 / 10000f64.powf(pair as f64 / width as f64);
        if feature == pair { angle.sin() } else { angle.cos() }
    };
    (0..length).flat_map(|position| (0..width).map(move |feature| value(position, feature))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let table = sinusoids(3, 4);
        assert_eq!(table[..4], [0.0, 1.0, 0.0, 1.0]);
        let expected = [2f64.sin(), 2f64.cos(), 0.02f64.sin(), 0.02f64.cos()];
        assert!(table[8..].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15));
        assert_eq!(sinusoids(2, 3).len(), 6, "odd widths end with a sine");
    }

    #[test]
    fn the_table_is_made_once() {
        let positions = Positions::default();
        let device = Device::flex();
        for _ in 0..3 {
            positions.get(5, 4, &device, DType::F32);
            positions.get(5, 4, &device.clone().autodiff(), DType::F32);
        }
        positions.get(5, 4, &device, DType::F64);
        assert_eq!(positions.known.lock().unwrap().len(), 2);
    }
}
