//! The hypercall `mmuext_op`: pinning, base pointers, flushes, and pages cleared or copied. Source:
//! xen/arch/x86/mm.c, `do_mmuext_op` and `new_guest_cr3`, and xen/include/public/xen.h, 4.17.
//!
//! Caches are not modelled: flushing one is permitted or not, and does nothing.

use pagetoll_units::{Mfn, VirtualAddress};

use super::domain::{DomainId, VcpuId};
use super::errno::Errno;
use super::flush::{Extent, FlushTargets, VcpuMask};
use super::frame::{Frame, PageType};
use super::machine::Xen;
use super::mmu_update::Batch;
use super::multicall::Call;
use super::tolls::Outcome;
use super::update_va_mapping::is_guest_address;
use crate::x86::Level;

/// Most entries of an LDT (x86: 64 KiB of 8-byte descriptors).
const LDT_ENTRIES: u64 = 8192;

/// A command, by its name in the public header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// `MMUEXT_PIN_L1_TABLE` to `MMUEXT_PIN_L4_TABLE`.
    PinTable(Level),
    /// `MMUEXT_UNPIN_TABLE`.
    UnpinTable,
    /// `MMUEXT_NEW_BASEPTR`.
    NewBaseptr,
    /// `MMUEXT_TLB_FLUSH_LOCAL`.
    TlbFlushLocal,
    /// `MMUEXT_INVLPG_LOCAL`.
    InvlpgLocal,
    /// `MMUEXT_TLB_FLUSH_MULTI`.
    TlbFlushMulti,
    /// `MMUEXT_INVLPG_MULTI`.
    InvlpgMulti,
    /// `MMUEXT_TLB_FLUSH_ALL`.
    TlbFlushAll,
    /// `MMUEXT_INVLPG_ALL`.
    InvlpgAll,
    /// `MMUEXT_FLUSH_CACHE` and `MMUEXT_FLUSH_CACHE_GLOBAL`.
    FlushCache,
    /// `MMUEXT_SET_LDT`.
    SetLdt,
    /// `MMUEXT_NEW_USER_BASEPTR`.
    NewUserBaseptr,
    /// `MMUEXT_CLEAR_PAGE`.
    ClearPage,
    /// `MMUEXT_COPY_PAGE`.
    CopyPage,
    /// `MMUEXT_MARK_SUPER` and `MMUEXT_UNMARK_SUPER`: commands that there were.
    Withdrawn,
    /// No command.
    Unknown,
}

impl From<u32> for Command {
    fn from(number: u32) -> Self {
        match number {
            0 => Self::PinTable(Level::L1),
            1 => Self::PinTable(Level::L2),
            2 => Self::PinTable(Level::L3),
            3 => Self::PinTable(Level::L4),
            4 => Self::UnpinTable,
            5 => Self::NewBaseptr,
            6 => Self::TlbFlushLocal,
            7 => Self::InvlpgLocal,
            8 => Self::TlbFlushMulti,
            9 => Self::InvlpgMulti,
            10 => Self::TlbFlushAll,
            11 => Self::InvlpgAll,
            12 | 18 => Self::FlushCache,
            13 => Self::SetLdt,
            15 => Self::NewUserBaseptr,
            16 => Self::ClearPage,
            17 => Self::CopyPage,
            19 | 20 => Self::Withdrawn,
            _ => Self::Unknown,
        }
    }
}

/// The second argument, as the command means it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A frame, or a number of entries.
    Number(u64),
    /// A pointer to a bitmap of vCPUs.
    Vcpus(VcpuMask),
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmuExtOp {
    /// Command of the request.
    pub command: Command,
    /// A frame, or an address.
    pub first: u64,
    /// Second argument of the command.
    pub second: Argument,
}

/// Caller, and the domain whose frames are meant.
#[derive(Clone, Copy)]
struct Caller {
    vcpu: VcpuId,
    domain: DomainId,
    pages: DomainId,
}

impl Xen {
    /// `mmuext_op`.
    pub fn mmuext_op(
        &mut self,
        current: VcpuId,
        batch: Batch<'_, MmuExtOp>,
        foreign: DomainId,
    ) -> Outcome {
        self.call(current, Call::MmuExtOp(batch, foreign))
    }

    pub(super) fn do_mmuext_op(
        &mut self,
        current: VcpuId,
        batch: Batch<'_, MmuExtOp>,
        foreign: DomainId,
    ) -> (Result<(), Errno>, u32) {
        let domain = self.vcpus[current.0].domain;
        let Some(pages) = self.get_pg_owner(domain, foreign) else {
            return (Err(Errno::Esrch), batch.done);
        };
        if let Err(errno) = Self::permit(domain, pages) {
            return (Err(errno), batch.done);
        }
        let caller = Caller {
            vcpu: current,
            domain,
            pages,
        };
        batch.run(|op| {
            self.tolls.requests += 1;
            self.one_op(op, caller)
        })
    }

    fn one_op(&mut self, op: MmuExtOp, caller: Caller) -> Result<(), Errno> {
        let mfn = Mfn(op.first);
        match op.command {
            Command::PinTable(level) => self.pin(mfn, level, caller.pages),
            Command::UnpinTable => self.unpin(mfn, caller.pages),
            Command::ClearPage => {
                self.with_writable(mfn, caller.pages, |xen| xen.memory.clear(mfn))
            }
            Command::CopyPage => self.copy_page(mfn, op.second, caller.pages),
            Command::Withdrawn => Err(Errno::Eopnotsupp),
            Command::Unknown => Err(Errno::Enosys),
            _ if caller.domain != caller.pages => Err(Errno::Eperm),
            Command::NewBaseptr => self.new_guest_cr3(caller.vcpu, mfn),
            Command::NewUserBaseptr => self.new_user_baseptr(mfn, caller),
            Command::FlushCache => {
                Self::permit(caller.domain, DomainId::IO).map_err(|_| Errno::Eacces)
            }
            Command::SetLdt => set_ldt(op),
            _ => self.flush_op(op, caller.vcpu),
        }
    }

