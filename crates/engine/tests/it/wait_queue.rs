//! The wait queue against a plain list, its timeouts, and entries that stay.

use pagetoll_engine::{
    Distance, Look, Sharing, Ticks, WaitEnd, WaitQueue, WakeUp, Walk, WalkCosts,
};
use proptest::prelude::*;

use crate::{Bench, Notes};

const ENTRY: u64 = 9;
const MARK: u64 = 7;
const WAKE: u64 = 100;
const LATENCY: u64 = 40;
const FIRST_WALK: u64 = 1000;
const SECOND_WALK: u64 = 100_000;

fn costs() -> WalkCosts {
    let latency = Distance::uniform(Ticks(LATENCY));
    WalkCosts {
        entry: Ticks(ENTRY),
        line: Distance::none(),
        look: Look::Changes,
        mark: Distance::uniform(Ticks(MARK)),
        wake: Ticks(WAKE),
        latency,
    }
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    sharing: Sharing,
    key: u64,
    timeout: Option<u64>,
}

fn waiters() -> impl Strategy<Value = Vec<Waiter>> {
    let timeout = prop::option::weighted(0.4, 1..2500u64);
    let waiter = (any::<bool>(), 0..4u64, timeout).prop_map(|(shared, key, timeout)| Waiter {
        sharing: if shared {
            Sharing::Shared
        } else {
            Sharing::Exclusive
        },
        key,
        timeout,
    });
    prop::collection::vec(waiter, 0..20)
}

/// Wake-up times: waiter `i` comes at time `i + 1`.
struct Oracle {
    queue: Vec<usize>,
    ends: Vec<(u64, WaitEnd)>,
}

impl Oracle {
    fn new(waiters: &[Waiter]) -> Self {
        let mut queue = Vec::new();
        for (i, waiter) in waiters.iter().enumerate() {
            match waiter.sharing {
                Sharing::Shared => queue.insert(0, i),
                Sharing::Exclusive => queue.push(i),
            }
        }
        Self {
            queue,
            ends: vec![(0, WaitEnd::TimedOut); waiters.len()],
        }
    }

    fn time_out(&mut self, waiters: &[Waiter], now: u64) {
        self.queue.retain(|&i| match waiters[i].timeout {
            Some(timeout) if i as u64 + 1 + timeout <= now => {
                self.ends[i] = (i as u64 + 1 + timeout, WaitEnd::TimedOut);
                false
            }
            _ => true,
        });
    }

    fn walk(&mut self, waiters: &[Waiter], now: u64, wake_up: &WakeUp) -> Walk {
        let (mut walk, mut exclusive, mut left) = (Walk::default(), 0, Vec::new());
        for &i in &self.queue {
            let stopped = wake_up.exclusive != 0 && exclusive == wake_up.exclusive;
            walk.visited += u32::from(!stopped);
            if stopped || !wake_up.keys.contains(&waiters[i].key) {
                left.push(i);
                continue;
            }
            walk.woken += 1;
            exclusive += u32::from(waiters[i].sharing == Sharing::Exclusive);
            let walked = u64::from(walk.visited) * ENTRY + u64::from(walk.woken) * WAKE;
            let rings_now = waiters[i]
                .timeout
                .is_some_and(|after| i as u64 + 1 + after == now);
            let end = if rings_now {
                now
            } else {
                now + walked + LATENCY
            };
            self.ends[i] = (end, WaitEnd::Woken);
        }
        self.queue = left;
        walk
    }
}

