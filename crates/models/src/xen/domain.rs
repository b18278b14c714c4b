//! Domains and their vCPUs, as far as page tables go. Source: xen/include/public/xen.h and xen/common/page_alloc.c,
//! `get_pg_owner`, 4.17.

use pagetoll_units::Mfn;

use super::errno::Errno;
use super::event_channel::VcpuInfo;
use super::machine::Xen;
use crate::x86::Cpu;

/// A domain's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u16);

impl DomainId {
    /// The control domain, which is the hardware domain too.
    pub const DOM0: Self = Self(0);
    /// `DOMID_SELF`: the caller.
    pub const SELF: Self = Self(0x7ff0);
    /// Owner of all frames that are not RAM.
    pub const IO: Self = Self(0x7ff1);
    /// Owner of what Xen shares with privileged domains.
    pub const XEN: Self = Self(0x7ff2);
}

/// The last argument of `mmu_update` and `mmuext_op`: whose frames are mapped, and in the upper half whose tables are
/// changed (that domain plus one, or 0 for the caller's own).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForeignDomain(pub u32);

impl ForeignDomain {
    /// Own frames, own tables.
    pub const NONE: Self = Self(DomainId::SELF.0 as u32);

    /// Domain whose frames are meant.
    #[must_use]
    pub const fn page_owner(self) -> DomainId {
        let [low, high, ..] = self.0.to_le_bytes();
        DomainId(u16::from_le_bytes([low, high]))
    }

    /// Domain whose tables are meant, unless it is the caller.
    #[must_use]
    pub const fn table_owner(self) -> Option<DomainId> {
        let [_, _, low, high] = self.0.to_le_bytes();
        match u16::from_le_bytes([low, high]) {
            0 => None,
            next => Some(DomainId(next - 1)),
        }
    }
}

/// A vCPU's place in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuId(pub usize);

/// A vCPU, pinned to a CPU of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// Domain of the vCPU.
    pub domain: DomainId,
    /// The kernel's L4 table.
    pub guest_table: Mfn,
    /// The user's L4 table.
    pub guest_table_user: Option<Mfn>,
    /// The frames of its GDT.
    pub gdt: Vec<Mfn>,
    /// Bits of CR4 that the guest has chosen.
    pub(super) guest_cr4: u64,
    /// State of events that it shares with Xen.
    pub info: VcpuInfo,
    /// The event callback was entered, and the guest does not know it yet.
    pub(super) in_upcall: bool,
    /// The CPU that it runs on.
    pub cpu: Cpu,
}

impl Xen {
    /// Domain that a guest means by a number. `None`: no domain, or the caller by its own number, which is refused.
    pub(super) fn get_pg_owner(&self, current: DomainId, asked: DomainId) -> Option<DomainId> {
        match asked {
            own if own == current => None,
            DomainId::SELF => Some(current),
            DomainId::IO | DomainId::XEN => Some(asked),
            other => self.has_domain(other).then_some(other),
        }
    }

    /// `XSM_TARGET` without XSM: a domain may do it to itself, dom0 to everybody (xen/include/xsm/dummy.h).
    pub(super) fn permit(source: DomainId, target: DomainId) -> Result<(), Errno> {
        if source == target || source == DomainId::DOM0 {
            Ok(())
        } else {
            Err(Errno::Eperm)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_names_the_owner_of_the_tables() {
        assert_eq!(ForeignDomain::NONE.table_owner(), None);
        let both = ForeignDomain(0x0003_7ff1);
        assert_eq!(both.table_owner(), Some(DomainId(2)));
        assert_eq!(both.page_owner(), DomainId::IO);
    }
}
