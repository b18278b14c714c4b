//! Gives up a guest that makes no progress, by the time that its QEMU had rather than by the clock on the wall.
//!
//! On a busy host a guest may run for a tenth of the time, and is as healthy. So three limits follow from one timeout:
//!
//! - *CPU time*: the timeout, for each vCPU. This catches guests that spin, and with `-icount sleep=off` those that
//!   wait for a timer: their clock jumps to it at once.
//! - *Idle time*: the timeout. A second is idle when QEMU used next to no CPU time in it and no thread of it was
//!   waiting for a CPU, so that a guest which halts for good is given up as early on a busy host as on an idle one.
//! - *Wall time*: 20 times the timeout, whatever the guest did.
//!
//! Each report of the guest starts all three anew.

use std::fmt;
use std::time::{Duration, Instant};

use pagetoll_host::process::Activity;

/// Interval of looks at QEMU: a hundred ticks of the clock that its CPU time is counted by.
const INTERVAL: Duration = Duration::from_secs(1);
/// A sleeping QEMU with less CPU time than a twentieth of the interval is idle. Its own timers take below a hundredth.
const IDLE_SHARE: u32 = 20;
/// Wall time in timeouts. A host with 20 runnable threads for each CPU is past measuring anything.
const WALL: u32 = 20;

/// The limits of one guest, and how near to them it is.
#[derive(Clone, Debug)]
pub(crate) struct Watchdog {
    timeout: Duration,
    vcpus: u32,
    /// At the last report, or the first look after it.
    start: Option<Look>,
    last: Option<Look>,
    idle: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    cpu: Duration,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// Total CPU time.
    Cpu { limit: Duration, vcpus: u32 },
    /// Time in which QEMU had nothing to do.
    Idle { limit: Duration },
    /// Wall time.
    Wall { limit: Duration, cpu: Duration },
}

impl Watchdog {
    pub(crate) fn new(timeout: Duration, vcpus: usize) -> Self {
        Self {
            timeout,
            vcpus: u32::try_from(vcpus).unwrap_or(u32::MAX),
            start: None,
            last: None,
            idle: Duration::ZERO,
        }
    }

    /// The guest reported something.
    pub(crate) fn progress(&mut self) {
        *self = Self {
            start: None,
            last: None,
            idle: Duration::ZERO,
            ..*self
        };
    }

    /// Returns whether it is time to examine QEMU again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.duration_since(last.at) >= INTERVAL)
    }

    /// Takes note of QEMU's activity.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn look(&mut self, now: Instant, activity: Activity) -> Result<(), Expiry> {
        let look = Look {
            at: now,
            cpu: activity.cpu,
        };
        let start = *self.start.get_or_insert(look);
        let last = self.last.replace(look).unwrap_or(look);
        let (wall, cpu) = last.until(look);
        if activity.asleep && cpu * IDLE_SHARE < wall {
            self.idle += wall;
        }
        let (wall, cpu) = start.until(look);
        self.check(wall, cpu)
    }

    fn check(&self, wall: Duration, cpu: Duration) -> Result<(), Expiry> {
        let limit = self.timeout;
        if cpu >= limit * self.vcpus {
            let vcpus = self.vcpus;
            return Err(Expiry::Cpu { limit, vcpus });
        }
        if self.idle >= limit {
            return Err(Expiry::Idle { limit });
        }
        let limit = limit * WALL;
        match wall >= limit {
            true => Err(Expiry::Wall { limit, cpu }),
            false => Ok(()),
        }
    }
}

impl Look {
    /// Wall and CPU time from this look to a later one.
    fn until(self, later: Self) -> (Duration, Duration) {
        (
            later.at.duration_since(self.at),
            later.cpu.saturating_sub(self.cpu),
        )
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { limit, vcpus: 1 } => {
                write!(f, "no report in {} s of its CPU time", limit.as_secs_f64())
            }
            Self::Cpu { limit, vcpus } => write!(
                f,
                "no report in {} s of CPU time for each of its {vcpus} vCPUs",
                limit.as_secs_f64()
            ),
            Self::Idle { limit } => {
                write!(f, "no report in {} s of idling", limit.as_secs_f64())
            }
            Self::Wall { limit, cpu } => write!(
                f,
                "no report in {} s ({WALL} times the timeout), of which it ran {:.1} s",
                limit.as_secs_f64(),
                cpu.as_secs_f64()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Looks once a second at a guest that uses so much CPU time in each; the second in which it is given up, and why.
    fn given_up(vcpus: usize, cpu_each: Duration, asleep: bool) -> (u32, Expiry) {
        let mut watchdog = Watchdog::new(TIMEOUT, vcpus);
        let began = Instant::now();
        (0..)
            .find_map(|second| {
                let activity = Activity {
                    cpu: cpu_each * second,
                    asleep,
                };
                let now = began + INTERVAL * second;
                let timed_out = watchdog.look(now, activity).err()?;
                Some((second, timed_out))
            })
            .unwrap()
    }

    #[test]
    fn a_spinning_guest_is_given_up_by_its_cpu_time() {
        let (second, why) = given_up(1, Duration::from_secs(1), false);
        assert_eq!(second, 30);
        assert_eq!(why.to_string(), "no report in 30 s of its CPU time");
        let (second, why) = given_up(2, Duration::from_secs(1), false);
        assert_eq!(second, 60);
        assert_eq!(
            why.to_string(),
            "no report in 30 s of CPU time for each of its 2 vCPUs"
        );
    }

    #[test]
    fn a_busy_host_delays_the_limit_of_cpu_time() {
        let (second, why) = given_up(1, Duration::from_millis(100), false);
        assert_eq!(second, 300);
        assert!(matches!(why, Expiry::Cpu { .. }), "{why}");
    }

    #[test]
    fn a_halted_guest_is_given_up_by_its_idle_time() {
        let (second, why) = given_up(1, Duration::from_millis(10), true);
        assert_eq!(second, 30);
        assert_eq!(why.to_string(), "no report in 30 s of idling");
    }

    #[test]
    fn a_starved_guest_is_not_idle_and_the_wall_clock_is_the_last_limit() {
        let (second, why) = given_up(1, Duration::from_millis(10), false);
        assert_eq!(second, 600);
        assert_eq!(
            why.to_string(),
            "no report in 600 s (20 times the timeout), of which it ran 6.0 s"
        );
    }

    #[test]
    fn a_report_starts_all_limits_anew() {
        let mut watchdog = Watchdog::new(TIMEOUT, 1);
        let began = Instant::now();
        let look = |watchdog: &mut Watchdog, second: u64| {
            let activity = Activity {
                cpu: Duration::from_secs(second),
                asleep: false,
            };
            watchdog.look(began + Duration::from_secs(second), activity)
        };
        assert!(look(&mut watchdog, 0).is_ok() && look(&mut watchdog, 29).is_ok());
        watchdog.progress();
        assert!(watchdog.is_due(began));
        assert!(look(&mut watchdog, 29).is_ok() && look(&mut watchdog, 58).is_ok());
        assert!(look(&mut watchdog, 59).is_err());
    }
}
