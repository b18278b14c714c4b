//! Rows from made-up runs.

use std::time::Duration;

use super::*;
use crate::folios::Folios;
use crate::line::Outcome;
use crate::tests::request;
use pagetoll_live_host::cpu_time::Scheduled;
use pagetoll_live_host::limits::Lacking;

fn run(wall: f64, by_vcpus: Counts) -> Measured {
    Measured {
        wall,
        vcpus: Scheduled::default(),
        readers: Scheduled::default(),
        by_vcpus,
        by_readers: Counts::default(),
        folios: Folios::from([("4K".to_owned(), 200)]),
        wrong_in_guest: 0,
        wrong_in_host: 0,
        misread: 0,
    }
}

fn line(mechanism: Demand, batch: u32) -> Line {
    Line {
        mechanism,
        vcpus: 2,
        batch,
        pages: 100,
    }
}

fn runs(line: Line, outcome: Outcome) -> LineRuns {
    LineRuns { line, outcome }
}

fn billed() -> Vec<Row> {
    let counts = Counts {
        faults: 10,
        decoded: 10,
        calls: 10,
        pages: 200,
        resolving: Duration::from_micros(10),
        installing: Duration::from_micros(100),
        ..Counts::default()
    };
    let lines = [
        runs(
            line(Demand::Populated, 1),
            Ok(vec![run(1e5, Counts::default()); 2]),
        ),
        runs(
            line(Demand::Exit, 16),
            Ok(vec![run(4e5, counts), run(4e5, counts)]),
        ),
        runs(
            line(Demand::ExitGmem, 16),
            Err(Lacking {
                what: "no guest_memfd".into(),
                remedy: "get one".into(),
            }),
        ),
    ];
    rows(&request(100), &lines)
}

#[test]
fn cost_is_the_vcpus_and_rate_is_that_of_all() {
    let exit = &billed()[1];
    assert_eq!(exit.cost(), Some(4000.0));
    let rate = exit.figures().and_then(|figures| figures.rate).unwrap();
    assert_eq!(rate.pages_per_second, 500_000.0);
    assert_eq!(
        (exit.key.vcpus, exit.key.readers, exit.key.ring),
        (Some(2), None, Some(3))
    );
    assert_eq!(exit.pages, Pages(200));
}

#[test]
fn tolls_sum_to_the_cost_and_touching_is_what_populated_costs() {
    let rows = billed();
    for row in rows.iter().filter(|row| row.why_unavailable().is_none()) {
        let sum = Toll::sum(row.tolls());
        assert!((sum - row.cost().unwrap()).abs() < 1e-6, "{row:?}");
    }
    let names: Vec<_> = rows[1]
        .tolls()
        .iter()
        .map(|toll| toll.name.as_str())
        .collect();
    assert_eq!(names, ["touch", "find-page", "install", "exit-and-enter"]);
    assert_eq!(rows[1].tolls()[0].cost_each, 1000.0);
    assert_eq!(rows[1].crossings().unwrap().by_kind["exit-decoded"], 0.05);
}

#[test]
fn a_wrong_page_fails_the_bill_and_a_line_that_cannot_be_billed_says_why() {
    let mut wrong = run(1e5, Counts::default());
    wrong.wrong_in_host = 1;
    let lines = [runs(
        line(Demand::Kernel, 1),
        Ok(vec![run(1e5, Counts::default()), wrong]),
    )];
    let rows = rows(&request(100), &lines);
    let failed = rows[0]
        .checks
        .iter()
        .find(|check| check.name == "content-on-host")
        .unwrap();
    assert_eq!((failed.tried, failed.failed), (400, 1));
    assert_eq!(failed.verdict, pagetoll_bill::Verdict::Fail);
    assert_eq!(
        billed()[2].why_unavailable(),
        Some("no guest_memfd; get one")
    );
}

#[test]
fn the_kernels_own_test_has_rows_of_rates() {
    let measured = SelftestRuns {
        line: line(Demand::Uffd, 1),
        rates: vec![1e4, 3e4],
    };
    let rows = selftests(&request(100), &[measured]);
    let (key, figures) = (&rows[0].key, rows[0].figures().unwrap());
    assert_eq!(key.operation, Operation::DemandPagingTest);
    assert_eq!((key.vcpus, key.readers), (Some(2), Some(1)));
    assert!((figures.rate.unwrap().pages_per_second - 1.5e4).abs() < 1e-6);
    assert_eq!(figures.runs, [2e5, 2e9 / 3e4]);
    assert!(figures.tolls.is_empty() && rows[0].checks.is_empty());
}
