//! Memory that belongs to the guest alone: `virt/kvm/guest_memfd.c`.

use super::Vm;
use super::stage2::Target;
use crate::Errno;
use crate::mm::{PAGE_SIZE, Page, PageCache};

/// A guest_memfd of a VM, in the order of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GmemId(pub(super) usize);

bitflags::bitflags! {
    /// `GUEST_MEMFD_FLAG_*` of include/uapi/linux/kvm.h.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct GmemFlags: u64 {
        /// User space can map it, and slots on it take all their pages from it.
        const MMAP = 1 << 0;
        /// Its pages are shared with the host to begin with.
        const INIT_SHARED = 1 << 1;
    }
}

#[derive(Clone, Debug)]
pub(super) struct GuestMemfd {
    pub(super) size: u64,
    pub(super) flags: GmemFlags,
    pub(super) open: bool,
    pub(super) pages: PageCache,
}

impl Vm {
    /// `KVM_CREATE_GUEST_MEMFD`: `kvm_gmem_create`.
    ///
    /// # Errors
    /// `EINVAL` for flags that there are not, and for a size that is none or not of whole pages.
    pub fn create_guest_memfd(&mut self, size: u64, flags: GmemFlags) -> Result<GmemId, Errno> {
        if !GmemFlags::all().contains(flags) || size == 0 || !size.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::Inval);
        }
        self.guest_memfds.push(GuestMemfd {
            size,
            flags,
            open: true,
            pages: PageCache::default(),
        });
        Ok(GmemId(self.guest_memfds.len() - 1))
    }

    /// close(2) of its last descriptor: slots on it are bound to nothing from now on, and their pages are gone
    /// (`kvm_gmem_release`).
    pub fn close_guest_memfd(&mut self, gmem: GmemId) {
        if let Some(found) = self.guest_memfds.get_mut(gmem.0) {
            found.open = false;
        }
        self.stage2
            .retain(|_, entry| !matches!(entry.target, Target::Gmem(other, _) if other == gmem));
    }

    /// The page of a guest_memfd at an index, zeroed on first use: `kvm_gmem_get_pfn`.
    pub(super) fn gmem_page(&mut self, gmem: GmemId, index: u64) -> Option<Page> {
        let found = self.guest_memfds.get_mut(gmem.0)?;
        let found = found.open.then_some(found)?;
        let page = found.pages.page(index).unwrap_or(Page::ZERO);
        found.pages.set(index, page);
        Some(page)
    }
}
