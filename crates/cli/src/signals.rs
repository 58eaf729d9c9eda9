//! Stopping when asked to.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Error, Exit};

/// The first signal asks the run to stop, the second one ends it at once.
pub(crate) fn stop_on_signals() -> Result<Arc<AtomicBool>, Error> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    let hang_up = (!is_hang_up_ignored()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted.code().into(), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Whether the process was started with `nohup`, and is to go on when the terminal is closed. Systems without `/proc` do not
/// tell; there it saves and stops.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal_hook::consts::SIGHUP - 1) & 1 == 1)
}
