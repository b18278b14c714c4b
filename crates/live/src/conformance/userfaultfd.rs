//! Calls on a userfaultfd, with every field that the kernel answers in.
//!
//! [`pagetoll_pager::Userfaultfd`] is what a pager needs; here calls may be wrong, and their errors are the answer.

#![allow(unsafe_code, reason = "userfaultfd changes the memory of this process")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use linux_raw_sys::general::{
    UFFD_EVENT_PAGEFAULT, uffd_msg, uffdio_api, uffdio_continue, uffdio_copy, uffdio_range,
    uffdio_register, uffdio_writeprotect, uffdio_zeropage,
};
use linux_raw_sys::ioctl::{
    UFFDIO_API, UFFDIO_CONTINUE, UFFDIO_COPY, UFFDIO_REGISTER, UFFDIO_UNREGISTER, UFFDIO_WAKE,
    UFFDIO_WRITEPROTECT, UFFDIO_ZEROPAGE,
};
use pagetoll_conformance::kvm::{Answer, Place, UserfaultfdCall};
use pagetoll_pager::open_userfaultfd;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl};

/// What the last field of a call holds before the kernel writes to it: no number of bytes, and no error.
const UNTOUCHED: i64 = i64::MIN;

/// userfaultfd(2).
pub(super) fn open(flags: u32) -> Result<OwnedFd, Errno> {
    open_userfaultfd(OFlags::CLOEXEC.bits() | flags)
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// An ioctl that reads and writes `argument`.
///
/// # Safety
/// `OPCODE` must be an ioctl of a userfaultfd that takes a `T`, and the memory that it names the caller's to change.
unsafe fn update<const OPCODE: u32, T>(fd: BorrowedFd<'_>, argument: &mut T) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    let call = unsafe { Updater::<'_, OPCODE, T>::new(argument) };
    // SAFETY: as above.
    unsafe { ioctl(fd, call) }
}

/// A call on an open userfaultfd over a range.
pub(super) fn call(
    fd: BorrowedFd<'_>,
    call: UserfaultfdCall,
    range: uffdio_range,
) -> Result<Answer, Errno> {
    match call {
        UserfaultfdCall::Poll => poll(fd),
        UserfaultfdCall::Read { bytes } => read(fd, bytes),
        UserfaultfdCall::Api { version, features } => api(fd, version, features),
        UserfaultfdCall::Register { mode } => register(fd, range, mode),
        UserfaultfdCall::Unregister => ranged::<UFFDIO_UNREGISTER>(fd, range),
        UserfaultfdCall::Wake => ranged::<UFFDIO_WAKE>(fd, range),
        UserfaultfdCall::Copy { from, mode } => Ok(copy(fd, range, from.address(), mode)),
        UserfaultfdCall::Zeropage { mode } => Ok(zeropage(fd, range, mode)),
        UserfaultfdCall::Continue { mode } => Ok(resume(fd, range, mode)),
        UserfaultfdCall::Writeprotect { mode } => {
            let mut argument = uffdio_writeprotect { range, mode };
            // SAFETY: the opcode takes this structure; there are no references to the memory that it is about.
            unsafe { update::<UFFDIO_WRITEPROTECT, _>(fd, &mut argument) }?;
            Ok(Answer::Done)
        }
        // Not calls on an open one.
        UserfaultfdCall::Open { .. } | UserfaultfdCall::Close => Err(Errno::INVAL),
    }
}

fn poll(fd: BorrowedFd<'_>) -> Result<Answer, Errno> {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    rustix::event::poll(&mut fds, Some(&now))?;
    Ok(Answer::Polled(fds[0].revents().bits()))
}

