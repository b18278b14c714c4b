//! A wait queue whose wake-up walks its entries, one by one, at a cost for each.
//!
//! After Linux's `wait_queue_head` (`kernel/sched/wait.c`, `__wake_up_common`): shared entries go to
//! the head, exclusive ones to the tail; a wake-up walks from the head, wakes what its keys select, and
//! stops once it has woken enough exclusive waiters. A [`StandingEntry`] stays on the queue while its
//! task does something else; a walk that finds it so marks it, does not count it, and goes on.
//!
//! The queue has no lock of its own: hold one around [`WaitQueue::wake`] where the real one is held. A
//! walk decides at its start whom it wakes; each of them comes round when the walk has reached it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::rc::{Rc, Weak};

use crate::distance::Distance;
use crate::ids::Toll;
use crate::runtime::context::Cx;
use crate::runtime::deadlock::Resource;
use crate::runtime::executor::Handle;
use crate::runtime::kernel::Kernel;
use crate::runtime::node::WaitFor;
use crate::time::Ticks;

/// Costs of a wake-up.
#[derive(Clone, Debug, Default)]
pub struct WalkCosts {
    /// The walker's, for each entry visited.
    pub entry: Ticks,
    /// The walker's, for each busy task's entry that no walk has marked yet, on top.
    pub mark: Ticks,
    /// The walker's, for each task woken, on top.
    pub wake: Ticks,
    /// From then until the woken task can run, by the two cores.
    pub latency: Distance,
}

/// Effect of an entry on a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Woken along with others; enters at the head.
    Shared,
    /// Counted against [`WakeUp::exclusive`]; enters at the tail.
    Exclusive,
}

/// Whom a wake-up is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeUp {
    /// Exclusive waiters to wake before the walk stops; 0 for all.
    pub exclusive: u32,
    /// The keys that it is for.
    pub keys: RangeInclusive<u64>,
}

impl WakeUp {
    /// All shared waiters ahead of the first exclusive one, and that one.
    #[must_use]
    pub const fn one() -> Self {
        Self {
            exclusive: 1,
            keys: 0..=u64::MAX,
        }
    }

    /// Wakes all entries, exclusive or not.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            exclusive: 0,
            keys: 0..=u64::MAX,
        }
    }

    /// Restricts the wake-up to waiters with these keys.
    #[must_use]
    pub const fn keyed(self, keys: RangeInclusive<u64>) -> Self {
        Self {
            exclusive: self.exclusive,
            keys,
        }
    }
}

/// Result of a wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Entries that the walk looked at.
    pub visited: u32,
    /// Tasks that the walk woke.
    pub woken: u32,
    /// Standing entries of busy tasks.
    pub marked: u32,
    /// Newly marked entries among them.
    pub newly_marked: u32,
}

/// End of a wait with a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// A wake-up came first.
    Woken,
    /// The timeout came first.
    TimedOut,
}

/// A wait queue; clones are the same queue.
#[derive(Clone)]
pub struct WaitQueue(Rc<Inner>);

struct Inner {
    kernel: Rc<Kernel>,
    name: String,
    toll: Toll,
    costs: WalkCosts,
    wait: WaitFor,
    entries: RefCell<VecDeque<Entry>>,
    /// The number of the next entry.
    number: Cell<u64>,
}

struct Entry {
    number: u64,
    task: u32,
    key: u64,
    sharing: Sharing,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The task sleeps until it is woken; the entry goes with that.
    Sleeps,
    /// The task sleeps, and has a timer.
    SleepsTimed,
    /// Standing: the task sleeps until it is woken; the entry stays.
    Stands,
    /// Standing: the task does something else.
    Busy,
    /// Standing: a walk came by while the task was busy.
    Marked,
    /// Woken by the present walk, which takes the entry off.
    Over,
}

/// The place of an entry. Shared ones stand before exclusive ones, and the newest of them first; of exclusive ones the
/// oldest is first.
fn place_of(entries: &VecDeque<Entry>, number: u64) -> Option<usize> {
    let is_shared = |entry: &Entry| entry.sharing == Sharing::Shared;
    let newer = entries.partition_point(|entry| is_shared(entry) && entry.number > number);
    let older = entries.partition_point(|entry| is_shared(entry) || entry.number < number);
    let is_there = |place: &usize| entries.get(*place).is_some_and(|at| at.number == number);
    [newer, older].into_iter().find(is_there)
}

