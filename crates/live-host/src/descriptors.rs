//! Descriptors that no child of another thread gets: a table of descriptors for one piece of work.
//!
//! fork(2) copies the table of the thread that calls it, and so do posix_spawn(3) and `std::process`. The child holds
//! each file open until execve(2), and beyond where the descriptor has no `FD_CLOEXEC`. KVM gives the descriptor of a
//! guest_memfd without it (`__kvm_gmem_create`, `virt/kvm/guest_memfd.c`, Linux 6.18); fcntl(2) would set it too late
//! for a child of that moment, and no flag helps until execve(2). Where the last close(2) of a file matters, its
//! descriptor is in no table that another thread shares.

#![allow(unsafe_code, reason = "a table of descriptors")]

use std::io;
use std::os::fd::RawFd;
use std::panic::resume_unwind;
use std::thread;

use crate::LiveError;

/// First descriptor after those of the standard streams.
const FIRST: RawFd = 3;

/// Does `work` on a thread with a table of its own, which has the standard streams and the descriptor that is `kept`. The
/// work returns no descriptor and closes those that it opens; its threads share the table.
///
/// # Errors
/// Errors of the work; the thread cannot have a table.
pub fn on_own_table<T: Send>(
    kept: Option<RawFd>,
    work: impl FnOnce() -> Result<T, LiveError> + Send,
) -> Result<T, LiveError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, move || {
            leave_table(kept)?;
            work()
        });
        let thread = thread.map_err(LiveError::system("making a thread"))?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Gives the calling thread a copy of its table without what is not kept.
fn leave_table(kept: Option<RawFd>) -> Result<(), LiveError> {
    // Descriptors above are not even copied (`dup_fd`, fs/file.c), so that files of other threads stay theirs to close.
    let end = kept.map_or(FIRST, |kept| kept.saturating_add(1).max(FIRST));
    close_range(end, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    match kept {
        Some(kept) if kept > FIRST => close_range(FIRST, kept - 1, 0),
        _ => Ok(()),
    }
}

fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> Result<(), LiveError> {
    // SAFETY: the first call makes the table this thread's alone, which has opened nothing and uses what is kept.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if closed == 0 {
        return Ok(());
    }
    Err(LiveError::environment(
        format!(
            "close_range(2) with CLOSE_RANGE_UNSHARE fails ({})",
            io::Error::last_os_error()
        ),
        "allow it where seccomp(2) filters system calls",
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    fn file(name: &str) -> OwnedFd {
        memfd_create(name, MemfdFlags::CLOEXEC).unwrap()
    }

    /// Returns whether the file is open in a table of /proc.
    fn is_in(table: &str, name: &str) -> bool {
        let mut entries = fs::read_dir(table).unwrap();
        entries.any(|entry| {
            // One that another thread closes meanwhile leads nowhere.
            let open = fs::read_link(entry.unwrap().path()).unwrap_or_default();
            open.to_string_lossy().contains(name)
        })
    }

    #[test]
    fn work_has_what_is_kept_and_shares_nothing_that_it_opens() {
        let (before, kept, after) = (
            file("pagetoll-before"),
            file("pagetoll-kept"),
            file("pagetoll-after"),
        );
        let tables = on_own_table(Some(kept.as_raw_fd()), || {
            let _own = file("pagetoll-own");
            let names = ["before", "kept", "after", "own"].map(|name| format!("pagetoll-{name}"));
            // /proc/self is the process's first thread, whose table the test's thread shares.
            Ok(["/proc/thread-self/fd", "/proc/self/fd"]
                .map(|table| names.each_ref().map(|name| is_in(table, name))))
        });
        let [own, shared] = tables.unwrap();
        assert_eq!(own, [false, true, false, true]);
        assert_eq!(shared, [true, true, true, false]);
        drop((before, kept, after));
    }

    #[test]
    fn an_error_of_the_work_is_returned() {
        let failed = on_own_table(None, || -> Result<(), _> {
            Err(LiveError::environment("nothing", "try again"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "nothing; try again");
    }
}
