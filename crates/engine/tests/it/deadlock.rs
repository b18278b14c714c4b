//! Texts of deadlocks.

use expect_test::{Expect, expect};
use pagetoll_engine::{
    CoreId, Distance, Ipi, IpiCosts, IpiTolls, RunError, Sharing, SpinLock, Ticks, Time, WaitQueue,
    WalkCosts,
};

use crate::Bench;

fn check(mut bench: Bench, expected: &Expect) {
    match bench.engine.run() {
        Err(RunError::Deadlock(deadlock)) => expected.assert_eq(&format!("{deadlock}\n")),
        other => panic!("no deadlock: {other:?}"),
    }
}

#[test]
fn two_locks_in_opposite_order() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let locks = ["first", "second"]
        .map(|name| SpinLock::new(bench.engine.handle(), name, wait, Distance::none()));
    for (i, name) in ["alice", "bob"].into_iter().enumerate() {
        let locks = locks.clone();
        bench.spawn(name, i, async move |cx| {
            let _mine = locks[i].acquire(&cx).await;
            cx.charge(work, Ticks(10)).await;
            let _yours = locks[1 - i].acquire(&cx).await;
        });
    }
    check(
        bench,
        &expect![[r"
            deadlock at 10: 2 tasks wait, nothing is pending
              alice (core 0) waits for spinlock `second`, held by bob
              bob (core 1) waits for spinlock `first`, held by alice
              cycle: alice -> bob -> alice
        "]],
    );
}

#[test]
fn a_lock_taken_twice() {
    let mut bench = Bench::small();
    let lock = SpinLock::new(bench.engine.handle(), "mmap", bench.wait, Distance::none());
    bench.spawn("forgetful", 5, async move |cx| {
        let _once = lock.acquire(&cx).await;
        let _twice = lock.acquire(&cx).await;
    });
    check(
        bench,
        &expect![[r"
            deadlock at 0: 1 task waits, nothing is pending
              forgetful (core 5) waits for spinlock `mmap`, held by forgetful
              cycle: forgetful -> forgetful
        "]],
    );
}

#[test]
fn an_acknowledgement_behind_a_mask() {
    let mut bench = Bench::small();
    let (work, wait) = (bench.work, bench.wait);
    let lock = SpinLock::new(bench.engine.handle(), "page_table", wait, Distance::none());
    let tolls = IpiTolls {
        send: work,
        wait,
        handle: work,
    };
    let ipi = Ipi::new(bench.engine.handle(), "flush", tolls, IpiCosts::default());
    let held = lock.clone();
    bench.spawn("flusher", 0, async move |cx| {
        let _guard = held.acquire(&cx).await;
        cx.charge(work, Ticks(100)).await;
        ipi.send_and_wait(&cx, &[CoreId(1), CoreId(2)], Ticks(10))
            .await;
    });
    bench.spawn("masker", 1, async move |cx| {
        let _mask = cx.mask_interrupts();
        let _guard = lock.acquire(&cx).await;
    });
    check(
        bench,
        &expect![[r"
            deadlock at 110: 2 tasks wait, nothing is pending
              flusher (core 0) waits for acknowledgements of interrupt `flush`, held by masker
              masker (core 1) waits for spinlock `page_table`, held by flusher
              cycle: flusher -> masker -> flusher
        "]],
    );
}

#[test]
fn a_task_behind_one_that_spins_on_its_core() {
    let mut bench = Bench::small();
    let wait = bench.wait;
    let lock = SpinLock::new(bench.engine.handle(), "s", wait, Distance::none());
    bench.spawn("sleeper", 0, async move |cx| cx.sleep(Ticks(10)).await);
    let s = lock.clone();
    bench.spawn("spinner", 0, async move |cx| {
        cx.sleep(Ticks(5)).await;
        let _lock = s.acquire(&cx).await;
    });
    bench.spawn("holder", 1, async move |cx| {
        let guard = lock.acquire(&cx).await;
        // What real code would not get away with: the lock stays held for good.
        std::mem::forget(guard);
    });
    check(
        bench,
        &expect![[r"
            deadlock at 10: 2 tasks wait, nothing is pending
              sleeper (core 0) waits for core 0, held by spinner
              spinner (core 0) waits for spinlock `s`, held by holder
        "]],
    );
}

#[test]
fn a_waiter_without_a_waker() {
    let mut bench = Bench::small();
    let queue = WaitQueue::new(
        bench.engine.handle(),
        "faults",
        bench.wait,
        WalkCosts::default(),
    );
    bench.spawn("waiter", 0, async move |cx| {
        queue.wait(&cx, Sharing::Exclusive, 0).await;
    });
    let expected = expect![[r"
        deadlock at 0: 1 task waits, nothing is pending
          waiter (core 0) waits for a wake-up from wait queue `faults`
    "]];
    check(bench, &expected);
}

#[test]
fn a_deadlock_is_found_at_the_limit_of_a_run() {
    let mut bench = Bench::small();
    let lock = SpinLock::new(bench.engine.handle(), "s", bench.wait, Distance::none());
    bench.spawn("forgetful", 0, async move |cx| {
        let _once = lock.acquire(&cx).await;
        let _twice = lock.acquire(&cx).await;
    });
    let error = bench.engine.run_until(Time(500)).unwrap_err();
    assert!(
        matches!(&error, RunError::Deadlock(deadlock) if deadlock.cycles.len() == 1),
        "{error}"
    );
    assert_eq!(
        bench.engine.run().unwrap_err().to_string(),
        error.to_string()
    );
}
