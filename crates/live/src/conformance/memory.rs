//! The memory of a case: where its place says, with what it is to hold, and gone when it is dropped.
//!
//! It is never borrowed: contents go in and out through `/proc/self/mem` and the file behind it, by system calls, so
//! that pages may be missing, and may be taken away.

#![allow(unsafe_code, reason = "maps and unmaps memory at given addresses")]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::ptr;

use pagetoll_conformance::kvm::{Answer, Case, Content, Kind, Memory, PageContent, Place, label};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use pagetoll_live_host::LiveError;

const WORD: usize = 8;
/// Bits of `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const UFFD_WP: u64 = 1 << 57;

/// The memories of a case.
#[derive(Debug)]
pub(super) struct Memories {
    mapped: Vec<Mapping>,
    /// `/proc/self/mem`.
    contents: File,
    /// `/proc/self/pagemap`.
    entries: File,
}

#[derive(Debug)]
struct Mapping {
    start: u64,
    bytes: u64,
}

/// The bytes of hugetlb memory that a case wants.
pub(super) fn hugetlb_bytes(case: &Case) -> u64 {
    let hugetlb = case
        .memories
        .iter()
        .filter(|memory| memory.kind == Kind::Hugetlb);
    hugetlb.map(Memory::bytes).sum()
}

impl Memories {
    /// Maps and fills them.
    pub(super) fn new(case: &Case) -> Result<Self, LiveError> {
        let open = |path: &str, options: &mut std::fs::OpenOptions| {
            options
                .open(path)
                .map_err(LiveError::system(format!("open {path}")))
        };
        let mut memories = Self {
            mapped: Vec::new(),
            contents: open("/proc/self/mem", File::options().read(true).write(true))?,
            entries: open("/proc/self/pagemap", File::options().read(true))?,
        };
        for (index, memory) in case.memories.iter().enumerate() {
            if memory.kind != Kind::None {
                memories.add(index, memory)?;
            }
        }
        Ok(memories)
    }

    fn add(&mut self, index: usize, memory: &Memory) -> Result<(), LiveError> {
        let file = file_for(memory)?;
        let mapping = map(Place::in_memory(index).address(), memory, file.as_ref())?;
        let start = mapping.start;
        self.mapped.push(mapping);
        if memory.content != Content::Empty {
            self.fill(index, memory, start, file.as_ref())?;
        }
        match memory.kind {
            Kind::ReadOnly => protect(start, memory.bytes()),
            _ => Ok(()),
        }
    }

    fn fill(
        &self,
        index: usize,
        memory: &Memory,
        start: u64,
        file: Option<&File>,
    ) -> Result<(), LiveError> {
        let size = memory.kind.page_size();
        for page in 0..memory.pages {
            let at = page * size;
            let words = label(index, page).to_ne_bytes().repeat(width(size) / WORD);
            let written = match file {
                Some(file) => file.write_all_at(&words, at),
                None => self.contents.write_all_at(&words, start + at),
            };
            written.map_err(LiveError::system("filling a page"))?;
            if memory.content == Content::Filled {
                let mut word = [0; WORD];
                let touched = self.contents.read_exact_at(&mut word, start + at);
                touched.map_err(LiveError::system("touching a page"))?;
            }
        }
        Ok(())
    }

    /// What each page holds that is mapped; it maps none.
    pub(super) fn show(&self, case: &Case, index: usize) -> Result<Answer, LiveError> {
        let memory = &case.memories[index];
        let (start, size) = (Place::in_memory(index).address(), memory.kind.page_size());
        let pages = (0..memory.pages).map(|page| self.page(start + page * size, size));
        let pages: std::io::Result<Vec<PageContent>> = pages.collect();
        let pages = pages.map_err(LiveError::system("looking at a page"))?;
        Ok(Answer::Shown(pages))
    }

    fn page(&self, at: u64, size: u64) -> std::io::Result<PageContent> {
        let mut entry = [0; WORD];
        self.entries.read_exact_at(&mut entry, at / 4096 * 8)?;
        let entry = u64::from_ne_bytes(entry);
        let mut shown = PageContent {
            protected: entry & UFFD_WP != 0,
            ..PageContent::default()
        };
        if entry & PRESENT == 0 {
            return Ok(shown);
        }
        let mut bytes = vec![0; width(size)];
        self.contents.read_exact_at(&mut bytes, at)?;
        let (words, _) = bytes.as_chunks::<WORD>();
        let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
        shown.first = words.next();
        shown.rest = words.next();
        if words.any(|word| Some(word) != shown.rest) {
            shown.rest = None;
        }
        Ok(shown)
    }

