//! Answers that the conformance cases cannot ask the real Xen for: other domains, other vCPUs, other tables than one's
//! own; and the tolls.

use super::*;

const IO_TABLES: ForeignDomain = ForeignDomain(0x7ff2_7ff0);

fn boot(vcpus: usize) -> Xen {
    let layout = Layout {
        vcpus,
        ..Layout::default()
    };
    Xen::boot(layout)
}

#[test]
fn a_table_cannot_be_mapped_writable_nor_a_writable_page_be_a_table() {
    let mut xen = boot(1);
    let page = xen.allocate();
    assert_eq!(ext(&mut xen, 0, page).result, Err(Errno::Einval));
    assert_eq!(remap(&mut xen, page, P).code(), 0);
    assert_eq!(ext(&mut xen, 0, page).code(), 0);
    assert_eq!(remap(&mut xen, page, PW).result, Err(Errno::Ebusy));
}

#[test]
fn another_domains_frame_is_had_only_by_naming_it() {
    let mut xen = boot(1);
    let foreign = Mfn(0x180);
    xen.add_domain(DomainId(7), foreign..Mfn(0x181));
    let table = read_only_page(&mut xen);
    assert_eq!(ext(&mut xen, 0, table).code(), 0);
    let entry = PageTableEntry::new(foreign, PW);
    assert_eq!(normal(&mut xen, table, 0, entry).result, Err(Errno::Ebusy));
    let request = MmuUpdate {
        ptr: table.address(0).0,
        val: entry.0,
    };
    let outcome = xen.mmu_update(CPU, Batch::all(&[request]), ForeignDomain(7));
    assert_eq!((outcome.code(), outcome.done), (0, 1));
    assert_eq!(xen.frames().get(foreign).unwrap().references, 2);
}

#[test]
fn tables_of_a_domain_that_is_not_there_or_never_ran_are_refused() {
    let mut xen = boot(1);
    xen.add_domain(DomainId(7), Mfn(0x180)..Mfn(0x181));
    let nothing: [MmuUpdate; 0] = [];
    let no_vcpu = ForeignDomain(8 << 16 | 0x7ff0);
    assert_eq!(
        xen.mmu_update(CPU, Batch::all(&nothing), no_vcpu).result,
        Err(Errno::Einval)
    );
    assert_eq!(
        xen.mmu_update(CPU, Batch::all(&nothing), IO_TABLES).result,
        Err(Errno::Esrch)
    );
}

#[test]
fn a_flush_reaches_the_vcpus_that_are_named() {
    let mut xen = boot(3);
    let page = xen.allocate();
    let here = xen.direct(page);
    for vcpu in 0..3 {
        assert_eq!(xen.load(VcpuId(vcpu), here, 8), Native::Done(0));
    }
    let op = MmuExtOp {
        command: Command::InvlpgMulti,
        first: here.0,
        second: Argument::Vcpus(VcpuMask::Bits(0b1001_0010)),
    };
    let outcome = xen.mmuext_op(CPU, Batch::all(&[op]), DomainId::SELF);
    assert_eq!((outcome.code(), outcome.tolls.flush_targets), (0, 1));
    let knows = |vcpu: usize| {
        xen.vcpus()[vcpu]
            .cpu
            .tlb
            .look_up(Default::default(), here)
            .is_some()
    };
    assert_eq!([knows(0), knows(1), knows(2)], [true, false, true]);
}

#[test]
fn a_missing_flush_lets_a_guest_write_where_it_may_no_more() {
    let mut xen = boot(1);
    let page = xen.allocate();
    let here = xen.direct(page);
    assert_eq!(xen.write(CPU, here, 8, Write::Move(1)).0, Native::Done(0));
    let without_flush = VaMapping {
        address: here,
        value: PageTableEntry::EMPTY,
        flush: (FlushType::None, FlushTargets::Local),
        domain: None,
    };
    assert_eq!(xen.update_va_mapping(CPU, without_flush).code(), 0);
    assert_eq!(xen.write(CPU, here, 8, Write::Move(2)).0, Native::Done(1));
    // A change of use flushes whatever the guest forgot: a table it could still write would be the end of Xen.
    assert_eq!(ext(&mut xen, 0, page).result, Ok(()));
    assert!(matches!(
        xen.write(CPU, here, 8, Write::Move(3)).0,
        Native::Fault(_)
    ));
    assert_eq!(xen.entry(page, 0), PageTableEntry(2));
}

#[test]
fn tolls_distinguish_a_trap_from_a_call_and_a_batch_from_single_calls() {
    let mut xen = boot(1);
    let (data, table) = (xen.allocate(), read_only_page(&mut xen));
    assert_eq!(ext(&mut xen, 0, table).code(), 0);
    let entry = PageTableEntry::new(data, P);
    let (ended, tolls) = xen.write(CPU, page_of(&xen, table, 0), 8, Write::Move(entry.0));
    assert_eq!(ended, Native::Done(0));
    assert_eq!(
        (tolls.page_faults, tolls.emulations, tolls.hypercalls),
        (1, 1, 0)
    );
    let requests = [0u64, 8, 16].map(|offset| MmuUpdate {
        ptr: table.address(offset).0,
        val: entry.0,
    });
    let tolls = xen
        .mmu_update(CPU, Batch::all(&requests), ForeignDomain::NONE)
        .tolls;
    assert_eq!((tolls.hypercalls, tolls.requests), (1, 3));
    assert_eq!((tolls.entries_fast, tolls.entries_revalidated), (1, 2));
    let (whole, calls) = xen.multicall(
        CPU,
        &[
            Call::Unknown,
            Call::MmuUpdate(Batch::all(&requests), ForeignDomain::NONE),
        ],
    );
    assert_eq!((whole.tolls.hypercalls, whole.tolls.subcalls), (1, 2));
    assert_eq!(
        calls.iter().map(Outcome::code).collect::<Vec<_>>(),
        [-38, 0]
    );
}

#[test]
fn an_emulated_32_bit_exchange_keeps_the_other_half() {
    let mut xen = boot(1);
    let (data, table) = (xen.allocate(), read_only_page(&mut xen));
    assert_eq!(ext(&mut xen, 0, table).code(), 0);
    let entry = PageTableEntry::new(data, P);
    assert_eq!(normal(&mut xen, table, 3, entry).code(), 0);
    let there = page_of(&xen, table, 3);
    let adjusted = xen.entry(table, 3);
    let (ended, _) = xen.write(CPU, there, 4, Write::Exchange(0));
    assert_eq!(ended, Native::Done(adjusted.0 & 0xffff_ffff));
    assert_eq!(xen.entry(table, 3).0, adjusted.0 >> 32 << 32);
    assert_eq!(oracle::check(&xen), Ok(()));
}