impl WaitQueue {
    /// An empty queue. Each walk is recorded under `toll` with all that it costs.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, toll: Toll, costs: WalkCosts) -> Self {
        Self(Rc::new_cyclic(|queue: &Weak<Inner>| Inner {
            wait: handle.0.register(queue.clone()),
            kernel: Rc::clone(&handle.0),
            name: name.to_owned(),
            toll,
            costs,
            entries: RefCell::default(),
            number: Cell::new(0),
        }))
    }

    /// Sleeps until a wake-up for `key`.
    pub async fn wait(&self, cx: &Cx, sharing: Sharing, key: u64) {
        if self.0.sleep(cx) {
            self.0.enter(cx.index(), sharing, key, State::Sleeps);
        }
        cx.sleep_here().await;
    }

    /// Sleeps until a wake-up for `key`, or for `timeout`. A wake-up that comes at the very time of the
    /// timeout, but first, counts; the task then goes on at once.
    pub async fn wait_timeout(
        &self,
        cx: &Cx,
        sharing: Sharing,
        key: u64,
        timeout: Ticks,
    ) -> WaitEnd {
        let mut number = None;
        if self.0.sleep(cx) {
            number = Some(self.0.enter(cx.index(), sharing, key, State::SleepsTimed));
            self.0.kernel.resume_after(cx.index(), timeout);
        }
        // Whether it is too late is settled when the timer rings, not when the core is free again.
        crate::runtime::context::ParkFuture::new().await;
        let timed_out = number.is_some_and(|number| self.0.remove(number));
        cx.enter_core().await;
        if timed_out {
            WaitEnd::TimedOut
        } else {
            WaitEnd::Woken
        }
    }

    /// Puts an entry on the queue that stays until it is dropped.
    pub fn stand<'a>(&'a self, cx: &'a Cx, sharing: Sharing, key: u64) -> StandingEntry<'a> {
        let number = self.0.enter(cx.index(), sharing, key, State::Busy);
        StandingEntry {
            queue: &self.0,
            cx,
            number,
        }
    }

    /// Walks the queue from its head and wakes whom it is for.
    pub async fn wake(&self, cx: &Cx, wake_up: WakeUp) -> Walk {
        let mut walk = Walk::default();
        if cx.is_of(&self.0.kernel, || self.0.title()) {
            walk = self.0.walk(cx, &wake_up);
        }
        cx.charge(self.0.toll, self.0.cost_of(walk)).await;
        walk
    }

    /// Number of entries on the queue.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.0.entries.borrow().len()
    }
}

impl Inner {
    /// Suspends the task off its core; `false` (and a fault) if it may not.
    fn sleep(&self, cx: &Cx) -> bool {
        cx.is_of(&self.kernel, || self.title()) && self.kernel.sleep(cx.index(), self.wait)
    }

    /// Adds an entry and returns its number.
    fn enter(&self, task: u32, sharing: Sharing, key: u64, state: State) -> u64 {
        let number = self.number.get();
        self.number.set(number + 1);
        let entry = Entry {
            number,
            task,
            key,
            sharing,
            state,
        };
        match sharing {
            Sharing::Shared => self.entries.borrow_mut().push_front(entry),
            Sharing::Exclusive => self.entries.borrow_mut().push_back(entry),
        }
        number
    }

    /// Removes an entry; whether it was still there.
    fn remove(&self, number: u64) -> bool {
        let mut entries = self.entries.borrow_mut();
        let place = place_of(&entries, number);
        place.and_then(|place| entries.remove(place)).is_some()
    }

    /// Wakes and marks entries from the head on.
    fn walk(&self, cx: &Cx, wake_up: &WakeUp) -> Walk {
        let mut walk = Walk::default();
        let mut exclusive = 0;
        let mut any_over = false;
        let mut entries = self.entries.borrow_mut();
        for entry in entries.iter_mut() {
            if wake_up.exclusive != 0 && exclusive == wake_up.exclusive {
                break;
            }
            walk.visited += 1;
            if !wake_up.keys.contains(&entry.key) {
                continue;
            }
            let woken = self.visit(cx, entry, &mut walk);
            exclusive += u32::from(woken && entry.sharing == Sharing::Exclusive);
            any_over |= entry.state == State::Over;
        }
        if any_over {
            entries.retain(|entry| entry.state != State::Over);
        }
        walk
    }

    /// Wakes or marks one entry: whether its task wakes up.
    fn visit(&self, cx: &Cx, entry: &mut Entry, walk: &mut Walk) -> bool {
        if matches!(entry.state, State::Busy | State::Marked) {
            walk.marked += 1;
            walk.newly_marked += u32::from(entry.state == State::Busy);
            entry.state = State::Marked;
            return false;
        }
        walk.woken += 1;
        let fired = entry.state == State::SleepsTimed && !self.kernel.timers.cancel(entry.task);
        if !fired {
            let (from, to) = (cx.core(), self.kernel.core_of(entry.task));
            let delay = self
                .cost_of(*walk)
                .saturating_add(self.costs.latency.between(from, to));
            self.kernel.resume_after(entry.task, delay);
        }
        entry.state = match entry.state {
            State::Stands => State::Busy,
            _ => State::Over,
        };
        true
    }

    fn cost_of(&self, walk: Walk) -> Ticks {
        let visits = self.costs.entry.saturating_mul(u64::from(walk.visited));
        let marks = self.costs.mark.saturating_mul(u64::from(walk.newly_marked));
        let wakes = self.costs.wake.saturating_mul(u64::from(walk.woken));
        visits.saturating_add(marks).saturating_add(wakes)
    }
}

impl Resource for Inner {
    fn title(&self) -> String {
        format!("a wake-up from wait queue `{}`", self.name)
    }

    /// No task is bound to wake.
    fn holders(&self, _: &Kernel, _: u32) -> Vec<u32> {
        Vec::new()
    }
}

/// An entry that stays on its queue; dropping it takes it off.
#[must_use = "the entry is taken off at once"]
pub struct StandingEntry<'a> {
    queue: &'a Inner,
    cx: &'a Cx,
    number: u64,
}

impl StandingEntry<'_> {
    /// Sleeps until a wake-up; not at all if one has come since the last wait.
    pub async fn wait(&self) {
        if self.swap(State::Busy) == Some(State::Marked) {
            return;
        }
        if self.queue.sleep(self.cx) {
            self.swap(State::Stands);
        }
        self.cx.sleep_here().await;
    }

    /// Changes the entry's state and returns the former one.
    fn swap(&self, state: State) -> Option<State> {
        let mut entries = self.queue.entries.borrow_mut();
        let place = place_of(&entries, self.number)?;
        Some(std::mem::replace(&mut entries[place].state, state))
    }
}

impl Drop for StandingEntry<'_> {
    fn drop(&mut self) {
        self.queue.remove(self.number);
    }
}
