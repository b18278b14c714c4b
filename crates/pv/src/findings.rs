//! Findings of an order's sessions. Plain data.

use std::collections::BTreeMap;

use pagetoll_bill::Unavailable;
use pagetoll_xentrace::Crossings;

use crate::session::{Kind, XenOptions};
use pagetoll_protocol::report::{
    Clear, ContentionRun, ForeignRelease, ForeignRun, ForeignUnavailable, Hello, Lock, Race,
    Repeat, Report, User, scaled,
};

/// Counts of one session.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Options of its Xen.
    pub xen: XenOptions,
    /// Entries that the probe cleared, a mechanism and batch each; first untraced, then traced.
    pub clears: Vec<Clear>,
    /// Other operations that the probe repeated, in the same order.
    pub repeats: Vec<Repeat>,
    /// Operations of user space, in the same order.
    pub users: Vec<User>,
    /// Mappings and unmappings of another domain's memory.
    pub foreign: Vec<ForeignRun>,
    /// Flushes of all CPUs at once.
    pub contended: Option<ContentionRun>,
    /// Profile of Xen's lock during these flushes, if Xen reports one.
    pub lock: Option<Lock>,
    /// Pages of the other domain that Xen still has at the end.
    pub released: Option<ForeignRelease>,
    /// Error that prevented another domain.
    pub no_foreign: Option<ForeignUnavailable>,
    /// Crossings that Xen counted between the marks of each traced step.
    pub crossings: BTreeMap<u16, Crossings>,
    /// Flushes that QEMU counted between the marks of each step, where it did.
    pub flushes: BTreeMap<u16, Flushes>,
}

/// Instructions that flush, between the marks of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Writes of CR3.
    pub cr3: u64,
    /// Writes of CR4.
    pub cr4: u64,
    /// `invlpg`: flushes of one address.
    pub invlpg: u64,
    /// `invpcid`: flushes of an address, or of a whole context.
    pub invpcid: u64,
}

/// Findings of all sessions, one entry a run.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Counts of a 64-bit PV guest.
    pub dom0: Vec<Counted>,
    /// Counts of a 64-bit PV guest with the memory of another domain.
    pub foreign: Vec<Counted>,
    /// Counts of the same kernel without Xen.
    pub native: Vec<Counted>,
    /// Races of two vCPUs at the same entries.
    pub races: Vec<Race>,
    /// Reason for the absence of the probe.
    pub no_probe: Option<Unavailable>,
    /// Reason for the absence of crossings.
    pub no_crossings: Option<Unavailable>,
    /// Counts of a 32-bit dom0.
    pub pv32: Vec<Counted>,
    /// Reason for the absence of a 32-bit dom0.
    pub no_pv32: Option<Unavailable>,
}

/// Reports of one session, without bulk data.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The guest of the session.
    pub hello: Hello,
    /// Counts.
    pub counted: Counted,
    /// Races.
    pub races: Vec<Race>,
}

impl Ran {
    /// Reads the reports of a session; `None` if the guest never reported what it is.
    #[must_use]
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

    /// Scales costs by the length of a tick of the counter.
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
    /// Adds the report of a session of this kind.
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
