//! Stopping when asked to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use semfocus_lab::jobs::Deadline;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::low_level::signal_name;

use crate::talk::say;
use crate::{Error, Exit};

/// The first signal asks the run to stop, the second one ends it at once. All work of the process shares one flag.
pub(crate) fn stop_on_signals() -> Result<Arc<AtomicBool>, Error> {
    static STOP: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);
    let mut shared = STOP.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stop) = &*shared {
        return Ok(stop.clone());
    }
    let stop = Signals::catch(false)?.stop;
    *shared = Some(stop.clone());
    Ok(stop)
}

/// Requests to stop.
pub(crate) struct Signals {
    /// Set when the run should stop soon.
    pub(crate) stop: Arc<AtomicBool>,
    /// The last signal; 0 before the first.
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches the signals that ask a process to stop. Clusters send USR1, USR2 or TERM before the time of a job is up, and XCPU
    /// when its processor time is. They repeat them, so of these only TERM, sent by hand, ends the process the second time; with
    /// `is_patient` it does not either.
    pub(crate) fn catch(is_patient: bool) -> Result<Self, Error> {
        let signals = Signals { stop: Arc::default(), last: Arc::default() };
        let hang_up = (!is_hang_up_ignored()).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU].into_iter().chain(hang_up) {
            let is_repeated = [SIGUSR1, SIGUSR2, SIGXCPU].contains(&signal) || is_patient && signal == SIGTERM;
            let (stop, last) = (&signals.stop, &signals.last);
            if !is_repeated {
                let code = Exit::Interrupted.code().into();
                signal_hook::flag::register_conditional_shutdown(signal, code, stop.clone())?;
            }
            signal_hook::flag::register_usize(signal, last.clone(), signal as usize)?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(signals)
    }

    /// The name of the last signal, if there was one.
    pub(crate) fn last(&self) -> Option<&'static str> {
        signal_name(self.last.load(Ordering::Relaxed) as i32).map(|name| name.trim_start_matches("SIG"))
    }
}

/// Sets the flag when the time is up, if the process still lives.
pub(crate) fn stop_at(deadline: Deadline, stop: &Arc<AtomicBool>) {
    let stop = stop.clone();
    let wait = move || {
        while !deadline.left().is_zero() {
            std::thread::sleep(deadline.left());
        }
        stop.store(true, Ordering::Relaxed);
    };
    if std::thread::Builder::new().spawn(wait).is_err() {
        say!("note: could not start the timer thread; relying on signals instead");
    }
}

/// Whether the process was started with `nohup`, and has to continue when the terminal is closed. Systems without `/proc` do not
/// tell; there it saves and stops.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}
