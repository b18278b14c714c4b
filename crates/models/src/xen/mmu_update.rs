//! The hypercall `mmu_update`: an array of entries to be written. Source: xen/arch/x86/mm.c, `do_mmu_update`, and
//! xen/include/public/xen.h, 4.17.

use pagetoll_units::MachineAddress;

use super::domain::{DomainId, ForeignDomain, VcpuId};
use super::errno::Errno;
use super::flush::{Extent, FlushTargets};
use super::frame::PageType;
use super::machine::Xen;
use super::mod_entry::{AccessedDirty, Replacement, Translation};
use super::multicall::Call;
use super::tolls::Outcome;
use crate::x86::{Level, PageTableEntry};

/// Set in a count by Xen itself when it continues a call: the done counter is read first.
pub const MMU_UPDATE_PREEMPTED: u32 = 1 << 31;

/// The command in the low three bits of `ptr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmuCommand {
    /// 0: write an entry.
    NormalPtUpdate,
    /// 1: write which guest frame a machine frame is.
    MachphysUpdate,
    /// 2: write an entry, keep A and D that are set.
    PtUpdatePreserveAd,
    /// 3: write an entry; the frame in it is a machine frame even for translated guests.
    PtUpdateNoTranslate,
    /// 4 to 7: no command.
    Unknown,
}

impl MmuCommand {
    const fn from_ptr(ptr: u64) -> Self {
        match ptr & 7 {
            0 => Self::NormalPtUpdate,
            1 => Self::MachphysUpdate,
            2 => Self::PtUpdatePreserveAd,
            3 => Self::PtUpdateNoTranslate,
            _ => Self::Unknown,
        }
    }
}

/// One request, as the guest lays it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmuUpdate {
    /// The machine address of an entry, with the command in its low bits.
    pub ptr: u64,
    /// The new value.
    pub val: u64,
}

/// Part of an array that is meant. A count beyond the array reaches memory that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch<'a, T> {
    /// The array.
    pub requests: &'a [T],
    /// The count that the guest gives, [`MMU_UPDATE_PREEMPTED`] included.
    pub count: u32,
    /// Value of the done counter before.
    pub done: u32,
}

impl<'a, T: Copy> Batch<'a, T> {
    /// A whole array.
    #[must_use]
    pub fn all(requests: &'a [T]) -> Self {
        Self {
            requests,
            count: u32::try_from(requests.len()).unwrap_or(u32::MAX),
            done: 0,
        }
    }

    /// Value that the done counter starts from.
    pub(super) const fn before(&self) -> u32 {
        if self.count & MMU_UPDATE_PREEMPTED == 0 {
            0
        } else {
            self.done
        }
    }

    /// Carries out request after request until one fails.
    pub(super) fn run(
        self,
        mut one: impl FnMut(T) -> Result<(), Errno>,
    ) -> (Result<(), Errno>, u32) {
        let before = self.before();
        let count = self.count & !MMU_UPDATE_PREEMPTED;
        let mut requests = self.requests.iter();
        for index in 0..count {
            let next = requests.next().ok_or(Errno::Efault);
            if let Err(errno) = next.and_then(|request| one(*request)) {
                return (Err(errno), before.wrapping_add(index));
            }
        }
        (Ok(()), before.wrapping_add(count))
    }
}

/// State of the done counter when nothing is carried out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Counter {
    Written,
    Untouched,
}

/// Domains whose tables and frames are meant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners {
    pub(super) caller: DomainId,
    pub(super) tables: DomainId,
    pub(super) pages: DomainId,
}

impl Xen {
    /// `mmu_update`.
    pub fn mmu_update(
        &mut self,
        current: VcpuId,
        batch: Batch<'_, MmuUpdate>,
        foreign: ForeignDomain,
    ) -> Outcome {
        self.call(current, Call::MmuUpdate(batch, foreign))
    }

    pub(super) fn do_mmu_update(
        &mut self,
        current: VcpuId,
        batch: Batch<'_, MmuUpdate>,
        foreign: ForeignDomain,
    ) -> (Result<(), Errno>, u32) {
        let owners = match self.owners(current, foreign) {
            Ok(owners) => owners,
            Err((errno, Counter::Written)) => return (Err(errno), batch.before()),
            Err((errno, Counter::Untouched)) => return (Err(errno), batch.done),
        };
        let mut flush = false;
        let ended = batch.run(|request| {
            self.tolls.requests += 1;
            self.one_update(request, owners, &mut flush)
        });
        if flush {
            let targets = self.targets(current, FlushTargets::All).unwrap_or_default();
            self.flush(current, &targets, Extent::Everything);
        }
        ended
    }

