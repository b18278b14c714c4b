//! CPU time of this thread, and the time that it waited for a CPU.

use std::fs;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread. What its vCPU runs in the guest is part of it.
pub fn thread_time() -> Duration {
    clock(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process, also of those that have ended.
pub fn process_time() -> Duration {
    clock(ClockId::ProcessCPUTime)
}

fn clock(id: ClockId) -> Duration {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Time of threads on CPUs, and on run queues. Scheduler's own clock, not ticks: `sched_info` of Linux's kernel/sched/stats.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// On a CPU.
    pub ran: Duration,
    /// Runnable, and not on a CPU; 0 where the kernel does not count it (CONFIG_SCHED_INFO).
    pub waited: Duration,
}

impl Scheduled {
    /// Times of the calling thread since it began.
    pub fn of_thread() -> Self {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        Self {
            ran: thread_time(),
            waited: run_delay(&text).unwrap_or_default(),
        }
    }
}

/// The second of the fields `cpu_time run_delay slices`, in nanoseconds.
fn run_delay(text: &str) -> Option<Duration> {
    let delay = text.split_whitespace().nth(1)?;
    Some(Duration::from_nanos(delay.parse().ok()?))
}

impl AddAssign for Scheduled {
    fn add_assign(&mut self, other: Self) {
        self.ran += other.ran;
        self.waited += other.waited;
    }
}

impl Sub for Scheduled {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_no_time_of_the_thread() {
        let slept = Duration::from_millis(20);
        let before = thread_time();
        std::thread::sleep(slept);
        assert!(thread_time() - before < slept);
    }

    #[test]
    fn time_on_a_run_queue_is_the_second_field() {
        assert_eq!(
            run_delay("336006 2670921 2\n"),
            Some(Duration::from_nanos(2_670_921))
        );
        assert_eq!(run_delay(""), None);
    }

    #[test]
    fn the_process_ran_at_least_as_long_as_this_thread() {
        let thread = Scheduled::of_thread();
        assert!(thread.ran <= process_time());
        let mut sum = thread;
        sum += Scheduled {
            ran: Duration::from_secs(1),
            waited: Duration::from_secs(2),
        };
        let added = sum - thread;
        assert_eq!((added.ran.as_secs(), added.waited.as_secs()), (1, 2));
    }
}
