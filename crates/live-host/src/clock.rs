//! The counter that guests read for the time, and how long a tick of it is.

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::arch;

/// A moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    ticks: u64,
    nanoseconds: i128,
}

impl Moment {
    /// The present.
    pub fn now() -> Self {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::MonotonicRaw);
        Self {
            ticks: arch::ticks(),
            nanoseconds: i128::from(tv_sec) * 1_000_000_000 + i128::from(tv_nsec),
        }
    }

    /// Nanoseconds of a tick, from this moment to a later one; 0 where no time has passed.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a ratio of some hours is exact enough"
    )]
    pub fn nanoseconds_per_tick(self, later: Self) -> f64 {
        let ticks = later.ticks.saturating_sub(self.ticks);
        let nanoseconds = later.nanoseconds - self.nanoseconds;
        if ticks == 0 {
            0.0
        } else {
            nanoseconds as f64 / ticks as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_lasts_as_long_as_one_of_such_a_counter() {
        let before = Moment::now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let tick = before.nanoseconds_per_tick(Moment::now());
        assert!(arch::TICK_NANOSECONDS.contains(&tick), "{tick}");
    }
}