    /// Finds the domains concerned; else the error, and whether the done counter is written then.
    pub(super) fn owners(
        &self,
        current: VcpuId,
        foreign: ForeignDomain,
    ) -> Result<Owners, (Errno, Counter)> {
        let caller = self.vcpus[current.0].domain;
        let tables = foreign.table_owner().unwrap_or(caller);
        if !self.has_domain(tables) {
            return Err((Errno::Esrch, Counter::Untouched));
        }
        if self.vcpus_of(tables).is_empty() {
            return Err((Errno::Einval, Counter::Written));
        }
        let pages = self.get_pg_owner(caller, foreign.page_owner());
        let pages = pages.ok_or((Errno::Esrch, Counter::Written))?;
        Ok(Owners {
            caller,
            tables,
            pages,
        })
    }

    fn one_update(
        &mut self,
        request: MmuUpdate,
        owners: Owners,
        flush: &mut bool,
    ) -> Result<(), Errno> {
        let command = MmuCommand::from_ptr(request.ptr);
        let accessed_dirty = match command {
            MmuCommand::Unknown => return Err(Errno::Enosys),
            MmuCommand::MachphysUpdate => return self.machphys_update(request, owners),
            MmuCommand::PtUpdatePreserveAd => AccessedDirty::Preserve,
            MmuCommand::NormalPtUpdate | MmuCommand::PtUpdateNoTranslate => AccessedDirty::Replace,
        };
        Self::permit_update(owners)?;
        let place = MachineAddress(request.ptr & !7);
        if !self.frames.get_page(place.mfn(), owners.tables) {
            return Err(Errno::Einval);
        }
        let asked = Replacement {
            place,
            wanted: PageTableEntry(request.val),
            accessed_dirty,
            translation: match command {
                MmuCommand::PtUpdateNoTranslate => Translation::Machine,
                _ => Translation::Guest,
            },
            table_owner: owners.tables,
            page_owner: owners.pages,
        };
        let result = self.update_frame(asked, flush);
        self.frames.put_page(place.mfn());
        result
    }

    /// Checks that the caller may map these frames in these tables.
    pub(super) fn permit_update(owners: Owners) -> Result<(), Errno> {
        if owners.pages != DomainId::IO {
            Self::permit(owners.caller, owners.pages)?;
        }
        Self::permit(owners.caller, owners.tables)
    }

    /// Writes into a frame, as what it is used for demands.
    fn update_frame(&mut self, asked: Replacement, flush: &mut bool) -> Result<(), Errno> {
        let mfn = asked.place.mfn();
        match self.locked_type(mfn) {
            Some(PageType::Table(level)) => {
                if level != Level::L1 && asked.page_owner != asked.table_owner {
                    return Err(Errno::Einval);
                }
                self.mod_entry(level, asked)?;
                *flush |= level != Level::L1;
                Ok(())
            }
            Some(PageType::Writable) => {
                self.memory.write(asked.place, asked.wanted.0);
                Ok(())
            }
            Some(PageType::SegmentDescriptors) => Err(Errno::Einval),
            // A frame without a use is made writable for the moment.
            Some(PageType::None) | None => {
                self.get_page_type(mfn, PageType::Writable)?;
                self.memory.write(asked.place, asked.wanted.0);
                self.put_page_type(mfn, None);
                Ok(())
            }
        }
    }

    fn machphys_update(&mut self, request: MmuUpdate, owners: Owners) -> Result<(), Errno> {
        if owners.caller != owners.tables {
            return Err(Errno::Eperm);
        }
        if owners.pages != DomainId::IO {
            Self::permit(owners.caller, owners.pages)?;
        }
        let mfn = MachineAddress(request.ptr).mfn();
        if !self.frames.get_page(mfn, owners.pages) {
            return Err(Errno::Einval);
        }
        if let Ok(index) = usize::try_from(mfn.0) {
            self.machine_to_phys.set(index, request.val.wrapping_add(1));
        }
        self.frames.put_page(mfn);
        Ok(())
    }
}
