use pagetoll_bill::Verdict;
use pagetoll_protocol::report::RestoreUnavailable;

use super::*;
use crate::routes::restore::guest::Counted;

const UFFD: Line = Line {
    mechanism: Mechanism::Uffd,
    batch: 16,
};

fn part(instructions: u64, rss: u64) -> RestorePart {
    RestorePart {
        instructions,
        exits: 64,
        rss: rss * PAGE,
        pss: rss * PAGE,
        own: rss * PAGE,
        ..RestorePart::default()
    }
}

/// A restore of 512 pages, of which 64 are the working set.
fn restore(line: Line, first: u64) -> Restore {
    Restore {
        mechanism: line.mechanism,
        batch: line.batch,
        pages: 512,
        set: 64,
        to_first: part(first, 0),
        to_set: RestorePart {
            faults: 16,
            calls: 16,
            reading: 1600,
            ..part(64_000, 256)
        },
        to_last: RestorePart {
            faults: 16,
            calls: 16,
            reading: 1600,
            ..part(100_000, 512)
        },
        wrong_on_host: 0,
        wrong_in_guest: 0,
        parts: 8,
        misread: 0,
    }
}

fn counted(purpose: Purpose, restore: Restore) -> Counted {
    Counted { purpose, restore }
}

fn found(line: Line) -> RestoreRun {
    let control = Restore {
        wrong_on_host: 1,
        wrong_in_guest: 1,
        misread: 1,
        ..restore(line, 1)
    };
    let bill = |first| counted(Purpose::Bill, restore(line, first));
    RestoreRun {
        restores: vec![
            counted(Purpose::Control, control),
            bill(51_200),
            bill(99_999),
            bill(5_120),
        ],
        ..RestoreRun::default()
    }
}

fn rows_of(line: Line, found: RestoreRun) -> [Row; 3] {
    rows(Pages(512), &[line], &[found]).try_into().unwrap()
}

fn verdicts(rows: &[Row]) -> Vec<(&str, Verdict)> {
    let checks = rows.iter().flat_map(|row| &row.checks);
    checks
        .map(|check| (check.name.as_str(), check.verdict))
        .collect()
}

#[test]
fn boundaries_are_counted_from_the_order_on_for_the_pages_they_are_about() {
    let rows = rows_of(UFFD, found(UFFD));
    let costs = rows.each_ref().map(Row::cost);
    // The repeat in the middle, and not the control.
    let expected = [51_200.0 / 512.0, 115_200.0 / 64.0, 215_200.0 / 512.0];
    assert_eq!(costs, expected.map(Some));
    assert_eq!(rows.each_ref().map(|row| row.pages.get()), [512, 64, 512]);
    let last = &rows[2];
    assert!((Toll::sum(last.tolls()) - last.cost().unwrap()).abs() < 1e-9);
    let names: Vec<_> = last.tolls().iter().map(|toll| toll.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "before the first instruction",
            "read-source",
            "touch, install, deliver-and-wake"
        ]
    );
    assert_eq!(last.tolls()[1].cost_each, 100.0);
    let crossings = last.crossings().unwrap();
    assert_eq!(crossings.by_kind["uffd-message"], 32.0 / 512.0);
    assert_eq!(crossings.per_page, 3.0 * 64.0 / 512.0);
}

#[test]
fn memory_is_that_of_the_working_set() {
    let rows = rows_of(UFFD, found(UFFD));
    let restored = rows[1].figures().unwrap().restored.unwrap();
    let kept = restored.kept.unwrap();
    assert_eq!(
        (kept.pss, kept.private, kept.page_cache),
        (1_048_576.0, 1_048_576.0, 0.0)
    );
    assert_eq!(restored.filled_untouched, Some(0.0));
}

#[test]
fn contents_need_a_control_that_fails_and_a_lazy_mechanism_leaves_pages_missing() {
    let rows = rows_of(UFFD, found(UFFD));
    assert!(
        verdicts(&rows)
            .iter()
            .all(|(_, verdict)| *verdict == Verdict::Pass)
    );
    let mut spoilt = found(UFFD);
    spoilt.restores[0].restore.wrong_in_guest = 0;
    spoilt.restores[1].restore.wrong_on_host = 1;
    spoilt.restores[2].restore.to_first.rss = 512 * PAGE;
    let rows = rows_of(UFFD, spoilt);
    assert_eq!(
        verdicts(&rows),
        [
            ("untouched-stays-missing", Verdict::Fail),
            ("content-in-guest", Verdict::Inconclusive),
            ("content-on-host", Verdict::Fail),
            ("values-read", Verdict::Pass),
        ]
    );
    let read = Line {
        mechanism: Mechanism::Read,
        batch: 1,
    };
    assert_eq!(verdicts(&rows_of(read, found(read))).len(), 3);
}

#[test]
fn a_mechanism_that_the_guest_lacks_says_so() {
    let line = Line {
        mechanism: Mechanism::KvmPreFault,
        batch: 1,
    };
    let found = RestoreRun {
        unavailable: vec![RestoreUnavailable {
            mechanism: line.mechanism,
            batch: 1,
            lacks: "KVM_CAP_PRE_FAULT_MEMORY".into(),
        }],
        ..RestoreRun::default()
    };
    for row in rows_of(line, found) {
        let reason = row.why_unavailable().unwrap();
        assert_eq!(reason, "the guest lacks KVM_CAP_PRE_FAULT_MEMORY");
        assert!(row.checks.is_empty());
    }
}