    /// Keeps a table checked while nothing refers to it.
    fn pin(&mut self, mfn: Mfn, level: Level, owner: DomainId) -> Result<(), Errno> {
        self.get_page_and_type(mfn, PageType::Table(level), owner)?;
        let pin = |frame: &mut Frame| std::mem::replace(&mut frame.pinned, true);
        if self.frames.update(mfn, pin) == Some(false) {
            return Ok(());
        }
        self.put_page_type(mfn, None);
        self.frames.put_page(mfn);
        Err(Errno::Einval)
    }

    fn unpin(&mut self, mfn: Mfn, owner: DomainId) -> Result<(), Errno> {
        let was_pinned = self.frames.update(mfn, |frame| {
            let was_pinned = frame.owner == Some(owner) && frame.pinned;
            frame.pinned &= !was_pinned;
            was_pinned
        });
        if was_pinned != Some(true) {
            return Err(Errno::Einval);
        }
        self.put_page_type(mfn, None);
        self.frames.put_page(mfn);
        Ok(())
    }

    /// Loads another root, for the hypercall and for an emulated `mov` to CR3.
    pub(super) fn new_guest_cr3(&mut self, current: VcpuId, mfn: Mfn) -> Result<(), Errno> {
        let (old, domain) = (
            self.vcpus[current.0].guest_table,
            self.vcpus[current.0].domain,
        );
        if old != mfn {
            self.get_page_and_type(mfn, PageType::Table(Level::L4), domain)?;
            self.vcpus[current.0].guest_table = mfn;
        }
        self.tolls.flushes_local += 1;
        self.vcpus[current.0].cpu.load_root(mfn);
        if old != mfn {
            self.put_page_type(old, None);
            self.frames.put_page(old);
        }
        Ok(())
    }

    fn new_user_baseptr(&mut self, mfn: Mfn, caller: Caller) -> Result<(), Errno> {
        let old = self.vcpus[caller.vcpu.0].guest_table_user;
        let new = (mfn != Mfn(0)).then_some(mfn);
        if old == new {
            return Ok(());
        }
        if let Some(new) = new {
            self.get_page_and_type(new, PageType::Table(Level::L4), caller.domain)?;
        }
        self.vcpus[caller.vcpu.0].guest_table_user = new;
        if let Some(old) = old {
            self.put_page_type(old, None);
            self.frames.put_page(old);
        }
        Ok(())
    }

    fn copy_page(&mut self, to: Mfn, from: Argument, owner: DomainId) -> Result<(), Errno> {
        let Argument::Number(from) = from else {
            return Err(Errno::Einval);
        };
        let from = Mfn(from);
        if owner == DomainId::IO || !self.frames.get_page(from, owner) {
            return Err(Errno::Einval);
        }
        let copied = self.with_writable(to, owner, |xen| xen.memory.copy(from, to));
        self.frames.put_page(from);
        copied
    }

    /// Does something to a frame that the guest could do itself.
    fn with_writable(
        &mut self,
        mfn: Mfn,
        owner: DomainId,
        work: impl FnOnce(&mut Self),
    ) -> Result<(), Errno> {
        if owner == DomainId::IO {
            return Err(Errno::Einval);
        }
        self.get_page_and_type(mfn, PageType::Writable, owner)?;
        work(self);
        self.put_page_type(mfn, None);
        self.frames.put_page(mfn);
        Ok(())
    }

    fn flush_op(&mut self, op: MmuExtOp, current: VcpuId) -> Result<(), Errno> {
        let page = Extent::Page(VirtualAddress(op.first));
        let multi = match op.second {
            Argument::Vcpus(mask) => FlushTargets::Multi(mask),
            // A number is no pointer that a guest could read by.
            Argument::Number(_) => FlushTargets::Multi(VcpuMask::ReadError),
        };
        let (targets, extent) = match op.command {
            Command::TlbFlushLocal => (FlushTargets::Local, Extent::Everything),
            Command::TlbFlushMulti => (multi, Extent::Everything),
            Command::TlbFlushAll => (FlushTargets::All, Extent::Everything),
            Command::InvlpgLocal => (FlushTargets::Local, page),
            Command::InvlpgMulti => (multi, page),
            _ => (FlushTargets::All, page),
        };
        let targets = self.targets(current, targets).ok_or(Errno::Einval)?;
        if extent == Extent::Everything || is_guest_address(VirtualAddress(op.first)) {
            self.flush(current, &targets, extent);
        }
        Ok(())
    }
}

/// Descriptors are not modelled: only what is refused.
fn set_ldt(op: MmuExtOp) -> Result<(), Errno> {
    let address = VirtualAddress(op.first);
    match op.second {
        Argument::Number(0) => Ok(()),
        Argument::Number(entries)
            if entries <= LDT_ENTRIES && address.offset() == 0 && is_guest_address(address) =>
        {
            Ok(())
        }
        _ => Err(Errno::Einval),
    }
}
