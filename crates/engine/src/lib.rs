//! A single-threaded virtual-time engine for coroutines.
//!
//! Tasks are async functions that run on simulated cores. What they do takes virtual time only where
//! they say so: they [charge](Cx::charge) it under a [`Toll`], and spin, sleep and queue in the
//! primitives below, each of which records what waiting has cost. The unit of time is the caller's.
//!
//! | | waits | order | costs |
//! |---|---|---|---|
//! | [`SpinLock`] | spinning | first in, first out | hand-off by distance |
//! | [`TicketLock`] | spinning | first in, first out | hand-off by distance and number of waiters |
//! | [`WaitQueue`] | sleeping | by entry, exclusive ones counted | each entry visited, each task woken |
//! | [`Ipi`] | spinning | by arrival | send, flight, handling, acknowledgement |
//! | [`CacheLine`] | spinning | [`Arbitration`] | transfer by distance |
//!
//! Equal times stay first in, first out, and randomness comes from one seed: the same tasks give the
//! same [trace hash](Engine::trace_hash) where it is [kept](Statistics).
//!
//! It ends with an error and never hangs: a [`Deadlock`] names who waits for what and who holds it, a
//! [`Misuse`] what a task did wrong. (A task that loops without charging anything does hang.)
//!
//! It does not render what it recorded, does not know what it simulates, reads no clock and starts no
//! thread.
//!
//! ```
//! use pagetoll_engine::{CoreId, Distance, Engine, Setup, SpinLock, Ticks, Time, Tolls};
//!
//! let mut tolls = Tolls::new();
//! let (work, spin) = (tolls.register("work"), tolls.register("spin"));
//! let mut engine = Engine::new(&Setup::default(), tolls)?;
//! let lock = SpinLock::new(engine.handle(), "shared", spin, Distance::uniform(Ticks(50)));
//! for core in 0..4 {
//!     let lock = lock.clone();
//!     engine.spawn("worker", CoreId(core), async move |cx| {
//!         let guard = lock.acquire(&cx).await;
//!         cx.charge(work, Ticks(1000)).await;
//!         drop(guard);
//!     })?;
//! }
//! assert_eq!(engine.run()?, Time(4 * 1000 + 3 * 50));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod core_set;
mod distance;
mod ids;
mod queue;
mod runtime;
mod sync;
mod time;

pub use distance::Distance;
pub use ids::{CoreId, TaskId, Toll};
pub use runtime::context::{Charge, ChargeFuture, Cx};
pub use runtime::deadlock::{BlockedTask, Deadlock};
pub use runtime::error::{Misuse, RunError, SetupError, SpawnError};
pub use runtime::executor::{Engine, Handle, Progress, Setup, Tolls};
pub use runtime::ipi::{InterruptMask, Ipi, IpiCosts, IpiTolls};
pub use runtime::record::{Record, Statistics, Total};
pub use sync::cache_line::{Arbitration, CacheLine, LineCosts};
pub use sync::spinlock::{Acquire, SpinGuard, SpinLock};
pub use sync::ticket::{TicketCosts, TicketLock};
pub use sync::wait_queue::{
    Look, Sharing, StandingEntry, WaitEnd, WaitQueue, WakeUp, Walk, WalkCosts,
};
pub use time::{Ticks, Time};
