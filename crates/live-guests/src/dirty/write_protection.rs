//! A userfaultfd that protects memory from writes.
//!
//! Source: ioctl_userfaultfd(2), and Documentation/admin-guide/mm/userfaultfd.rst of Linux 6.18.

#![allow(unsafe_code, reason = "userfaultfd protects memory of this process")]

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use linux_raw_sys::general::{
    UFFD_API, UFFD_EVENT_PAGEFAULT, UFFD_FEATURE_PAGEFAULT_FLAG_WP, UFFD_FEATURE_WP_ASYNC,
    UFFD_FEATURE_WP_HUGETLBFS_SHMEM, UFFD_FEATURE_WP_UNPOPULATED, uffd_msg, uffdio_api,
    uffdio_range, uffdio_register, uffdio_writeprotect,
};
use linux_raw_sys::ioctl::{UFFDIO_API, UFFDIO_REGISTER, UFFDIO_UNREGISTER, UFFDIO_WRITEPROTECT};
use pagetoll_pager::open_userfaultfd;

use super::host_memory::HostMemory;
use pagetoll_live_host::{LiveError, host};

/// `UFFDIO_REGISTER_MODE_WP` and `UFFDIO_WRITEPROTECT_MODE_WP` of include/uapi/linux/userfaultfd.h.
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1;
/// Messages that are read at once.
const MESSAGES: usize = 16;

/// Resolution of a write to a protected page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// A handler gets a message, and lets the write go on.
    Handler,
    /// The kernel lets it go on (`UFFD_FEATURE_WP_ASYNC`).
    Kernel,
}

/// Features of this kernel's userfaultfd.
fn features() -> Result<u64, LiveError> {
    api(&open()?, 0).map_err(LiveError::system("UFFDIO_API"))
}

fn open() -> Result<File, LiveError> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let opened = open_userfaultfd(flags.cast_unsigned());
    opened
        .map(File::from)
        .map_err(LiveError::system("userfaultfd(2)"))
}

fn api(file: &File, features: u64) -> io::Result<u64> {
    let mut api = uffdio_api {
        api: UFFD_API.into(),
        features,
        ioctls: 0,
    };
    call(file, UFFDIO_API, &mut api)?;
    Ok(api.features)
}

/// Protection of a guest's memory by a userfaultfd.
#[derive(Debug)]
pub(super) struct WriteProtection {
    file: File,
    memory: HostMemory,
}

impl WriteProtection {
    /// A userfaultfd that protects nothing yet.
    ///
    /// # Errors
    /// The kernel lacks the feature, or this process may not use it.
    pub(super) fn new(memory: HostMemory, resolution: Resolution) -> Result<Self, LiveError> {
        host::require_userfaultfd()?;
        let found = features()?;
        let (needed, name, since) = match resolution {
            Resolution::Handler => (
                u64::from(UFFD_FEATURE_PAGEFAULT_FLAG_WP),
                "PAGEFAULT_FLAG_WP",
                "5.7",
            ),
            Resolution::Kernel => (u64::from(UFFD_FEATURE_WP_ASYNC), "WP_ASYNC", "6.7"),
        };
        if found & needed == 0 {
            return Err(LiveError::environment(
                format!("userfaultfd: without {name}"),
                format!("use Linux {since} or later with CONFIG_PTE_MARKER_UFFD_WP"),
            ));
        }
        let beside = u64::from(UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
        let file = open()?;
        api(&file, needed | (found & beside)).map_err(LiveError::system("UFFDIO_API"))?;
        Ok(Self { file, memory })
    }

    fn range(&self, pages: &Range<u64>) -> uffdio_range {
        uffdio_range {
            start: self.memory.start() + pages.start * 4096,
            len: (pages.end - pages.start) * 4096,
        }
    }

    const fn all(&self) -> Range<u64> {
        0..self.memory.pages()
    }

    /// Registers all memory; nothing is protected yet.
    pub(super) fn register(&self) -> Result<(), LiveError> {
        let mut register = uffdio_register {
            range: self.range(&self.all()),
            mode: REGISTER_MODE_WP,
            ioctls: 0,
        };
        let call = call(&self.file, UFFDIO_REGISTER, &mut register);
        call.map_err(|error| {
            LiveError::environment(
                format!("UFFDIO_REGISTER with UFFDIO_REGISTER_MODE_WP fails: {error}"),
                "use Linux 5.19 or later with CONFIG_PTE_MARKER_UFFD_WP, or --folio 4K",
            )
        })
    }

    /// Lifts all protection.
    pub(super) fn unregister(&self) -> Result<(), LiveError> {
        let mut range = self.range(&self.all());
        call(&self.file, UFFDIO_UNREGISTER, &mut range)
            .map_err(LiveError::system("UFFDIO_UNREGISTER"))
    }

    /// Protects pages.
    pub(super) fn protect(&self, pages: &Range<u64>) -> Result<(), LiveError> {
        self.write_protect(pages, WRITEPROTECT_MODE_WP)
    }

    /// Protects all pages.
    pub(super) fn protect_all(&self) -> Result<(), LiveError> {
        self.protect(&self.all())
    }

    /// Lets writes of pages go on, and wakes those who wait.
    pub(super) fn allow(&self, pages: &Range<u64>) -> Result<(), LiveError> {
        self.write_protect(pages, 0)
    }

    fn write_protect(&self, pages: &Range<u64>, mode: u64) -> Result<(), LiveError> {
        let mut protect = uffdio_writeprotect {
            range: self.range(pages),
            mode,
        };
        loop {
            match call(&self.file, UFFDIO_WRITEPROTECT, &mut protect) {
                // The address space is changing.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => return other.map_err(LiveError::system("UFFDIO_WRITEPROTECT")),
            }
        }
    }

    /// Pages whose writers wait, of the messages that are there.
    pub(super) fn messages(&self, mut each: impl FnMut(u64)) -> Result<(), LiveError> {
        let mut bytes = [0; MESSAGES * size_of::<uffd_msg>()];
        let read = match (&self.file).read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            read => read.map_err(LiveError::system("read of a userfaultfd"))?,
        };
        for message in bytes[..read].chunks_exact(size_of::<uffd_msg>()) {
            if u32::from(message[0]) != UFFD_EVENT_PAGEFAULT {
                continue;
            }
            if let Some(address) = message.get(16..24).and_then(|part| part.try_into().ok()) {
                let offset = u64::from_ne_bytes(address).saturating_sub(self.memory.start());
                each(offset / 4096);
            }
        }
        Ok(())
    }
}

impl AsFd for WriteProtection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn call<T>(file: &File, opcode: u32, argument: &mut T) -> io::Result<()> {
    // SAFETY: each opcode is given the structure that it takes, in this module alone; what it protects is guest memory,
    // whose writers wait for a handler or not at all.
    match unsafe { libc::ioctl(file.as_raw_fd(), opcode.into(), argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
