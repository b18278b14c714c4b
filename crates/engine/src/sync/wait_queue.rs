//! A wait queue whose wake-up walks its entries, one by one, at a cost for each.
//!
//! After Linux's `wait_queue_head` (`kernel/sched/wait.c`, `__wake_up_common`): shared entries go to
//! the head, exclusive ones to the tail; a wake-up walks from the head, wakes what its keys select, and
//! stops once it has woken enough exclusive waiters. A [`StandingEntry`] stays on the queue while its
//! task does something else; a walk that finds it so marks it, does not count it, and goes on.
//!
//! Each entry has a cache line. Adding, moving or removing an entry changes its own and those of its neighbours, whose
//! pointers lie there; a task that goes on with a standing entry changes it; and walks change it or read it
//! ([`Look`]). A walk pays for every line that is not where it walks.
//!
//! The queue has no lock of its own: hold one around [`WaitQueue::wake`] where the real one is held. A
//! walk decides at its start whom it wakes; each of them comes round when the walk has reached it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::rc::{Rc, Weak};

use crate::distance::Distance;
use crate::ids::{CoreId, Toll};
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
    /// The walker's, for the line of each entry visited, from where it was changed last.
    pub line: Distance,
    /// Use that walks make of that line.
    pub look: Look,
    /// The walker's, for each busy task's entry that no walk has marked yet, on top, from that task's core.
    pub mark: Distance,
    /// The walker's, for each task woken, on top.
    pub wake: Ticks,
    /// From then until the woken task can run, by the two cores.
    pub latency: Distance,
}

/// Use that a walk makes of an entry's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// It changes the line: the next walk fetches it from here.
    #[default]
    Changes,
    /// It reads the line, and so has it for every core with which it shares a cache.
    Reads {
        /// Cores that share a cache: this many in a row, from core 0 on.
        sharing: u32,
    },
}

impl Look {
    /// The cores that have what a core has fetched: a bit for those of each cache. Beyond 64 caches, none has.
    const fn seen_by(self, core: CoreId) -> u64 {
        match self {
            Self::Changes | Self::Reads { sharing: 0 } => 0,
            Self::Reads { sharing } => match core.0 / sharing {
                cache @ 0..64 => 1 << cache,
                _ => 0,
            },
        }
    }
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
    /// Entries ahead of the first that it looks at.
    pub from: u32,
    /// Entries that it looks at, at most; 0 for all.
    pub most: u32,
}

impl WakeUp {
    /// All shared waiters ahead of the first exclusive one, and that one.
    #[must_use]
    pub const fn one() -> Self {
        Self {
            exclusive: 1,
            ..Self::all()
        }
    }

    /// Wakes all entries, exclusive or not.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            exclusive: 0,
            keys: 0..=u64::MAX,
            from: 0,
            most: 0,
        }
    }

    /// Restricts the wake-up to waiters with these keys.
    #[must_use]
    pub const fn keyed(self, keys: RangeInclusive<u64>) -> Self {
        Self { keys, ..self }
    }

    /// Restricts the wake-up to a part of the queue: at most so many entries from a place on.
    #[must_use]
    pub const fn part(self, from: u32, most: u32) -> Self {
        Self { from, most, ..self }
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
    /// Place at which the walk stopped for its length.
    pub rest: Option<u32>,
}

/// A walk, and the cost of its lines.
#[derive(Default)]
struct Course {
    walk: Walk,
    lines: Ticks,
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
    /// The core that changed the entry's line last.
    changed: CoreId,
    /// Caches that have got the line since ([`Look::seen_by`]).
    seen: u64,
}

impl Entry {
    fn change(&mut self, core: CoreId, look: Look) {
        self.changed = core;
        self.seen = look.seen_by(core);
    }
}

