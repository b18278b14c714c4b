use pagetoll_bill::Verdict;
use pagetoll_bill::row::Frees;
use pagetoll_protocol::report::{DiscardClearing, DiscardHeld, DiscardUnavailable, Held};

use super::*;

const MIB: u64 = 1 << 20;

fn counted(instructions: u64, exits: u64) -> Counted {
    Counted {
        instructions,
        exits,
    }
}

fn held(own: u64) -> Held {
    Held {
        own,
        rss: own,
        ..Held::default()
    }
}

/// A call of which 511 of 512 pages beside are lost from stage 2.
fn repeat(calls: u64) -> Discard {
    Discard {
        mechanism: Call::MapFixed,
        backing: Backing::Anonymous,
        batch: 1,
        pages: 512,
        call: counted(calls, 0),
        present: counted(5120, 1),
        beside: counted(512_000, 512),
        again: counted(1_024_000, 513),
        before: held(4 * MIB),
        after: held(2 * MIB),
        sum_beside: 512,
        sum_again: 0,
    }
}

fn misplaced(is_spoilt: bool) -> DiscardMisplaced {
    DiscardMisplaced {
        backing: Backing::Anonymous,
        batch: 1,
        pages: 512,
        is_spoilt,
        sum_beside: 0,
        sum_again: if is_spoilt { 512 * 0x10001 } else { 512 },
    }
}

fn found() -> DiscardRun {
    DiscardRun {
        discards: vec![repeat(5120), repeat(10_240), repeat(99_999)],
        singles: vec![DiscardSingle {
            mechanism: Call::MapFixed,
            backing: Backing::Anonymous,
            batch: 1,
            taken: Some(512),
            exits_beside: 511,
        }],
        misplaced: vec![misplaced(false), misplaced(true)],
        held: vec![DiscardHeld {
            backing: Backing::Anonymous,
            own: [4 * MIB, 4 * MIB, 0],
        }],
        clearing: DiscardClearing {
            pages: 2,
            instructions: 1040,
        },
        ..DiscardRun::default()
    }
}

fn rows_of(call: Call, found: DiscardRun) -> Vec<Row> {
    let order = Order {
        pages: Pages(1024),
        batches: vec![1],
        mechanisms: vec![call.into()],
        runs: 1,
        program: Vec::new(),
    };
    rows(&order, &[Backing::Anonymous], &[found])
}

fn figures_of(rows: &[Row]) -> &Discarded {
    rows[0].figures().unwrap().discarded.as_ref().unwrap()
}

#[test]
fn a_line_is_three_rows_of_medians_with_the_pages_beside() {
    let rows = rows_of(Call::MapFixed, found());
    let costs: Vec<_> = rows.iter().map(Row::cost).collect();
    assert_eq!(costs, [Some(20.0), Some(1000.0), Some(2000.0)]);
    let tolls: Vec<_> = rows[1].tolls().iter().map(|toll| toll.cost_each).collect();
    assert_eq!(tolls, [10.0, 990.0]);
    let faults = |row: &Row| row.figures().unwrap().crossings.as_ref().unwrap().per_page;
    assert_eq!((faults(&rows[1]), faults(&rows[2])), (511.0 / 512.0, 1.0));
    let figures = figures_of(&rows);
    assert_eq!((figures.frees, figures.held), (Frees::All, 0.0));
    assert_eq!(figures.beside_per_call, Some(511.0));
    assert_eq!(figures.faults_beside_per_call, Some(511.0));
    assert_eq!(figures.clearing, 520.0);
    assert_eq!(
        (figures.found, figures.cleared),
        (Found::Zeroes, Cleared::Touch)
    );
}

#[test]
fn checks_pass_where_their_controls_fail() {
    let verdicts = |found| -> Vec<_> {
        let rows = rows_of(Call::MapFixed, found);
        rows[0].checks.iter().map(|check| check.verdict).collect()
    };
    assert_eq!(verdicts(found()), [Verdict::Pass; 3]);
    let mut lost = found();
    lost.discards[0].sum_beside -= 1;
    assert_eq!(verdicts(lost)[0], Verdict::Fail);
    let mut kept = found();
    kept.discards[2].sum_again = 1;
    assert_eq!(verdicts(kept)[1], Verdict::Fail);
    let mut idle = found();
    idle.held[0].own[2] = 4 * MIB;
    assert_eq!(verdicts(idle)[2], Verdict::Inconclusive);
}

#[test]
fn where_old_words_may_stay_the_control_spoils_them() {
    let mut found = found();
    for repeat in &mut found.discards {
        repeat.mechanism = Call::MadvFree;
        repeat.sum_again = 512;
    }
    let rows = rows_of(Call::MadvFree, found);
    assert_eq!(figures_of(&rows).found, Found::Old);
    let passed = |check: &Check| check.verdict == Verdict::Pass;
    assert!(rows[0].checks.iter().all(passed), "{:?}", rows[0].checks);
}

#[test]
fn a_part_of_a_huge_page_is_held_until_it_is_split() {
    let mut repeat = Discard {
        backing: Backing::Thp,
        ..repeat(1)
    };
    repeat.after.deferred_splits = 2;
    let line = |batch| Line {
        backing: Backing::Thp,
        call: Call::MapFixed,
        batch,
    };
    let frees = |batch| discarded(line(batch), &repeat, &DiscardRun::default()).frees;
    assert_eq!((frees(1), frees(512)), (Frees::Later, Frees::All));
}

#[test]
fn memory_that_a_call_does_not_take_says_so() {
    let unavailable = |errno: Option<&str>| {
        let found = DiscardRun {
            unavailable: vec![DiscardUnavailable {
                mechanism: Call::MadvRemove,
                backing: Backing::Anonymous,
                batch: 1,
                lacks: "pages".into(),
                call: "madvise(MADV_REMOVE)".into(),
                errno: errno.map(str::to_owned),
            }],
            ..DiscardRun::default()
        };
        let rows = rows_of(Call::MadvRemove, found);
        assert_eq!(rows.len(), 3);
        rows[2].why_unavailable().unwrap().to_owned()
    };
    let refused = unavailable(Some("EINVAL"));
    assert!(refused.starts_with("madvise(MADV_REMOVE) fails with EINVAL; it is for shared"));
    assert_eq!(unavailable(None), "the guest lacks pages");
}
