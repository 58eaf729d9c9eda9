//! Stopping when asked to.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Error, Exit};

/// The first signal asks the run to stop, the second one ends it at once.
pub(crate) fn stop_on_signals() -> Result<Arc<AtomicBool>, Error> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted.code().into(), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}
