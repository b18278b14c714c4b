//! Limits of waiting for a guest.

use std::time::{Duration, Instant};

/// Limits of a run at least, and for each page. Assumed: a hundred times the slowest mechanism.
const LEAST: Duration = Duration::from_secs(60);
const PER_PAGE: Duration = Duration::from_millis(2);
/// Most that counts between two looks: a host that stood still meanwhile, as a paused VM does, waited for nothing.
const MOST_AT_ONCE: Duration = Duration::from_secs(1);

/// The time after which a run over this many pages of all vCPUs is hung.
pub fn patience(pages: u64) -> Duration {
    LEAST + PER_PAGE * u32::try_from(pages).unwrap_or(u32::MAX)
}

/// Waiting that comes to an end, looked at again and again.
#[derive(Debug)]
pub struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    /// Waiting that begins now.
    pub fn new(limit: Duration) -> Self {
        Self {
            left: limit,
            looked: Instant::now(),
        }
    }

    /// True once the limit has passed. Called at least each second.
    pub fn is_over(&mut self) -> bool {
        self.is_over_at(Instant::now())
    }

    fn is_over_at(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.looked);
        self.left = self.left.saturating_sub(passed.min(MOST_AT_ONCE));
        self.looked = now;
        self.left.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_stands_still_is_waited_for() {
        let mut patience = Patience::new(Duration::from_secs(3));
        let began = patience.looked;
        let mut is_over = |seconds| patience.is_over_at(began + Duration::from_secs(seconds));
        assert!(!is_over(1));
        assert!(!is_over(500), "one second of it counts");
        assert!(is_over(501));
    }
}
