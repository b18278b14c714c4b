use pagetoll_bill::route::Unmap;
use pagetoll_bill::{Toll, Verdict};
use pagetoll_protocol::report::{Faults, User};

use super::*;

fn order() -> Order {
    let mechanisms = [Unmap::Emulate, Unmap::MmuUpdate, Unmap::PreserveAd];
    Order {
        pages: Pages(16),
        batches: vec![1, 8],
        mechanisms: mechanisms.map(Into::into).to_vec(),
        runs: 1,
        program: Vec::new(),
    }
}

fn clear(method: impl Into<Method>, batch: u32, cost: u64) -> Clear {
    Clear {
        method: method.into(),
        batch,
        pages: 16,
        mark: -1,
        instructions: 16 * cost,
        classes: [4; 4],
        faults: Faults::default(),
    }
}

fn race(mechanism: Unmap, batch: u32, lost: u64) -> Race {
    let faults = Faults {
        lost_dirty: lost,
        lost_accessed: lost,
        ..Faults::default()
    };
    Race {
        mechanism,
        batch,
        dirtied: 50_000,
        accessed: 60_000,
        faults,
    }
}

fn findings() -> Findings {
    let clears = vec![
        clear(Method::Baseline(Baseline::Read), 512, 6),
        clear(Method::Baseline(Baseline::EmptyHypercall), 512, 350),
        clear(Unmap::Emulate, 1, 1836),
        clear(Unmap::MmuUpdate, 1, 980),
        clear(Unmap::MmuUpdate, 8, 540),
        clear(Unmap::PreserveAd, 1, 994),
        clear(Unmap::PreserveAd, 8, 558),
    ];
    let user = |cost: u64| User {
        operation: Operation::MunmapWritten,
        pages: 16,
        mark: -1,
        instructions: 16 * cost,
    };
    Findings {
        dom0: vec![Reports {
            clears,
            users: vec![user(3245)],
            ..Reports::default()
        }],
        native: vec![Reports {
            users: vec![user(1025)],
            ..Reports::default()
        }],
        races: vec![
            race(Unmap::Emulate, 1, 0),
            race(Unmap::MmuUpdate, 1, 5),
            race(Unmap::MmuUpdate, 8, 700),
            race(Unmap::PreserveAd, 1, 0),
            race(Unmap::PreserveAd, 8, 0),
        ],
        ..Findings::default()
    }
}

fn row(rows: &[Row], mechanism: Unmap, batch: u32) -> &Row {
    let key = RowKey::new(Operation::Clear, mechanism, System::XenPvDom0).at_batch(batch);
    rows.iter().find(|row| row.key == key).unwrap()
}

fn failed(row: &Row) -> Vec<&str> {
    let failed = row
        .checks
        .iter()
        .filter(|check| check.verdict == Verdict::Fail);
    failed.map(|check| check.name.as_str()).collect()
}

#[test]
fn a_row_has_cost_tolls_and_verdict() {
    let rows = rows(&order(), &findings());
    let preserve = row(&rows, Unmap::PreserveAd, 8);
    assert_eq!(preserve.cost(), Some(558.0));
    assert_eq!(preserve.smp_safe(), Some(true));
    let lost = preserve
        .checks
        .iter()
        .find(|check| check.name == "smp-lost-dirty")
        .unwrap();
    assert_eq!(
        (lost.tried, lost.failed, lost.control_failed),
        (50_000, 0, Some(705))
    );
    let tolls = Toll::sum(preserve.tolls());
    assert!((tolls - 558.0).abs() < 1e-9);
}

#[test]
fn a_control_that_loses_bits_is_unsafe_but_the_bill_has_not_failed() {
    let rows = rows(&order(), &findings());
    let control = row(&rows, Unmap::MmuUpdate, 8);
    assert_eq!(control.smp_safe(), Some(false));
    let race = control.checks.iter().find(|check| check.is_race());
    assert_eq!(race.map(|check| check.verdict), Some(Verdict::Fail));
}

