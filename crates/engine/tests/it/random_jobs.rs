//! Random jobs that mix everything give the traces that they always gave.

use std::rc::Rc;

use pagetoll_engine::{
    Arbitration, CacheLine, CoreId, Cx, Distance, Ipi, IpiCosts, IpiTolls, LineCosts, Look,
    RunError, Setup, Sharing, SpinLock, Statistics, TicketCosts, TicketLock, Ticks, Time, Toll,
    Total, WaitQueue, WakeUp, WalkCosts,
};

use crate::{Bench, along_a_line};

const JOBS: u64 = 1000;
/// The digest of the traces of all jobs. A binary heap in place of the timer queue gave the same one.
const DIGEST: u64 = 0x7742_bbad_c5fe_4d50;
const CORES: u32 = 12;

/// Every primitive, shared by all jobs.
struct World {
    work: Toll,
    spin: SpinLock,
    ticket: TicketLock,
    queue: WaitQueue,
    ipi: Ipi,
    near: CacheLine,
    fifo: CacheLine,
}

impl World {
    fn new(bench: &Bench) -> Self {
        let (work, wait, handle) = (bench.work, bench.wait, bench.engine.handle());
        let near = || along_a_line(3);
        let line = |name, arbitration| {
            let costs = LineCosts {
                hit: Ticks(1),
                transfer: near(),
                arbitration,
            };
            CacheLine::new(handle, name, wait, costs)
        };
        let ticket = TicketCosts {
            hand_off: Distance::none(),
            refetch: Ticks(3),
        };
        let walk = WalkCosts {
            entry: Ticks(4),
            line: Distance::none(),
            look: Look::Changes,
            mark: Distance::by(|_, _| Ticks(2)),
            wake: Ticks(10),
            latency: near(),
        };
        let tolls = IpiTolls {
            send: work,
            wait,
            handle: wait,
        };
        let costs = IpiCosts {
            send: Ticks(2),
            flight: near(),
            acknowledge: near(),
        };
        Self {
            work,
            spin: SpinLock::new(handle, "spin", wait, near()),
            ticket: TicketLock::new(handle, "ticket", wait, ticket),
            queue: WaitQueue::new(handle, "queue", wait, walk),
            ipi: Ipi::new(handle, "ipi", tolls, costs),
            near: line("near", Arbitration::NearFirst { bound: 2 }),
            fifo: line("fifo", Arbitration::Fifo),
        }
    }

    async fn work(&self, cx: &Cx) {
        let most = [2, 50, 500, 5000][usize::try_from(cx.random_below(4)).unwrap()];
        cx.charge(self.work, Ticks(cx.random_below(most))).await;
    }

    /// Does one random thing.
    async fn step(&self, cx: &Cx) {
        match cx.random_below(13) {
            0 => cx.sleep(Ticks(cx.random_below(2000))).await,
            1 => cx.yield_core().await,
            2 => self.near.access(cx).await,
            3 => self.fifo.access(cx).await,
            4 => self.send(cx).await,
            5 => drop(
                self.queue
                    .wake(
                        cx,
                        WakeUp {
                            exclusive: 2,
                            ..WakeUp::all().keyed(0..=2)
                        },
                    )
                    .await,
            ),
            6 => drop(self.queue.wake(cx, WakeUp::all()).await),
            7 => self.stand(cx).await,
            8 | 9 => self.wait(cx).await,
            10 => self.spin(cx).await,
            _ => self.work(cx).await,
        }
    }

    async fn send(&self, cx: &Cx) {
        let first = u32::try_from(cx.random_below(u64::from(CORES - 2))).unwrap();
        let targets = [CoreId(first), CoreId(first + 2)];
        self.ipi
            .send_and_wait(cx, &targets, Ticks(cx.random_below(60)))
            .await;
    }

    async fn wait(&self, cx: &Cx) {
        let sharing =
            [Sharing::Shared, Sharing::Exclusive][usize::try_from(cx.random_below(2)).unwrap()];
        let key = cx.random_below(5);
        self.queue
            .wait_timeout(cx, sharing, key, Ticks(cx.random_below(3000)))
            .await;
    }

    async fn stand(&self, cx: &Cx) {
        let standing = self.queue.stand(cx, Sharing::Exclusive, 1);
        self.work(cx).await;
        // Without a wake-up in between it may wait for good: then all say so.
        if cx.random_below(50) == 0 {
            standing.wait().await;
        }
    }

    async fn spin(&self, cx: &Cx) {
        let mask = (cx.random_below(2) == 0).then(|| cx.mask_interrupts());
        let outer = self.spin.acquire(cx).await;
        self.work(cx).await;
        if cx.random_below(3) == 0 {
            let _inner = self.ticket.acquire(cx).await;
            self.near.access(cx).await;
        }
        drop(outer);
        drop(mask);
    }
}

/// Complete result of a run.
#[derive(Debug, PartialEq)]
struct Trace {
    end: Result<Time, RunError>,
    hash: u64,
    records: usize,
    totals: Vec<Total>,
}

fn run(seed: u64) -> Trace {
    let tasks = 1 + u32::try_from(seed % 40).unwrap();
    let setup = Setup {
        tasks,
        cores: CORES,
        records: 512,
        keep: Statistics::TotalsAndHash,
        seed,
    };
    let mut bench = Bench::new(&setup);
    let world = Rc::new(World::new(&bench));
    for task in 0..tasks {
        let world = Rc::clone(&world);
        // Every other job gives each of its first tasks a core of its own.
        let core = if seed.is_multiple_of(2) {
            task % CORES
        } else {
            task * task % CORES
        };
        bench.spawn(&format!("task {task}"), core as usize, async move |cx| {
            for _ in 0..12 {
                world.step(&cx).await;
            }
        });
    }
    let end = bench.engine.run();
    let totals = bench.engine.totals().map(|paid| paid.2).collect();
    Trace {
        end,
        hash: bench.engine.trace_hash().unwrap(),
        records: bench.engine.records().len(),
        totals,
    }
}

#[test]
fn the_traces_are_those_of_the_heap() {
    let (mut finished, mut stuck) = (0, 0);
    let mut digest = 0_u64;
    for seed in 0..JOBS {
        let trace = run(seed);
        digest = digest.rotate_left(1) ^ trace.hash;
        match trace.end {
            Ok(_) => finished += 1,
            Err(RunError::Deadlock(_)) => stuck += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(
        finished > JOBS / 2 && stuck > 0,
        "{finished} finished, {stuck} stuck"
    );
    assert_eq!(digest, DIGEST, "{digest:#x}");
}

#[test]
fn runs_repeat() {
    for seed in 0..50 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
