//! What the model must show, on the tables that come along.

use pagetoll_bill::cost::Host;
use pagetoll_bill::cost::published::Published;
use pagetoll_bill::{Order, Toll};
use pagetoll_units::Pages;

use super::*;
use crate::routes::Samples;
use crate::routes::demand::{self as billing, Readers, Report, Request};

const TABLE: &str = include_str!("../../../../../costs/x86-256-core.toml");
const TABLE_1_4: &str = include_str!("../../../../../costs/x86-256-core-1-4.toml");
const PUBLISHED: &str = include_str!("../../../../../published/published.toml");

fn host(text: &str) -> Host {
    Host::parse("test", text).unwrap()
}

/// Pages for each second.
fn rate(scenario: Scenario) -> f64 {
    let host = host(TABLE);
    let (topology, prices) = (host.topology().unwrap(), host.prices());
    let calibration = calibrate(topology, &prices, 1).unwrap();
    let factors = calibration.of(scenario.mechanism);
    let ran = run((topology, &prices), factors, &scenario).unwrap();
    ran.pages_per_second
}

fn rate_if(mechanism: Mechanism, vcpus: u32, what_if: WhatIf) -> f64 {
    rate(Scenario {
        what_if,
        ..Scenario::new(mechanism, vcpus)
    })
}

#[test]
fn the_row_of_uffd_falls_for_its_walks_and_is_flat_without_them() {
    let of = |vcpus, what_if| rate_if(Mechanism::Uffd, vcpus, what_if);
    assert!(of(256, WhatIf::Real) < of(16, WhatIf::Real) / 3.0);
    let (few, many) = (of(16, WhatIf::NoWalks), of(256, WhatIf::NoWalks));
    assert!((0.67..1.5).contains(&(many / few)), "{few} {many}");
}

#[test]
fn the_row_of_uffd_peaks_between_2_and_8_and_falls_from_there() {
    let rates = [1, 2, 4, 8, 16, 32, 64, 128, 256].map(|n| rate(Scenario::new(Mechanism::Uffd, n)));
    let peak = rates.iter().copied().fold(0.0, f64::max);
    assert!(rates[1..=3].contains(&peak), "{rates:?}");
    assert!(rates[3..].is_sorted_by(|a, b| a > b), "{rates:?}");
}

#[test]
fn exits_rise_when_the_line_of_mm_users_is_free() {
    let of = |what_if| rate_if(Mechanism::ExitOnMissing, 256, what_if);
    assert!(of(WhatIf::MmUsersFree) > 1.5 * of(WhatIf::Real));
}

#[test]
fn exits_saturate_lower_when_lines_go_to_the_oldest_first() {
    let of = |what_if| rate_if(Mechanism::ExitOnMissing, 256, what_if);
    assert!(of(WhatIf::FifoLines) < 0.8 * of(WhatIf::Real));
}

#[test]
fn the_calibration_points_are_met_on_every_sample() {
    let host = host(TABLE_1_4);
    let topology = host.topology().unwrap();
    for prices in [host.prices(), host.sample(1, 3)] {
        let calibration = calibrate(topology, &prices, 5).unwrap();
        let points = [
            (Mechanism::ExitOnMissing, 1, 340e3),
            (Mechanism::Uffd, 1, 150e3),
            (Mechanism::ExitOnMissing, 4, 809e3),
            (Mechanism::Uffd, 4, 210e3),
        ];
        for (mechanism, vcpus, goal) in points {
            let scenario = Scenario {
                seed: 5,
                ..Scenario::new(mechanism, vcpus)
            };
            let ran = run((topology, &prices), calibration.of(mechanism), &scenario).unwrap();
            let off = (ran.pages_per_second / goal - 1.0).abs();
            assert!(off < 0.05, "{mechanism:?} {vcpus}: {off}");
        }
    }
}

#[test]
fn a_batch_spares_faults_and_nothing_is_faster_than_pages_that_are_there() {
    for vcpus in [1, 4] {
        let of = |mechanism, batch| {
            rate(Scenario {
                batch,
                readers: 1,
                ..Scenario::new(mechanism, vcpus)
            })
        };
        let populated = of(Mechanism::Populated, 1);
        for mechanism in [Mechanism::Uffd, Mechanism::Exit, Mechanism::ExitOnMissing] {
            let (one, many) = (of(mechanism, 1), of(mechanism, 16));
            assert!(
                one < many && many < populated,
                "{mechanism:?}: {one} {many}"
            );
        }
        assert!(of(Mechanism::Kernel, 1) < populated);
        assert!(of(Mechanism::Exit, 1) < of(Mechanism::ExitOnMissing, 1));
    }
}

