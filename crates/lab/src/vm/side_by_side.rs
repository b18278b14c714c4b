//! Boots that run at the same time.

use std::sync::{Mutex, PoisonError};
use std::thread;

use pagetoll_backend::{Stop, join};

use crate::error::LabError;

/// Makes all jobs, each in a thread of its own; results come in the order of the jobs. `make` waits for CPUs.
///
/// # Errors
/// The first error that occurs; it stops the other jobs. Stopped when `stop` was requested.
pub(crate) fn side_by_side<J: Sync, T: Send>(
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
    use super::*;

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
