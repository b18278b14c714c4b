//! A userfaultfd with faults in its queues: polling for them, reading them, and searching those that wait.

#![allow(unsafe_code, reason = "userfaultfd")]

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pagetoll_vmm::{Backing, MemoryKind};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vm_memory::{Bytes, GuestAddress};

use super::round::{Round, each_takes};
use super::{Group, PAGES, Primitive};
use pagetoll_live_host::LiveError;
use pagetoll_pager::{Delivery, HostRange, Mode, Userfaultfd, Wake};

/// Threads that fault: enough to time reading them, and to distinguish their queue from an empty one.
const WAITERS: u64 = 32;
/// Calls of a burst.
const CALLS: u64 = 512;
/// Time that a thread which is about to fault may take to be in the queue. Assumed; a later one is read later.
const SETTLE: Duration = Duration::from_millis(3);

pub(super) const GROUP: Group = Group {
    name: "userfaultfd queues",
    measure,
    primitives: &[
        Primitive::Poll,
        Primitive::Epoll,
        Primitive::ReadMessage,
        Primitive::QueueEntry,
    ],
};

fn measure(round: &mut Round<'_>) -> Result<(), LiveError> {
    let backing = Backing::new(MemoryKind::Anonymous, 1, PAGES)?;
    let new = Userfaultfd::new(Delivery::Message);
    let userfaultfd = new.map_err(LiveError::system("userfaultfd"))?;
    let range = HostRange {
        start: backing.data_address()?,
        bytes: PAGES * 4096,
    };
    // SAFETY: the range is a mapping of `backing`; those who touch it sleep until the userfaultfd is closed below.
    let registered = unsafe { userfaultfd.register(range, Mode::Missing) };
    registered.map_err(LiveError::system("UFFDIO_REGISTER"))?;
    let empty = wake_of_another_page(&userfaultfd, range)?;
    let about_to_fault = AtomicU64::new(0);
    thread::scope(|scope| {
        for page in 0..WAITERS {
            let (backing, about_to_fault) = (&backing, &about_to_fault);
            scope.spawn(move || {
                let address = GuestAddress(backing.layout.data + page * 4096);
                about_to_fault.fetch_add(1, Ordering::SeqCst);
                // The page is that of zeroes once the userfaultfd is closed.
                backing.memory.read_obj::<u8>(address).is_ok()
            });
        }
        while about_to_fault.load(Ordering::SeqCst) < WAITERS {
            thread::yield_now();
        }
        thread::sleep(SETTLE);
        let measured = with_waiters(&userfaultfd, range, empty, round);
        // Releases the threads that still wait.
        drop(userfaultfd);
        measured
    })
}

/// Times calls while threads wait. `empty` is the time of a wake with empty queues.
fn with_waiters(
    userfaultfd: &Userfaultfd,
    range: HostRange,
    empty: f64,
    round: &mut Round<'_>,
) -> Result<(), LiveError> {
    round.note(Primitive::Poll, polled(userfaultfd)?);
    round.note(Primitive::Epoll, epolled(userfaultfd)?);
    let (burst, read) = read_all(userfaultfd)?;
    let in_vain = each_takes(CALLS, || {
        (0..CALLS).try_for_each(|_| read_one(userfaultfd).map(drop))
    })?;
    if read == 0 {
        return Ok(());
    }
    round.note(
        Primitive::ReadMessage,
        (burst - in_vain).max(0.0) / read as f64,
    );
    let waited_for = wake_of_another_page(userfaultfd, range)?;
    let entry = (waited_for - empty) / read as f64;
    round.note(Primitive::QueueEntry, entry);
    release(userfaultfd, range)
}

/// Reads until the queue is empty: the time of all reads, the last of them in vain, and the number of messages.
fn read_all(userfaultfd: &Userfaultfd) -> Result<(f64, u64), LiveError> {
    let mut read = 0;
    let burst = each_takes(1, || {
        while read_one(userfaultfd)? {
            read += 1;
        }
        Ok(())
    })?;
    Ok((burst, read))
}

fn read_one(userfaultfd: &Userfaultfd) -> Result<bool, LiveError> {
    let read = userfaultfd.read_fault();
    let read = read.map_err(LiveError::system("read of a userfaultfd"))?;
    Ok(read.is_some())
}

/// An `UFFDIO_WAKE` for a page without waiters.
fn wake_of_another_page(userfaultfd: &Userfaultfd, range: HostRange) -> Result<f64, LiveError> {
    let page = HostRange {
        start: range.start + WAITERS * 4096,
        bytes: 4096,
    };
    each_takes(CALLS, || {
        for _ in 0..CALLS {
            let woken = userfaultfd.wake(page);
            woken.map_err(LiveError::system("UFFDIO_WAKE"))?;
        }
        Ok(())
    })
}

/// Gives every thread its page, so that all end.
fn release(userfaultfd: &Userfaultfd, range: HostRange) -> Result<(), LiveError> {
    let zeroes = [0; 4096];
    for page in 0..WAITERS {
        let copied = userfaultfd.copy(range.start + page * 4096, &zeroes, Wake::Waiters);
        copied.map_err(LiveError::system("UFFDIO_COPY"))?;
    }
    Ok(())
}

const AT_ONCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

fn polled(userfaultfd: &Userfaultfd) -> Result<f64, LiveError> {
    each_takes(CALLS, || {
        for _ in 0..CALLS {
            let fd = PollFd::from_borrowed_fd(userfaultfd.as_fd(), PollFlags::IN);
            let polled = poll(&mut [fd], Some(&AT_ONCE));
            polled.map_err(LiveError::system("poll"))?;
        }
        Ok(())
    })
}

fn epolled(userfaultfd: &Userfaultfd) -> Result<f64, LiveError> {
    let set = epoll::create(CreateFlags::CLOEXEC).map_err(LiveError::system("epoll_create1"))?;
    let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
    epoll::add(&set, userfaultfd.as_fd(), EventData::new_u64(0), flags)
        .map_err(LiveError::system("epoll_ctl"))?;
    let mut events: Vec<Event> = Vec::with_capacity(1);
    each_takes(CALLS, || {
        for _ in 0..CALLS {
            events.clear();
            let waited = epoll::wait(&set, spare_capacity(&mut events), Some(&AT_ONCE));
            waited.map_err(LiveError::system("epoll_wait"))?;
        }
        Ok(())
    })
}
