//! Rows from made-up runs.

use super::*;
use crate::routes::demand::tests::request;

fn run(wall: f64, by_vcpus: Counts) -> Measured {
    Measured {
        wall,
        worked: Duration::ZERO,
        readers_worked: Duration::ZERO,
        by_vcpus,
        by_readers: Counts::default(),
        folios: BTreeMap::from([("4K".to_owned(), 200)]),
        wrong_in_guest: 0,
        wrong_in_host: 0,
        misread: 0,
    }
}

fn line(mechanism: Mechanism, batch: u32) -> Line {
    Line {
        mechanism,
        vcpus: 2,
        batch,
    }
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
        (
            line(Mechanism::Populated, 1),
            Ok(vec![run(1e5, Counts::default())]),
        ),
        (
            line(Mechanism::Exit, 16),
            Ok(vec![run(4e5, counts), run(4e5, counts)]),
        ),
        (
            line(Mechanism::ExitGmem, 16),
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
    assert_eq!(exit.cost_per_page, Some(4000.0));
    assert_eq!(exit.pages_per_second, Some(500_000.0));
    assert_eq!(
        (exit.vcpus, exit.readers, exit.ring),
        (Some(2), None, Some(3))
    );
    assert_eq!(exit.pages, Pages(200));
}

#[test]
fn tolls_sum_to_the_cost_and_touching_is_what_populated_costs() {
    let rows = billed();
    for row in rows.iter().filter(|row| row.unavailable.is_none()) {
        let sum: f64 = row.tolls.iter().map(Toll::cost_per_page).sum();
        assert!((sum - row.cost_per_page.unwrap()).abs() < 1e-6, "{row:?}");
    }
    let names: Vec<_> = rows[1]
        .tolls
        .iter()
        .map(|toll| toll.name.as_str())
        .collect();
    assert_eq!(names, ["touch", "find-page", "install", "exit-and-enter"]);
    assert_eq!(rows[1].tolls[0].cost_each, 1000.0);
    assert_eq!(rows[1].crossings["exit-decoded"], 0.05);
}

#[test]
fn a_wrong_page_fails_the_bill_and_a_line_that_cannot_be_billed_says_why() {
    let mut wrong = run(1e5, Counts::default());
    wrong.wrong_in_host = 1;
    let lines = [(
        line(Mechanism::Kernel, 1),
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
        billed()[2].unavailable.as_deref(),
        Some("no guest_memfd; get one")
    );
}

#[test]
fn the_rates_of_the_kernels_own_test_stand_beside() {
    let lines = [line(Mechanism::Uffd, 1)];
    let rows = beside(&request(100), &lines, &[vec![1e4, 3e4]]);
    assert_eq!(rows[0].operation, "demand_paging_test");
    assert_eq!((rows[0].vcpus, rows[0].readers), (Some(2), Some(1)));
    assert_eq!(rows[0].pages_per_second, Some(2e4));
    assert_eq!(rows[0].runs, [2e5, 2e9 / 3e4]);
    assert!(rows[0].tolls.is_empty() && rows[0].checks.is_empty());
}
