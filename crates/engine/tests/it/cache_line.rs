//! The contended cache line against a list of who waits.

use pagetoll_engine::{Arbitration, CacheLine, CoreId, Distance, LineCosts, Ticks};
use proptest::prelude::*;

use crate::{Bench, Notes};

const HIT: u64 = 2;
const STEP: u64 = 5;

/// Cost of a transfer between two cores.
type Transfer = fn(usize, usize) -> u64;

/// Hardly two cores are as far from a third.
fn along_a_line(from: usize, to: usize) -> u64 {
    from.abs_diff(to) as u64 * STEP
}

/// Cores of a group are as far from one another as from each of another group.
fn in_groups(from: usize, to: usize) -> u64 {
    (1 + (from / 6).abs_diff(to / 6) as u64) * STEP
}

/// Index of the next waiter to serve, by the costs of serving them, in the order of their arrival.
fn next(arbitration: Arbitration, passed: u32, costs: impl Iterator<Item = u64>) -> usize {
    match arbitration {
        Arbitration::NearFirst { bound } if passed < bound => costs
            .enumerate()
            .min_by_key(|(_, cost)| *cost)
            .map_or(0, |(place, _)| place),
        _ => 0,
    }
}

/// Ends of single accesses, one per core; accesses that only read are served along with the first of them.
fn oracle(
    comes: &[(u64, bool)],
    arbitration: Arbitration,
    transfer: Transfer,
) -> Vec<(u64, usize)> {
    let mut waiting: Vec<usize> = (0..comes.len()).collect();
    waiting.sort_by_key(|&i| (comes[i].0, i));
    let (mut free_at, mut owner, mut passed) = (0, None, 0);
    let mut ends = Vec::new();
    while !waiting.is_empty() {
        let cost = |i: usize| owner.map_or(HIT, |owner| transfer(owner, i));
        let here = waiting.iter().filter(|&&i| comes[i].0 <= free_at).count();
        let place = next(
            arbitration,
            passed,
            waiting[..here].iter().map(|&i| cost(i)),
        );
        if here > 0 {
            passed = if place == 0 { 0 } else { passed + 1 };
        }
        let mut along = waiting[..here].to_vec();
        let chosen = waiting.remove(place);
        let start = free_at.max(comes[chosen].0);
        free_at = start + cost(chosen);
        ends.push((free_at, chosen));
        if comes[chosen].1 {
            along.retain(|&i| i != chosen && comes[i].1);
            waiting.retain(|i| !along.contains(i));
            ends.extend(along.iter().map(|&i| (start + cost(i), i)));
        } else {
            owner = Some(chosen);
        }
    }
    ends.sort_unstable();
    ends
}

fn line_of(bench: &Bench, arbitration: Arbitration, transfer: Transfer) -> CacheLine {
    let costs = LineCosts {
        hit: Ticks(HIT),
        transfer: Distance::by(move |from, to| Ticks(transfer(from.index(), to.index()))),
        arbitration,
    };
    CacheLine::new(bench.engine.handle(), "line", bench.wait, costs)
}

/// Ends of the accesses, in the order of time, and the ticks that were recorded as waiting.
fn run(
    comes: &[(u64, bool)],
    arbitration: Arbitration,
    transfer: Transfer,
) -> (Vec<(u64, usize)>, u64) {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let line = line_of(&bench, arbitration, transfer);
    let notes = Notes::new();
    for (i, &(comes, reads)) in comes.iter().enumerate() {
        let (line, notes) = (line.clone(), notes.clone());
        bench.spawn("client", i, async move |cx| {
            cx.charge(work, Ticks(comes)).await;
            if reads {
                line.read(&cx).await;
            } else {
                line.access(&cx).await;
                assert_eq!(line.owner(), Some(cx.core()));
            }
            notes.add((cx.now().0, i));
        });
    }
    bench.engine.run().unwrap();
    let recorded = bench
        .engine
        .totals()
        .filter(|paid| paid.1 == wait)
        .map(|paid| paid.2.ticks.0);
    let mut ends = notes.take();
    ends.sort_unstable();
    (ends, recorded.sum())
}

proptest! {
    #[test]
    fn accesses_follow_the_oracle(
        comes in prop::collection::vec((1..80u64, any::<bool>()), 1..60),
        bound in 0..6u32,
    ) {
        let writes: Vec<_> = comes.iter().map(|&(comes, _)| (comes, false)).collect();
        for arbitration in [Arbitration::Fifo, Arbitration::NearFirst { bound }] {
            for comes in [&comes, &writes] {
                for transfer in [along_a_line, in_groups] {
                    let expected = oracle(comes, arbitration, transfer);
                    let waited = expected.iter().map(|&(end, i)| end - comes[i].0).sum();
                    prop_assert_eq!(run(comes, arbitration, transfer), (expected, waited));
                }
            }
        }
    }
}

#[test]
fn near_first_passes_the_oldest_only_so_often() {
    // Core 9 waits first, then its rivals near the owner, core 0.
    let mut comes = vec![(3, false); 10];
    comes[0].0 = 1;
    comes[9].0 = 2;
    let order = |arbitration| {
        run(&comes, arbitration, along_a_line)
            .0
            .iter()
            .map(|end| end.1)
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
    let line = line_of(&bench, Arbitration::Fifo, along_a_line);
    let used = line.clone();
    bench.spawn("client", 3, async move |cx| {
        used.access(&cx).await;
        used.access(&cx).await;
        assert_eq!(cx.now().0, 2 * HIT);
    });
    bench.engine.run().unwrap();
    assert_eq!((line.owner(), line.waiters()), (Some(CoreId(3)), 0));
}

#[test]
fn a_copy_is_read_again_for_nothing_until_the_owner_takes_it_back() {
    let mut bench = Bench::small();
    let line = line_of(&bench, Arbitration::Fifo, along_a_line);
    let notes = Notes::new();
    for (core, pause) in [(0, 0), (3, 100)] {
        let (line, notes) = (line.clone(), notes.clone());
        bench.spawn("client", core, async move |cx| {
            cx.sleep(Ticks(pause)).await;
            for round in 0..2 {
                let since = cx.now();
                if core == 0 {
                    line.access(&cx).await;
                    cx.sleep(Ticks(200)).await;
                } else {
                    line.read(&cx).await;
                }
                notes.add((core, round, cx.now().0 - since.0));
            }
        });
    }
    bench.engine.run().unwrap();
    let far = 3 * STEP;
    let expected = [
        (3, 0, far),
        (3, 1, HIT),
        (0, 0, HIT + 200),
        (0, 1, far + 200),
    ];
    assert_eq!(notes.take(), expected);
}