#[test]
fn a_race_that_is_kept_has_its_day_and_other_checks_have_none() {
    let day = Some("2026-11-26".to_owned());
    let findings = Findings {
        races_kept: day.clone(),
        ..findings()
    };
    let rows = rows(&order(), &findings);
    for check in &row(&rows, Unmap::PreserveAd, 8).checks {
        let expected = if check.is_race() { &day } else { &None };
        assert_eq!(&check.kept, expected, "{}", check.name);
    }
}

#[test]
fn without_a_losing_control_nothing_is_proved() {
    let mut findings = findings();
    findings
        .races
        .iter_mut()
        .for_each(|race| race.faults = Faults::default());
    let rows = rows(&order(), &findings);
    let preserve = row(&rows, Unmap::PreserveAd, 8);
    assert_eq!(preserve.smp_safe(), None);
    assert!(
        preserve
            .checks
            .iter()
            .filter(|c| c.is_race())
            .all(|c| c.verdict == Verdict::Inconclusive)
    );
}

#[test]
fn a_lost_bit_of_a_safe_mechanism_fails_the_bill() {
    let mut findings = findings();
    findings.races[3].faults.lost_dirty = 1;
    let rows = rows(&order(), &findings);
    let preserve = row(&rows, Unmap::PreserveAd, 1);
    assert_eq!(preserve.smp_safe(), Some(false));
    assert_eq!(failed(preserve), ["smp-lost-dirty"]);
}

#[test]
fn a_missing_class_of_entries_fails_the_check() {
    let mut findings = findings();
    findings.dom0[0].clears[2].classes = [8, 8, 0, 0];
    let rows = rows(&order(), &findings);
    let emulate = row(&rows, Unmap::Emulate, 1);
    assert_eq!(failed(emulate), ["classes-set"]);
    assert_eq!((emulate.checks[0].tried, emulate.checks[0].failed), (16, 8));
}

#[test]
fn classes_are_dealt_in_turn() {
    assert_eq!(classes(16), [4; 4]);
    // Pages 0..5: neither, A, both, D, neither; in the order neither, A, D, both.
    assert_eq!(classes(5), [2, 1, 1, 1]);
    assert_eq!(classes(3), [1, 1, 0, 1]);
    for pages in 0..20 {
        assert_eq!(classes(pages).iter().sum::<u64>(), pages);
    }
}

#[test]
fn user_space_pays_the_difference_to_native() {
    let rows = rows(&order(), &findings());
    let dom0 = rows.iter().find(|r| {
        r.key == RowKey::new(Operation::MunmapWritten, Method::Kernel, System::XenPvDom0)
    });
    let tolls: Vec<_> = dom0
        .unwrap()
        .tolls()
        .iter()
        .map(|t| (t.name.as_str(), t.cost_each))
        .collect();
    assert_eq!(tolls, [("native", 1025.0), ("xen", 2220.0)]);
}

#[test]
fn without_a_probe_the_rows_say_why() {
    let findings = Findings {
        no_probe: Some("it does not build".into()),
        ..findings()
    };
    let rows = rows(&order(), &findings);
    let emulate = row(&rows, Unmap::Emulate, 1);
    assert_eq!(emulate.why_unavailable(), Some("it does not build"));
    assert_eq!(emulate.cost(), None);
    assert!(
        rows.iter()
            .any(|row| row.key.operation == Operation::MunmapWritten && row.cost().is_some())
    );
}

#[test]
fn crossings_are_those_that_xen_counted() {
    let mut findings = findings();
    let mut crossings = pagetoll_xentrace::Crossings::default();
    crossings.pv.ptwr = 16;
    findings.dom0[0].crossings.insert(7, crossings);
    findings.dom0[0].clears.push(Clear {
        mark: 7,
        ..clear(Unmap::Emulate, 1, 2250)
    });
    let rows = rows(&order(), &findings);
    let emulate = row(&rows, Unmap::Emulate, 1);
    let crossed = emulate.crossings().unwrap();
    assert_eq!(crossed.per_page, 1.0);
    assert_eq!(
        emulate.cost(),
        Some(1836.0),
        "a traced step has no say in the cost"
    );
    assert_eq!(crossed.by_kind.get("ptwr"), Some(&1.0));
    assert_eq!(emulate.tolls()[1].name, "trap-and-emulate");
}
