//! Pages at no more than a bandwidth.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pagetoll_live_host::own_process::now;

/// Lateness that is made up for: of a thread that slept too long.
const CREDIT: f64 = 200_000.0;

/// A line that sends one page after another.
#[derive(Debug)]
pub(super) struct Pace {
    nanos_per_page: f64,
    /// Time of the monotonic clock at which the line is free.
    free: Mutex<f64>,
}

impl Pace {
    /// A line of so many MiB a second.
    pub(super) fn new(mib_per_second: u32) -> Self {
        Self {
            nanos_per_page: nanos_per_page(mib_per_second),
            free: Mutex::new(0.0),
        }
    }

    /// Begins anew: a line that had nothing to send does not make up for it.
    pub(super) fn begin(&self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free = free.max(now() as f64);
    }

    /// Sleeps until pages have gone over the line, after those before them.
    pub(super) fn pass(&self, pages: u64) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = free.max(now() as f64 - CREDIT);
        *free = begun + pages as f64 * self.nanos_per_page;
        let ended = *free;
        drop(free);
        let left = ended - now() as f64;
        if left > 0.0 {
            thread::sleep(Duration::from_secs_f64(left / 1e9));
        }
    }
}

/// Time of a page at a bandwidth.
pub(super) fn nanos_per_page(mib_per_second: u32) -> f64 {
    4096.0 * 1e9 / (f64::from(mib_per_second) * (1 << 20) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_never_faster_than_the_line() {
        assert!((nanos_per_page(1) - 3_906_250.0).abs() < 1e-6);
        let pace = Pace::new(4);
        let begun = now();
        for pages in [3, 1, 2] {
            pace.pass(pages);
        }
        let least = 6.0 * nanos_per_page(4) - CREDIT;
        assert!((now() - begun) as f64 >= least);
        // After a pause there is nothing to make up for.
        thread::sleep(Duration::from_millis(1));
        let begun = now();
        pace.begin();
        pace.pass(1);
        assert!((now() - begun) as f64 >= nanos_per_page(4));
    }
}