    /// madvise(2) with `MADV_DONTNEED`.
    pub(super) fn discard(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        let (at, bytes) = self.own(at, bytes)?;
        // SAFETY: the range is within a mapping of ours, to which there are no references.
        unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxDontNeed) }
    }

    /// munmap(2).
    pub(super) fn unmap(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        let (at, bytes) = self.own(at, bytes)?;
        // SAFETY: as above; unmapping it again at the end does no harm, since nothing else is mapped there.
        unsafe { rustix::mm::munmap(at, bytes) }
    }

    /// A range, if it lies within one of the mappings.
    fn own(&self, at: u64, bytes: u64) -> Result<(*mut c_void, usize), Errno> {
        let within = |mapping: &Mapping| {
            mapping.start <= at
                && (at - mapping.start)
                    .checked_add(bytes)
                    .is_some_and(|end| end <= mapping.bytes)
        };
        match self.mapped.iter().any(within) {
            true => Ok((pointer(at), width(bytes))),
            false => Err(Errno::INVAL),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours from its mapping on; who used it has ended, since memories outlive actors and VMs.
        let _gone_anyway = unsafe { rustix::mm::munmap(pointer(self.start), width(self.bytes)) };
    }
}

fn pointer(at: u64) -> *mut c_void {
    ptr::without_provenance_mut(width(at))
}

/// A number of bytes as this machine counts them.
fn width(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn file_for(memory: &Memory) -> Result<Option<File>, LiveError> {
    let flags = match memory.kind {
        Kind::Anonymous | Kind::ReadOnly | Kind::None => return Ok(None),
        Kind::Shmem | Kind::ShmemForReading => MemfdFlags::CLOEXEC,
        Kind::Hugetlb => MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
    };
    let file = memfd_create("pagetoll-conformance", flags);
    let file = file.map_err(LiveError::system("memfd_create"))?;
    rustix::fs::ftruncate(&file, memory.bytes()).map_err(LiveError::system("ftruncate"))?;
    Ok(Some(File::from(file)))
}

/// Makes memory read-only, when it is filled: `/proc/self/mem` may refuse to write to what is (`CONFIG_PROC_MEM_NO_FORCE`).
fn protect(start: u64, bytes: u64) -> Result<(), LiveError> {
    // SAFETY: the range is a mapping of ours, to which there are no references.
    let protected =
        unsafe { rustix::mm::mprotect(pointer(start), width(bytes), MprotectFlags::READ) };
    protected.map_err(LiveError::system("mprotect"))
}

fn map(start: u64, memory: &Memory, file: Option<&File>) -> Result<Mapping, LiveError> {
    let failed = || LiveError::system(format!("mmap at {start:#x}"));
    let protection = match memory.kind {
        Kind::ShmemForReading => ProtFlags::READ,
        _ => ProtFlags::READ | ProtFlags::WRITE,
    };
    let (at, bytes) = (pointer(start), width(memory.bytes()));
    let there = match file {
        // SAFETY: the addresses are free, or the call fails.
        None => unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            rustix::mm::mmap_anonymous(at, bytes, protection, flags)
        },
        Some(file) => {
            let readable = for_reading(file, memory.kind).map_err(failed())?;
            let file = readable.as_ref().unwrap_or(file);
            let flags = MapFlags::SHARED | MapFlags::FIXED_NOREPLACE;
            // SAFETY: as above.
            unsafe { rustix::mm::mmap(at, bytes, protection, flags, file.as_fd(), 0) }
        }
    };
    there.map_err(failed())?;
    let mapping = Mapping {
        start,
        bytes: memory.bytes(),
    };
    // SAFETY: the range was just mapped, and the advice changes no content.
    let advised = unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxNoHugepage) };
    match advised {
        // hugetlb takes no advice, and a kernel without transparent huge pages has none to avoid.
        Ok(()) | Err(Errno::INVAL) => Ok(mapping),
        Err(errno) => Err(failed()(errno)),
    }
}

/// The same file, opened for reading alone, where memory can never be written.
fn for_reading(file: &File, kind: Kind) -> Result<Option<File>, Errno> {
    use std::os::fd::AsRawFd;
    if kind != Kind::ShmemForReading {
        return Ok(None);
    }
    let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(Some(File::from(opened)))
}
