//! Interrupts between cores, with acknowledgement.
//!
//! A sender pays for each target, then spins until all have acknowledged. A target core handles its
//! interrupts one at a time in the order of their arrival, unless a task on it masks them; while it
//! does, the task that runs there stands still. Handling is time and nothing else; it is charged to
//! the core, not to the task that was interrupted.

use std::cell::{Cell, RefMut};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use crate::distance::Distance;
use crate::ids::{CoreId, NONE, Toll};
use crate::runtime::context::{Cx, ParkFuture};
use crate::runtime::deadlock::Resource;
use crate::runtime::error::Misuse;
use crate::runtime::executor::Handle;
use crate::runtime::kernel::Kernel;
use crate::runtime::node::WaitFor;
use crate::time::{Ticks, Time};

/// Costs of an interrupt besides its handling.
#[derive(Clone, Debug, Default)]
pub struct IpiCosts {
    /// The sender's, for each target.
    pub send: Ticks,
    /// From the sender's core to the target.
    pub flight: Distance,
    /// From the target, when it has handled the interrupt, back to the sender's core.
    pub acknowledge: Distance,
}

/// The tolls that an interrupt is recorded under.
#[derive(Clone, Copy, Debug)]
pub struct IpiTolls {
    /// The sender's cost for each target.
    pub send: Toll,
    /// The sender's wait for the acknowledgements.
    pub wait: Toll,
    /// The handling, charged to the target core.
    pub handle: Toll,
}

/// A kind of interrupt; clones are the same kind.
#[derive(Clone)]
pub struct Ipi(Rc<Inner>);

struct Inner {
    kernel: Rc<Kernel>,
    name: String,
    tolls: IpiTolls,
    costs: IpiCosts,
    wait: WaitFor,
}

/// One interrupt on its way to a core, or there.
pub(crate) struct Interrupt {
    arrival: Time,
    sender: u32,
    handling: Ticks,
    kind: Rc<Inner>,
}

/// The handling of an interrupt that has just begun.
#[derive(Clone, Copy)]
struct Handling {
    core: CoreId,
    end: Time,
}

/// A core's interrupts.
#[derive(Default)]
pub(crate) struct Inbox {
    /// In the order of arrival.
    pending: VecDeque<Interrupt>,
    /// The one being handled, and until when.
    handled: Option<(Interrupt, Time)>,
}

impl Inbox {
    /// True if nothing is handled or on its way: the core's timer is not set then.
    fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.handled.is_none()
    }
}

/// Acknowledgements that a task waits for after sending.
#[derive(Default)]
pub(crate) struct PendingAcks {
    cores: Cell<u32>,
    /// Arrival of the last acknowledgement that is on its way.
    last: Cell<Time>,
    parked: Cell<bool>,
}

impl Ipi {
    /// A kind of interrupt.
    #[must_use]
    pub fn new(handle: &Handle, name: &str, tolls: IpiTolls, costs: IpiCosts) -> Self {
        Self(Rc::new_cyclic(|ipi: &Weak<Inner>| Inner {
            wait: handle.0.register(ipi.clone()),
            kernel: Rc::clone(&handle.0),
            name: name.to_owned(),
            tolls,
            costs,
        }))
    }

    /// Sends the interrupt to `targets` one after the other, and spins until every one of them has
    /// handled it, for `handling` each, and its acknowledgement is back. Does nothing without targets.
    pub async fn send_and_wait(&self, cx: &Cx, targets: &[CoreId], handling: Ticks) {
        let kernel = cx.kernel();
        if targets.is_empty() {
            return;
        }
        if !self.is_sendable(cx, targets) {
            return ParkFuture::new().await;
        }
        let outstanding = &kernel.outstanding[cx.index() as usize];
        outstanding
            .cores
            .set(u32::try_from(targets.len()).unwrap_or(u32::MAX));
        outstanding.last.set(cx.now());
        let mut last = None;
        for &target in targets {
            cx.charge(self.0.tolls.send, self.0.costs.send).await;
            last = self.send(cx, target, handling, last);
        }
        let since = cx.now();
        self.0.wait_for(cx, outstanding).await;
        cx.record(self.0.tolls.wait, cx.now().since(since));
    }

