//! Descriptor tables: what a frame of descriptors may be used as, and what is refused.

use super::*;

const DATA_RING_0: u64 = 0x00cf_9200_0000_ffff;
const DATA_RING_3: u64 = 0x00cf_f200_0000_ffff;
const INTERRUPT_GATE: u64 = 0x0000_8e00_0000_0000;

fn boot() -> (Xen, Mfn) {
    let mut xen = Xen::boot(Layout::default());
    let gdt = read_only_page(&mut xen);
    (xen, gdt)
}

fn update(xen: &mut Xen, mfn: Mfn, offset: u64, raw: u64) -> Result<(), Errno> {
    let place = mfn.address(offset);
    let outcome = xen.update_descriptor(CPU, place, Descriptor(raw));
    assert_eq!(outcome.tolls.update_descriptor, 1);
    assert_eq!(outcome.tolls.descriptors, u64::from(outcome.result.is_ok()));
    outcome.result
}

#[test]
fn a_frame_of_descriptors_is_checked_fixed_up_and_no_longer_writable() {
    let (mut xen, gdt) = boot();
    assert_eq!(update(&mut xen, gdt, 0x60, DATA_RING_0), Ok(()));
    assert_eq!(xen.entry(gdt, 12).0, DATA_RING_3);
    assert_eq!(xen.set_gdt(CPU, &[gdt], 512).result, Ok(()));
    assert_eq!(
        xen.frames().get(gdt).unwrap().page_type,
        PageType::SegmentDescriptors
    );
    assert_eq!(remap(&mut xen, gdt, PW).result, Err(Errno::Ebusy));
    assert_eq!(
        normal(&mut xen, gdt, 0, PageTableEntry(5)).result,
        Err(Errno::Einval)
    );
    assert_eq!(update(&mut xen, gdt, 0x68, DATA_RING_0), Ok(()));
    assert_eq!(xen.entry(gdt, 13).0, DATA_RING_3);
    assert_eq!(oracle_counts(&xen, gdt), (3, 1));
}

/// References and uses.
fn oracle_counts(xen: &Xen, mfn: Mfn) -> (u32, u32) {
    let frame = xen.frames().get(mfn).unwrap();
    (frame.references, frame.type_count)
}

#[test]
fn what_is_in_a_new_table_is_checked_and_the_old_one_is_given_back() {
    let (mut xen, first) = boot();
    let second = xen.allocate();
    let there = page_of(&xen, second, 3);
    assert_eq!(
        xen.write(CPU, there, 8, Write::Move(INTERRUPT_GATE)).0,
        Native::Done(0)
    );
    assert_eq!(xen.set_gdt(CPU, &[second], 512).result, Err(Errno::Einval));
    assert_eq!(remap(&mut xen, second, P).code(), 0);
    assert_eq!(
        xen.set_gdt(CPU, &[first, second], 1024).result,
        Err(Errno::Einval)
    );
    assert_eq!(xen.frames().get(first).unwrap().type_count, 0);
    // A frame that is no table yet may be changed by mmu_update.
    assert_eq!(
        normal(&mut xen, second, 3, PageTableEntry(DATA_RING_0)).code(),
        0
    );
    assert_eq!(xen.set_gdt(CPU, &[first, second], 1024).result, Ok(()));
    assert_eq!(xen.entry(second, 3).0, DATA_RING_3);
    assert_eq!(xen.set_gdt(CPU, &[second], 512).result, Ok(()));
    assert_eq!(oracle_counts(&xen, first), (2, 0));
}

#[test]
fn places_and_frames_that_cannot_be_are_refused() {
    let (mut xen, gdt) = boot();
    assert_eq!(update(&mut xen, gdt, 4, 0), Err(Errno::Einval));
    assert_eq!(update(&mut xen, Mfn(0x180), 0, 0), Err(Errno::Einval));
    assert_eq!(update(&mut xen, gdt, 0, INTERRUPT_GATE), Err(Errno::Einval));
    assert_eq!(ext(&mut xen, 0, gdt).code(), 0);
    assert_eq!(update(&mut xen, gdt, 0, 0), Err(Errno::Einval));
    assert_eq!(xen.set_gdt(CPU, &[gdt], 512).result, Err(Errno::Einval));
    assert_eq!(xen.set_gdt(CPU, &[], 7169).result, Err(Errno::Einval));
    assert_eq!(xen.set_gdt(CPU, &[], 1).result, Err(Errno::Efault));
    assert_eq!(oracle::check(&xen), Ok(()));
}
