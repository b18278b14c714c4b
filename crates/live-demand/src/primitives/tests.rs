//! A round on this host, skipped where KVM or userfaultfd is missing; and figures from made-up rounds.

use pagetoll_backend::{Quiet, Stop};
use pagetoll_cost::{CostKey, Derived, Kind};
use pagetoll_test_support::skipped_test;

use super::*;

fn measured(name: &str, stop: &Stop) -> Option<Result<Measurements, LiveError>> {
    let context = Context {
        stop,
        progress: &Quiet,
    };
    match measure(1, &context) {
        Err(LiveError::Environment { what, .. }) => {
            skipped_test(name, what);
            None
        }
        other => Some(other),
    }
}

#[test]
fn every_primitive_is_measured_or_has_a_reason() {
    let Some(found) = measured("every primitive", &Stop::new()) else {
        return;
    };
    let found = found.unwrap();
    let reported: Vec<Primitive> = found.each().map(|(primitive, _)| primitive).collect();
    for group in &GROUPS {
        for primitive in group.primitives {
            assert!(reported.contains(primitive), "{primitive:?}");
        }
    }
    for (primitive, estimate) in found.each() {
        match estimate {
            Ok(estimate) => assert!(estimate.median.is_finite(), "{primitive:?}"),
            Err(reason) => assert!(!reason.is_empty(), "{primitive:?}"),
        }
    }
}

#[test]
fn a_stop_ends_the_measurement() {
    let stop = Stop::new();
    stop.request();
    if let Some(found) = measured("stop", &stop) {
        assert!(matches!(found, Err(LiveError::Stopped(_))));
    }
}

/// Measurements of these rounds on one CPU.
fn made_up(rounds: &[&[(Primitive, f64)]]) -> Measurements {
    Measurements {
        topology: Topology::flat(1),
        load: pagetoll_bill::HostLoad::default(),
        stack: BTreeMap::new(),
        mmu_lock: MmuLock::Written,
        rounds: rounds
            .iter()
            .map(|round| round.iter().copied().collect())
            .collect(),
        absent: BTreeMap::new(),
    }
}

fn figure(found: &Measurements, key: CostKey) -> Derived {
    let all = figures(found);
    let mut all = all.into_iter().filter(|figure| figure.key == key);
    all.next().unwrap()
}

#[test]
fn a_difference_is_taken_within_a_round() {
    let (touch, filled) = (Primitive::GuestTouch, Primitive::GuestZeroFill);
    let found = made_up(&[
        &[(touch, 1000.0), (filled, 1500.0)],
        &[(touch, 9000.0), (filled, 9500.0)],
        &[(touch, 2000.0), (filled, 2500.0)],
    ]);
    let difference = figure(&found, CostKey::DEMAND_ZERO_FILL);
    assert_eq!((difference.low, difference.value), (500.0, 500.0));
    assert_eq!(difference.kind, Kind::Measured);
    assert_eq!(figure(&found, CostKey::DEMAND_TOUCH).value, 2000.0);
}

#[test]
fn a_copy_is_divided_into_call_and_pages() {
    let found = made_up(&[&[(Primitive::Copy(1), 900.0), (Primitive::Copy(512), 401.0)]]);
    let page = figure(&found, CostKey::DEMAND_COPY_PAGE).value;
    let call = figure(&found, CostKey::DEMAND_COPY_CALL).value;
    assert!((page + call - 900.0).abs() < 1e-9);
    assert!((512.0 * page + call - 512.0 * 401.0).abs() < 1e-6);
}

#[test]
fn an_unresolved_difference_has_an_upper_bound() {
    let (touch, filled) = (Primitive::GuestTouch, Primitive::GuestZeroFill);
    let found = made_up(&[&[(touch, 1000.0), (filled, 990.0)]]);
    let difference = figure(&found, CostKey::DEMAND_ZERO_FILL);
    assert_eq!((difference.low, difference.value), (0.0, 0.0));
    assert_eq!(difference.high, 10.0);
    assert!(
        difference
            .source
            .ends_with("not resolved from noise: at most 10 ns")
    );
}

#[test]
fn what_was_not_measured_is_assumed_or_absent_and_never_zero() {
    let found = made_up(&[&[]]);
    for figure in figures(&found) {
        assert_eq!(figure.kind, Kind::Assumed, "{:?}", figure.key);
        assert!(figure.value > 0.0 && !figure.source.is_empty());
        assert!(figure.low <= figure.value && figure.value <= figure.high);
    }
}

#[test]
fn figures_of_mmu_lock_are_those_of_a_kvm_that_writes_it() {
    let mut found = made_up(&[&[]]);
    let has = |found: &Measurements| {
        let all = figures(found);
        all.iter()
            .any(|figure| figure.key == CostKey::DEMAND_MMU_LOCK_SHARE)
    };
    assert!(has(&found));
    found.mmu_lock = MmuLock::Read;
    assert!(!has(&found));
}

#[test]
fn pages_of_several_vcpus_are_known_rates() {
    let page = |vcpus| Primitive::GuestPage(WithoutReader::Kernel, vcpus);
    let found = made_up(&[&[(page(1), 700.0), (page(8), 900.0)]]);
    assert_eq!(figure(&found, CostKey::DEMAND_PAGE_KERNEL_1).value, 700.0);
    assert_eq!(figure(&found, CostKey::DEMAND_PAGE_KERNEL_8).value, 900.0);
}

#[test]
fn no_two_primitives_are_called_alike() {
    let all = GROUPS.iter().flat_map(|group| group.primitives);
    let names: Vec<String> = all.map(ToString::to_string).collect();
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(names.iter().all(|name| !name.is_empty()));
}
