use pagetoll_bill::{Backend, Route, System, Toll, Verdict};

use super::*;
use crate::guest::report::Faults;
use crate::guest::report::User;

fn order() -> Order {
    let asked = Order {
        pages: Pages(16),
        batches: vec![1, 8],
        mechanisms: ["emulate", "mmu-update", "preserve-ad"]
            .map(str::to_owned)
            .to_vec(),
        runs: 1,
    };
    Order::new((Route::Unmap, Backend::Lab), asked, crate::LIMITS).unwrap()
}

fn clear(mechanism: &str, batch: u32, cost: u64) -> Clear {
    Clear {
        mechanism: mechanism.to_owned(),
        batch,
        pages: 16,
        mark: -1,
        instructions: 16 * cost,
        classes: [4; 4],
        faults: Faults::default(),
    }
}

fn race(mechanism: &str, batch: u32, lost: u64) -> Race {
    let faults = Faults {
        lost_dirty: lost,
        lost_accessed: lost,
        ..Faults::default()
    };
    Race {
        mechanism: mechanism.to_owned(),
        batch,
        dirtied: 50_000,
        accessed: 60_000,
        faults,
    }
}

fn findings() -> Findings {
    let clears = [
        ("read", 512, 6),
        ("empty-hypercall", 512, 350),
        ("emulate", 1, 1836),
        ("mmu-update", 1, 980),
        ("mmu-update", 8, 540),
        ("preserve-ad", 1, 994),
        ("preserve-ad", 8, 558),
    ];
    let clears = clears
        .map(|(name, batch, cost)| clear(name, batch, cost))
        .to_vec();
    let user = |cost: u64| User {
        operation: "munmap-written".to_owned(),
        pages: 16,
        mark: -1,
        instructions: 16 * cost,
    };
    Findings {
        dom0: vec![Counted {
            clears,
            users: vec![user(3245)],
            ..Counted::default()
        }],
        native: vec![Counted {
            users: vec![user(1025)],
            ..Counted::default()
        }],
        races: vec![
            race("emulate", 1, 0),
            race("mmu-update", 1, 5),
            race("mmu-update", 8, 700),
            race("preserve-ad", 1, 0),
            race("preserve-ad", 8, 0),
        ],
        ..Findings::default()
    }
}

fn row<'a>(rows: &'a [Row], mechanism: &str, batch: u32) -> &'a Row {
    let mut found = rows.iter().filter(|row| row.operation == "clear");
    found
        .find(|row| row.mechanism == mechanism && row.batch == batch)
        .unwrap()
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
    let preserve = row(&rows, "preserve-ad", 8);
    assert_eq!(preserve.cost_per_page, Some(558.0));
    assert_eq!(preserve.smp_safe, Some(true));
    let lost = preserve
        .checks
        .iter()
        .find(|check| check.name == "smp-lost-dirty")
        .unwrap();
    assert_eq!(
        (lost.tried, lost.failed, lost.control_failed),
        (50_000, 0, Some(705))
    );
    let tolls: f64 = preserve.tolls.iter().map(Toll::cost_per_page).sum();
    assert!((tolls - 558.0).abs() < 1e-9);
}

#[test]
fn a_control_that_loses_bits_is_unsafe_but_the_bill_has_not_failed() {
    let rows = rows(&order(), &findings());
    let control = row(&rows, "mmu-update", 8);
    assert_eq!(control.smp_safe, Some(false));
    let race = control.checks.iter().find(|check| check.is_race());
    assert_eq!(race.map(|check| check.verdict), Some(Verdict::Fail));
}

#[test]
fn without_a_losing_control_nothing_is_proved() {
    let mut findings = findings();
    findings
        .races
        .iter_mut()
        .for_each(|race| race.faults = Faults::default());
    let rows = rows(&order(), &findings);
    let preserve = row(&rows, "preserve-ad", 8);
    assert_eq!(preserve.smp_safe, None);
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
    let preserve = row(&rows, "preserve-ad", 1);
    assert_eq!(preserve.smp_safe, Some(false));
    assert_eq!(failed(preserve), ["smp-lost-dirty"]);
}

#[test]
fn a_missing_class_of_entries_fails_the_check() {
    let mut findings = findings();
    findings.dom0[0].clears[2].classes = [8, 8, 0, 0];
    let rows = rows(&order(), &findings);
    let emulate = row(&rows, "emulate", 1);
    assert_eq!(failed(emulate), ["classes-set"]);
    assert_eq!(emulate.checks[0].failed, 8, "pages, not runs");
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
    let dom0 = rows
        .iter()
        .find(|r| r.operation == "munmap-written" && r.system == System::XenPvDom0);
    let tolls: Vec<_> = dom0
        .unwrap()
        .tolls
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
    let emulate = row(&rows, "emulate", 1);
    assert_eq!(emulate.unavailable.as_deref(), Some("it does not build"));
    assert_eq!(emulate.cost_per_page, None);
    assert!(
        rows.iter()
            .any(|row| row.operation == "munmap-written" && row.cost_per_page.is_some())
    );
}

#[test]
fn crossings_are_those_that_xen_counted() {
    let mut findings = findings();
    let mut crossings = Crossings::default();
    crossings.pv.ptwr = 16;
    findings.dom0[0].crossings.insert(7, crossings);
    findings.dom0[0].clears.push(Clear {
        mark: 7,
        ..clear("emulate", 1, 2250)
    });
    let rows = rows(&order(), &findings);
    let emulate = row(&rows, "emulate", 1);
    assert_eq!(emulate.crossings_per_page, Some(1.0));
    assert_eq!(
        emulate.cost_per_page,
        Some(1836.0),
        "a traced step has no say in the cost"
    );
    assert_eq!(emulate.crossings.get("ptwr"), Some(&1.0));
    assert_eq!(emulate.tolls[1].name, "trap-and-emulate");
}
