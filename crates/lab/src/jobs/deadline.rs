//! When a process has to be done.

use std::time::{Duration, Instant};

/// The time at which a process will stop, such as the end of a job of a cluster, less what it takes to save.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    began: Instant,
    at: Instant,
}

impl Deadline {
    /// A deadline in so much time from now; none if that is too far away for a clock.
    pub fn after(left: Duration) -> Option<Self> {
        let began = Instant::now();
        Some(Deadline { began, at: began.checked_add(left)? })
    }

    /// Time that is left.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Whether work that takes this time, and is lost or delayed if it is interrupted, should begin now.
    pub(crate) fn allows(&self, needed: Duration) -> bool {
        fits(needed, self.left(), self.at - self.began)
    }
}

/// Whether work should begin: it fits into the time that is left, or not even into the whole session, so that another process
/// would have to interrupt it, too.
fn fits(needed: Duration, left: Duration, session: Duration) -> bool {
    // Epochs do not all take the same time.
    let needed = needed.mul_f64(1.1);
    needed <= left || needed > session
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_begins_only_if_it_can_end_or_never_could() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let begins = |needed, left, session| fits(minutes(needed), minutes(left), minutes(session));
        assert!(begins(10, 120, 120) && begins(10, 11, 120) && begins(0, 0, 120));
        assert!(!begins(10, 10, 120), "it may take a little longer");
        assert!(!begins(10, 3, 120) && !begins(100, 90, 120));
        assert!(begins(150, 120, 120) && begins(150, 3, 120), "no process of this length could end it");
    }

    #[test]
    fn time_passes() {
        let deadline = Deadline::after(Duration::from_millis(20)).unwrap();
        assert!(deadline.left() <= Duration::from_millis(20) && deadline.allows(Duration::ZERO));
        std::thread::sleep(Duration::from_millis(25));
        assert_eq!(deadline.left(), Duration::ZERO);
        assert!(!deadline.allows(Duration::from_millis(10)));
        assert!(Deadline::after(Duration::MAX).is_none());
    }
}
