//! The proposed exchange of entries, 32-bit guests' halves of entries, and translated domains' frames.

use super::*;

fn table(width: Width) -> (Xen, Mfn, Mfn) {
    let layout = Layout {
        width,
        ..Layout::default()
    };
    let mut xen = Xen::boot(layout);
    let (data, table) = (xen.allocate(), read_only_page(&mut xen));
    assert_eq!(ext(&mut xen, 0, table).code(), 0);
    (xen, data, table)
}

fn request(table: Mfn, slot: u64, val: u64) -> MmuUpdate {
    let ptr = table.address(slot * 8).0;
    MmuUpdate { ptr, val }
}

#[test]
fn an_exchange_returns_what_was_there_and_accounts_for_both() {
    let (mut xen, data, table) = table(Width::Bits64);
    let entry = PageTableEntry::new(data, PW | Flags::USER | Flags::GLOBAL);
    let mut requests = [request(table, 0, entry.0), request(table, 0, 0)];
    let outcome = xen.pte_xchg(CPU, &mut requests, ForeignDomain::NONE);
    assert_eq!((outcome.code(), outcome.done), (0, 2));
    assert_eq!(requests.map(|request| request.val), [0, entry.0]);
    let tolls = outcome.tolls;
    assert_eq!(
        (tolls.pte_xchg, tolls.requests, tolls.entries_revalidated),
        (1, 2, 2)
    );
    assert_eq!(oracle::check(&xen), Ok(()));
}

#[test]
fn the_first_exchange_that_is_refused_ends_the_call() {
    let (mut xen, data, table) = table(Width::Bits64);
    let writable_table = PageTableEntry::new(table, PW).0;
    let good = PageTableEntry::new(data, P).0;
    for (bad, errno) in [
        (request(table, 1, writable_table), Errno::Ebusy),
        (request(data, 0, 0), Errno::Einval),
        (request(Mfn(0x180), 0, 0), Errno::Einval),
        (MmuUpdate { ptr: 2, val: 0 }, Errno::Enosys),
    ] {
        let mut requests = [request(table, 0, good), bad, request(table, 2, good)];
        let outcome = xen.pte_xchg(CPU, &mut requests, ForeignDomain::NONE);
        assert_eq!((outcome.result, outcome.done), (Err(errno), 1));
        assert_eq!(requests[2].val, good);
        assert_eq!(xen.entry(table, 2), PageTableEntry::EMPTY);
        assert_eq!(oracle::check(&xen), Ok(()));
    }
    let root = xen.vcpus()[0].guest_table;
    let upper = xen.pte_xchg(CPU, &mut [request(root, 0, 0)], ForeignDomain::NONE);
    assert_eq!(upper.result, Err(Errno::Einval));
}

#[test]
fn a_32_bit_guests_entries_stay_as_they_are_asked_for() {
    let (mut xen, data, table) = table(Width::Pae32);
    let entry = PageTableEntry::new(data, P);
    assert_eq!(normal(&mut xen, table, 3, entry).code(), 0);
    assert_eq!(xen.entry(table, 3), entry);
}

#[test]
fn a_32_bit_guest_may_write_the_halves_the_wrong_way_round() {
    let (mut xen, data, table) = table(Width::Pae32);
    let own = PageTableEntry::new(data, P);
    assert_eq!(normal(&mut xen, table, 3, own).code(), 0);
    // With the other upper half the entry refers to a frame that is not available: it loses P for the moment.
    let upper = VirtualAddress(page_of(&xen, table, 3).0 + 4);
    assert_eq!(
        xen.write(CPU, upper, 4, Write::Move(0x100)).0,
        Native::Done(0)
    );
    assert_eq!(xen.entry(table, 3).0, 0x100 << 32 | own.without(P).0);
    assert_eq!(oracle::check(&xen), Ok(()));
    // Of plain stores alone: an exchange is the guest's own fault. Both as Xen 4.17.7 with CONFIG_PV32 answers.
    assert_eq!(normal(&mut xen, table, 4, own).code(), 0);
    let upper = VirtualAddress(page_of(&xen, table, 4).0 + 4);
    let exchanged = xen.write(CPU, upper, 4, Write::Exchange(0x100)).0;
    assert!(matches!(exchanged, Native::Fault(_)));
    assert_eq!(xen.entry(table, 4), own);
    // A 64-bit guest gets the fault.
    let (mut xen, data, table) = self::table(Width::Bits64);
    let own = PageTableEntry::new(data, P);
    assert_eq!(normal(&mut xen, table, 3, own).code(), 0);
    let upper = VirtualAddress(page_of(&xen, table, 3).0 + 4);
    assert!(matches!(
        xen.write(CPU, upper, 4, Write::Move(0x100)).0,
        Native::Fault(_)
    ));
}

#[test]
fn a_translated_domains_frames_go_by_its_own_numbers_and_are_not_used_as_writable() {
    let (mut xen, _, table) = table(Width::Bits64);
    xen.add_translated_domain(DomainId(7), Mfn(0x180)..Mfn(0x190));
    let mut map = |gfn: u64, command: u64| {
        let mut asked = request(table, 0, PageTableEntry::new(Mfn(gfn), PW).0);
        asked.ptr |= command;
        let outcome = xen.mmu_update(CPU, Batch::all(&[asked]), ForeignDomain(7));
        let frame = xen.frames().get(Mfn(0x183)).unwrap();
        (
            outcome.result,
            outcome.tolls.p2m_lookups,
            frame.references,
            frame.type_count,
        )
    };
    assert_eq!(map(3, 0), (Ok(()), 1, 2, 0));
    assert_eq!(map(0x10, 0), (Err(Errno::Einval), 1, 2, 0));
    assert_eq!(map(0x184, 3), (Ok(()), 0, 1, 0));
    assert_eq!(map(3, 3), (Err(Errno::Eperm), 0, 1, 0));
}