#[test]
fn more_threads_than_cpus_take_turns() {
    for mechanism in [Mechanism::Uffd, Mechanism::ExitOnMissing] {
        assert!(rate(Scenario::new(mechanism, 1024)) > 0.0);
    }
    let host = host(&TABLE.replace(
        "sockets = 2\nl3-groups = 8\ncores = 8\nthreads = 2",
        "sockets = 1\nl3-groups = 1\ncores = 2\nthreads = 1",
    ));
    let ran = |scenario: Scenario| {
        let topology = host.topology().unwrap();
        let factors = Factors::NONE;
        run((topology, &host.prices()), factors, &scenario).unwrap()
    };
    let populated = |vcpus| ran(Scenario::new(Mechanism::Populated, vcpus)).pages_per_second;
    let scaled = populated(8) / populated(2);
    assert!(
        (0.9..1.1).contains(&scaled),
        "two CPUs are two CPUs: {scaled}"
    );
    let together = Scenario {
        readers: 1,
        pinning: Pinning::Together,
        ..Scenario::new(Mechanism::Uffd, 4)
    };
    assert!(ran(together).pages_per_second > 0.0);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_does_not() {
    let host = host(TABLE);
    let ran = |seed| {
        let scenario = Scenario {
            seed,
            ..Scenario::new(Mechanism::Uffd, 8)
        };
        let topology = host.topology().unwrap();
        run((topology, &host.prices()), Factors::NONE, &scenario).unwrap()
    };
    assert_eq!(ran(1), ran(1));
    assert_ne!(ran(1), ran(2));
}

#[test]
fn what_cannot_be_run_is_refused() {
    let host = host(TABLE);
    let topology = host.topology().unwrap();
    let refused =
        |scenario: Scenario| run((topology, &host.prices()), Factors::NONE, &scenario).unwrap_err();
    let uffd = Scenario::new(Mechanism::Uffd, 2);
    assert_eq!(
        refused(Scenario { vcpus: 0, ..uffd }),
        DemandError::Threads(0, 2)
    );
    assert_eq!(
        refused(Scenario { readers: 0, ..uffd }),
        DemandError::Threads(2, 0)
    );
    assert!(matches!(
        refused(Scenario {
            vcpus: MOST_VCPUS + 1,
            ..uffd
        }),
        DemandError::Threads(..)
    ));
    assert_eq!(refused(Scenario { batch: 0, ..uffd }), DemandError::NoBatch);
    let without = TABLE.replace("demand.queue.entry", "demand.page.uffd.4");
    let lacking = Host::parse("t", &without).unwrap();
    let told = run((topology, &lacking.prices()), Factors::NONE, &uffd).unwrap_err();
    assert!(told.to_string().contains("demand.queue.entry"), "{told}");
}

fn request(table: &str, samples: u32) -> Request {
    Request {
        order: Order {
            pages: billing::DEFAULT_PAGES,
            batches: vec![1],
            mechanisms: vec!["uffd".into(), "exit-on-missing".into()],
            runs: 1,
        },
        vcpus: vec![1, 2, 4, 8],
        readers: Readers::AsVcpus,
        pinning: Pinning::Apart,
        what_if: WhatIf::Real,
        host: host(table),
        samples: Samples {
            count: samples,
            seed: 1,
        },
        published: Published::list(PUBLISHED).unwrap(),
        report: Report::Rows,
        command: String::new(),
    }
}

#[test]
fn the_same_order_gives_the_same_bill_and_tolls_sum_to_the_cost() {
    let request = request(TABLE, 4);
    let bill = billing::bill(&request).unwrap();
    assert_eq!(billing::bill(&request).unwrap(), bill);
    for row in &bill.rows {
        let sum: f64 = row.tolls.iter().map(Toll::cost_per_page).sum();
        let cost = row.cost_per_page.unwrap();
        assert!((sum - cost).abs() < 1e-6 * cost);
        let rate = f64::from(row.vcpus.unwrap()) * 1e9 / cost;
        assert!((rate / row.pages_per_second.unwrap() - 1.0).abs() < 1e-9);
        assert!(row.pages > Pages(0) && row.interval.is_some());
    }
}

#[test]
fn calibration_points_are_no_predictions_and_the_law_stands_beside_two_of_them() {
    let bill = billing::bill(&request(TABLE_1_4, 1)).unwrap();
    let fitted = |row: &&pagetoll_bill::Row| row.published.is_some_and(|p| p.fitted);
    let fitted: Vec<_> = bill
        .rows
        .iter()
        .filter(fitted)
        .map(|row| row.vcpus)
        .collect();
    assert_eq!(fitted, [Some(1), Some(4), Some(1), Some(4)]);
    let with_law = |row: &pagetoll_bill::Row| row.published.and_then(|p| p.scalability).is_some();
    assert!(bill.rows.iter().all(with_law));
    let told = bill
        .notes
        .iter()
        .filter(|note| note.contains("calibration points left out"));
    assert_eq!(told.count(), 2);
    let alone = billing::bill(&request(TABLE, 1)).unwrap();
    assert!(!alone.rows.iter().any(with_law));
}

#[test]
fn a_table_of_another_machine_is_not_compared() {
    let end = TABLE.find("\n[figure.\"demand.page.").unwrap();
    let bill = billing::bill(&request(&TABLE[..end], 1)).unwrap();
    assert!(bill.rows.iter().all(|row| row.published.is_none()));
}

#[test]
fn sensitivity_names_figures_for_every_row() {
    let mut request = request(TABLE, 1);
    request.vcpus = vec![2];
    request.report = Report::Sensitivity;
    let bill = billing::bill(&request).unwrap();
    let named = bill
        .notes
        .iter()
        .filter(|note| note.starts_with("sensitivity of"));
    let named: Vec<_> = named.collect();
    assert_eq!(named.len(), 2);
    assert!(
        named.iter().all(|note| note.matches(" .. ").count() > 1),
        "{named:?}"
    );
}