    fn is_sendable(&self, cx: &Cx, targets: &[CoreId]) -> bool {
        let kernel = cx.kernel();
        let missing = targets
            .iter()
            .find(|target| target.index() >= kernel.cores.len());
        if let Some(&missing) = missing {
            kernel.fail(cx.index(), Misuse::NoSuchCore(missing));
        }
        missing.is_none() && cx.is_of(&self.0.kernel, || self.0.title())
    }

    /// Sends it to one target, after `last`; gives the handling that has begun by that.
    fn send(
        &self,
        cx: &Cx,
        target: CoreId,
        handling: Ticks,
        last: Option<Handling>,
    ) -> Option<Handling> {
        let kernel = cx.kernel();
        let Some(arrival) = cx
            .now()
            .checked_add(self.0.costs.flight.between(cx.core(), target))
        else {
            kernel.fail(cx.index(), Misuse::TimeOverflow);
            return None;
        };
        let kind = Rc::clone(&self.0);
        let interrupt = Interrupt {
            arrival,
            sender: cx.index(),
            handling,
            kind,
        };
        kernel.deliver(target, interrupt, last)
    }
}

impl Inner {
    /// Spins until all acknowledgements are there.
    async fn wait_for(&self, cx: &Cx, outstanding: &PendingAcks) {
        let on_its_way = outstanding.last.get().since(cx.now());
        let all_sent = outstanding.cores.get() == 0;
        if all_sent && on_its_way == Ticks::ZERO {
            return;
        }
        if self.kernel.suspend(cx.index(), self.wait) {
            outstanding.parked.set(!all_sent);
            if all_sent {
                self.kernel.resume_after(cx.index(), on_its_way);
            }
        }
        ParkFuture::new().await;
    }
}

/// The life of an interrupt at its target.
impl Kernel {
    /// The id of a core's timer: its next arrival, or the end of the present handling.
    fn timer_of(&self, core: CoreId) -> u32 {
        self.capacity + core.0
    }

