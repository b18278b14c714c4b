//! Saved bills: one put together by hand, and counted, measured and modelled ones.

use pagetoll_bill::Bill;

pub(super) const SAMPLE: &str = include_str!("../../tests/data/sample-bill.json");

/// By hand: every verdict, every kind of reason.
pub(super) fn sample() -> Bill {
    serde_json::from_str(SAMPLE).unwrap()
}

/// Measured on a host.
pub(super) fn demand_live() -> Bill {
    serde_json::from_str(include_str!("../../tests/data/demand-live.json")).unwrap()
}

/// Guests restored on a host, alone and two at once.
pub(super) fn restore_live() -> Bill {
    serde_json::from_str(include_str!("../../tests/data/restore-live.json")).unwrap()
}

/// Memory discarded on a host.
pub(super) fn discard_live() -> Bill {
    serde_json::from_str(include_str!("../../tests/data/discard-live.json")).unwrap()
}

/// Pages that a guest writes, found on a host, with rounds over time.
pub(super) fn dirty_live() -> Bill {
    serde_json::from_str(include_str!("../../tests/data/dirty-live.json")).unwrap()
}

/// Guests migrated on a host.
pub(super) fn migrate_live() -> Bill {
    serde_json::from_str(include_str!("../../tests/data/migrate-live.json")).unwrap()
}

/// Modelled.
pub(super) fn demand_sim() -> Bill {
    serde_json::from_str(include_str!("../../tests/data/demand-sim.json")).unwrap()
}

/// Counted on two kernels.
pub(super) fn pin() -> Bill {
    let json = include_str!("../../../../costs/lab-vfio.bills/2M.json");
    serde_json::from_str(json).unwrap()
}

/// One of each sort.
pub(super) fn all() -> Vec<Bill> {
    let counted = [
        include_str!("../../../../costs/lab-xen-4.17.bills/fault.json"),
        include_str!("../../../../costs/lab-xen-4.17.bills/irq.json"),
        include_str!("../../../../costs/lab-xen-4.17.bills/pv32-unmap.json"),
        include_str!("../../../../costs/lab-xen-4.17.bills/switch.json"),
        include_str!("../../tests/data/flush-sim.json"),
        include_str!("../../tests/data/pin-sim.json"),
    ];
    let counted = counted.map(|json| serde_json::from_str(json).unwrap());
    let here = [
        demand_live(),
        restore_live(),
        discard_live(),
        dirty_live(),
        migrate_live(),
    ];
    let others = [sample(), demand_sim(), pin()];
    others.into_iter().chain(here).chain(counted).collect()
}
