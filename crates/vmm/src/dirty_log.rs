//! A machine's dirty log: which pages its guest wrote, by a bitmap of each memslot or by a ring of each vCPU.
//!
//! Source: Documentation/virt/kvm/api.rst of Linux 6.18, 4.8 (`KVM_GET_DIRTY_LOG`), 4.118 (`KVM_CLEAR_DIRTY_LOG`), 8.29
//! (`KVM_CAP_DIRTY_LOG_RING`). KVM logs what vCPUs write; the writes of its own process are none of those.

#![allow(
    unsafe_code,
    reason = "ioctls that kvm-ioctls does not have, and memory that KVM shares"
)]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use kvm_bindings::{KVM_MEM_LOG_DIRTY_PAGES, KVMIO, kvm_dirty_gfn, kvm_enable_cap};
use kvm_ioctls::{VcpuExit, VcpuFd};
use vmm_sys_util::ioctl::{ioctl, ioctl_with_mut_ref, ioctl_with_ref};
use vmm_sys_util::{ioctl_io_nr, ioctl_iow_nr, ioctl_iowr_nr};

use crate::kvm::Vm;
use crate::{Error, Machine, open_kvm};

/// `KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2`, `KVM_CAP_DIRTY_LOG_RING` and `KVM_CAP_DIRTY_LOG_RING_ACQ_REL` of
/// include/uapi/linux/kvm.h.
const MANUAL_PROTECT: u32 = 168;
const RING: u32 = 192;
const RING_ACQ_REL: u32 = 223;
/// `KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE` and `KVM_DIRTY_LOG_INITIALLY_SET`.
const PROTECT_ENABLE: u64 = 1;
const INITIALLY_SET: u64 = 2;
/// `KVM_EXIT_DIRTY_RING_FULL`.
const RING_FULL: u32 = 31;
/// `KVM_DIRTY_LOG_PAGE_OFFSET` of x86-64 and arm64: the page of a vCPU's mapping at which its ring begins.
const RING_OFFSET: i64 = 64 * 4096;
/// `KVM_DIRTY_GFN_F_DIRTY` and `KVM_DIRTY_GFN_F_RESET`.
const DIRTY: u32 = 1;
const RESET: u32 = 2;
/// Pages of a word of a bitmap, to which `KVM_CLEAR_DIRTY_LOG` aligns.
const WORD: u64 = 64;

/// `struct kvm_dirty_log` of include/uapi/linux/kvm.h.
#[derive(Debug)]
#[repr(C)]
struct Get {
    slot: u32,
    padding: u32,
    bitmap: u64,
}

/// `struct kvm_clear_dirty_log` of include/uapi/linux/kvm.h.
#[derive(Debug)]
#[repr(C)]
struct Clear {
    slot: u32,
    pages: u32,
    first: u64,
    bitmap: u64,
}

ioctl_iow_nr!(KVM_GET_DIRTY_LOG, KVMIO, 0x42, Get);
ioctl_iow_nr!(KVM_ENABLE_CAP, KVMIO, 0xa3, kvm_enable_cap);
ioctl_iowr_nr!(KVM_CLEAR_DIRTY_LOG, KVMIO, 0xc0, Clear);
ioctl_io_nr!(KVM_RESET_DIRTY_RINGS, KVMIO, 0xc7);

/// Form of the dirty log of a machine, which is chosen before it has vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirtyLog {
    /// A bitmap; reading it protects its pages again.
    Bitmap,
    /// A bitmap whose pages are protected again by [`Machine::clear_dirty`].
    Manual,
    /// [`Manual`](Self::Manual), with all bits set in the beginning and nothing protected.
    InitiallySet,
    /// A ring of this many entries, a power of two, for each vCPU.
    Ring(u32),
}

/// Logging of a memslot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Logging {
    /// Writes of the guest are logged.
    On,
    /// Nothing is logged.
    Off,
}

impl Logging {
    /// Flags of `KVM_SET_USER_MEMORY_REGION`.
    pub(crate) const fn flags(self) -> u32 {
        match self {
            Self::On => KVM_MEM_LOG_DIRTY_PAGES,
            Self::Off => 0,
        }
    }
}

/// Extensions of KVM by number: what `KVM_CHECK_EXTENSION` returns.
pub trait Extensions {
    /// The extension's value; 0 where KVM lacks it.
    fn value(&self, extension: u32) -> i32;
}

impl Extensions for kvm_ioctls::Kvm {
    fn value(&self, extension: u32) -> i32 {
        self.check_extension_raw(extension.into())
    }
}

impl DirtyLog {
    /// Checks that KVM has this form of a dirty log.
    ///
    /// # Errors
    /// The extension that it lacks, and the kernel that has it.
    pub fn require(self) -> Result<(), Error> {
        self.require_of(&open_kvm()?).map(|_| ())
    }

