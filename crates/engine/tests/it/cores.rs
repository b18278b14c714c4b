//! Tasks that share a core, sleeps, and runs in pieces.

use std::collections::VecDeque;

use pagetoll_engine::{CoreId, Progress, Setup, SpawnError, Ticks, Time};
use proptest::prelude::*;

use crate::{Bench, Notes};

/// Computes and sleeps in turn.
type Script = Vec<(u64, u64)>;

/// A core, its queue and what is due, in order of time and then of entry.
#[derive(Default)]
struct Oracle {
    now: u64,
    entered: u64,
    /// Time, number of the entry, task, and whether it comes from a sleep.
    due: Vec<(u64, u64, usize, bool)>,
    queue: VecDeque<usize>,
    occupant: Option<usize>,
    ends: Vec<(usize, u64)>,
}

impl Oracle {
    fn enter(&mut self, after: u64, task: usize, sleeps: bool) {
        self.entered += 1;
        self.due
            .push((self.now + after, self.entered, task, sleeps));
    }

    fn schedule(&mut self, scripts: &mut [VecDeque<(u64, u64)>]) {
        while self.occupant.is_none() {
            let Some(task) = self.queue.pop_front() else {
                return;
            };
            match scripts[task].front() {
                None => self.ends.push((task, self.now)),
                Some(&(computes, _)) => {
                    self.occupant = Some(task);
                    self.enter(computes, task, false);
                }
            }
        }
    }

    fn run(mut self, scripts: &[Script]) -> Vec<(usize, u64)> {
        let mut scripts: Vec<VecDeque<_>> = scripts
            .iter()
            .map(|s| s.iter().copied().collect())
            .collect();
        self.queue = (0..scripts.len()).collect();
        self.schedule(&mut scripts);
        while let Some(i) = (0..self.due.len()).min_by_key(|&i| self.due[i]) {
            let (at, _, task, from_sleep) = self.due.remove(i);
            self.now = at;
            if from_sleep {
                self.queue.push_back(task);
            } else {
                self.occupant = None;
                let (_, sleeps) = scripts[task].pop_front().unwrap();
                self.enter(sleeps, task, true);
            }
            self.schedule(&mut scripts);
        }
        self.ends
    }
}

proptest! {
    #[test]
    fn a_shared_core_follows_the_oracle(
        scripts in prop::collection::vec(prop::collection::vec((1..20u64, 1..20u64), 0..5), 1..8),
    ) {
        let mut bench = Bench::small();
        let work = bench.work;
        let ends = Notes::new();
        for (i, script) in scripts.iter().cloned().enumerate() {
            let ends = ends.clone();
            bench.spawn("task", 0, async move |cx| {
                for (computes, sleeps) in script {
                    cx.charge(work, Ticks(computes)).await;
                    cx.sleep(Ticks(sleeps)).await;
                }
                ends.add((i, cx.now().0));
            });
        }
        bench.engine.run().unwrap();
        prop_assert_eq!(ends.take(), Oracle::default().run(&scripts));
    }
}

#[test]
fn tasks_that_yield_take_turns() {
    let mut bench = Bench::small();
    let (work, order) = (bench.work, Notes::new());
    for name in ["a", "b", "c"] {
        let order = order.clone();
        bench.spawn(name, 0, async move |cx| {
            for _ in 0..2 {
                cx.charge(work, Ticks(1)).await;
                order.add((name, cx.now().0));
                cx.yield_core().await;
            }
        });
    }
    bench.engine.run().unwrap();
    assert_eq!(
        order.take(),
        [("a", 1), ("b", 2), ("c", 3), ("a", 4), ("b", 5), ("c", 6)]
    );
}

#[test]
fn a_run_can_pause_and_go_on() {
    let mut bench = Bench::small();
    let (work, notes) = (bench.work, Notes::new());
    for core in 0..20 {
        let notes = notes.clone();
        bench.spawn("task", core, async move |cx| {
            for _ in 0..3 {
                cx.charge(work, Ticks(10)).await;
                notes.add(cx.now().0);
            }
        });
    }
    let engine = &mut bench.engine;
    assert_eq!(engine.run_until(Time(9)), Ok(Progress::Paused(Time(9))));
    assert_eq!(notes.take().len(), 0);
    assert_eq!(engine.run_until(Time(20)), Ok(Progress::Paused(Time(20))));
    assert_eq!(notes.take().len(), 40, "what is due at the limit is done");
    assert_eq!(
        engine.run_until(Time(5)),
        Ok(Progress::Paused(Time(20))),
        "time does not go back"
    );
    assert_eq!(
        engine.run_until(Time(1000)),
        Ok(Progress::Finished(Time(30)))
    );
    assert_eq!(notes.take(), [30; 20]);
}

#[test]
fn pausing_leaves_no_trace() {
    let run = |pauses: &[u64]| {
        let mut bench = Bench::small();
        let work = bench.work;
        for core in 0..40 {
            bench.spawn("task", core % 7, async move |cx| {
                for _ in 0..20 {
                    cx.charge(work, Ticks(cx.random_below(50))).await;
                    cx.sleep(Ticks(cx.random_below(3000))).await;
                }
            });
        }
        for &pause in pauses {
            bench.engine.run_until(Time(pause)).unwrap();
        }
        (
            bench.engine.run().unwrap(),
            bench.engine.trace_hash().unwrap(),
        )
    };
    assert_eq!(run(&[]), run(&[0, 1, 777, 778, 5000, 20_000]));
}

#[test]
fn tasks_can_spawn_tasks_until_there_is_no_room() {
    let setup = Setup {
        tasks: 3,
        cores: 2,
        ..Setup::default()
    };
    let mut bench = Bench::new(&setup);
    let (work, notes) = (bench.work, Notes::new());
    let noted = notes.clone();
    bench.spawn("parent", 0, async move |cx| {
        cx.charge(work, Ticks(5)).await;
        for core in [0, 1] {
            let noted = noted.clone();
            let child = async move |cx: pagetoll_engine::Cx| {
                cx.charge(work, Ticks(3)).await;
                noted.add((cx.core(), cx.now().0));
            };
            cx.spawn("child", CoreId(core), child).unwrap();
        }
        assert_eq!(
            cx.spawn("one too many", CoreId(0), async |_| {}),
            Err(SpawnError::Full(3))
        );
        cx.charge(work, Ticks(10)).await;
    });
    let nowhere = bench.engine.spawn("nowhere", CoreId(2), async |_| {});
    assert_eq!(
        nowhere,
        Err(SpawnError::NoSuchCore {
            core: CoreId(2),
            cores: 2
        })
    );
    bench.engine.run().unwrap();
    assert_eq!(notes.take(), [(CoreId(1), 8), (CoreId(0), 18)]);
}

#[test]
fn an_engine_without_tasks_is_done() {
    let mut bench = Bench::small();
    assert_eq!(
        bench.engine.run_until(Time(5)),
        Ok(Progress::Finished(Time(0)))
    );
}
