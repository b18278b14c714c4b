//! A thread that reads faults from a userfaultfd and populates their pages.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::error::PagerError;
use super::handler::{Counts, FaultHandler};
use super::source::PageSource;

/// System call by which a reader waits for faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplexer {
    /// poll(2): the kernel wakes all readers of a userfaultfd.
    Poll,
    /// epoll(7) with `EPOLLEXCLUSIVE`: it wakes at least one of them.
    Epoll,
}

/// Ends readers and prefaults, by a pipe that hangs up: a close cannot fail, as a write could, and leave readers waiting.
#[derive(Debug)]
pub struct ReaderStop {
    watched: OwnedFd,
    open: Mutex<Option<OwnedFd>>,
}

impl ReaderStop {
    /// Not yet requested.
    ///
    /// # Errors
    /// The errno of pipe2(2).
    pub fn new() -> Result<Self, PagerError> {
        let (watched, open) = pipe_with(PipeFlags::CLOEXEC).map_err(PagerError::system("pipe2"))?;
        Ok(Self {
            watched,
            open: Mutex::new(Some(open)),
        })
    }

    /// Asks all readers to end.
    pub fn request(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(open.take());
    }

    /// Returns whether readers were asked to end.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.is_none()
    }
}

/// Reads faults of a userfaultfd until `end` is requested; returns what was done.
///
/// # Errors
/// A page could not be populated. The thread that waits for it sleeps on until the userfaultfd is closed.
pub(super) fn serve<S: PageSource>(
    mut handler: FaultHandler<'_, S>,
    userfaultfd: usize,
    end: &ReaderStop,
    multiplexer: Multiplexer,
) -> Result<Counts, PagerError> {
    let watched = handler.pager.userfaultfds[userfaultfd].as_fd();
    let wait = Wait::new([watched, end.watched.as_fd()], multiplexer)?;
    while wait.has_fault()? {
        handler.serve_pending(userfaultfd)?;
    }
    Ok(*handler.counts())
}

/// Waits for the first of two descriptors; the second ends it.
enum Wait<'a> {
    Poll([BorrowedFd<'a>; 2]),
    Epoll(OwnedFd),
}

const FAULT: u64 = 0;
const END: u64 = 1;

impl<'a> Wait<'a> {
    fn new(descriptors: [BorrowedFd<'a>; 2], multiplexer: Multiplexer) -> Result<Self, PagerError> {
        if multiplexer == Multiplexer::Poll {
            return Ok(Self::Poll(descriptors));
        }
        let set =
            epoll::create(CreateFlags::CLOEXEC).map_err(PagerError::system("epoll_create1"))?;
        let [fault, end] = descriptors;
        let of_fault = EventFlags::IN | EventFlags::EXCLUSIVE;
        for (descriptor, data, flags) in [(fault, FAULT, of_fault), (end, END, EventFlags::IN)] {
            epoll::add(&set, descriptor, EventData::new_u64(data), flags)
                .map_err(PagerError::system("epoll_ctl"))?;
        }
        Ok(Self::Epoll(set))
    }

    /// Sleeps; false when it is time to end.
    fn has_fault(&self) -> Result<bool, PagerError> {
        match self {
            Self::Poll([fault, end]) => {
                let mut polled =
                    [fault, end].map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN));
                interrupted(poll(&mut polled, None), "poll")?;
                Ok(polled[1].revents().is_empty())
            }
            Self::Epoll(set) => {
                let mut events = Vec::with_capacity(2);
                interrupted(
                    epoll::wait(set, spare_capacity(&mut events), None),
                    "epoll_wait",
                )?;
                Ok(!events
                    .iter()
                    .any(|event: &epoll::Event| event.data.u64() == END))
            }
        }
    }
}

/// A signal ends no reader.
fn interrupted<T>(waited: rustix::io::Result<T>, call: &'static str) -> Result<(), PagerError> {
    match waited {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(PagerError::system(call)(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const MULTIPLEXERS: [Multiplexer; 2] = [Multiplexer::Poll, Multiplexer::Epoll];

    fn quiet_pipe() -> (OwnedFd, OwnedFd) {
        pipe_with(PipeFlags::CLOEXEC).unwrap()
    }

    #[test]
    fn a_request_ends_every_reader_that_sleeps_or_comes_later() {
        for multiplexer in MULTIPLEXERS {
            let (faults, _writer) = quiet_pipe();
            let end = ReaderStop::new().unwrap();
            let wait = || Wait::new([faults.as_fd(), end.watched.as_fd()], multiplexer).unwrap();
            assert!(!end.is_requested());
            thread::scope(|scope| {
                let readers = [(); 2].map(|()| scope.spawn(|| wait().has_fault().unwrap()));
                end.request();
                end.request();
                assert_eq!(readers.map(|reader| reader.join().unwrap()), [false; 2]);
            });
            assert!(!wait().has_fault().unwrap() && end.is_requested());
        }
    }

    #[test]
    fn a_fault_wakes_a_reader() {
        for multiplexer in MULTIPLEXERS {
            let (faults, writer) = quiet_pipe();
            let end = ReaderStop::new().unwrap();
            let wait = Wait::new([faults.as_fd(), end.watched.as_fd()], multiplexer).unwrap();
            rustix::io::write(writer, b"fault").unwrap();
            assert!(wait.has_fault().unwrap());
        }
    }
}