    /// The extension that gives this form, with its argument; `None` where KVM has it by default.
    ///
    /// # Errors
    /// The extension that is lacking, and the kernel that has it.
    pub fn require_of(self, kvm: &impl Extensions) -> Result<Option<(u32, u64)>, Error> {
        let lacking = |what: String, remedy| Err(Error::Environment { what, remedy });
        let flags = u64::try_from(kvm.value(MANUAL_PROTECT)).unwrap_or(0);
        let manual = |wanted: u64, what: &str| match flags & wanted == wanted {
            true => Ok(Some((MANUAL_PROTECT, wanted))),
            false => lacking(format!("{what}: absent"), "use Linux 5.7 or later"),
        };
        match self {
            Self::Bitmap => Ok(None),
            Self::Manual => manual(PROTECT_ENABLE, "KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2"),
            Self::InitiallySet => manual(
                PROTECT_ENABLE | INITIALLY_SET,
                "KVM_DIRTY_LOG_INITIALLY_SET",
            ),
            Self::Ring(entries) => {
                let bytes = ring_bytes(entries);
                let most = |extension| u64::try_from(kvm.value(extension)).unwrap_or(0);
                let extensions = [RING_ACQ_REL, RING];
                match extensions.into_iter().find(|which| most(*which) >= bytes) {
                    Some(extension) => Ok(Some((extension, bytes))),
                    None => lacking(
                        format!("KVM_CAP_DIRTY_LOG_RING of {entries} entries: absent"),
                        "use Linux 5.11 or later on x86-64, 6.1 on arm64",
                    ),
                }
            }
        }
    }

    /// Chooses this form for a VM without vCPUs.
    pub(crate) fn enable(self, vm: &Vm) -> Result<(), Error> {
        let Some((extension, argument)) = self.require_of(&open_kvm()?)? else {
            return Ok(());
        };
        let mut enabled = kvm_enable_cap {
            cap: extension,
            ..kvm_enable_cap::default()
        };
        enabled.args[0] = argument;
        // SAFETY: the ioctl takes this structure; the extensions change what is logged, not what is mapped.
        let result = unsafe { ioctl_with_ref(&vm.fd, KVM_ENABLE_CAP(), &enabled) };
        done(
            result,
            format!("KVM_ENABLE_CAP {extension} with {argument:#x}"),
        )
        .map(|_| ())
    }
}

const fn ring_bytes(entries: u32) -> u64 {
    entries as u64 * size_of::<kvm_dirty_gfn>() as u64
}

impl Machine {
    /// Reads the bitmap of a memslot, a bit for each page.
    ///
    /// # Errors
    /// The slot is not logged, or the bitmap is shorter than the slot.
    pub fn dirty_bitmap(&self, slot: u32, bitmap: &mut [u64]) -> Result<(), Error> {
        if bitmap.len() < self.bitmap_words() {
            return Err(Error::Memory(format!(
                "a bitmap of {} words for slot {slot}: expected {} at least",
                bitmap.len(),
                self.bitmap_words()
            )));
        }
        let get = Get {
            slot,
            padding: 0,
            bitmap: bitmap.as_mut_ptr() as u64,
        };
        // SAFETY: the bitmap is borrowed for the call and has a bit for each page of any slot, which are parts of regions.
        let result = unsafe { ioctl_with_ref(&self.vm().fd, KVM_GET_DIRTY_LOG(), &get) };
        done(result, format!("KVM_GET_DIRTY_LOG of slot {slot}")).map(|_| ())
    }

    /// Clears pages of a memslot's bitmap from `first`, a multiple of 64, on, and protects them again.
    ///
    /// # Errors
    /// The slot is not logged by hand, or the bitmap reaches beyond it.
    pub fn clear_dirty(&self, slot: u32, first: u64, bitmap: &[u64]) -> Result<(), Error> {
        let operation = format!("KVM_CLEAR_DIRTY_LOG of slot {slot} from page {first} on");
        let pages = u32::try_from(bitmap.len() as u64 * WORD);
        let mut clear = Clear {
            slot,
            pages: pages.map_err(|_| Error::Memory(format!("{operation}: too many pages")))?,
            first,
            bitmap: bitmap.as_ptr() as u64,
        };
        // SAFETY: the kernel reads a bit of the borrowed bitmap for each page.
        let result =
            unsafe { ioctl_with_mut_ref(&self.vm().fd, KVM_CLEAR_DIRTY_LOG(), &mut clear) };
        done(result, operation).map(|_| ())
    }

    /// Protects the pages of all entries that were collected from rings again; returns their number.
    ///
    /// # Errors
    /// The machine has no rings.
    pub fn reset_rings(&self) -> Result<u64, Error> {
        // SAFETY: the ioctl takes no argument.
        let result = unsafe { ioctl(&self.vm().fd, KVM_RESET_DIRTY_RINGS()) };
        done(result, "KVM_RESET_DIRTY_RINGS".into())
    }

