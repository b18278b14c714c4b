//! Which figures of a host table price a mechanism, and which counts they are multiplied with.
//!
//! A tariff only reads what was counted on the simulated system; no count is computed from the order.

use pagetoll_bill::System;
use pagetoll_bill::cost::CostKey;

use super::cells::Operation;
pub(crate) use super::price::Item;
use pagetoll_models::linux::Walked;

pub(crate) const fn item(toll: &'static str, key: CostKey, count: fn(&Walked) -> u64) -> Item {
    Item { toll, key, count }
}

const READ: Item = item("read-entry", CostKey::ENTRY_READ, |w| w.tolls.entries_read);
const ENTRY: Item = item("hypercall-entry", CostKey::HYPERCALL_ENTRY, |w| {
    w.tolls.hypercalls
});

const fn call(key: CostKey) -> Item {
    item("per-call", key, |w| w.tolls.hypercalls)
}

const fn per_entry(key: CostKey) -> Item {
    item("per-entry", key, |w| w.tolls.requests)
}

const fn trap(key: CostKey) -> Item {
    item("trap-and-emulate", key, |w| w.tolls.emulations)
}

/// What an operation by a mechanism on a system pays for.
pub(crate) fn of((operation, system): (Operation, System), mechanism: &str) -> Vec<Item> {
    match (operation, system) {
        (Operation::Clear, System::XenPv32Dom0) => clear_of_32_bits(mechanism),
        (Operation::Set, System::XenPv32Dom0) => set_of_32_bits(mechanism),
        (Operation::Clear, _) => clear(mechanism),
        (Operation::Set, _) => set(mechanism),
        (Operation::Switch(_), _) => switch(mechanism),
        (Operation::EnableIdle | Operation::EnablePending, _) => enable(mechanism),
    }
}

/// A 32-bit guest enters Xen by an interrupt and reads an entry in two, so it has figures of its own.
const READ_PAE: Item = item("read-entry", CostKey::ENTRY_READ_PAE, |w| {
    w.tolls.entries_read
});
const ENTRY_PAE: Item = item("hypercall-entry", CostKey::HYPERCALL_ENTRY_PAE, |w| {
    w.tolls.hypercalls
});
/// A store to the half that leaves its entry not present.
const UPPER_HALF: Item = item("upper-half", CostKey::PTWR_HALF, |w| {
    w.tolls.emulations - w.tolls.emulated_half_sets - w.tolls.emulated_half_exchanges
});

fn clear_of_32_bits(mechanism: &str) -> Vec<Item> {
    match mechanism {
        "xchg-and-store" => vec![
            item("lower-half", CostKey::PTWR_HALF_XCHG, |w| {
                w.tolls.emulated_half_exchanges
            }),
            UPPER_HALF,
        ],
        "cmpxchg8b" => vec![READ_PAE, trap(CostKey::PTWR_CMPXCHG8B)],
        "preserve-ad" => vec![
            READ_PAE,
            ENTRY_PAE,
            call(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL_PAE),
            per_entry(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_PAE),
        ],
        other => unreachable!("route unmap has no mechanism {other} on 32 bits"),
    }
}

fn set_of_32_bits(mechanism: &str) -> Vec<Item> {
    match mechanism {
        "emulate-2x32" => vec![
            UPPER_HALF,
            item("lower-half", CostKey::PTWR_HALF_SET, |w| {
                w.tolls.emulated_half_sets
            }),
        ],
        "hypercall" => vec![ENTRY_PAE, per_entry(CostKey::MMU_UPDATE_SET_PAE)],
        other => unreachable!("route fault has no mechanism {other} on 32 bits"),
    }
}

fn clear(mechanism: &str) -> Vec<Item> {
    match mechanism {
        "emulate" => vec![trap(CostKey::PTWR_XCHG)],
        "set-pte" => vec![
            READ,
            ENTRY,
            call(CostKey::SET_PTE_CALL),
            per_entry(CostKey::MMU_UPDATE_CLEAR),
        ],
        "update-va" => vec![
            READ,
            ENTRY,
            item("update", CostKey::UPDATE_VA_MAPPING_CLEAR, |w| {
                w.tolls.hypercalls
            }),
        ],
        "lazy" => vec![
            READ,
            ENTRY,
            call(CostKey::LAZY_CALL),
            per_entry(CostKey::LAZY_CLEAR),
        ],
        "mmu-update" => vec![
            READ,
            ENTRY,
            call(CostKey::MMU_UPDATE_CALL),
            per_entry(CostKey::MMU_UPDATE_CLEAR),
        ],
        "preserve-ad" => vec![
            READ,
            ENTRY,
            call(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD_CALL),
            per_entry(CostKey::MMU_UPDATE_CLEAR_PRESERVE_AD),
        ],
        "xchg" => vec![
            ENTRY,
            call(CostKey::XCHG_CALL),
            per_entry(CostKey::XCHG_CLEAR),
        ],
        other => unreachable!("route unmap has no mechanism {other}"),
    }
}

fn set(mechanism: &str) -> Vec<Item> {
    match mechanism {
        "emulate" => vec![trap(CostKey::PTWR_STORE)],
        "hypercall" => vec![ENTRY, per_entry(CostKey::MMU_UPDATE_SET)],
        other => unreachable!("route fault has no mechanism {other}"),
    }
}

fn switch(mechanism: &str) -> Vec<Item> {
    let mut items = vec![
        ENTRY,
        item("multicall", CostKey::SWITCH_MULTICALL, |w| {
            w.tolls.multicall
        }),
        item("descriptor", CostKey::UPDATE_DESCRIPTOR, |w| {
            w.tolls.descriptors
        }),
    ];
    if mechanism == "if-changed" {
        items.push(item("compare", CostKey::TLS_COMPARE, |w| w.items));
    }
    items
}

fn enable(mechanism: &str) -> Vec<Item> {
    let mut items = vec![
        item("xen_version", CostKey::XEN_VERSION, |w| w.tolls.xen_version),
        item("upcall", CostKey::UPCALL, |w| w.tolls.upcalls),
    ];
    if mechanism == "if-pending" {
        items.push(item("check", CostKey::EVENT_CHECK, |w| w.items));
    }
    items
}
