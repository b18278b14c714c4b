//! Counts references and uses the simple way: over all tables, each time.

use std::collections::BTreeMap;

use pagetoll_units::Mfn;

use crate::x86::{Flags, Level};
use crate::xen::page_type::is_guest_slot;
use crate::xen::{DomainId, PageType, Xen};

/// Counts that each frame must have: references, uses.
pub(super) fn expected(xen: &Xen) -> BTreeMap<Mfn, (u32, u32)> {
    let mut counts: BTreeMap<Mfn, (u32, u32)> = BTreeMap::new();
    for (mfn, frame) in xen.frames().iter() {
        if frame.owner.is_some() {
            counts.entry(mfn).or_default().0 += 1;
        }
        if frame.pinned {
            count(&mut counts, mfn, 1);
        }
        if let (PageType::Table(level), true) = (frame.page_type, frame.validated) {
            count_table(xen, mfn, level, &mut counts);
        }
    }
    for vcpu in xen.vcpus() {
        count(&mut counts, vcpu.guest_table, 1);
        for &frame in &vcpu.gdt {
            count(&mut counts, frame, 1);
        }
        if let Some(user) = vcpu.guest_table_user {
            count(&mut counts, user, 1);
        }
    }
    counts
}

fn count(counts: &mut BTreeMap<Mfn, (u32, u32)>, mfn: Mfn, uses: u32) {
    let of_frame = counts.entry(mfn).or_default();
    of_frame.0 += 1;
    of_frame.1 += uses;
}

fn count_table(xen: &Xen, table: Mfn, level: Level, counts: &mut BTreeMap<Mfn, (u32, u32)>) {
    for (slot, entry) in xen.present(table) {
        let to = entry.mfn();
        let frame = xen.frames().get(to);
        let is_io = frame.is_none_or(|frame| frame.owner == Some(DomainId::IO));
        let is_self = level != Level::L1 && to == table;
        if is_io || is_self || !is_guest_slot(level, slot) {
            continue;
        }
        let uses = level != Level::L1 || entry.has(Flags::WRITABLE);
        count(counts, to, u32::from(uses));
    }
}

/// Checks that all counts are right, and no frame that can be written is a table.
pub(super) fn check(xen: &Xen) -> Result<(), String> {
    let expected = expected(xen);
    for (mfn, frame) in xen.frames().iter() {
        let counted = expected.get(&mfn).copied().unwrap_or_default();
        if counted != (frame.references, frame.type_count) {
            return Err(format!("{mfn}: {frame:?}, counted {counted:?}"));
        }
    }
    check_writable(xen)
}

fn check_writable(xen: &Xen) -> Result<(), String> {
    for (table, frame) in xen.frames().iter() {
        if frame.page_type != PageType::Table(Level::L1) || !frame.validated {
            continue;
        }
        for (slot, entry) in xen.present(table) {
            let to = xen.frames().get(entry.mfn());
            let is_table =
                to.is_some_and(|to| matches!(to.page_type, PageType::Table(_)) && to.validated);
            if entry.has(Flags::WRITABLE) && is_table {
                return Err(format!(
                    "{table} slot {slot} maps a table writable: {entry:?}"
                ));
            }
        }
    }
    Ok(())
}
