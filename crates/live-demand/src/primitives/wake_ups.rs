//! One thread wakes another: what it costs the waker, and until the woken one runs.
//!
//! By eventfds, whose own work is little and is measured too. A thread that waits for an answer sleeps, so that its CPU
//! is idle when it is woken: where an idle CPU leaves for a hypervisor, that is in it, as it is in a pager's wake-ups.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_backend::Stopped;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, retry_on_intr, write};

use super::estimate::median;
use super::round::{Round, each_takes, nanoseconds};
use super::{Group, Primitive};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::vcpus::place;

pub(super) const GROUP: Group = Group {
    name: "wake-ups",
    measure,
    primitives: &[
        Primitive::EventfdWrite,
        Primitive::EventfdRead,
        Primitive::EventfdWake,
        Primitive::EventfdWakeOther,
        Primitive::OneWaySameCpu,
        Primitive::OneWayOtherCpu,
    ],
};

/// Calls of a burst without waiters.
const CALLS: u64 = 2048;
/// Wake-ups of a round.
const WAKE_UPS: usize = 64;
/// How long a thread may take to fall asleep again. Assumed.
const SETTLE: Duration = Duration::from_micros(100);
/// Threads of one CPU that are woken one after the other, and how long they may take to fall asleep. Assumed.
const SLEEPERS: u64 = 32;
const ALL_ASLEEP: Duration = Duration::from_millis(3);
/// Ends the other thread.
const END: u64 = 1 << 32;

fn measure(round: &mut Round<'_>) -> Result<(), LiveError> {
    alone(round)?;
    let cpus = round.cpus.apart();
    round.note(Primitive::OneWaySameCpu, one_way(cpus.0, cpus.0)?);
    round.note(Primitive::EventfdWake, waking_here(cpus.0)?);
    if cpus.0 == cpus.1 {
        for primitive in [Primitive::OneWayOtherCpu, Primitive::EventfdWakeOther] {
            round.lacks(primitive, "this process may use one CPU only");
        }
        return Ok(());
    }
    round.note(Primitive::OneWayOtherCpu, one_way(cpus.0, cpus.1)?);
    round.note(Primitive::EventfdWakeOther, waking(cpus.0, cpus.1)?);
    Ok(())
}

/// Writes and reads without waiters.
fn alone(round: &mut Round<'_>) -> Result<(), LiveError> {
    let event = Event::new(EventfdFlags::SEMAPHORE)?;
    let write = each_takes(CALLS, || (0..CALLS).try_for_each(|_| event.write(1)))?;
    let read = each_takes(CALLS, || {
        (0..CALLS).try_for_each(|_| event.read().map(drop))
    })?;
    round.note(Primitive::EventfdWrite, write);
    round.note(Primitive::EventfdRead, read);
    Ok(())
}

/// Half of the way there and back.
fn one_way(here: usize, there: usize) -> Result<f64, LiveError> {
    let (ask, answer) = (
        Event::new(EventfdFlags::empty())?,
        Event::new(EventfdFlags::empty())?,
    );
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let pinned = place::pin(Some(there));
            while ask.read()? < END {
                answer.write(1)?;
            }
            pinned
        });
        let asking = scope.spawn(|| {
            let times = place::pin(Some(here)).and_then(|()| ask_again(&ask, &answer));
            ask.write(END)?;
            times
        });
        let times = joined(asking)?;
        joined(other)?;
        Ok(median(&times) / 2.0)
    })
}

fn ask_again(ask: &Event, answer: &Event) -> Result<Vec<f64>, LiveError> {
    let once = |_| {
        let began = Instant::now();
        ask.write(1)?;
        answer.read()?;
        Ok(nanoseconds(began.elapsed()))
    };
    (0..WAKE_UPS).map(once).collect()
}

/// What a write takes that wakes a thread of the same CPU: of the writer's time, so that it may lose the CPU at once.
fn waking_here(cpu: usize) -> Result<f64, LiveError> {
    let events: Result<Vec<Event>, _> = (0..SLEEPERS)
        .map(|_| Event::new(EventfdFlags::empty()))
        .collect();
    let events = events?;
    thread::scope(|scope| {
        let sleepers: Vec<_> = events
            .iter()
            .map(|event| {
                scope.spawn(move || {
                    place::pin(Some(cpu))?;
                    event.read().map(drop)
                })
            })
            .collect();
        let waker = scope.spawn(|| {
            let pinned = place::pin(Some(cpu));
            thread::sleep(ALL_ASLEEP);
            let took = each_takes(SLEEPERS, || {
                events.iter().try_for_each(|event| event.write(1))
            });
            pinned.and(took)
        });
        let took = joined(waker)?;
        sleepers.into_iter().try_for_each(joined)?;
        Ok(took)
    })
}

/// What a write takes that wakes a thread on another CPU.
fn waking(here: usize, there: usize) -> Result<f64, LiveError> {
    let (event, woken) = (Event::new(EventfdFlags::empty())?, AtomicU64::new(0));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let pinned = place::pin(Some(there));
            while event.read()? < END {
                woken.fetch_add(1, Ordering::SeqCst);
            }
            pinned
        });
        let waker = scope.spawn(|| {
            let times = place::pin(Some(here)).and_then(|()| wake_again(&event, &woken));
            event.write(END)?;
            times
        });
        let times = joined(waker)?;
        joined(sleeper)?;
        Ok(median(&times))
    })
}

fn wake_again(event: &Event, woken: &AtomicU64) -> Result<Vec<f64>, LiveError> {
    let mut times = Vec::with_capacity(WAKE_UPS);
    for before in 0..WAKE_UPS as u64 {
        thread::sleep(SETTLE);
        let began = Instant::now();
        event.write(1)?;
        times.push(nanoseconds(began.elapsed()));
        while woken.load(Ordering::SeqCst) == before {
            thread::yield_now();
        }
    }
    Ok(times)
}

/// The result of a thread, none of which panics.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T, LiveError>>) -> Result<T, LiveError> {
    thread.join().unwrap_or(Err(Stopped.into()))
}

/// An eventfd whose reads block while it is 0.
struct Event(OwnedFd);

impl Event {
    fn new(flags: EventfdFlags) -> Result<Self, LiveError> {
        let new = eventfd(0, flags | EventfdFlags::CLOEXEC);
        Ok(Self(new.map_err(LiveError::system("eventfd"))?))
    }

    fn write(&self, value: u64) -> Result<(), LiveError> {
        let written = retry_on_intr(|| write(&self.0, &value.to_ne_bytes()));
        written
            .map(drop)
            .map_err(LiveError::system("write to an eventfd"))
    }

    fn read(&self) -> Result<u64, LiveError> {
        let mut value = [0; 8];
        let got = retry_on_intr(|| read(&self.0, &mut value));
        got.map_err(LiveError::system("read of an eventfd"))?;
        Ok(u64::from_ne_bytes(value))
    }
}