/// Changes the lines of the entries on both sides of a place.
fn change_neighbours(entries: &mut VecDeque<Entry>, place: usize, core: CoreId, look: Look) {
    for near in [place.checked_sub(1), place.checked_add(1)] {
        if let Some(entry) = near.and_then(|near| entries.get_mut(near)) {
            entry.change(core, look);
        }
    }
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
            self.0.enter(cx, sharing, key, State::Sleeps);
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
            number = Some(self.0.enter(cx, sharing, key, State::SleepsTimed));
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
        let number = self.0.enter(cx, sharing, key, State::Busy);
        StandingEntry {
            queue: &self.0,
            cx,
            number,
        }
    }

    /// Walks the queue from its head and wakes whom it is for.
    pub async fn wake(&self, cx: &Cx, wake_up: WakeUp) -> Walk {
        let mut course = Course::default();
        if cx.is_of(&self.0.kernel, || self.0.title()) {
            course = self.0.walk(cx, &wake_up);
        }
        cx.charge(self.0.toll, self.0.cost_of(&course)).await;
        course.walk
    }

    /// Moves the entry with `key` from one place to another that a walk comes by alike.
    pub fn refile(&self, cx: &Cx, key: u64) {
        let mut entries = self.0.entries.borrow_mut();
        let Some(place) = entries.iter().position(|entry| entry.key == key) else {
            return;
        };
        entries[place].change(cx.core(), self.0.costs.look);
        change_neighbours(&mut entries, place, cx.core(), self.0.costs.look);
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
    fn enter(&self, cx: &Cx, sharing: Sharing, key: u64, state: State) -> u64 {
        let number = self.number.get();
        self.number.set(number + 1);
        let (core, look) = (cx.core(), self.costs.look);
        let entry = Entry {
            number,
            task: cx.index(),
            key,
            sharing,
            state,
            changed: core,
            seen: look.seen_by(core),
        };
        let mut entries = self.entries.borrow_mut();
        let place = match sharing {
            Sharing::Shared => 0,
            Sharing::Exclusive => entries.len(),
        };
        entries.insert(place, entry);
        change_neighbours(&mut entries, place, core, look);
        number
    }

    /// Removes an entry; whether it was still there.
    fn remove(&self, number: u64) -> bool {
        let mut entries = self.entries.borrow_mut();
        let place = place_of(&entries, number);
        place.and_then(|place| entries.remove(place)).is_some()
    }

    /// Wakes and marks entries from the head on.
    fn walk(&self, cx: &Cx, wake_up: &WakeUp) -> Course {
        let mut course = Course::default();
        let mut exclusive = 0;
        let mut any_over = false;
        let mut entries = self.entries.borrow_mut();
        for entry in entries.iter_mut().skip(wake_up.from as usize) {
            if wake_up.exclusive != 0 && exclusive == wake_up.exclusive {
                break;
            }
            if wake_up.most != 0 && course.walk.visited == wake_up.most {
                course.walk.rest = Some(wake_up.from + wake_up.most);
                break;
            }
            course.walk.visited += 1;
            self.look_at(entry, cx.core(), &mut course);
            if !wake_up.keys.contains(&entry.key) {
                continue;
            }
            let woken = self.visit(cx, entry, &mut course);
            exclusive += u32::from(woken && entry.sharing == Sharing::Exclusive);
            any_over |= entry.state == State::Over;
        }
        if any_over {
            entries.retain(|entry| entry.state != State::Over);
        }
        course
    }

    /// Fetches an entry's line.
    fn look_at(&self, entry: &mut Entry, core: CoreId, course: &mut Course) {
        let look = self.costs.look;
        let cache = look.seen_by(core);
        if entry.seen & cache == 0 {
            course.add(self.costs.line.between(entry.changed, core));
        }
        entry.seen |= cache;
        if look == Look::Changes {
            entry.changed = core;
        }
    }

    /// Wakes or marks one entry: whether its task wakes up.
    fn visit(&self, cx: &Cx, entry: &mut Entry, course: &mut Course) -> bool {
        let walk = &mut course.walk;
        if matches!(entry.state, State::Busy | State::Marked) {
            walk.marked += 1;
            if entry.state == State::Busy {
                walk.newly_marked += 1;
                entry.state = State::Marked;
                let own = self.kernel.core_of(entry.task);
                course.add(self.costs.mark.between(own, cx.core()));
            }
            return false;
        }
        walk.woken += 1;
        let fired = entry.state == State::SleepsTimed && !self.kernel.timers.cancel(entry.task);
        if !fired {
            let (from, to) = (cx.core(), self.kernel.core_of(entry.task));
            let delay = self
                .cost_of(course)
                .saturating_add(self.costs.latency.between(from, to));
            self.kernel.resume_after(entry.task, delay);
        }
        entry.state = match entry.state {
            State::Stands => State::Busy,
            _ => State::Over,
        };
        true
    }

    fn cost_of(&self, course: &Course) -> Ticks {
        let Course { walk, lines } = course;
        let visits = self.costs.entry.saturating_mul(u64::from(walk.visited));
        let wakes = self.costs.wake.saturating_mul(u64::from(walk.woken));
        visits.saturating_add(*lines).saturating_add(wakes)
    }
}

impl Course {
    fn add(&mut self, lines: Ticks) {
        self.lines = self.lines.saturating_add(lines);
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
    /// True if a wake-up has come since the last wait: the next one will not sleep.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        let entries = self.queue.entries.borrow();
        place_of(&entries, self.number).is_some_and(|place| entries[place].state == State::Marked)
    }

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
        let entry = &mut entries[place];
        if self.queue.costs.look == Look::Changes {
            entry.changed = self.cx.core();
        }
        Some(std::mem::replace(&mut entry.state, state))
    }
}

impl Drop for StandingEntry<'_> {
    fn drop(&mut self) {
        let mut entries = self.queue.entries.borrow_mut();
        if let Some(place) = place_of(&entries, self.number) {
            change_neighbours(&mut entries, place, self.cx.core(), self.queue.costs.look);
            entries.remove(place);
        }
    }
}
