//! References of an entry to its frame: taken when the entry is made, given back when it goes. Source:
//! xen/arch/x86/mm.c, `get_page_from_l1e` to `get_page_from_l4e`, `put_page_from_l1e` to `put_page_from_l4e`,
//! `get_l2_linear_pagetable` and its like, 4.17.

use pagetoll_units::Mfn;

use super::adjust::{CACHE_ATTRIBUTES, UPPER_DISALLOWED};
use super::domain::DomainId;
use super::errno::Errno;
use super::frame::PageType;
use super::machine::Xen;
use crate::x86::{Flags, Level, PageTableEntry};

impl Xen {
    /// Takes what a present entry of a table refers to, for the table's owner. Returns the entry with the flags that
    /// Xen turned over in it.
    ///
    /// # Errors
    /// Why the guest may not have that entry.
    pub(super) fn get_page_from_entry(
        &mut self,
        entry: PageTableEntry,
        table: Mfn,
        level: Level,
        owner: DomainId,
    ) -> Result<PageTableEntry, Errno> {
        match level.below() {
            None => self.get_page_from_l1e(entry, owner, owner),
            Some(below) => self.get_table(entry, table, below, owner).map(|()| entry),
        }
    }

    /// Gives back what an entry refers to.
    pub(super) fn put_page_from_entry(&mut self, entry: PageTableEntry, table: Mfn, level: Level) {
        match level {
            Level::L1 => self.put_page_from_l1e(entry),
            _ if entry.is_present() && entry.mfn() != table => {
                self.put_page_type(entry.mfn(), Some(table));
                self.frames.put_page(entry.mfn());
            }
            _ => {}
        }
    }

    /// Takes the frame that an L1 entry maps: `l1e_owner` has the table, `pg_owner` is asked for the frame.
    ///
    /// # Errors
    /// `EPERM` and `EINVAL` for I/O memory that is denied, `EBUSY` for a frame that is not available, `EACCES` for
    /// cache attributes of Xen's own frames.
    pub(super) fn get_page_from_l1e(
        &mut self,
        entry: PageTableEntry,
        l1e_owner: DomainId,
        pg_owner: DomainId,
    ) -> Result<PageTableEntry, Errno> {
        if !l1e_owner_has_io(l1e_owner) && entry.flags().intersects(CACHE_ATTRIBUTES) {
            return Err(Errno::Einval);
        }
        let mfn = entry.mfn();
        if self.take_known(entry, pg_owner) {
            return Ok(entry);
        }
        if self.is_io_memory(mfn) {
            let asked = if pg_owner == DomainId::IO {
                l1e_owner
            } else {
                pg_owner
            };
            return self.map_io(entry, [asked, l1e_owner]);
        }
        let Some(real_owner) = self.frames.take_reference(mfn) else {
            return Err(Errno::Ebusy);
        };
        let taken = self.take_ram(entry, real_owner, l1e_owner, pg_owner);
        if taken.is_err() {
            self.frames.put_page(mfn);
        }
        taken.map(|()| entry)
    }

    /// Takes a frame that is the asked domain's and, for a writable entry, writable already or never used: what nearly all
    /// are. A first use needs no flush while there is no CPU that could remember another.
    fn take_known(&mut self, entry: PageTableEntry, owner: DomainId) -> bool {
        let uses = u32::from(self.is_use(entry, owner));
        let no_vcpu = self.vcpus.is_empty();
        let taken = self.frames.update(entry.mfn(), |frame| {
            let is_known = frame.page_type == PageType::Writable && frame.validated;
            let is_first = no_vcpu && frame.page_type == PageType::None;
            let fits = owner != DomainId::IO
                && frame.owner == Some(owner)
                && frame.references > 0
                && !frame.xen_heap
                && (uses == 0 || is_known || is_first);
            if fits {
                frame.references += 1;
                frame.type_count += uses;
            }
            if fits && uses > 0 {
                frame.page_type = PageType::Writable;
                frame.validated = true;
            }
            fits
        });
        taken == Some(true)
    }

    fn take_ram(
        &mut self,
        entry: PageTableEntry,
        real_owner: DomainId,
        l1e_owner: DomainId,
        pg_owner: DomainId,
    ) -> Result<(), Errno> {
        let transferred = || pg_owner != l1e_owner && Self::permit(pg_owner, real_owner).is_ok();
        if real_owner != pg_owner && !transferred() {
            return Err(Errno::Ebusy);
        }
        let mfn = entry.mfn();
        let writable = self.is_use(entry, real_owner);
        if writable {
            let taken = self.get_page_type(mfn, PageType::Writable);
            taken.map_err(|_| Errno::Ebusy)?;
        }
        let is_special = self.frames.get(mfn).is_some_and(|frame| frame.xen_heap);
        if is_special && entry.flags().intersects(CACHE_ATTRIBUTES) {
            if writable {
                self.put_page_type(mfn, None);
            }
            return Err(Errno::Eacces);
        }
        Ok(())
    }

