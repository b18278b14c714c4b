//! The contended cache line against a list of who waits.

use pagetoll_engine::{Arbitration, CacheLine, CoreId, LineCosts, Ticks};
use proptest::prelude::*;

use crate::{Bench, Notes, along_a_line};

const HIT: u64 = 2;
const STEP: u64 = 5;

/// The order and the ends of single accesses, one per core, that begin at these times.
fn oracle(comes: &[u64], arbitration: Arbitration) -> Vec<(usize, u64)> {
    let mut waiting: Vec<usize> = (0..comes.len()).collect();
    waiting.sort_by_key(|&i| (comes[i], i));
    let (mut free_at, mut owner, mut passed) = (0, None, 0);
    let mut ends = Vec::new();
    while !waiting.is_empty() {
        let cost = |i: usize| match owner {
            Some(owner) if owner != i => i.abs_diff(owner) as u64 * STEP,
            _ => HIT,
        };
        let here = waiting.iter().filter(|&&i| comes[i] <= free_at).count();
        let place = match arbitration {
            Arbitration::NearFirst { bound } if here > 0 && passed < bound => {
                (0..here).min_by_key(|&place| cost(waiting[place])).unwrap()
            }
            _ => 0,
        };
        if here > 0 {
            passed = if place == 0 { 0 } else { passed + 1 };
        }
        let chosen = waiting.remove(place);
        free_at = free_at.max(comes[chosen]) + cost(chosen);
        owner = Some(chosen);
        ends.push((chosen, free_at));
    }
    ends
}

fn run(comes: &[u64], arbitration: Arbitration) -> (Vec<(usize, u64)>, u64) {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let costs = LineCosts {
        hit: Ticks(HIT),
        transfer: along_a_line(STEP),
        arbitration,
    };
    let line = CacheLine::new(bench.engine.handle(), "line", wait, costs);
    let notes = Notes::new();
    for (i, &comes) in comes.iter().enumerate() {
        let (line, notes) = (line.clone(), notes.clone());
        bench.spawn("client", i, async move |cx| {
            cx.charge(work, Ticks(comes)).await;
            line.access(&cx).await;
            notes.add((i, cx.now().0));
            assert_eq!(line.owner(), Some(cx.core()));
        });
    }
    bench.engine.run().unwrap();
    let recorded = bench
        .engine
        .totals()
        .filter(|paid| paid.1 == wait)
        .map(|paid| paid.2.ticks.0);
    (notes.take(), recorded.sum())
}

proptest! {
    #[test]
    fn accesses_follow_the_oracle(
        comes in prop::collection::vec(1..80u64, 1..24),
        bound in 0..6u32,
    ) {
        for arbitration in [Arbitration::Fifo, Arbitration::NearFirst { bound }] {
            let expected = oracle(&comes, arbitration);
            let waited = expected.iter().map(|&(i, end)| end - comes[i]).sum();
            prop_assert_eq!(run(&comes, arbitration), (expected, waited));
        }
    }
}

#[test]
fn near_first_passes_the_oldest_only_so_often() {
    // Core 9 waits first, then its rivals near the owner, core 0.
    let mut comes = vec![1; 10];
    comes[0] = 1;
    (1..9).for_each(|i| comes[i] = 3);
    comes[9] = 2;
    let order = |arbitration| {
        run(&comes, arbitration)
            .0
            .iter()
            .map(|end| end.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(order(Arbitration::Fifo)[..3], [0, 9, 1]);
    // The line is free at 3, when all have come.
    let bounded = order(Arbitration::NearFirst { bound: 3 });
    assert_eq!(bounded[..6], [0, 1, 2, 3, 9, 8]);
    assert_eq!(
        *order(Arbitration::NearFirst { bound: 100 }).last().unwrap(),
        9
    );
}

#[test]
fn the_owner_hits() {
    let mut bench = Bench::small();
    let arbitration = Arbitration::Fifo;
    let costs = LineCosts {
        hit: Ticks(HIT),
        transfer: along_a_line(STEP),
        arbitration,
    };
    let line = CacheLine::new(bench.engine.handle(), "line", bench.wait, costs);
    let used = line.clone();
    bench.spawn("client", 3, async move |cx| {
        used.access(&cx).await;
        used.access(&cx).await;
        assert_eq!(cx.now().0, 2 * HIT);
    });
    bench.engine.run().unwrap();
    assert_eq!((line.owner(), line.waiters()), (Some(CoreId(3)), 0));
}