/// read(2) of one message. `struct uffd_msg`: the event at 0; of a page fault, flags at 8 and the address at 16.
fn read(fd: BorrowedFd<'_>, bytes: u64) -> Result<Answer, Errno> {
    let mut message = [0; size_of::<uffd_msg>()];
    let room = usize::try_from(bytes).map_or(message.len(), |n| n.min(message.len()));
    rustix::io::read(fd, &mut message[..room])?;
    if u32::from(message[0]) != UFFD_EVENT_PAGEFAULT {
        return Ok(Answer::Other(format!("event {:#x}", message[0])));
    }
    let (words, _) = message.as_chunks::<8>();
    let word = |index: usize| words.get(index).map_or(0, |word| u64::from_ne_bytes(*word));
    Ok(Answer::Received(Place::from_address(word(2)), word(1)))
}

fn api(fd: BorrowedFd<'_>, version: u64, features: u64) -> Result<Answer, Errno> {
    let mut argument = uffdio_api {
        api: version,
        features,
        ioctls: 0,
    };
    // SAFETY: the opcode takes this structure and changes nothing else.
    unsafe { update::<UFFDIO_API, _>(fd, &mut argument) }?;
    Ok(Answer::Done)
}

fn register(fd: BorrowedFd<'_>, range: uffdio_range, mode: u64) -> Result<Answer, Errno> {
    let mut argument = uffdio_register {
        range,
        mode,
        ioctls: 0,
    };
    // SAFETY: the opcode takes this structure; scripts name only memory to which there are no references.
    unsafe { update::<UFFDIO_REGISTER, _>(fd, &mut argument) }?;
    Ok(Answer::Registered(argument.ioctls))
}

/// `UFFDIO_UNREGISTER` or `UFFDIO_WAKE`.
fn ranged<const OPCODE: u32>(fd: BorrowedFd<'_>, mut range: uffdio_range) -> Result<Answer, Errno> {
    // SAFETY: both opcodes take this structure, and change no content.
    unsafe { update::<OPCODE, _>(fd, &mut range) }?;
    Ok(Answer::Done)
}

fn copy(fd: BorrowedFd<'_>, range: uffdio_range, src: u64, mode: u64) -> Answer {
    let mut argument = uffdio_copy {
        dst: range.start,
        src,
        len: range.len,
        mode,
        copy: UNTOUCHED,
    };
    // SAFETY: the opcode takes this structure; it fills only pages that are missing, to which there are no references.
    let done = unsafe { update::<UFFDIO_COPY, _>(fd, &mut argument) };
    filled(done, argument.copy)
}

fn zeropage(fd: BorrowedFd<'_>, range: uffdio_range, mode: u64) -> Answer {
    let mut argument = uffdio_zeropage {
        range,
        mode,
        zeropage: UNTOUCHED,
    };
    // SAFETY: as above.
    let done = unsafe { update::<UFFDIO_ZEROPAGE, _>(fd, &mut argument) };
    filled(done, argument.zeropage)
}

fn resume(fd: BorrowedFd<'_>, range: uffdio_range, mode: u64) -> Answer {
    let mut argument = uffdio_continue {
        range,
        mode,
        mapped: UNTOUCHED,
    };
    // SAFETY: the opcode takes this structure, and maps only pages that the file has already.
    let done = unsafe { update::<UFFDIO_CONTINUE, _>(fd, &mut argument) };
    filled(done, argument.mapped)
}

fn filled(done: Result<(), Errno>, field: i64) -> Answer {
    let errno = done.map_or_else(Errno::raw_os_error, |()| 0);
    Answer::Filled(errno, (field != UNTOUCHED).then_some(field))
}

/// The queues of a userfaultfd, as `userfaultfd_show_fdinfo` prints them: unread faults, and all.
pub(super) fn queues(fd: BorrowedFd<'_>) -> std::io::Result<(usize, usize)> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/thread-self/fdinfo/{}", fd.as_fd().as_raw_fd());
    let text = std::fs::read_to_string(path)?;
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|rest| rest.trim().parse().ok());
        number.ok_or_else(|| std::io::Error::other(format!("no {key} in fdinfo")))
    };
    Ok((number("pending:")?, number("total:")?))
}
