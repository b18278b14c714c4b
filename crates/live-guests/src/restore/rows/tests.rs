use pagetoll_bill::row::PageCache;
use pagetoll_bill::spec::RestoreSpec;
use pagetoll_bill::{Route, Spec, Verdict};

use super::*;
use crate::restore::conversation::Kept;

/// Eight pages, two of them the working set.
fn request(mechanisms: &[&str]) -> Request {
    Request::new(&Spec {
        mechanisms: mechanisms.iter().map(|&name| name.to_owned()).collect(),
        pages: Some(Pages(8)),
        batches: Some(vec![1]),
        restore: RestoreSpec {
            set: Some(Pages(2)),
            caches: vec![PageCache::Warm],
            clones: Some(vec![2]),
            ..RestoreSpec::default()
        },
        ..Spec::new(Route::Restore)
    })
    .unwrap()
}

fn report(first: u64, set: u64, last: u64) -> CloneReport {
    CloneReport {
        first,
        set,
        last,
        handled: Handled {
            faults: 8,
            calls: 8,
            pages: 8,
            finding: 0,
            reading: 800,
            installing: 1600,
        },
        ..CloneReport::default()
    }
}

/// Two runs of two guests.
fn measured() -> Measured {
    Measured {
        runs: vec![vec![report(100, 1000, 8000), report(200, 3000, 18_000)]; 2],
        kept: vec![
            Kept {
                resident: 8192,
                pss: 8192,
                private: 4096,
                page_cache: 4096,
            };
            2
        ],
        untouched: Some(Kept::default()),
        control: Wrong {
            in_guest: 1,
            on_host: 1,
            misread: 1,
        },
        ..Measured::default()
    }
}

fn rows_of(request: &Request, change: impl Fn(&mut LineRuns)) -> Vec<Row> {
    let lines = request.lines().into_iter().map(|line| {
        let mut runs = LineRuns {
            line,
            outcome: Ok(measured()),
        };
        change(&mut runs);
        runs
    });
    let recorded = Recorded {
        runs: vec![(0, 8)],
        touched: vec![1, 0],
        partial: vec![(0, 1)],
    };
    rows(request, &recorded, 8, &lines.collect::<Vec<_>>())
}

#[test]
fn a_line_has_a_row_for_each_boundary_over_the_pages_that_it_is_about() {
    let rows = rows_of(&request(&["uffd"]), |_| ());
    let of = |row: &Row| {
        let restored = row.figures().unwrap().restored.unwrap();
        (
            row.pages.get(),
            row.cost().unwrap(),
            restored.median,
            restored.p95,
        )
    };
    assert_eq!(
        rows.iter().map(of).collect::<Vec<_>>(),
        [
            (8, 150.0 / 8.0, 150.0, 200.0),
            (2, 2000.0 / 2.0, 2000.0, 3000.0),
            (8, 13_000.0 / 8.0, 13_000.0, 18_000.0),
        ]
    );
    assert_eq!(rows[0].key.clones, Some(2));
    let kept = rows[1].figures().unwrap().restored.unwrap().kept.unwrap();
    assert_eq!((kept.pss, kept.private), (8192.0, 4096.0));
}

#[test]
fn the_items_of_the_last_page_sum_to_its_cost() {
    for mechanism in ["uffd", "exit", "read", "uffd-prefault", "replay"] {
        let rows = rows_of(&request(&[mechanism]), |_| ());
        let last = &rows[2];
        let sum = Toll::sum(last.tolls());
        assert!((sum - last.cost().unwrap()).abs() < 1e-9, "{mechanism}");
        let install = last.tolls().iter().find(|toll| toll.name == "install");
        let is_timed = !matches!(mechanism, "uffd-prefault");
        assert_eq!(install.is_some(), is_timed, "{mechanism}");
    }
}

#[test]
fn a_lost_page_fails_and_a_control_that_fails_nothing_proves_nothing() {
    let verdicts = |change: fn(&mut Measured)| {
        let rows = rows_of(&request(&["uffd"]), |runs| {
            change(runs.outcome.as_mut().unwrap())
        });
        let checks = rows.into_iter().flat_map(|row| row.checks);
        checks.map(|check| check.verdict).collect::<Vec<_>>()
    };
    use Verdict::{Fail, Inconclusive, Pass};
    assert_eq!(verdicts(|_| ()), [Pass; 4]);
    let lost = |measured: &mut Measured| measured.runs[1][0].wrong_on_host = 1;
    assert_eq!(verdicts(lost), [Pass, Pass, Fail, Pass]);
    let blind = |measured: &mut Measured| measured.control = Wrong::default();
    assert_eq!(
        verdicts(blind),
        [Pass, Inconclusive, Inconclusive, Inconclusive]
    );
    let eager = |measured: &mut Measured| {
        measured.untouched = Some(Kept {
            resident: 8 * 4096,
            ..Kept::default()
        });
    };
    assert_eq!(verdicts(eager), [Fail, Pass, Pass, Pass]);
}

#[test]
fn a_host_that_lacks_something_has_rows_that_say_so() {
    let rows = rows_of(&request(&["hugetlb-2m"]), |runs| {
        runs.outcome = Err(Lacking {
            what: "no pages".into(),
            remedy: "reserve some".into(),
        });
    });
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row.why_unavailable(), Some("no pages; reserve some"));
        assert!(row.checks.is_empty());
    }
}

#[test]
fn a_replay_alone_is_predicted() {
    let predicted = |mechanism| {
        let rows = rows_of(&request(&[mechanism]), |runs| {
            let rehearsals = &mut runs.outcome.as_mut().unwrap().rehearsals;
            rehearsals.whole = vec![report(500, 700, 0)];
            rehearsals.partial = vec![report(300, 9400, 0)];
        });
        rows[1].figures().unwrap().restored.unwrap().predicted
    };
    // Two touches of 100 ns.
    assert_eq!(predicted("replay"), Some((500.0 + 2.0 * 100.0) / 2.0));
    assert_eq!(predicted("uffd"), None);
}