    fn inbox(&self, core: CoreId) -> RefMut<'_, Inbox> {
        self.cores[core.index()].inbox.borrow_mut()
    }

    /// Enters an interrupt that arrives now or later, after one whose handling may have begun just now; gives its
    /// own handling if that begins.
    fn deliver(
        &self,
        core: CoreId,
        interrupt: Interrupt,
        last: Option<Handling>,
    ) -> Option<Handling> {
        let mut inbox = self.inbox(core);
        let masked = self.cores[core.index()].masks.get() > 0;
        if inbox.is_idle() && interrupt.arrival <= self.now() && !masked {
            drop(inbox);
            return self.handle(core, interrupt, last);
        }
        let place = inbox
            .pending
            .partition_point(|other| other.arrival <= interrupt.arrival);
        inbox.pending.insert(place, interrupt);
        drop(inbox);
        self.handle_next(core);
        None
    }

    /// A core's timer has come up.
    pub(crate) fn interrupt(&self, core: u32) {
        let mut next = core;
        while next != NONE {
            let core = CoreId(next);
            next = self.cores[core.index()].follower.replace(NONE);
            self.end_or_begin(core);
        }
    }

    /// Ends the handling of an interrupt, if one ends now, and handles what has arrived.
    fn end_or_begin(&self, core: CoreId) {
        let ended = |&mut (_, end): &mut (Interrupt, Time)| end <= self.now();
        let handled = self.inbox(core).handled.take_if(ended);
        if let Some((interrupt, _)) = handled {
            self.acknowledge(core, &interrupt);
        }
        if !self.inbox(core).is_idle() {
            self.handle_next(core);
        }
    }

    /// Handles what has arrived, one after the other, and sets the timer for what comes next.
    pub(crate) fn handle_next(&self, core: CoreId) {
        while let Some(interrupt) = self.take_arrived(core) {
            self.handle(core, interrupt, None);
        }
    }

    /// Starts to handle an interrupt on a core that handles none. Where the handling that began last ends at the same
    /// time, one timer does for both: whatever was set between the two timers is due later.
    fn handle(
        &self,
        core: CoreId,
        interrupt: Interrupt,
        last: Option<Handling>,
    ) -> Option<Handling> {
        let handling = interrupt.handling;
        self.stall(&self.cores[core.index()], handling);
        if handling == Ticks::ZERO {
            self.acknowledge(core, &interrupt);
            return None;
        }
        let end = self.now().checked_add(handling).unwrap_or(Time::MAX);
        self.inbox(core).handled = Some((interrupt, end));
        match last.filter(|last| last.end == end && end < Time::MAX) {
            Some(last) => self.cores[last.core.index()].follower.set(core.0),
            None => self.resume_after(self.timer_of(core), handling),
        }
        Some(Handling { core, end })
    }

    /// The next interrupt that the core can handle now. Otherwise sets the timer for the next
    /// arrival, unless the timer has something else to wait for.
    fn take_arrived(&self, core: CoreId) -> Option<Interrupt> {
        let mut inbox = self.inbox(core);
        if inbox.handled.is_some() {
            return None;
        }
        self.timers.cancel(self.timer_of(core));
        let arrival = inbox.pending.front()?.arrival;
        if arrival > self.now() {
            self.timers.insert(self.timer_of(core), arrival);
            return None;
        }
        let masked = self.cores[core.index()].masks.get() > 0;
        if masked {
            None
        } else {
            inbox.pending.pop_front()
        }
    }

    /// Records a handling that is over, and sends its acknowledgement.
    fn acknowledge(&self, core: CoreId, interrupt: &Interrupt) {
        let Inner { tolls, costs, .. } = &*interrupt.kind;
        let account = self
            .ledger
            .accounts_of(self.timer_of(core))
            .with_toll(tolls.handle);
        self.ledger
            .record_span(self.now(), interrupt.handling, account);
        let outstanding = &self.outstanding[interrupt.sender as usize];
        let back = costs
            .acknowledge
            .between(core, self.core_of(interrupt.sender));
        let back_at = self.now().checked_add(back).unwrap_or(Time::MAX);
        outstanding.last.set(outstanding.last.get().max(back_at));
        outstanding.cores.set(outstanding.cores.get() - 1);
        if outstanding.cores.get() == 0 && outstanding.parked.replace(false) {
            self.resume_after(interrupt.sender, outstanding.last.get().since(self.now()));
        }
    }
}

impl Resource for Inner {
    fn title(&self) -> String {
        format!("acknowledgements of interrupt `{}`", self.name)
    }

    /// Tasks that mask interrupts on the cores that have not acknowledged.
    fn holders(&self, kernel: &Kernel, waiter: u32) -> Vec<u32> {
        let owes = |inbox: &Inbox| inbox.pending.iter().any(|pending| pending.sender == waiter);
        let owing = kernel
            .cores
            .iter()
            .filter(|core| owes(&core.inbox.borrow()));
        owing.filter_map(|core| core.occupant()).collect()
    }
}

/// Interrupts stay away from a core until this is dropped.
#[must_use = "interrupts are let through at once"]
pub struct InterruptMask<'a>(&'a Cx);

impl<'a> InterruptMask<'a> {
    pub(crate) fn new(cx: &'a Cx) -> Self {
        let masks = &cx.kernel().core(cx.index()).masks;
        masks.set(masks.get() + 1);
        cx.status().enter_atomic();
        Self(cx)
    }
}

impl Drop for InterruptMask<'_> {
    fn drop(&mut self) {
        let masks = &self.0.kernel().core(self.0.index()).masks;
        masks.set(masks.get() - 1);
        self.0.status().leave_atomic();
        if masks.get() == 0 {
            self.0.kernel().handle_next(self.0.core());
        }
    }
}
