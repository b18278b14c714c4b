//! Records that the engine keeps of a run.

use pagetoll_engine::{
    CoreId, Engine, Record, Setup, SetupError, Statistics, Ticks, Time, Tolls, Total,
};

use crate::Bench;

#[test]
fn records_carry_time_task_and_toll() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let task = bench
        .engine
        .spawn("worker", CoreId(0), async move |cx| {
            cx.charge(work, Ticks(10)).await;
            cx.charge(wait, Ticks(0)).await;
            cx.sleep(Ticks(100)).await;
            cx.charge(work, Ticks(5)).await;
        })
        .unwrap();
    bench.engine.run().unwrap();
    let record = |at, ticks, toll| Record {
        at: Time(at),
        ticks: Ticks(ticks),
        task,
        toll,
    };
    let expected = [
        record(10, 10, work),
        record(10, 0, wait),
        record(115, 5, work),
    ];
    assert_eq!(bench.engine.records().collect::<Vec<_>>(), expected);
    let totals: Vec<_> = bench.engine.totals().collect();
    let total = |count, ticks| Total {
        count,
        ticks: Ticks(ticks),
    };
    assert_eq!(
        totals,
        [(task, work, total(2, 15)), (task, wait, total(1, 0))]
    );
    assert_eq!(bench.engine.name(task), "worker");
    let names: Vec<_> = bench.engine.tolls().iter().collect();
    assert_eq!(names, [(work, "work"), (wait, "wait")]);
}

/// An engine on each of whose cores a task has charged so many random times.
fn worked(setup: &Setup, charges: u32) -> Engine {
    let mut bench = Bench::new(setup);
    let work = bench.work;
    for core in 0..setup.cores as usize {
        bench.spawn("worker", core, async move |cx| {
            for _ in 0..charges {
                cx.charge(work, Ticks(cx.random_below(100))).await;
            }
        });
    }
    bench.engine.run().unwrap();
    bench.engine
}

#[test]
fn a_ring_that_is_too_small_loses_records_but_no_totals() {
    let run = |records| {
        let setup = Setup {
            tasks: 4,
            cores: 4,
            records,
            keep: Statistics::TotalsAndHash,
            ..Setup::default()
        };
        worked(&setup, 300)
    };
    let (small, large) = (run(100), run(5000));
    assert_eq!((small.records().len(), small.overwritten()), (100, 1100));
    assert_eq!((large.records().len(), large.overwritten()), (1200, 0));
    assert!(small.records().eq(large.records().skip(1100)));
    assert!(small.totals().eq(large.totals()));
    assert!(small.trace_hash().is_some());
    assert_eq!(small.trace_hash(), large.trace_hash());
}

#[test]
fn a_hash_that_is_not_kept_is_not_made_up() {
    let mut bench = Bench::new(&Setup::default());
    let work = bench.work;
    bench.spawn("worker", 0, async move |cx| {
        cx.charge(work, Ticks(1)).await;
    });
    bench.engine.run().unwrap();
    assert_eq!(bench.engine.trace_hash(), None);
}

#[test]
fn the_seed_decides() {
    let run = |seed| {
        let setup = Setup {
            cores: 10,
            seed,
            keep: Statistics::TotalsAndHash,
            ..Setup::default()
        };
        worked(&setup, 10).trace_hash().unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn an_engine_that_is_too_large_is_refused() {
    let setup = Setup {
        tasks: 1 << 30,
        cores: 1 << 30,
        ..Setup::default()
    };
    let mut tolls = Tolls::new();
    for name in ["a", "b", "c"] {
        tolls.register(name);
    }
    let error = Engine::new(&setup, tolls).err();
    let refused = SetupError::TooManyAccounts {
        tasks: 1 << 30,
        cores: 1 << 30,
        tolls: 3,
    };
    assert_eq!(error, Some(refused));
}
