//! The rules that hold whatever a guest does, checked against counts that are made anew from the tables.

mod descriptors;
mod exchange;
mod oracle;
mod random;
mod refusals;

use pagetoll_units::{Mfn, VirtualAddress};

use super::*;
use crate::x86::{Flags, PageTableEntry};

const CPU: VcpuId = VcpuId(0);
const P: Flags = Flags::PRESENT;
const PW: Flags = Flags::PRESENT.union(Flags::WRITABLE);

/// Maps a frame of dom0's anew in the direct map, everywhere at once.
fn remap(xen: &mut Xen, mfn: Mfn, flags: Flags) -> Outcome {
    let asked = VaMapping {
        address: xen.direct(mfn),
        value: PageTableEntry::new(mfn, flags),
        flush: (FlushType::Invlpg, FlushTargets::All),
        domain: None,
    };
    xen.update_va_mapping(CPU, asked)
}

fn normal(xen: &mut Xen, table: Mfn, slot: u64, value: PageTableEntry) -> Outcome {
    let request = MmuUpdate {
        ptr: table.address(slot * 8).0,
        val: value.0,
    };
    xen.mmu_update(CPU, Batch::all(&[request]), ForeignDomain::NONE)
}

fn ext(xen: &mut Xen, number: u32, mfn: Mfn) -> Outcome {
    let op = MmuExtOp {
        command: Command::from(number),
        first: mfn.0,
        second: Argument::Number(0),
    };
    xen.mmuext_op(CPU, Batch::all(&[op]), DomainId::SELF)
}

/// A frame of dom0's that is mapped read-only, ready to be a table.
fn read_only_page(xen: &mut Xen) -> Mfn {
    let mfn = xen.allocate();
    assert_eq!(remap(xen, mfn, P).code(), 0);
    mfn
}

fn page_of(xen: &Xen, mfn: Mfn, slot: u64) -> VirtualAddress {
    VirtualAddress(xen.direct(mfn).0 + slot * 8)
}
