use pagetoll_bill::row::{Backing, Frees};
use pagetoll_bill::{Route, Spec, Verdict};

use super::super::line::Contents;
use super::*;
use pagetoll_bill::route::Discard;

/// Pages of each half of the guest.
const HALF: u64 = UNIT / 2;
const BYTES: u64 = HALF * 4096;

fn request() -> Request {
    Request::new(&Spec {
        pages: Some(Pages(UNIT)),
        ..Spec::new(Route::Discard)
    })
    .unwrap()
}

/// A run in which all that was discarded is gone, and comes back as zeroes.
fn freeing() -> Run {
    let held = |own| Held {
        own,
        rss: own,
        ..Held::default()
    };
    let touches = |nanos, faults| Touches {
        nanos,
        faults: Some(faults),
    };
    Run {
        discarded: HALF,
        beside: HALF,
        calls: 100.0 * HALF as f64,
        before: held(2 * BYTES),
        after: held(BYTES),
        present: touches(50.0 * HALF as f64, 0),
        beside_again: touches(80.0 * HALF as f64, HALF / 4),
        again: touches(900.0 * HALF as f64, HALF),
        contents: Contents {
            zeroes: HALF,
            old: 0,
            file: 0,
        },
        wrong_beside: 0,
    }
}

fn measured(run: Run) -> Measured {
    let mut wrong_place = freeing();
    wrong_place.contents.zeroes = 0;
    wrong_place.wrong_beside = HALF;
    Measured {
        runs: vec![run],
        singles: Singles {
            calls: 2,
            taken: Some(1024),
            running: 4,
            faults: Some(280),
        },
        wrong_place,
    }
}

fn rows_of(backing: Backing, call: Discard, batch: u32, measured: Measured) -> Vec<Row> {
    let line = Line {
        backing,
        call,
        batch,
    };
    let held = [2 * BYTES, 2 * BYTES, 0].map(|own| Held {
        own,
        ..Held::default()
    });
    let outcome = Ok(measured);
    let known = Known::from([(backing, held)]);
    rows(&request(), &known, 400.0, &[LineRuns { line, outcome }])
}

fn discarded(rows: &[Row]) -> Discarded {
    rows[0].figures().unwrap().discarded.unwrap()
}

#[test]
fn a_line_is_three_rows_with_costs_of_their_own() {
    let rows = rows_of(
        Backing::Anonymous,
        Discard::MadvDontneed,
        1,
        measured(freeing()),
    );
    let costs: Vec<_> = rows.iter().map(|row| row.cost().unwrap()).collect();
    assert_eq!(costs, [100.0, 80.0, 900.0]);
    let faults = |row: &Row| row.crossings().map(|crossings| crossings.per_page);
    let faults: Vec<_> = rows.iter().map(faults).collect();
    assert_eq!(faults, [None, Some(0.25), Some(1.0)]);
    let tolls: Vec<f64> = rows[1].tolls().iter().map(Toll::cost_per_page).collect();
    assert_eq!(tolls, [50.0, 30.0]);
    let all = discarded(&rows);
    assert_eq!((all.frees, all.found), (Frees::All, Found::Zeroes));
    assert_eq!(
        (all.taken_per_call, all.beside_per_call),
        (Some(512.0), Some(511.0))
    );
    assert_eq!(all.faults_beside_per_call, Some(70.0));
    let verdicts = rows[0].checks.iter().map(|check| check.verdict);
    assert!(verdicts.eq([Verdict::Pass; 3]));
}

#[test]
fn memory_of_a_file_that_is_not_mapped_is_held() {
    let mut run = freeing();
    run.after.own = run.before.own;
    run.contents = Contents {
        zeroes: 0,
        old: HALF,
        file: 0,
    };
    let rows = rows_of(Backing::Memfd, Discard::MadvDontneed, 1, measured(run));
    let figures = discarded(&rows);
    assert_eq!((figures.frees, figures.rss), (Frees::Nothing, 1.0));
    assert_eq!(
        (figures.found, figures.cleared),
        (Found::Old, Cleared::Never)
    );
}

#[test]
fn parts_of_huge_pages_are_held_until_they_are_split() {
    let mut run = freeing();
    run.before.deferred_splits = 7;
    // Each of the four blocks.
    run.after.deferred_splits = 11;
    let frees = |batch, run: &Run| {
        let rows = rows_of(
            Backing::Thp,
            Discard::MadvDontneed,
            batch,
            measured(run.clone()),
        );
        discarded(&rows).frees
    };
    assert_eq!(frees(1, &run), Frees::Later);
    // Another process's.
    assert_eq!(frees(512, &run), Frees::All);
    run.after.deferred_splits = 9;
    assert_eq!(frees(1, &run), Frees::Part);
}

#[test]
fn pages_that_a_call_only_clears_are_not_free() {
    let mut run = freeing();
    run.after = run.before;
    let rows = rows_of(Backing::Hugetlb2m, Discard::PunchHole, 1, measured(run));
    let figures = discarded(&rows);
    assert_eq!(
        (figures.frees, figures.cleared),
        (Frees::Nothing, Cleared::Call)
    );
}

#[test]
fn a_page_that_holds_what_the_call_does_not_leave_fails() {
    let mut run = freeing();
    run.contents.zeroes -= 1;
    run.contents.old = 1;
    let failed = |call| {
        let rows = rows_of(Backing::Anonymous, call, 1, measured(run.clone()));
        let check = rows[0]
            .checks
            .iter()
            .find(|c| c.name == "content-discarded");
        check.map(|check| (check.verdict, check.failed)).unwrap()
    };
    assert_eq!(failed(Discard::MadvDontneed), (Verdict::Fail, 1));
    assert_eq!(
        failed(Discard::MadvFree),
        (Verdict::Pass, 0),
        "it may keep them"
    );
}

#[test]
fn a_control_that_finds_nothing_proves_nothing() {
    let mut measured = measured(freeing());
    measured.wrong_place = freeing();
    let rows = rows_of(Backing::Anonymous, Discard::MadvDontneed, 1, measured);
    let verdicts: Vec<_> = rows[0].checks.iter().map(|check| check.verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Inconclusive, Verdict::Inconclusive, Verdict::Pass]
    );
}

#[test]
fn memory_that_is_not_counted_fails() {
    let held = |own: [u64; 3]| {
        own.map(|pages| Held {
            own: pages * 4096,
            ..Held::default()
        })
    };
    assert_eq!(super::held(&held([UNIT, UNIT, 0])).verdict, Verdict::Pass);
    assert_eq!(super::held(&held([UNIT, UNIT - 3, 0])).failed, 3);
    let blind = super::held(&held([UNIT, UNIT, UNIT]));
    assert_eq!(blind.verdict, Verdict::Inconclusive);
}

#[test]
fn a_line_that_the_host_lacks_says_so_in_each_row() {
    let outcome = Err(Lacking {
        what: "no pages".into(),
        remedy: "reserve some".into(),
    });
    let line = Line {
        backing: Backing::Hugetlb2m,
        call: Discard::PunchHole,
        batch: 512,
    };
    let rows = rows(
        &request(),
        &Known::new(),
        400.0,
        &[LineRuns { line, outcome }],
    );
    assert_eq!(rows.len(), 3);
    let reasons = rows.iter().map(Row::why_unavailable);
    assert!(reasons.eq([Some("no pages; reserve some"); 3]));
}
