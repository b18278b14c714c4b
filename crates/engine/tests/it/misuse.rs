//! Misuse by a task is an error with its name, never a hang.

use std::pin::pin;
use std::task::Poll;

use pagetoll_engine::{
    CoreId, Cx, Distance, Ipi, IpiCosts, IpiTolls, Misuse, RunError, SpinLock, Ticks, Time,
};

use crate::Bench;

/// Fault of a task called `culprit`, next to an innocent one.
fn fault(make: impl FnOnce(&mut Bench)) -> (Time, Misuse) {
    let mut bench = Bench::small();
    let work = bench.work;
    bench.spawn("innocent", 0, async move |cx| {
        for _ in 0..100 {
            cx.charge(work, Ticks(1)).await;
        }
    });
    make(&mut bench);
    let error = bench.engine.run().unwrap_err();
    assert_eq!(
        bench.engine.run(),
        Err(error.clone()),
        "the engine stays stopped"
    );
    match error {
        RunError::Misuse { task, at, misuse } => {
            assert_eq!(task, "culprit");
            (at, misuse)
        }
        RunError::Deadlock(deadlock) => panic!("{deadlock}"),
    }
}

#[test]
fn two_waits_at_once() {
    let found = fault(|bench| {
        let work = bench.work;
        bench.spawn("culprit", 1, async move |cx| {
            let (mut one, mut two) = (
                pin!(cx.charge(work, Ticks(5)).into_future()),
                pin!(cx.sleep(Ticks(5))),
            );
            std::future::poll_fn(|context| match one.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => two.as_mut().poll(context),
            })
            .await;
        });
    });
    assert_eq!(found, (Time(0), Misuse::TwoWaits));
}

/// Polls a wait once, and drops it.
async fn give_up_on(wait: impl Future<Output = ()>) {
    let mut wait = Box::pin(wait);
    std::future::poll_fn(|context| {
        assert!(wait.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

#[test]
fn a_wait_that_is_dropped() {
    for then_waits in [false, true] {
        let found = fault(|bench| {
            let work = bench.work;
            bench.spawn("culprit", 1, async move |cx| {
                give_up_on(cx.charge(work, Ticks(5)).into_future()).await;
                if then_waits {
                    cx.charge(work, Ticks(5)).await;
                }
            });
        });
        assert_eq!(found, (Time(0), Misuse::TwoWaits));
    }
}

#[test]
fn a_future_of_something_else() {
    let found = fault(|bench| {
        let work = bench.work;
        bench.spawn("culprit", 1, async move |cx| {
            cx.charge(work, Ticks(7)).await;
            std::future::pending::<()>().await;
        });
    });
    assert_eq!(found, (Time(7), Misuse::ForeignFuture));
}

#[test]
fn a_lock_of_another_engine() {
    let found = fault(|bench| {
        let other = Bench::small();
        let lock = SpinLock::new(other.engine.handle(), "lock", bench.wait, Distance::none());
        bench.spawn("culprit", 1, async move |cx| drop(lock.acquire(&cx).await));
    });
    assert_eq!(
        found,
        (Time(0), Misuse::ForeignPrimitive("spinlock `lock`".into()))
    );
}

#[test]
fn sleeping_with_a_spinlock_or_a_mask() {
    type Body = fn(&Cx) -> pagetoll_engine::InterruptMask<'_>;
    let masks: Body = Cx::mask_interrupts;
    for with_mask in [false, true] {
        let found = fault(|bench| {
            let handle = bench.engine.handle().clone();
            let lock = SpinLock::new(&handle, "lock", bench.wait, Distance::none());
            bench.spawn("culprit", 1, async move |cx| {
                if with_mask {
                    let _mask = masks(&cx);
                    cx.sleep(Ticks(5)).await;
                } else {
                    let _guard = lock.acquire(&cx).await;
                    cx.sleep(Ticks(5)).await;
                }
            });
        });
        assert_eq!(found, (Time(0), Misuse::SleepsInAtomic));
    }
}

#[test]
fn the_end_of_time() {
    for sleeps in [false, true] {
        let found = fault(|bench| {
            let work = bench.work;
            bench.spawn("culprit", 1, async move |cx| {
                cx.charge(work, Ticks(3)).await;
                if sleeps {
                    cx.sleep(Ticks(u64::MAX)).await;
                } else {
                    cx.charge(work, Ticks(u64::MAX)).await;
                }
            });
        });
        assert_eq!(found, (Time(3), Misuse::TimeOverflow));
    }
}

#[test]
fn an_interrupt_to_nowhere() {
    let found = fault(|bench| {
        let tolls = IpiTolls {
            send: bench.work,
            wait: bench.wait,
            handle: bench.work,
        };
        let ipi = Ipi::new(bench.engine.handle(), "ipi", tolls, IpiCosts::default());
        bench.spawn("culprit", 1, async move |cx| {
            ipi.send_and_wait(&cx, &[CoreId(0), CoreId(64)], Ticks(1))
                .await;
        });
    });
    assert_eq!(found, (Time(0), Misuse::NoSuchCore(CoreId(64))));
}

#[test]
fn errors_read_well() {
    let error = RunError::Misuse {
        task: "a".into(),
        at: Time(3),
        misuse: Misuse::SleepsInAtomic,
    };
    let text = "task `a` at 3: sleeps while it holds a spinlock or masks interrupts";
    assert_eq!(error.to_string(), text);
}
