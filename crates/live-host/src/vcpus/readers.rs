//! Threads that read faults from userfaultfds while vCPUs run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pagetoll_backend::Stopped;
use pagetoll_pager::ReaderStop;

use crate::LiveError;

/// Does `work` while `count` threads run `read`, and returns the results of all. The work gets a function that is false once a
/// reader has failed.
///
/// # Errors
/// The first of a reader; those of the work.
pub fn with_readers<R: Send, T>(
    count: usize,
    read: impl Fn(usize, &ReaderStop) -> Result<R, LiveError> + Sync,
    work: impl FnOnce(&dyn Fn() -> bool) -> Result<T, LiveError>,
) -> Result<(T, Vec<R>), LiveError> {
    let (end, failed) = (ReaderStop::new()?, AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..count)
            .map(|number| {
                let (end, failed, read) = (&end, &failed, &read);
                scope.spawn(move || {
                    let done = read(number, end);
                    failed.fetch_or(done.is_err(), Ordering::SeqCst);
                    done
                })
            })
            .collect();
        let done = work(&|| !failed.load(Ordering::SeqCst));
        end.request();
        let mut results = Vec::with_capacity(count);
        for reader in readers {
            results.push(reader.join().unwrap_or(Err(Stopped.into()))?);
        }
        Ok((done?, results))
    })
}
