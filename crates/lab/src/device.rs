//! Where the arithmetic runs.

use std::fmt;
use std::str::FromStr;

use burn::tensor::Device as BurnDevice;

/// A device that Burn was built for. The CPU has the fused operators; all others run the reference forms.
#[derive(Clone, Debug)]
pub struct Device {
    name: String,
    device: BurnDevice,
}

impl Device {
    /// The kinds of devices this program was built for, by the names of the cargo features that add them.
    pub const KINDS: &'static [&'static str] = &[
        "cpu",
        #[cfg(feature = "cuda")]
        "cuda",
        #[cfg(feature = "metal")]
        "metal",
        #[cfg(feature = "rocm")]
        "rocm",
        #[cfg(feature = "wgpu")]
        "wgpu",
    ];

    /// The processor.
    pub fn cpu() -> Self {
        Device { name: "cpu".to_owned(), device: BurnDevice::flex() }
    }

    /// Name on the command line and in `env.json`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For models that are only evaluated.
    pub fn plain(&self) -> BurnDevice {
        self.device.clone()
    }

    /// For models that are trained.
    pub fn autodiff(&self) -> BurnDevice {
        self.device.clone().autodiff()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Device {
    type Err = String;

    /// `cpu`, or a kind with the index of the device after a colon: `cuda:1`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => {
                let index = index.parse::<usize>().map_err(|_| format!("`{index}` in `{text}` is not a number"))?;
                (kind, Some(index))
            }
            None => (text, None),
        };
        let device = match (kind, index) {
            ("cpu", None) => BurnDevice::flex(),
            ("cpu", Some(_)) => return Err("the CPU has no index: write `cpu`".to_owned()),
            #[cfg(feature = "cuda")]
            ("cuda", index) => BurnDevice::cuda(index.unwrap_or(0)),
            #[cfg(feature = "rocm")]
            ("rocm", index) => BurnDevice::rocm(index.unwrap_or(0)),
            #[cfg(feature = "wgpu")]
            ("wgpu", index) => BurnDevice::wgpu(gpu(index)),
            #[cfg(feature = "metal")]
            ("metal", index) => BurnDevice::metal(gpu(index)),
            (kind, _) if ["cuda", "metal", "rocm", "wgpu"].contains(&kind) => {
                return Err(format!(
                    "this program was built without {kind}; build it with `cargo build --release --features {kind}`"
                ));
            }
            _ => return Err(format!("there is no device `{text}`; this program has {}", Self::KINDS.join(", "))),
        };
        Ok(Device { name: text.to_owned(), device })
    }
}

#[cfg(any(feature = "wgpu", feature = "metal"))]
fn gpu(index: Option<usize>) -> burn::tensor::DeviceKind {
    use burn::tensor::DeviceKind;
    index.map_or(DeviceKind::DefaultDevice, DeviceKind::DiscreteGpu)
}
