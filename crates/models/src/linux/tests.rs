//! Every mechanism of every route: its crossings, and that no A or D bit is lost.

use pagetoll_units::Pages;

use super::*;
use crate::Error;
use crate::xen::{Tolls, Width};

fn unmapped(pages: u64, mechanism: GetAndClear, batch: u32) -> RouteRun {
    let width = mechanism.width();
    let walked = unmap(Pages(pages), Zap { mechanism, batch }, width).unwrap();
    assert_eq!(walked.items, pages);
    assert_eq!(walked.checked.items, pages);
    assert_eq!(walked.checked.failed(), 0, "{mechanism:?}: {walked:?}");
    walked
}

/// Hypercalls, page faults, emulations, entries read.
fn crossings(tolls: Tolls) -> [u64; 4] {
    [
        tolls.hypercalls,
        tolls.page_faults,
        tolls.emulations,
        tolls.entries_read,
    ]
}

#[test]
fn each_mechanism_returns_every_entry_and_crosses_as_often_as_it_must() {
    let pages = 1100;
    for (mechanism, batch, expected) in [
        (GetAndClear::Emulate, 32, [0, 1100, 1100, 0]),
        (GetAndClear::SetPte, 32, [1100, 0, 0, 1100]),
        (GetAndClear::UpdateVa, 32, [1100, 0, 0, 1100]),
        // 31 fit in one hypercall, so a batch of 32 takes two; the last table has 76 entries.
        (GetAndClear::Lazy, 32, [2 * 34 + 1, 0, 0, 1100]),
        (GetAndClear::Lazy, 512, [17 + 17 + 3, 0, 0, 1100]),
        (GetAndClear::MmuUpdate, 32, [35, 0, 0, 1100]),
        (GetAndClear::PreserveAd, 32, [35, 0, 0, 2200]),
        (GetAndClear::PreserveAd, 1, [1100, 0, 0, 2200]),
        (GetAndClear::PreserveAd, 512, [3, 0, 0, 2200]),
        (GetAndClear::Xchg, 32, [35, 0, 0, 0]),
        (GetAndClear::XchgAndStore, 1, [0, 2200, 2200, 1100]),
        (GetAndClear::Cmpxchg8b, 1, [0, 1100, 1100, 1100]),
    ] {
        let tolls = unmapped(pages, mechanism, batch).tolls;
        assert_eq!(crossings(tolls), expected, "{mechanism:?} by {batch}");
        let updates = pages + u64::from(mechanism == GetAndClear::XchgAndStore) * pages;
        assert_eq!(tolls.entries_revalidated, updates);
        assert_eq!((tolls.promotions, tolls.demotions), (0, 0));
    }
}

#[test]
fn a_gibibyte_goes_page_by_page() {
    let tolls = unmapped(1 << 18, GetAndClear::PreserveAd, 32).tolls;
    assert_eq!((tolls.hypercalls, tolls.requests), (1 << 13, 1 << 18));
}

#[test]
fn each_way_to_set_an_entry_sets_it() {
    for (mechanism, width, expected) in [
        (SetPte::Emulate, Width::Bits64, [0, 700, 700, 0]),
        (SetPte::Hypercall, Width::Bits64, [700, 0, 0, 0]),
        (SetPte::Emulate2x32, Width::Pae32, [0, 1400, 1400, 0]),
        (SetPte::Hypercall, Width::Pae32, [700, 0, 0, 0]),
    ] {
        let walked = fault(Pages(700), mechanism, width).unwrap();
        assert_eq!(crossings(walked.tolls), expected, "{mechanism:?}");
        assert_eq!((walked.checked.items, walked.checked.failed()), (700, 0));
    }
}

/// The two halves of an entry differ in cost, so they are counted apart.
#[test]
fn halves_of_an_entry_are_counted_apart() {
    let halves = |tolls: Tolls| (tolls.emulated_half_sets, tolls.emulated_half_exchanges);
    let set = fault(Pages(700), SetPte::Emulate2x32, Width::Pae32).unwrap();
    assert_eq!(halves(set.tolls), (700, 0));
    let cleared = unmapped(700, GetAndClear::XchgAndStore, 1);
    assert_eq!(halves(cleared.tolls), (0, 700));
    assert_eq!(
        halves(unmapped(700, GetAndClear::Cmpxchg8b, 1).tolls),
        (0, 0)
    );
}

#[test]
fn a_32_bit_guest_has_what_the_hypercalls_are() {
    let zap = Zap {
        mechanism: GetAndClear::PreserveAd,
        batch: 32,
    };
    let walked = unmap(Pages(700), zap, Width::Pae32).unwrap();
    assert_eq!(crossings(walked.tolls), [22, 0, 0, 1400]);
    assert_eq!(walked.checked.failed(), 0);
}

#[test]
fn invalid_sizes_are_rejected() {
    let zap = |batch| Zap {
        mechanism: GetAndClear::PreserveAd,
        batch,
    };
    let refusal = |ended: Result<RouteRun, Error>| ended.unwrap_err().to_string();
    let unmap = |pages, zap| unmap(pages, zap, Width::Bits64);
    assert!(refusal(unmap(Pages(0), zap(1))).contains("0 pages: expected 1 to"));
    assert!(refusal(unmap(Pages(1 << 40), zap(1))).contains("expected 1 to"));
    assert!(refusal(unmap(Pages(1), zap(0))).contains("batch 0"));
    assert!(refusal(unmap(Pages(1), zap(513))).contains("batch 513"));
}
