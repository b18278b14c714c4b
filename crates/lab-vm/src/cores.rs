//! Boots side by side, as far as the host has CPUs: boots that run at the same time run in parallel.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pagetoll_backend::{Stop, Stopped, join};

use crate::LabError;

/// Interval of looks at the stop while a boot waits.
const POLL: Duration = Duration::from_millis(50);

/// The host's CPUs.
#[derive(Debug)]
pub struct Cores {
    all: usize,
    free: Mutex<usize>,
    freed: Condvar,
}

/// CPUs that are taken until this is dropped.
#[derive(Debug)]
pub struct Lease<'a> {
    cores: &'a Cores,
    count: usize,
}

impl Cores {
    /// At least one.
    #[must_use]
    pub fn new(all: usize) -> Self {
        Self {
            all: all.max(1),
            free: Mutex::new(all.max(1)),
            freed: Condvar::new(),
        }
    }

    /// Waits for `count` CPUs, or for all of them where the host has fewer.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn take(&self, count: usize, stop: &Stop) -> Result<Lease<'_>, Stopped> {
        let count = count.min(self.all);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            stop.check()?;
            if *free >= count {
                *free -= count;
                return Ok(Lease { cores: self, count });
            }
            let waited = self.freed.wait_timeout(free, POLL);
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut free = self
            .cores
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *free += self.count;
        self.cores.freed.notify_all();
    }
}

/// Makes all jobs, each in a thread of its own; results come in the order of the jobs. `make` waits for CPUs.
///
/// # Errors
/// The first error that occurs; it stops the other jobs. Stopped when `stop` was requested.
pub fn side_by_side<J: Sync, T: Send>(
    jobs: &[J],
    stop: &Stop,
    make: impl Fn(&J, &Stop) -> Result<T, LabError> + Sync,
) -> Result<Vec<T>, LabError> {
    let others = stop.for_part();
    let first_error = Mutex::new(None);
    let remember = |error| {
        let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        others.request();
    };
    let made: Vec<_> = thread::scope(|scope| {
        let (make, others, remember) = (&make, &others, &remember);
        let spawn = |job| scope.spawn(move || make(job, others).map_err(remember).ok());
        let threads: Vec<_> = jobs.iter().map(spawn).collect();
        threads.into_iter().map(join).collect()
    });
    stop.check()?;
    let first = first_error.into_inner();
    match first.unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(made.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn never_more_than_there_are() {
        let cores = Cores::new(2);
        let (busy, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for count in [1, 2, 1, 1, 2, 1] {
                let (cores, busy, most) = (&cores, &busy, &most);
                scope.spawn(move || {
                    let _taken = cores.take(count, &Stop::new()).unwrap();
                    most.fetch_max(
                        busy.fetch_add(count, Ordering::SeqCst) + count,
                        Ordering::SeqCst,
                    );
                    thread::sleep(Duration::from_millis(2));
                    busy.fetch_sub(count, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn one_cpu_has_to_do_for_a_race() {
        let cores = Cores::new(1);
        drop(cores.take(2, &Stop::new()).unwrap());
    }

    #[test]
    fn waiting_ends_when_the_work_is_stopped() {
        let (cores, stop) = (Cores::new(1), Stop::new());
        let _all = cores.take(1, &stop).unwrap();
        stop.request();
        assert!(matches!(cores.take(1, &stop), Err(Stopped)));
    }

    fn malformed(boot: u32) -> LabError {
        LabError::Malformed {
            boot: boot.to_string(),
            problem: "p".to_owned(),
        }
    }

    #[test]
    fn results_come_in_order_and_the_first_error_stops_the_others() {
        let stop = Stop::new();
        let all = side_by_side(&[1, 2, 3], &stop, |job, _| Ok(job * 10));
        assert_eq!(all.unwrap(), [10, 20, 30]);
        let error = side_by_side(&[1, 2], &stop, |&job, stop| {
            while job == 1 && !stop.requested() {
                thread::yield_now();
            }
            Err::<(), _>(malformed(job))
        });
        assert!(error.unwrap_err().to_string().contains("the 2 guest"));
        assert!(!stop.requested());
    }
}
