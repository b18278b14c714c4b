//! A userfaultfd: registered ranges whose missing or minor faults user space resolves.
//!
//! Only what a demand pager needs: no write protection, no fork or remap events. Source: Linux `fs/userfaultfd.c`
//! and ioctl_userfaultfd(2). The `userfaultfd` crate (0.9) needs libclang to build and drops what a partial copy
//! tells, so the structures come from `linux-raw-sys` and the calls go through `rustix`.

#![allow(unsafe_code, reason = "userfaultfd changes the memory of this process")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use linux_raw_sys::general::{
    UFFD_API, UFFD_EVENT_PAGEFAULT, UFFD_FEATURE_MINOR_HUGETLBFS, UFFD_FEATURE_MINOR_SHMEM,
    UFFD_FEATURE_MISSING_HUGETLBFS, UFFD_FEATURE_MISSING_SHMEM, UFFD_FEATURE_PAGEFAULT_FLAG_WP,
    UFFD_FEATURE_SIGBUS, UFFD_FEATURE_WP_UNPOPULATED, UFFDIO_COPY_MODE_DONTWAKE,
    UFFDIO_REGISTER_MODE_MINOR, UFFDIO_REGISTER_MODE_MISSING, uffd_msg, uffdio_api,
    uffdio_continue, uffdio_copy, uffdio_range, uffdio_register,
};
use linux_raw_sys::ioctl::{
    UFFDIO_API, UFFDIO_CONTINUE, UFFDIO_COPY, UFFDIO_REGISTER, UFFDIO_WAKE,
};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

/// `UFFDIO_CONTINUE_MODE_DONTWAKE` of linux/userfaultfd.h, which is the same bit as that of `UFFDIO_COPY`.
const CONTINUE_MODE_DONTWAKE: u64 = 1;

/// Delivery of a fault in a registered range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A message to a reader, while the faulting thread sleeps.
    Message,
    /// An error to the faulting thread: SIGBUS to user space, `EFAULT` from `KVM_RUN` (`UFFD_FEATURE_SIGBUS`).
    Error,
}

/// Kind of faults that a range reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No page is there (`UFFDIO_REGISTER_MODE_MISSING`); resolved by `UFFDIO_COPY`.
    Missing,
    /// The page cache has the page, this mapping does not (`UFFDIO_REGISTER_MODE_MINOR`); resolved by
    /// `UFFDIO_CONTINUE`. Shared memory and hugetlb only.
    Minor,
}

/// Wake-up of threads that wait for the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Threads may sleep in the fault.
    Waiters,
    /// The fault was an exit: no thread sleeps.
    None,
}

/// Outcome of an attempt to install pages. Bytes are a multiple of the page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallOutcome {
    /// All bytes were installed.
    All,
    /// These bytes; the rest must be retried (`EAGAIN`).
    Partial(u64),
    /// Nothing: the first page is present (`EEXIST`).
    Exists,
}

/// Optional features of the kernel's userfaultfd, as `UFFDIO_API` returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Reads the features of the running kernel.
    ///
    /// # Errors
    /// The errno of making a userfaultfd or of `UFFDIO_API`.
    pub fn detect() -> io::Result<Self> {
        api(open()?.as_fd(), 0).map(Self)
    }

    /// Faults can be delivered as errors.
    #[must_use]
    pub const fn sigbus(self) -> bool {
        self.0 & UFFD_FEATURE_SIGBUS as u64 != 0
    }

    /// Missing pages of shared memory are reported.
    #[must_use]
    pub const fn missing_shmem(self) -> bool {
        self.0 & UFFD_FEATURE_MISSING_SHMEM as u64 != 0
    }

    /// Missing pages of hugetlb are reported.
    #[must_use]
    pub const fn missing_hugetlbfs(self) -> bool {
        self.0 & UFFD_FEATURE_MISSING_HUGETLBFS as u64 != 0
    }

    /// Minor faults of shared memory are reported.
    #[must_use]
    pub const fn minor_shmem(self) -> bool {
        self.0 & UFFD_FEATURE_MINOR_SHMEM as u64 != 0
    }

    /// Minor faults of hugetlb are reported.
    #[must_use]
    pub const fn minor_hugetlbfs(self) -> bool {
        self.0 & UFFD_FEATURE_MINOR_HUGETLBFS as u64 != 0
    }

    /// Pages can be protected from writes.
    #[must_use]
    pub const fn wp(self) -> bool {
        self.0 & UFFD_FEATURE_PAGEFAULT_FLAG_WP as u64 != 0
    }

    /// Missing pages of anonymous memory can be protected from writes.
    #[must_use]
    pub const fn wp_unpopulated(self) -> bool {
        self.0 & UFFD_FEATURE_WP_UNPOPULATED as u64 != 0
    }
}

