//! Results of threads: a panic of one goes on in the thread that waits for it, with its message.
//!
//! A scope alone ([`std::thread::scope`]) panics as well, but loses the message.

use std::panic;
use std::thread::{self, ScopedJoinHandle};

/// Waits for a thread of a scope and gives its result.
///
/// # Panics
/// With the thread's own panic.
pub fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    result(thread.join())
}

pub(crate) fn result<T>(ended: thread::Result<T>) -> T {
    ended.unwrap_or_else(|panic| panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_goes_on_with_its_message() {
        let work = || thread::scope(|scope| join(scope.spawn(|| -> i32 { panic!("lost") })));
        let panic = panic::catch_unwind(work).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"lost"));
        assert_eq!(thread::scope(|scope| join(scope.spawn(|| 1))), 1);
    }
}
