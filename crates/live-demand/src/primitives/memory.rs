//! Pages put into memory by user space and by the kernel.

#![allow(unsafe_code, reason = "userfaultfd and advice about mapped memory")]

use pagetoll_vmm::{Backing, MemoryKind};
use rustix::mm::Advice;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

use super::round::{Round, each_takes, nanoseconds};
use super::{Group, PAGES, Primitive};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::cpu_time::thread_time;
use pagetoll_pager::{
    Delivery, GuestRange, HostRange, MemorySource, Mode, Options, Pager, Userfaultfd, Wake,
};

/// Pages of a call, from one to as many as make the call itself nothing.
const BATCHES: [u64; 4] = [1, 16, 64, 512];

pub(super) const GROUP: Group = Group {
    name: "memory",
    measure,
    primitives: &[
        Primitive::CopyAndWake,
        Primitive::Copy(1),
        Primitive::Copy(16),
        Primitive::Copy(64),
        Primitive::Copy(512),
        Primitive::Continue(1),
        Primitive::Continue(16),
        Primitive::Continue(64),
        Primitive::Continue(512),
        Primitive::PopulateWrite,
        Primitive::FirstTouch,
        Primitive::Munmap,
        Primitive::PopulateByHandler,
        Primitive::ReadSource,
    ],
};

fn measure(round: &mut Round<'_>) -> Result<(), LiveError> {
    let copy = copied(round.pages(PAGES), 1, Wake::Waiters)?;
    round.note(Primitive::CopyAndWake, copy);
    for pages in BATCHES {
        let copy = copied(round.pages(PAGES), pages, Wake::None)?;
        round.note(Primitive::Copy(pages), copy);
    }
    continued(round)?;
    populated(round)?;
    touched(round)
}

/// A page of `UFFDIO_COPY` calls.
fn copied(content: &[u8], pages: u64, wake: Wake) -> Result<f64, LiveError> {
    let fresh = Fresh::new(MemoryKind::Anonymous)?;
    let userfaultfd = fresh.registered(Mode::Missing)?;
    let mut start = fresh.range.start;
    each_takes(PAGES, || {
        for content in content.chunks(bytes_of(pages)) {
            let copied = userfaultfd.copy(start, content, wake);
            copied.map_err(LiveError::system("UFFDIO_COPY"))?;
            start += content.len() as u64;
        }
        Ok(())
    })
}

/// A page of `UFFDIO_CONTINUE` calls, where the kernel knows minor faults of shared memory (Linux 5.14).
fn continued(round: &mut Round<'_>) -> Result<(), LiveError> {
    for pages in BATCHES {
        let fresh = Fresh::new(MemoryKind::Shmem)?;
        fresh.backing.fill_page_cache(round.pages(PAGES))?;
        let userfaultfd = match fresh.registered(Mode::Minor) {
            Ok(userfaultfd) => userfaultfd,
            Err(error) => {
                round.lacks(Primitive::Continue(pages), error.to_string());
                continue;
            }
        };
        let mut part = HostRange {
            bytes: pages * 4096,
            ..fresh.range
        };
        let each = each_takes(PAGES, || {
            for _ in 0..PAGES / pages {
                let mapped = userfaultfd.resume(part, Wake::None);
                mapped.map_err(LiveError::system("UFFDIO_CONTINUE"))?;
                part.start += part.bytes;
            }
            Ok(())
        })?;
        round.note(Primitive::Continue(pages), each);
    }
    Ok(())
}

/// The pager's own handler, page by page, without a faulting thread.
fn populated(round: &mut Round<'_>) -> Result<(), LiveError> {
    let backing = Backing::new(MemoryKind::Anonymous, 1, PAGES)?;
    let start = GuestAddress(backing.layout.data);
    let range = GuestRange {
        start,
        bytes: PAGES * 4096,
    };
    let options = Options {
        batch: 1,
        ..Options::default()
    };
    let source = MemorySource(round.pages(PAGES));
    let pager = Pager::new(backing.memory.clone(), &[range], source, options)?;
    let mut handler = pager.handler();
    let each = each_takes(PAGES, || {
        for page in 0..PAGES {
            let address = GuestAddress(start.0 + page * 4096);
            handler.populate(address, Wake::None)?;
        }
        Ok(())
    })?;
    let reading = nanoseconds(handler.counts().reading) / PAGES as f64;
    round.note(Primitive::PopulateByHandler, each);
    round.note(Primitive::ReadSource, reading);
    Ok(())
}

/// Zero-filling by the kernel, and giving back: the mapping's own share cancels out.
fn touched(round: &mut Round<'_>) -> Result<(), LiveError> {
    let untouched = Fresh::new(MemoryKind::Anonymous)?;
    let empty = untouched.given_back();
    let fresh = Fresh::new(MemoryKind::Anonymous)?;
    let first = fresh.touch()?;
    let full = fresh.given_back();
    round.note(Primitive::FirstTouch, first);
    round.note(Primitive::Munmap, (full - empty) / PAGES as f64);
    match Fresh::new(MemoryKind::Anonymous)?.populate() {
        Ok(populate) => round.note(Primitive::PopulateWrite, populate),
        Err(error) => round.lacks(
            Primitive::PopulateWrite,
            format!("{error}; use Linux 5.14 or later"),
        ),
    }
    Ok(())
}

/// Guest memory that nothing has touched yet.
struct Fresh {
    backing: Backing,
    range: HostRange,
}

impl Fresh {
    fn new(kind: MemoryKind) -> Result<Self, LiveError> {
        let backing = Backing::new(kind, 1, PAGES)?;
        let range = HostRange {
            start: backing.data_address()?,
            bytes: PAGES * 4096,
        };
        Ok(Self { backing, range })
    }

    fn registered(&self, mode: Mode) -> Result<Userfaultfd, LiveError> {
        let new = Userfaultfd::new(Delivery::Error);
        let userfaultfd = new.map_err(LiveError::system("userfaultfd"))?;
        // SAFETY: the range is a mapping of `backing`, and what is missing there is not touched.
        let registered = unsafe { userfaultfd.register(self.range, mode) };
        registered.map_err(LiveError::system("UFFDIO_REGISTER"))?;
        Ok(userfaultfd)
    }

    fn touch(&self) -> Result<f64, LiveError> {
        let start = self.backing.layout.data;
        each_takes(PAGES, || {
            for page in 0..PAGES {
                let written = self
                    .backing
                    .memory
                    .write_obj(1_u8, GuestAddress(start + page * 4096));
                written?;
            }
            Ok(())
        })
    }

    fn populate(&self) -> Result<f64, LiveError> {
        let data = GuestAddress(self.backing.layout.data);
        let start = self.backing.memory.get_host_address(data);
        let start = start?;
        each_takes(PAGES, || {
            let bytes = bytes_of(PAGES);
            // SAFETY: the range is a mapping of `backing`, which this only makes present.
            let done =
                unsafe { rustix::mm::madvise(start.cast(), bytes, Advice::LinuxPopulateWrite) };
            done.map_err(LiveError::system("madvise(MADV_POPULATE_WRITE)"))
        })
    }

    /// Time of giving it back, in nanoseconds.
    fn given_back(self) -> f64 {
        let began = thread_time();
        drop(self);
        nanoseconds(thread_time() - began)
    }
}

fn bytes_of(pages: u64) -> usize {
    usize::try_from(pages * 4096).unwrap_or(usize::MAX)
}
