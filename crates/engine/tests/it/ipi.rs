//! Interrupts against arithmetic per core, stalls, and masks.

use pagetoll_engine::{CoreId, Ipi, IpiCosts, IpiTolls, Ticks};
use proptest::prelude::*;

use crate::{Bench, Notes, along_a_line};

const FLIGHT: u64 = 3;
const SENDERS: usize = 6;

#[derive(Clone, Debug)]
struct Shot {
    at: u64,
    targets: Vec<u32>,
    handling: u64,
}

fn shots() -> impl Strategy<Value = Vec<Shot>> {
    let targets = prop::sample::subsequence((6..12u32).collect::<Vec<_>>(), 1..6);
    let shot = (1..100u64, targets, 0..40u64);
    let shot = shot.prop_map(|(at, targets, handling)| Shot {
        at,
        targets,
        handling,
    });
    prop::collection::vec(shot, 1..SENDERS)
}

/// Time at which each sender has all acknowledgements. Sender `i` is on core `i`; sending takes no time.
fn oracle(shots: &[Shot], flight: u64) -> Vec<u64> {
    let mut ends: Vec<u64> = shots.iter().map(|shot| shot.at).collect();
    for core in 6..12u32 {
        let away = |sender: usize| u64::from(core) - sender as u64;
        let mut arrivals: Vec<(u64, u64, usize)> = Vec::new();
        for (i, shot) in shots
            .iter()
            .enumerate()
            .filter(|(_, shot)| shot.targets.contains(&core))
        {
            arrivals.push((shot.at + away(i) * flight, shot.at, i));
        }
        arrivals.sort_unstable();
        let mut free_at = 0;
        for (arrival, _, i) in arrivals {
            free_at = free_at.max(arrival) + shots[i].handling;
            ends[i] = ends[i].max(free_at + away(i));
        }
    }
    ends
}

fn ipi(bench: &Bench, send: u64, flight: u64) -> Ipi {
    let tolls = IpiTolls {
        send: bench.work,
        wait: bench.wait,
        handle: bench.work,
    };
    let (flight, acknowledge) = (along_a_line(flight), along_a_line(1));
    let costs = IpiCosts {
        send: Ticks(send),
        flight,
        acknowledge,
    };
    Ipi::new(bench.engine.handle(), "flush", tolls, costs)
}

proptest! {
    #[test]
    fn acknowledgements_follow_the_oracle(shots in shots(), flight in prop_oneof![Just(0), Just(FLIGHT)]) {
        let mut bench = Bench::small();
        let work = bench.work;
        let ipi = ipi(&bench, 0, flight);
        let notes = Notes::new();
        for (i, shot) in shots.iter().cloned().enumerate() {
            let (ipi, notes) = (ipi.clone(), notes.clone());
            bench.spawn("sender", i, async move |cx| {
                cx.charge(work, Ticks(shot.at)).await;
                let targets: Vec<_> = shot.targets.iter().copied().map(CoreId).collect();
                ipi.send_and_wait(&cx, &targets, Ticks(shot.handling)).await;
                notes.add((i, cx.now().0));
            });
        }
        bench.engine.run().unwrap();
        let mut ends = notes.take();
        ends.sort_unstable();
        prop_assert_eq!(ends, oracle(&shots, flight).into_iter().enumerate().collect::<Vec<_>>());
        let handled: u64 = shots.iter().map(|shot| shot.targets.len() as u64 * shot.handling).sum();
        let cores = (6..12).map(|core| bench.engine.interrupts_of(CoreId(core)));
        let paid: u64 = cores.map(|core| bench.engine.total(core, work).ticks.0).sum();
        prop_assert_eq!(paid, handled);
    }
}

#[test]
fn what_runs_on_a_target_stands_still() {
    let mut bench = Bench::small();
    let (work, notes) = (bench.work, Notes::new());
    let ipi = ipi(&bench, 10, FLIGHT);
    let sent = ipi.clone();
    bench.spawn("sender", 0, async move |cx| {
        sent.send_and_wait(&cx, &[CoreId(1), CoreId(2)], Ticks(50))
            .await;
        // Sent at 10 and 20, there at 13 and 26, handled until 76, acknowledged 2 later.
        assert_eq!(cx.now().0, 78);
    });
    for core in [1, 2] {
        let notes = notes.clone();
        bench.spawn("victim", core, async move |cx| {
            cx.charge(work, Ticks(20)).await;
            notes.add((core, cx.now().0));
            cx.charge(work, Ticks(10)).await;
            notes.add((core, cx.now().0));
        });
    }
    bench.engine.run().unwrap();
    // Core 1 is interrupted in its first charge, core 2 in its second.
    assert_eq!(notes.take(), [(2, 20), (1, 70), (2, 80), (1, 80)]);
    assert_eq!(
        bench.engine.name(bench.engine.interrupts_of(CoreId(2))),
        "core 2"
    );
}

#[test]
fn a_masked_core_handles_later() {
    let mut bench = Bench::small();
    let (work, ends) = (bench.work, Notes::new());
    let (ipi, noted) = (ipi(&bench, 0, FLIGHT), ends.clone());
    bench.spawn("masker", 1, async move |cx| {
        let mask = cx.mask_interrupts();
        cx.charge(work, Ticks(100)).await;
        drop(mask);
        cx.charge(work, Ticks(1)).await;
        noted.add(("masker", cx.now().0));
    });
    let noted = ends.clone();
    bench.spawn("sender", 0, async move |cx| {
        ipi.send_and_wait(&cx, &[CoreId(1)], Ticks(50)).await;
        noted.add(("sender", cx.now().0));
        ipi.send_and_wait(&cx, &[], Ticks(50)).await;
        assert_eq!(cx.now().0, 151);
    });
    bench.engine.run().unwrap();
    assert_eq!(ends.take(), [("masker", 151), ("sender", 151)]);
}

#[test]
fn a_sender_can_interrupt_its_own_core() {
    let mut bench = Bench::small();
    let ipi = ipi(&bench, 2, FLIGHT);
    bench.spawn("sender", 4, async move |cx| {
        ipi.send_and_wait(&cx, &[CoreId(4), CoreId(4)], Ticks(10))
            .await;
        // The second is sent when the first has been handled: 2 + 10 + 2 + 10.
        assert_eq!(cx.now().0, 24);
    });
    bench.engine.run().unwrap();
}
