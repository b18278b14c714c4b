//! Answers of a system to the steps of a case, and their text in the table and the record.

use std::fmt::Write;

use super::{Case, Place};
use crate::names::{Names, errno_name};

/// Content of a page of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageContent {
    /// First word; `None` where no page is mapped.
    pub first: Option<u64>,
    /// The word that fills the rest; `None` where the rest is not one word throughout.
    pub rest: Option<u64>,
    /// True for a page that a userfaultfd protects from writes.
    pub protected: bool,
}

/// A system's answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call returned 0.
    Done,
    /// The call failed: errno.
    Refused(i32),
    /// `UFFDIO_REGISTER`: the calls that will work, a bit for each.
    Registered(u64),
    /// Pages were installed: errno or 0, and the last field of the argument, unless the kernel left it alone.
    Filled(i32, Option<i64>),
    /// poll(2): `revents`.
    Polled(u16),
    /// read(2): the address of a fault and `UFFD_PAGEFAULT_FLAG_*`.
    Received(Place, u64),
    /// An access is done: the word that was read or written.
    Word(u64),
    /// An access that has not finished: its thread sleeps.
    Sleeps,
    /// There is no access under way.
    Idle,
    /// The pages of a memory.
    Shown(Vec<PageContent>),
    /// Pages of a slot, counted from its first.
    Dirty(Vec<u64>),
    /// `KVM_EXIT_MMIO` for reading: address and bytes.
    MmioRead(u64, usize),
    /// `KVM_EXIT_MMIO` for writing: address and word.
    MmioWrite(u64, u64),
    /// `KVM_RUN` fails with `EFAULT` and no exit information.
    RunFailed,
    /// `KVM_RUN` fails with `EFAULT` and `KVM_EXIT_MEMORY_FAULT`: gpa, size, flags.
    MemoryFault(u64, u64, u64),
    /// An answer that no model gives.
    Other(String),
}

/// Faults that wait in the queues of all userfaultfds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Faults that have not been read.
    pub pending: usize,
    /// Faults in the queues, read or not.
    pub total: usize,
}

/// An answer, and the faults that wait after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAnswer {
    /// Result of the call.
    pub answer: Answer,
    /// Faults in the queues after the step.
    pub waiting: Waiting,
}

/// Outcome of a case on a real system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer for each step.
    Answers(Vec<StepAnswer>),
    /// Skipped: the need that the system lacks.
    Skipped(String),
}

/// Text of the answers, as the table and the record show it.
#[must_use]
pub fn describe(case: &Case, answered: &[StepAnswer]) -> Vec<String> {
    let line = |given: &StepAnswer| {
        let mut text = answer(case, &given.answer);
        let Waiting { pending, total } = given.waiting;
        if total > 0 {
            // Writing to a String cannot fail.
            let _infallible = write!(text, "; {total} wait, {pending} unread");
        }
        text
    };
    answered.iter().map(line).collect()
}

fn answer(case: &Case, answer: &Answer) -> String {
    match answer {
        Answer::Done => "ok".to_owned(),
        Answer::Refused(errno) => errno_name(*errno),
        Answer::Registered(ioctls) => format!("ok: {}", IOCTLS.bit_names(*ioctls)),
        Answer::Filled(errno, field) => filled(*errno, *field),
        Answer::Polled(revents) => poll_names(*revents),
        Answer::Received(at, flags) => format!("{}{}", place(case, *at), fault_flags(*flags)),
        Answer::Word(found) => word(case, *found),
        Answer::Sleeps => "sleeps".to_owned(),
        Answer::Idle => "idle".to_owned(),
        Answer::Shown(pages) => shown(case, pages),
        Answer::Dirty(pages) if pages.is_empty() => "none dirty".to_owned(),
        Answer::Dirty(pages) => {
            let words: Vec<String> = pages.iter().map(u64::to_string).collect();
            format!("dirty {}", words.join(" "))
        }
        Answer::MmioRead(gpa, bytes) => format!("MMIO read of {bytes} at {gpa:#x}"),
        Answer::MmioWrite(gpa, found) => {
            format!("MMIO write of {} at {gpa:#x}", word(case, *found))
        }
        Answer::RunFailed => "EFAULT".to_owned(),
        Answer::MemoryFault(gpa, size, flags) => {
            format!("EFAULT, memory fault {gpa:#x} size {size:#x} flags {flags:#x}")
        }
        Answer::Other(what) => what.clone(),
    }
}

fn filled(errno: i32, field: Option<i64>) -> String {
    let count = match field {
        None => return errno_name(errno),
        Some(bytes) if bytes >= 0 => format!("{bytes:#x} bytes"),
        Some(error) => format!("-{}", errno_name(i32::try_from(-error).unwrap_or(0))),
    };
    match errno {
        0 => count,
        errno => format!("{}, {count}", errno_name(errno)),
    }
}

/// A label, or a number.
fn word(case: &Case, found: u64) -> String {
    let memory = usize::try_from(found >> 32).ok();
    let memory = memory.and_then(|n| case.memories.get(n.checked_sub(1)?));
    match memory {
        Some(memory) => format!("{}[{}]", memory.name, (found & 0xffff_ffff).wrapping_sub(1)),
        None => format!("{found:#x}"),
    }
}

fn place(case: &Case, at: Place) -> String {
    match at.memory.and_then(|memory| case.memories.get(memory)) {
        Some(memory) if at.offset == 0 => memory.name.clone(),
        Some(memory) => format!("{}+{:#x}", memory.name, at.offset),
        None => format!("{:#x}", at.offset),
    }
}

fn shown(case: &Case, pages: &[PageContent]) -> String {
    let page = |page: &PageContent| {
        let mut text = match (page.first, page.rest) {
            (None, _) => "-".to_owned(),
            (Some(first), Some(rest)) if first == rest => word(case, first),
            (Some(first), Some(rest)) => format!("{}|{}", word(case, first), word(case, rest)),
            (Some(first), None) => format!("{}|torn", word(case, first)),
        };
        if page.protected {
            text.push('w');
        }
        text
    };
    let pages: Vec<String> = pages.iter().map(page).collect();
    pages.join(" ")
}

/// `_UFFDIO_*` of include/uapi/linux/userfaultfd.h that every kernel since 5.13 has.
const IOCTLS: Names<u64> = Names(&[
    ("wake", 1 << 2),
    ("copy", 1 << 3),
    ("zeropage", 1 << 4),
    ("writeprotect", 1 << 6),
    ("continue", 1 << 7),
]);

/// include/uapi/asm-generic/poll.h.
const POLLED: Names<u64> = Names(&[("POLLIN", 1), ("POLLERR", 8), ("POLLHUP", 16)]);

fn poll_names(revents: u16) -> String {
    match POLLED.bit_names(revents.into()) {
        none if none.is_empty() => "nothing".to_owned(),
        some => some,
    }
}

/// `UFFD_PAGEFAULT_FLAG_*`.
const FAULT_FLAGS: Names<u64> = Names(&[("write", 1), ("wp", 2), ("minor", 4)]);

fn fault_flags(flags: u64) -> String {
    match FAULT_FLAGS.bit_names(flags) {
        none if none.is_empty() => none,
        some => format!(" {some}"),
    }
}
