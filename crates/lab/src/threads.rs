//! Threads, as far as the system gives them: containers and clusters limit their number. Results do not depend on it.

use std::iter::successors;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Lets work that runs in parallel everywhere do without threads, if the system gives none. To be called once, at the start.
pub fn prepare_threads() {
    if std::thread::Builder::new().spawn(|| ()).is_err() {
        // It fails only if there is a pool already.
        let _ = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build_global();
    }
}

/// A pool of this many threads, or of fewer if the system has no more to give; the calling thread alone if it gives none. None
/// if that one makes a pool already, which will do.
pub(crate) fn thread_pool(threads: usize) -> Option<ThreadPool> {
    let sizes = successors(Some(threads.max(1)), |size| (*size > 1).then_some(size / 2));
    let mut built = sizes.filter_map(|size| ThreadPoolBuilder::new().num_threads(size).build().ok());
    built.next().or_else(|| ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok())
}

/// Runs work on a single thread.
pub(crate) fn on_one_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match thread_pool(1) {
        Some(pool) => pool.install(work),
        None => work(),
    }
}
