//! CPU time of this thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of the calling thread. What its vCPU runs in the guest is part of it.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
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
}
