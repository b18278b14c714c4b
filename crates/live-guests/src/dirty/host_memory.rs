//! Changes that this process makes to the memory of its guest: advice, protection, forks; and mincore(2).

#![allow(
    unsafe_code,
    reason = "memory of this process is changed under a guest"
)]

use std::ffi::c_void;
use std::io;
use std::ops::Range;

/// `madvise(2)` of include/uapi/asm-generic/mman-common.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// `MADV_DONTNEED`.
    DontNeed,
    /// `MADV_HUGEPAGE`.
    HugePage,
    /// `MADV_PAGEOUT` (Linux 5.4).
    PageOut,
    /// `MADV_COLLAPSE` (Linux 6.1).
    Collapse,
    /// `MADV_REMOVE`: pages of a file are freed.
    Remove,
}

impl Advice {
    const fn number(self) -> libc::c_int {
        match self {
            Self::DontNeed => 4,
            Self::Remove => 9,
            Self::HugePage => 14,
            Self::PageOut => 21,
            Self::Collapse => 25,
        }
    }
}

/// Memory of a guest in this process, which its machine keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostMemory {
    start: u64,
    pages: u64,
}

impl HostMemory {
    /// The paged memory of a machine, from its first page on.
    pub(super) const fn new(start: u64, pages: u64) -> Self {
        Self { start, pages }
    }

    /// Address of the first page.
    pub(super) const fn start(self) -> u64 {
        self.start
    }

    /// Pages from the first one on.
    pub(super) const fn pages(self) -> u64 {
        self.pages
    }

    fn span(self, pages: &Range<u64>) -> io::Result<(*mut c_void, usize)> {
        if pages.start > pages.end || pages.end > self.pages {
            return Err(io::Error::other("pages beyond the guest's memory"));
        }
        let address = self.start + pages.start * 4096;
        let bytes = usize::try_from((pages.end - pages.start) * 4096);
        let address = usize::try_from(address).map_err(io::Error::other)?;
        let address = std::ptr::with_exposed_provenance_mut(address);
        Ok((address, bytes.map_err(io::Error::other)?))
    }

    /// Gives advice about pages.
    ///
    /// # Errors
    /// The errno of madvise(2).
    pub(super) fn advise(self, pages: &Range<u64>, advice: Advice) -> io::Result<()> {
        let (address, bytes) = self.span(pages)?;
        // SAFETY: guest memory alone is changed, into which there are no references.
        result(unsafe { libc::madvise(address, bytes, advice.number()) })
    }

    /// Protects pages from writes and allows them again, which splits the huge page that they are a part of.
    ///
    /// # Errors
    /// The errno of mprotect(2).
    pub(super) fn protect_and_allow(self, pages: &Range<u64>) -> io::Result<()> {
        let (address, bytes) = self.span(pages)?;
        for access in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            // SAFETY: as in `advise`; no thread writes the memory meanwhile.
            result(unsafe { libc::mprotect(address, bytes, access) })?;
        }
        Ok(())
    }

    /// Pages that mincore(2) reports to be in memory.
    ///
    /// # Errors
    /// The errno of mincore(2).
    pub(super) fn resident(self) -> io::Result<Vec<u8>> {
        let (address, bytes) = self.span(&(0..self.pages))?;
        let mut resident = vec![0; bytes / 4096];
        // SAFETY: the kernel writes a byte for each page.
        result(unsafe { libc::mincore(address, bytes, resident.as_mut_ptr()) })?;
        Ok(resident)
    }
}

fn result(returned: libc::c_int) -> io::Result<()> {
    match returned {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A child that does nothing and has a copy of this process's memory; it ends when this is dropped, and with this process.
#[derive(Debug)]
pub(super) struct Forked(libc::pid_t);

impl Forked {
    /// Forks.
    ///
    /// # Errors
    /// The errno of fork(2).
    pub(super) fn new() -> io::Result<Self> {
        let parent = std::process::id();
        // SAFETY: the child makes system calls alone, and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => idle(parent),
            child => Ok(Self(child)),
        }
    }
}

/// Waits for the end, which comes with that of the parent.
fn idle(parent: u32) -> ! {
    // SAFETY: system calls alone, which a child of a process with threads may make.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        while libc::getppid().cast_unsigned() == parent {
            libc::pause();
        }
        libc::_exit(0)
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: the child is this process's own, and has not been waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}