proptest! {
    #[test]
    fn walks_follow_the_oracle(waiters in waiters(), exclusive in 0..4u32, keys in (0..4u64, 0..4u64)) {
        let mut bench = Bench::small();
        let (work, wait) = (bench.work, bench.wait);
        let queue = WaitQueue::new(bench.engine.handle(), "q", wait, costs());
        let (ends, walks) = (Notes::new(), Notes::new());
        for (i, &waiter) in waiters.iter().enumerate() {
            let (queue, ends) = (queue.clone(), ends.clone());
            bench.spawn("waiter", i, async move |cx| {
                cx.charge(work, Ticks(i as u64 + 1)).await;
                let waited = match waiter.timeout {
                    None => {
                        queue.wait(&cx, waiter.sharing, waiter.key).await;
                        WaitEnd::Woken
                    }
                    Some(timeout) => {
                        let timeout = Ticks(timeout);
                        queue
                            .wait_timeout(&cx, waiter.sharing, waiter.key, timeout)
                            .await
                    }
                };
                ends.add((i, (cx.now().0, waited)));
            });
        }
        let first = WakeUp { exclusive, ..WakeUp::all().keyed(keys.0.min(keys.1)..=keys.0.max(keys.1)) };
        let (waker, noted, wake_up) = (queue.clone(), walks.clone(), first.clone());
        bench.spawn("waker", 50, async move |cx| {
            // Half a tick late, so to speak: after what is due at that time.
            cx.sleep(Ticks(FIRST_WALK)).await;
            noted.add(waker.wake(&cx, wake_up).await);
            cx.sleep(Ticks(SECOND_WALK)).await;
            noted.add(waker.wake(&cx, WakeUp::all()).await);
        });
        bench.engine.run().unwrap();

        let mut oracle = Oracle::new(&waiters);
        // The waker's timer is the oldest of all that are due when it walks.
        oracle.time_out(&waiters, FIRST_WALK - 1);
        let one = oracle.walk(&waiters, FIRST_WALK, &first);
        let cost = u64::from(one.visited) * ENTRY + u64::from(one.woken) * WAKE;
        let second = FIRST_WALK + cost + SECOND_WALK;
        oracle.time_out(&waiters, second);
        let two = oracle.walk(&waiters, second, &WakeUp::all());
        prop_assert_eq!(walks.take(), vec![one, two]);
        let mut ends = ends.take();
        ends.sort_unstable_by_key(|end| end.0);
        prop_assert_eq!(ends, oracle.ends.into_iter().enumerate().collect::<Vec<_>>());
        prop_assert_eq!(queue.entries(), 0);
    }
}

#[test]
fn a_standing_entry_of_a_busy_task_is_marked_and_walked_past() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let queue = WaitQueue::new(bench.engine.handle(), "q", wait, costs());
    let notes = Notes::new();
    for (name, core, busy_for) in [("busy", 0, 5000), ("idle", 1, 0)] {
        let (queue, notes) = (queue.clone(), notes.clone());
        bench.spawn(name, core, async move |cx| {
            let standing = queue.stand(&cx, Sharing::Exclusive, 0);
            cx.charge(work, Ticks(busy_for)).await;
            let is_woken = standing.is_woken();
            standing.wait().await;
            assert!(!standing.is_woken(), "a wait takes the wake-up");
            notes.add((name, is_woken, cx.now().0));
        });
    }
    let (waker, walks) = (queue.clone(), Notes::new());
    let noted = walks.clone();
    bench.spawn("waker", 2, async move |cx| {
        cx.sleep(Ticks(FIRST_WALK)).await;
        noted.add(waker.wake(&cx, WakeUp::one()).await);
    });
    bench.engine.run().unwrap();
    assert_eq!(
        walks.take(),
        [Walk {
            visited: 2,
            woken: 1,
            marked: 1,
            newly_marked: 1,
            rest: None
        }]
    );
    let idle = FIRST_WALK + 2 * ENTRY + MARK + WAKE + LATENCY;
    assert_eq!(notes.take(), [("idle", false, idle), ("busy", true, 5000)]);
    assert_eq!(queue.entries(), 0, "entries go with their guards");
}

#[test]
fn an_entry_that_is_marked_costs_a_walk_no_second_mark() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let queue = WaitQueue::new(bench.engine.handle(), "q", wait, costs());
    let stands = queue.clone();
    bench.spawn("busy", 0, async move |cx| {
        let _standing = stands.stand(&cx, Sharing::Exclusive, 0);
        cx.charge(work, Ticks(10 * FIRST_WALK)).await;
    });
    let notes = Notes::new();
    let noted = notes.clone();
    bench.spawn("waker", 1, async move |cx| {
        cx.sleep(Ticks(FIRST_WALK)).await;
        for _ in 0..2 {
            let since = cx.now();
            queue.wake(&cx, WakeUp::one()).await;
            noted.add(cx.now().0 - since.0);
        }
    });
    bench.engine.run().unwrap();
    assert_eq!(notes.take(), [ENTRY + MARK, ENTRY]);
}

#[test]
fn a_wake_up_at_the_time_of_the_timeout_counts_if_it_comes_first() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let queue = WaitQueue::new(bench.engine.handle(), "q", wait, costs());
    let notes = Notes::new();
    let (waker, waiter, noted) = (queue.clone(), queue, notes.clone());
    bench.spawn("waker", 0, async move |cx| {
        cx.charge(work, Ticks(100)).await;
        waker.wake(&cx, WakeUp::all()).await;
    });
    bench.spawn("waiter", 1, async move |cx| {
        let waited = waiter
            .wait_timeout(&cx, Sharing::Shared, 0, Ticks(100))
            .await;
        noted.add((waited, cx.now().0));
    });
    bench.engine.run().unwrap();
    assert_eq!(notes.take(), [(WaitEnd::Woken, 100)]);
}