/// A range of host virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRange {
    /// Address of the first byte in this process.
    pub start: u64,
    /// Length in bytes; whole pages.
    pub bytes: u64,
}

/// A userfaultfd. Closing it ends all registrations and lets the kernel resolve faults by itself.
#[derive(Debug)]
pub struct Userfaultfd {
    fd: OwnedFd,
}

impl Userfaultfd {
    /// A userfaultfd that also sees faults from within the kernel, as KVM's are.
    ///
    /// # Errors
    /// `EPERM` without privilege where `vm.unprivileged_userfaultfd` is 0, `EINVAL` where the kernel does not know
    /// the delivery, or any other errno of the two calls.
    pub fn new(delivery: Delivery) -> io::Result<Self> {
        let fd = open()?;
        let features = match delivery {
            Delivery::Message => 0,
            Delivery::Error => UFFD_FEATURE_SIGBUS.into(),
        };
        api(fd.as_fd(), features)?;
        Ok(Self { fd })
    }

    /// Reports faults of this kind in `range` from now on.
    ///
    /// # Errors
    /// `EINVAL` for memory that the kernel cannot report this kind of, or that is not page-aligned.
    ///
    /// # Safety
    /// `range` must be a mapping of the caller's, and every thread that touches it must cope with the delivery that
    /// this userfaultfd was made with: by sleeping until the page is there, or by an error.
    pub unsafe fn register(&self, range: HostRange, mode: Mode) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.register_kinds(range, &[mode]) }
    }

    /// Reports faults of several kinds: see [`register`](Self::register).
    ///
    /// # Safety
    /// That of `register`.
    pub(super) unsafe fn register_kinds(&self, range: HostRange, kinds: &[Mode]) -> io::Result<()> {
        let kinds = kinds.iter().map(|kind| match kind {
            Mode::Missing => u64::from(UFFDIO_REGISTER_MODE_MISSING),
            Mode::Minor => u64::from(UFFDIO_REGISTER_MODE_MINOR),
        });
        let mut register = uffdio_register {
            range: kernel_range(range),
            mode: kinds.fold(0, |all, kind| all | kind),
            ioctls: 0,
        };
        // SAFETY: the opcode takes this structure; what it changes of the memory is the caller's promise.
        unsafe { update::<UFFDIO_REGISTER, _>(self.fd.as_fd(), &mut register) }?;
        Ok(())
    }

    /// Puts the content of `source` at `start`, each page at once (`UFFDIO_COPY`).
    ///
    /// # Errors
    /// Any errno but `EEXIST` and `EAGAIN`, which are outcomes: `ENOENT` outside of the registered ranges, `ENOMEM`.
    pub fn copy(&self, start: u64, source: &[u8], wake: Wake) -> io::Result<InstallOutcome> {
        let length = source.len() as u64;
        let mut copy = uffdio_copy {
            dst: start,
            src: source.as_ptr() as u64,
            len: length,
            mode: match wake {
                Wake::Waiters => 0,
                Wake::None => UFFDIO_COPY_MODE_DONTWAKE.into(),
            },
            copy: 0,
        };
        // SAFETY: the kernel reads `source`, which is borrowed for the call, and only ever fills pages of registered
        // ranges whose content no thread can have seen.
        let done = unsafe { update::<UFFDIO_COPY, _>(self.fd.as_fd(), &mut copy) };
        installed(done, copy.copy, length)
    }

    /// Maps pages that the page cache has (`UFFDIO_CONTINUE`).
    ///
    /// # Errors
    /// Any errno but `EEXIST` and `EAGAIN`: `EFAULT` where the page cache has no page.
    pub fn resume(&self, range: HostRange, wake: Wake) -> io::Result<InstallOutcome> {
        let mut resume = uffdio_continue {
            range: kernel_range(range),
            mode: match wake {
                Wake::Waiters => 0,
                Wake::None => CONTINUE_MODE_DONTWAKE,
            },
            mapped: 0,
        };
        // SAFETY: the kernel only maps pages of registered ranges that have none, with the content of their file.
        let done = unsafe { update::<UFFDIO_CONTINUE, _>(self.fd.as_fd(), &mut resume) };
        installed(done, resume.mapped, range.bytes)
    }

    /// Wakes threads that wait for a page of `range` (`UFFDIO_WAKE`).
    ///
    /// # Errors
    /// The errno of the call.
    pub fn wake(&self, range: HostRange) -> io::Result<()> {
        let mut range = kernel_range(range);
        // SAFETY: waking changes no memory.
        Ok(unsafe { update::<UFFDIO_WAKE, _>(self.fd.as_fd(), &mut range) }?)
    }

    /// The host virtual address of the next fault; `None` when there is none.
    ///
    /// # Errors
    /// The errno of read(2).
    pub fn read_fault(&self) -> io::Result<Option<u64>> {
        let mut message = [0_u8; size_of::<uffd_msg>()];
        match rustix::io::read(&self.fd, &mut message) {
            Ok(length) if length == message.len() => Ok(address_of(&message)),
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Userfaultfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The address in a page-fault message: `struct uffd_msg` has the event in byte 0 and, for a page fault, flags at 8
/// and the address at 16.
fn address_of(message: &[u8; size_of::<uffd_msg>()]) -> Option<u64> {
    let address = message.get(16..24)?.try_into().ok()?;
    (u32::from(message[0]) == UFFD_EVENT_PAGEFAULT).then(|| u64::from_ne_bytes(address))
}

fn open() -> rustix::io::Result<OwnedFd> {
    open_with(UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK)
}

/// Opens a userfaultfd by userfaultfd(2), or by /dev/userfaultfd where only that is open to this user.
///
/// No `UFFDIO_API` has been called on it; [`Userfaultfd::new`] does. `flags` are those of userfaultfd(2).
///
/// # Errors
/// The errno of userfaultfd(2).
pub fn open_userfaultfd(flags: u32) -> io::Result<OwnedFd> {
    Ok(open_with(UserfaultfdFlags::from_bits_retain(flags))?)
}

fn open_with(flags: UserfaultfdFlags) -> rustix::io::Result<OwnedFd> {
    // SAFETY: a fresh userfaultfd has no ranges, so that it changes nothing.
    match unsafe { userfaultfd(flags) } {
        // /dev/userfaultfd may be open to those to whom the system call is closed.
        Err(Errno::PERM) => open_by_device(flags).map_err(|_| Errno::PERM),
        other => other,
    }
}

/// `USERFAULTFD_IOC_NEW`, `_IO(0xAA, 0)` of linux/userfaultfd.h (6.1).
const IOC_NEW: Opcode = rustix::ioctl::opcode::none(0xAA, 0);

fn open_by_device(flags: UserfaultfdFlags) -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    let device = open(
        "/dev/userfaultfd",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    // SAFETY: the opcode takes flags by value and returns a new descriptor.
    unsafe { ioctl(&device, NewUserfaultfd(flags)) }
}

/// `USERFAULTFD_IOC_NEW`: flags in, a descriptor out.
struct NewUserfaultfd(UserfaultfdFlags);

// SAFETY: the opcode takes an integer, writes no memory of ours, and its result is a descriptor without another owner.
unsafe impl rustix::ioctl::Ioctl for NewUserfaultfd {
    type Output = OwnedFd;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        IOC_NEW
    }

    fn as_ptr(&mut self) -> *mut core::ffi::c_void {
        core::ptr::without_provenance_mut(self.0.bits() as usize)
    }

    unsafe fn output_from_ptr(
        out: rustix::ioctl::IoctlOutput,
        _: *mut core::ffi::c_void,
    ) -> rustix::io::Result<OwnedFd> {
        use std::os::fd::FromRawFd;
        // SAFETY: the call succeeded, so that this is a new descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(out) })
    }
}

/// Performs the handshake of `UFFDIO_API`; returns the features that the kernel has.
fn api(fd: BorrowedFd<'_>, features: u64) -> io::Result<u64> {
    let mut api = uffdio_api {
        api: UFFD_API.into(),
        features,
        ioctls: 0,
    };
    // SAFETY: the opcode takes this structure and changes nothing else.
    unsafe { update::<UFFDIO_API, _>(fd, &mut api) }?;
    Ok(api.features)
}

/// # Safety
/// `OPCODE` must be an ioctl of a userfaultfd that takes a `T`.
unsafe fn update<const OPCODE: u32, T>(
    fd: BorrowedFd<'_>,
    value: &mut T,
) -> rustix::io::Result<()> {
    // SAFETY: the caller's promise.
    let call = unsafe { Updater::<'_, OPCODE, T>::new(value) };
    // SAFETY: as above.
    unsafe { ioctl(fd, call) }
}

const fn kernel_range(range: HostRange) -> uffdio_range {
    uffdio_range {
        start: range.start,
        len: range.bytes,
    }
}

/// Outcome of a copy from its errno and the bytes that were copied before it.
fn installed(done: rustix::io::Result<()>, count: i64, length: u64) -> io::Result<InstallOutcome> {
    match (done, u64::try_from(count)) {
        (Ok(()), _) => Ok(InstallOutcome::All),
        (Err(Errno::AGAIN), Ok(count)) if count >= length => Ok(InstallOutcome::All),
        (Err(Errno::AGAIN), Ok(count)) => Ok(InstallOutcome::Partial(count)),
        (Err(Errno::AGAIN), Err(_)) => Ok(InstallOutcome::Partial(0)),
        (Err(Errno::EXIST), _) => Ok(InstallOutcome::Exists),
        (Err(errno), _) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_copy_is_an_outcome_and_other_errors_are_errors() {
        let of = |errno, count| installed(Err(errno), count, 8192);
        assert_eq!(
            of(Errno::AGAIN, 4096).unwrap(),
            InstallOutcome::Partial(4096)
        );
        // The kernel writes -EAGAIN where the address space was changing and nothing was done.
        assert_eq!(of(Errno::AGAIN, -11).unwrap(), InstallOutcome::Partial(0));
        assert_eq!(of(Errno::EXIST, -17).unwrap(), InstallOutcome::Exists);
        assert_eq!(of(Errno::NOMEM, 0).unwrap_err().raw_os_error(), Some(12));
        assert_eq!(installed(Ok(()), 8192, 8192).unwrap(), InstallOutcome::All);
    }

    #[test]
    fn only_page_faults_have_an_address() {
        let mut message = [0; size_of::<uffd_msg>()];
        message[16..24].copy_from_slice(&0x7f00_1234_5000_u64.to_ne_bytes());
        assert_eq!(address_of(&message), None);
        message[0] = 0x12;
        assert_eq!(address_of(&message), Some(0x7f00_1234_5000));
    }
}
