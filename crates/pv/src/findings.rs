//! What the sessions of an order reported, gathered. Plain data.

use std::collections::BTreeMap;

use pagetoll_bill::Unavailable;
use pagetoll_xentrace::Crossings;

use crate::session::{Kind, XenOptions};
use pagetoll_protocol::report::{
    Clear, Contended, Foreign, ForeignReleased, ForeignUnavailable, Hello, Lock, Race, Repeat,
    Report, User, scaled,
};

/// What one counting session found.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Options of its Xen.
    pub xen: XenOptions,
    /// Entries that the probe cleared, a mechanism and batch each; first untraced, then traced.
    pub clears: Vec<Clear>,
    /// What else the probe repeated, in the same order.
    pub repeats: Vec<Repeat>,
    /// What user space did, in the same order.
    pub users: Vec<User>,
    /// What was mapped and unmapped of another domain.
    pub foreign: Vec<Foreign>,
    /// Flushes of all CPUs at once.
    pub contended: Option<Contended>,
    /// What Xen's lock was held and waited for meanwhile; nothing where it does not say.
    pub lock: Option<Lock>,
    /// What Xen had left of that domain in the end.
    pub released: Option<ForeignReleased>,
    /// Why there was no other domain.
    pub no_foreign: Option<ForeignUnavailable>,
    /// What Xen counted between the marks of each traced step.
    pub crossings: BTreeMap<u16, Crossings>,
    /// What QEMU counted between the marks of each step; nothing where it did not.
    pub flushes: BTreeMap<u16, Flushes>,
}

/// Instructions that flush, between the marks of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Writes of CR3.
    pub cr3: u64,
    /// Writes of CR4.
    pub cr4: u64,
    /// Of one address.
    pub invlpg: u64,
    /// Of an address, or of all of a context.
    pub invpcid: u64,
}

/// What all sessions found, one entry a run.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Of a 64-bit PV guest.
    pub dom0: Vec<Counted>,
    /// Of such a guest with the memory of another domain.
    pub foreign: Vec<Counted>,
    /// Of the same kernel without Xen.
    pub native: Vec<Counted>,
    /// Of two vCPUs at the same entries.
    pub races: Vec<Race>,
    /// Why the probe did nothing.
    pub no_probe: Option<Unavailable>,
    /// Why crossings were not counted.
    pub no_crossings: Option<Unavailable>,
    /// What a 32-bit dom0 found.
    pub pv32: Vec<Counted>,
    /// Why there was none.
    pub no_pv32: Option<Unavailable>,
}

/// What one session reported, but for bulk data.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The guest that it ran in.
    pub hello: Hello,
    /// What it counted.
    pub counted: Counted,
    /// What raced in it.
    pub races: Vec<Race>,
}

impl Ran {
    /// Understands the reports of a session; `None` where the guest never said what it is.
    #[must_use]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other reports are of other routes"
    )]
    pub fn of(reports: &[Report]) -> Option<Self> {
        let mut counted = Counted::default();
        let mut hello = None;
        let mut races = Vec::new();
        for report in reports {
            match report {
                Report::Hello(greeting) => hello = Some(greeting.clone()),
                Report::Clear(clear) => counted.clears.push(clear.clone()),
                Report::Repeat(repeat) => counted.repeats.push(repeat.clone()),
                Report::User(user) => counted.users.push(user.clone()),
                Report::Foreign(foreign) => counted.foreign.push(foreign.clone()),
                Report::ForeignReleased(released) => counted.released = Some(*released),
                Report::ForeignUnavailable(reason) => counted.no_foreign = Some(*reason),
                Report::Contended(contended) => counted.contended = Some(*contended),
                Report::Lock(lock) => counted.lock = Some(lock.clone()),
                Report::Race(race) => races.push(race.clone()),
                _ => {}
            }
        }
        Some(Self {
            hello: hello?,
            counted,
            races,
        })
    }

    /// The same with costs in a unit of which a tick of the counter is so much.
    #[must_use]
    pub fn in_units(mut self, tick: f64) -> Self {
        let counted = &mut self.counted;
        let clears = counted.clears.iter_mut().map(|one| &mut one.instructions);
        let repeats = counted.repeats.iter_mut().map(|one| &mut one.instructions);
        let users = counted.users.iter_mut().map(|one| &mut one.instructions);
        let foreign = counted.foreign.iter_mut().map(|one| &mut one.instructions);
        let contended = counted
            .contended
            .iter_mut()
            .map(|one| &mut one.instructions);
        let all = clears.chain(repeats).chain(users).chain(foreign);
        for cost in all.chain(contended) {
            *cost = scaled(*cost, tick);
        }
        self
    }
}

impl Findings {
    /// Adds what a session of this kind reported.
    pub fn add(&mut self, kind: Kind, ran: Ran) {
        match kind {
            Kind::Dom0 => self.dom0.push(ran.counted),
            Kind::Foreign => self.foreign.push(ran.counted),
            Kind::Native => self.native.push(ran.counted),
            Kind::Pv32 => self.pv32.push(ran.counted),
            Kind::Race => self.races.extend(ran.races),
        }
    }
}
