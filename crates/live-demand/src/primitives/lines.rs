//! Cache lines that CPUs take from each other.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use pagetoll_backend::Stopped;
use pagetoll_cost::Nearness;

use super::estimate::median;
use super::round::{Round, nanoseconds};
use super::{Group, Primitive};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::vcpus::place;

pub(super) const GROUP: Group = Group {
    name: "cache lines",
    measure,
    primitives: &[Primitive::LineHit],
};

/// A line alone: CPUs fetch neighbouring lines in pairs (Intel optimization manual, spatial prefetcher).
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

/// Lines that change hands at once: 32 KiB with their neighbours, which a first-level cache holds.
const LINES: usize = 256;
/// Coprime to the number of lines: an order that no prefetcher follows.
const STRIDE: usize = 97;
/// How often they do, in a round.
const TIMES: usize = 9;
/// Additions of each thread to a contended line, in a burst.
const ADDITIONS: u64 = 20_000;
/// Looks at whose turn it is before the CPU is offered to others: longer than the other thread works. Assumed.
const PATIENCE: u64 = 10_000;
/// Whose turn it is when the other thread could not be put where it should be.
const GIVEN_UP: u64 = u64::MAX;

/// The ways in which two CPUs can be apart.
const APART: [Nearness; 4] = [
    Nearness::Core,
    Nearness::L3,
    Nearness::Socket,
    Nearness::Machine,
];

fn measure(round: &mut Round<'_>) -> Result<(), LiveError> {
    let mut hits = Vec::new();
    for nearness in APART {
        match round.cpus.pair(nearness) {
            None => round.lacks(
                Primitive::LineFrom(nearness),
                "this process may use no two CPUs that lie so",
            ),
            Some(cpus) => {
                let taken = taken_over(cpus.0, cpus.1)?;
                hits.push(taken.hit);
                round.note(Primitive::LineFrom(nearness), taken.moved);
            }
        }
    }
    for threads in round.cpus.thread_counts() {
        let each = contended(round.cpus.first(threads))?;
        round.note(Primitive::Contended(threads), each);
    }
    match hits.is_empty() {
        true => round.lacks(Primitive::LineHit, "this process may use one CPU only"),
        false => round.note(Primitive::LineHit, median(&hits)),
    }
    Ok(())
}

/// What an addition takes, in nanoseconds.
struct Taken {
    /// To a line that another CPU has just written.
    moved: f64,
    /// To a line that the CPU has just written itself.
    hit: f64,
}

/// One thread writes all lines, then the other one does, twice; by turns.
fn taken_over(one: usize, other: usize) -> Result<Taken, LiveError> {
    let lines: Vec<Line> = (0..LINES).map(|_| Line::default()).collect();
    let turn = Line::default();
    thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let pinned = place::pin(Some(one));
            for time in 0..TIMES as u64 {
                if wait_for(&turn, 2 * time) == GIVEN_UP {
                    break;
                }
                pass(&lines);
                turn.0.store(2 * time + 1, Ordering::Release);
            }
            pinned
        });
        let taker = scope.spawn(|| {
            if let Err(error) = place::pin(Some(other)) {
                turn.0.store(GIVEN_UP, Ordering::Release);
                return Err(error);
            }
            let mut times = (Vec::new(), Vec::new());
            for time in 0..TIMES as u64 {
                wait_for(&turn, 2 * time + 1);
                times.0.push(pass(&lines));
                times.1.push(pass(&lines));
                turn.0.store(2 * time + 2, Ordering::Release);
            }
            Ok(times)
        });
        let taken = taker.join().unwrap_or(Err(Stopped.into()));
        owner.join().unwrap_or(Err(Stopped.into()))?;
        let (moved, hit) = taken?;
        Ok(Taken {
            moved: median(&moved),
            hit: median(&hit),
        })
    })
}

/// Adds to every line; the time of one addition. A locked addition waits for the one before it.
fn pass(lines: &[Line]) -> f64 {
    let began = Instant::now();
    for index in 0..lines.len() {
        let line = &lines[index * STRIDE % lines.len()];
        line.0.fetch_add(1, Ordering::SeqCst);
    }
    nanoseconds(began.elapsed()) / lines.len() as f64
}

/// Waits until it is this turn, or until the other thread gave up. Who waits for long lets others have the CPU: the
/// other thread may not have left it yet.
fn wait_for(turn: &Line, wanted: u64) -> u64 {
    for spins in 0_u64.. {
        let found = turn.0.load(Ordering::Acquire);
        if found == wanted || found == GIVEN_UP {
            return found;
        }
        match (spins + 1) % PATIENCE {
            0 => thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
    GIVEN_UP
}

/// The time of one addition when a thread on each of these CPUs adds to the same line.
fn contended(cpus: &[usize]) -> Result<f64, LiveError> {
    let (line, barrier) = (Line::default(), Barrier::new(cpus.len()));
    let add = |cpu: usize| {
        let pinned = place::pin(Some(cpu));
        barrier.wait();
        let began = Instant::now();
        for _ in 0..ADDITIONS {
            line.0.fetch_add(1, Ordering::SeqCst);
        }
        pinned.map(|()| (began, Instant::now()))
    };
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let add = &add;
        let threads: Vec<_> = cpus
            .iter()
            .map(|&cpu| scope.spawn(move || add(cpu)))
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(Stopped.into())));
        ended.collect::<Result<_, _>>()
    })?;
    let began = times.iter().map(|time| time.0).min();
    let ended = times.iter().map(|time| time.1).max();
    let wall = began
        .zip(ended)
        .map_or(0.0, |(began, ended)| nanoseconds(ended - began));
    Ok(wall / (ADDITIONS * cpus.len() as u64) as f64)
}