/// Costs of lines alone: 10 for each core between two.
fn line_costs(look: Look) -> WalkCosts {
    WalkCosts {
        line: Distance::by(|from, to| Ticks(10 * u64::from(from.0.abs_diff(to.0)))),
        look,
        ..WalkCosts::default()
    }
}

/// Walk times from cores 2, 3 and 3, past standing entries of cores 0 and 1.
fn walks_past_two(look: Look) -> Vec<u64> {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let queue = WaitQueue::new(bench.engine.handle(), "q", wait, line_costs(look));
    for core in [0, 1] {
        let queue = queue.clone();
        bench.spawn("stands", core, async move |cx| {
            cx.sleep(Ticks(core as u64 + 1)).await;
            let _standing = queue.stand(&cx, Sharing::Exclusive, core as u64);
            cx.charge(work, Ticks(10 * FIRST_WALK)).await;
        });
    }
    let notes = Notes::new();
    for (turn, core) in [(1, 2), (2, 3), (3, 3)] {
        let (queue, notes) = (queue.clone(), notes.clone());
        bench.spawn("walks", core, async move |cx| {
            cx.sleep(Ticks(turn * FIRST_WALK)).await;
            let since = cx.now();
            queue.wake(&cx, WakeUp::one()).await;
            notes.add(cx.now().0 - since.0);
        });
    }
    bench.engine.run().unwrap();
    notes.take()
}

#[test]
fn a_walk_that_changes_lines_takes_them_along() {
    // Core 1 came second: the first entry's pointer to its own lies in the first's line.
    assert_eq!(walks_past_two(Look::Changes), [10 + 10, 10 + 10, 0]);
}

#[test]
fn a_walk_that_reads_lines_has_them_for_its_cache() {
    let reads = |sharing| walks_past_two(Look::Reads { sharing });
    assert_eq!(reads(1), [10 + 10, 20 + 20, 0]);
    assert_eq!(reads(2), [10 + 10, 0, 0]);
    assert_eq!(reads(4), [0, 0, 0]);
    assert_eq!(reads(0), [10 + 10, 20 + 20, 20 + 20], "no cache is shared");
}

#[test]
fn a_refiled_entry_and_its_neighbours_have_to_be_fetched_again() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let queue = WaitQueue::new(
        bench.engine.handle(),
        "q",
        wait,
        line_costs(Look::Reads { sharing: 1 }),
    );
    let stands = queue.clone();
    bench.spawn("stands", 0, async move |cx| {
        let _standing = [0, 1, 2, 3].map(|key| stands.stand(&cx, Sharing::Exclusive, key));
        cx.charge(work, Ticks(10 * FIRST_WALK)).await;
    });
    let refiles = queue.clone();
    bench.spawn("refiles", 3, async move |cx| {
        cx.sleep(Ticks(2 * FIRST_WALK)).await;
        refiles.refile(&cx, 0);
    });
    let notes = Notes::new();
    let noted = notes.clone();
    bench.spawn("walks", 1, async move |cx| {
        for _ in 0..3 {
            cx.sleep(Ticks(FIRST_WALK + FIRST_WALK / 3)).await;
            let since = cx.now();
            queue.wake(&cx, WakeUp::one()).await;
            noted.add(cx.now().0 - since.0);
        }
    });
    bench.engine.run().unwrap();
    assert_eq!(notes.take(), [4 * 10, 2 * 20, 0]);
}

#[test]
fn a_walk_in_parts_comes_by_every_entry_once() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let queue = WaitQueue::new(bench.engine.handle(), "q", wait, costs());
    let stands = queue.clone();
    bench.spawn("stands", 0, async move |cx| {
        let _standing = [(); 5].map(|()| stands.stand(&cx, Sharing::Exclusive, 0));
        cx.charge(work, Ticks(10 * FIRST_WALK)).await;
    });
    let notes = Notes::new();
    let noted = notes.clone();
    bench.spawn("walks", 1, async move |cx| {
        cx.sleep(Ticks(FIRST_WALK)).await;
        let mut rest = Some(0);
        while let Some(from) = rest {
            let walk = queue.wake(&cx, WakeUp::one().part(from, 2)).await;
            noted.add((walk.visited, walk.newly_marked, walk.rest));
            rest = walk.rest;
        }
    });
    bench.engine.run().unwrap();
    assert_eq!(
        notes.take(),
        [(2, 2, Some(2)), (2, 2, Some(4)), (1, 1, None)]
    );
}
