//! Flushes: CPUs that forget translations. Source: xen/arch/x86/mm.c, `vcpumask_to_pcpumask`, and
//! xen/arch/x86/flushtlb.c, `flush_area_local`, 4.17.
//!
//! A CPU counts as dirty when a vCPU of the domain is placed on it; Xen also knows the ones that are idle.

use pagetoll_units::VirtualAddress;

use super::domain::{DomainId, VcpuId};
use super::machine::Xen;

/// A guest's pointer to a bitmap of vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VcpuMask {
    /// The bits there; bits of vCPUs that do not exist mean nothing.
    Bits(u64),
    /// Memory that cannot be read.
    ReadError,
}

/// CPUs that a flush is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushTargets {
    /// The CPU of the caller.
    Local,
    /// Every CPU that may hold translations of the domain.
    All,
    /// The CPUs of some vCPUs.
    Multi(VcpuMask),
}

/// A way to drop all translations of a CPU (`do_tlb_flush`). Global pages survive a load of CR3, so with CR4.PGE set a
/// full flush must toggle it: two writes of CR4, which AMD's SVM cannot trap selectively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FullFlush {
    /// One INVPCID.
    Invpcid,
    /// CR4.PGE is cleared and set again.
    Cr4Toggle,
    /// CR3 is loaded with the value that it holds.
    Cr3Write,
}

/// Translations that are forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Everything,
    Page(VirtualAddress),
}

impl Xen {
    /// The vCPUs that are meant. `None`: the bitmap cannot be read.
    pub(super) fn targets(&self, current: VcpuId, targets: FlushTargets) -> Option<Vec<VcpuId>> {
        let all = self.vcpus_of(self.vcpus[current.0].domain);
        match targets {
            FlushTargets::Local => Some(vec![current]),
            FlushTargets::All => Some(all),
            FlushTargets::Multi(VcpuMask::ReadError) => None,
            FlushTargets::Multi(VcpuMask::Bits(bits)) => {
                let chosen = all.into_iter().zip(0..64);
                let chosen = chosen.filter(|(_, bit)| bits >> bit & 1 == 1);
                Some(chosen.map(|(vcpu, _)| vcpu).collect())
            }
        }
    }

    /// Makes CPUs forget.
    pub(super) fn flush(&mut self, current: VcpuId, targets: &[VcpuId], extent: Extent) {
        for &target in targets {
            let local = target == current;
            match (local, extent) {
                (true, Extent::Everything) => self.tolls.flushes_local += 1,
                (true, Extent::Page(_)) => self.tolls.invlpg_local += 1,
                (false, _) => self.tolls.flush_targets += 1,
            }
            let cpu = &mut self.vcpus[target.0].cpu;
            match extent {
                Extent::Everything => cpu.tlb.flush_all(),
                Extent::Page(address) => cpu.tlb.flush_page(cpu.pcid, address),
            }
        }
    }

    /// A frame changes its use: no CPU of its owner may keep an old translation (`_get_page_type`). Xen leaves those out
    /// that have flushed since the last use; here all flush.
    pub(super) fn flush_for_type_change(&mut self, owner: Option<DomainId>) {
        for target in owner.map_or_else(Vec::new, |owner| self.vcpus_of(owner)) {
            self.tolls.flush_targets += 1;
            self.vcpus[target.0].cpu.tlb.flush_all();
        }
    }
}