    /// I/O memory has no counts. What is mapped cacheable becomes uncacheable, what is read-only to all stays so.
    fn map_io(
        &self,
        entry: PageTableEntry,
        domains: [DomainId; 2],
    ) -> Result<PageTableEntry, Errno> {
        let mfn = entry.mfn();
        if !domains.iter().all(|&domain| self.io.permits(domain, mfn)) {
            return Err(self.io.refusal(mfn));
        }
        if !self.io.is_read_only(mfn) {
            return Ok(entry.flipped(uncached(entry.flags())));
        }
        let writable = entry.flags() & Flags::WRITABLE;
        Ok(entry.flipped(writable | uncached(entry.flags())))
    }

    /// Gives back the frame that an L1 entry maps.
    pub(super) fn put_page_from_l1e(&mut self, entry: PageTableEntry) {
        let mfn = entry.mfn();
        if !entry.is_present() || self.put_known(entry) || self.is_io_memory(mfn) {
            return;
        }
        let owner = self.frames.get(mfn).and_then(|frame| frame.owner);
        if owner.is_some_and(|owner| self.is_use(entry, owner)) {
            self.put_page_type(mfn, None);
        }
        self.frames.put_page(mfn);
    }

    /// Returns whether an entry uses its frame as writable. Entries that map another domain's frames do not where Xen
    /// translates that domain: its own tables are not of Xen's frame types.
    fn is_use(&self, entry: PageTableEntry, owner: DomainId) -> bool {
        entry.has(Flags::WRITABLE) && (owner == DomainId::DOM0 || self.p2m(owner).is_none())
    }

    /// Gives back a frame that is writable, if it is, and that others still refer to: what nearly all are.
    fn put_known(&mut self, entry: PageTableEntry) -> bool {
        // Another domain's frames may be used otherwise.
        let owner = self.vcpus.first().map(|vcpu| vcpu.domain);
        let uses = u32::from(entry.has(Flags::WRITABLE));
        let put = self.frames.update(entry.mfn(), |frame| {
            let fits = frame.owner == owner
                && frame.references > 1
                && (uses == 0 || frame.page_type == PageType::Writable && frame.type_count > 0);
            if fits {
                frame.references -= 1;
                frame.type_count -= uses;
            }
            fits
        });
        put == Some(true)
    }

    /// Returns whether a frame is not RAM (`is_iomem_page`).
    fn is_io_memory(&self, mfn: Mfn) -> bool {
        let frame = self.frames.get(mfn);
        frame.is_none_or(|frame| frame.owner == Some(DomainId::IO))
    }

    /// Takes the table that an upper entry refers to, of the level below.
    fn get_table(
        &mut self,
        entry: PageTableEntry,
        table: Mfn,
        below: Level,
        owner: DomainId,
    ) -> Result<(), Errno> {
        if entry.flags().intersects(UPPER_DISALLOWED) {
            return Err(Errno::Einval);
        }
        match self.get_page_and_type(entry.mfn(), PageType::Table(below), owner) {
            Err(Errno::Einval) => self.get_linear_pagetable(entry, table, owner),
            other => other,
        }
    }

    /// Takes a reference and a use (`get_page_and_type_from_mfn`).
    ///
    /// # Errors
    /// `EINVAL` when the frame is not the domain's, or the use is not available.
    pub(super) fn get_page_and_type(
        &mut self,
        mfn: Mfn,
        wanted: PageType,
        owner: DomainId,
    ) -> Result<(), Errno> {
        if !self.frames.get_page(mfn, owner) {
            return Err(Errno::Einval);
        }
        let taken = self.get_page_type(mfn, wanted);
        if taken.is_err() {
            self.frames.put_page(mfn);
        }
        taken
    }

    /// A table may refer to itself, or read-only to another table of its own level that is checked and does not do so
    /// itself: a linear page table.
    fn get_linear_pagetable(
        &mut self,
        entry: PageTableEntry,
        table: Mfn,
        owner: DomainId,
    ) -> Result<(), Errno> {
        let child = entry.mfn();
        if entry.has(Flags::WRITABLE) {
            return Err(Errno::Einval);
        }
        if child == table {
            return Ok(());
        }
        let own_type = self.type_of(table);
        let parent_fits = self
            .frames
            .get(table)
            .is_some_and(|frame| frame.linear >= 0);
        let child_fits = self.frames.get(child).is_some_and(|frame| {
            frame.linear <= 0
                && frame.validated
                && frame.type_count > 0
                && frame.page_type == own_type
        });
        if !parent_fits || !child_fits || !self.frames.get_page(child, owner) {
            return Err(Errno::Einval);
        }
        let _ = self.frames.update(child, |frame| frame.type_count += 1);
        self.count_linear(table, child, 1);
        Ok(())
    }
}

/// A domain with I/O memory of its own may choose memory types (mm.c, `l1_disallow_mask`).
fn l1e_owner_has_io(domain: DomainId) -> bool {
    domain == DomainId::DOM0
}

/// The flags to be turned over so that I/O memory is not cached. It is left at write-combining and uncacheable types.
fn uncached(flags: Flags) -> Flags {
    let attributes = flags & CACHE_ATTRIBUTES;
    if attributes.is_empty() {
        Flags::WRITE_THROUGH | Flags::CACHE_DISABLE
    } else if attributes.contains(Flags::WRITE_THROUGH)
        && !attributes.contains(Flags::CACHE_DISABLE)
    {
        Flags::CACHE_DISABLE | flags & Flags::PAT
    } else {
        Flags::empty()
    }
}