    /// Words of a bitmap that is long enough for any memslot: a bit for each page of the largest region of memory.
    #[must_use]
    pub fn bitmap_words(&self) -> usize {
        let largest = self.backing().regions().map(|region| region.bytes).max();
        let pages = largest.unwrap_or(0) / 4096;
        usize::try_from(pages.div_ceil(WORD)).unwrap_or(usize::MAX)
    }
}

fn done(result: i32, operation: String) -> Result<u64, Error> {
    u64::try_from(result).map_err(|_| Error::system(operation)(io::Error::last_os_error()))
}

/// Tests for the exit of a vCPU whose ring is full: it cannot be entered before its ring has been reset.
#[must_use]
pub const fn is_ring_full(exit: &VcpuExit<'_>) -> bool {
    matches!(exit, VcpuExit::Unsupported(RING_FULL))
}

/// The ring of a vCPU, mapped; it stays as long as this does.
#[derive(Debug)]
pub struct DirtyRing {
    entries: NonNull<kvm_dirty_gfn>,
    count: u32,
    next: u32,
}

// SAFETY: the mapping belongs to no thread.
unsafe impl Send for DirtyRing {}

impl DirtyRing {
    /// Maps the ring of a vCPU whose machine was made with as many entries.
    ///
    /// # Errors
    /// The vCPU has no ring of this size.
    pub fn new(vcpu: &VcpuFd, count: u32) -> Result<Self, Error> {
        let length = usize::try_from(ring_bytes(count)).unwrap_or(usize::MAX);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                access,
                libc::MAP_SHARED,
                vcpu.as_raw_fd(),
                RING_OFFSET,
            )
        };
        let failed = || Error::system("mmap of a dirty ring")(io::Error::last_os_error());
        if address == libc::MAP_FAILED {
            return Err(failed());
        }
        Ok(Self {
            entries: NonNull::new(address.cast()).ok_or_else(failed)?,
            count,
            next: 0,
        })
    }

    /// Takes the entries that are there, oldest first: a memslot and a page of it. Their pages are protected again by
    /// [`Machine::reset_rings`].
    pub fn collect(&mut self, mut written: impl FnMut(u32, u64)) -> u32 {
        let mut taken = 0;
        while taken < self.count {
            let index = (self.next % self.count) as usize;
            // SAFETY: the index is within the mapping, which is as long as the ring.
            let entry = unsafe { self.entries.add(index) }.as_ptr();
            // SAFETY: KVM and this process access the flags of an entry atomically.
            let flags = unsafe { AtomicU32::from_ptr(&raw mut (*entry).flags) };
            if flags.load(Ordering::Acquire) & DIRTY == 0 {
                break;
            }
            // SAFETY: KVM does not write an entry between its flag DIRTY and its reset.
            let (slot, page) = unsafe { ((*entry).slot, (*entry).offset) };
            written(slot & 0xffff, page);
            flags.store(RESET, Ordering::Release);
            self.next = self.next.wrapping_add(1);
            taken += 1;
        }
        taken
    }
}

impl Drop for DirtyRing {
    fn drop(&mut self) {
        let length = usize::try_from(ring_bytes(self.count)).unwrap_or(0);
        // SAFETY: the mapping is this object's alone.
        unsafe { libc::munmap(self.entries.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answers(&'static [(u32, i32)]);

    impl Extensions for Answers {
        fn value(&self, extension: u32) -> i32 {
            let known = self.0.iter().find(|(number, _)| *number == extension);
            known.map_or(0, |(_, value)| *value)
        }
    }

    #[test]
    fn a_kvm_without_the_ring_or_manual_protection_is_named() {
        let lacking = |log: DirtyLog, kvm| log.require_of(&kvm).unwrap_err().to_string();
        let none = || Answers(&[]);
        assert!(lacking(DirtyLog::Ring(4096), none()).starts_with("KVM_CAP_DIRTY_LOG_RING"));
        assert!(lacking(DirtyLog::Manual, none()).contains("Linux 5.7"));
        let old = Answers(&[(MANUAL_PROTECT, 1)]);
        assert!(lacking(DirtyLog::InitiallySet, old).contains("INITIALLY_SET"));
        assert_eq!(DirtyLog::Bitmap.require_of(&none()).unwrap(), None);
    }

    #[test]
    fn the_ring_with_acquire_and_release_is_preferred_and_must_be_large_enough() {
        let both = Answers(&[(RING, 1 << 20), (RING_ACQ_REL, 1 << 20)]);
        let ring = DirtyLog::Ring(4096);
        assert_eq!(
            ring.require_of(&both).unwrap(),
            Some((RING_ACQ_REL, 65_536))
        );
        let small = Answers(&[(RING, 32_768)]);
        assert!(ring.require_of(&small).is_err());
        let large = Answers(&[(RING, 65_536)]);
        assert_eq!(ring.require_of(&large).unwrap(), Some((RING, 65_536)));
    }
}
