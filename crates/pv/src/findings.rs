//! Reports of the sessions of an order. Plain data.

use std::collections::BTreeMap;

use pagetoll_bill::Unavailable;
use pagetoll_protocol::report::{
    Clear, Contended, Foreign, ForeignReleased, ForeignUnavailable, Hello, Lock, Race, Repeat,
    Report, User, scaled,
};
use pagetoll_xentrace::Crossings;

use crate::session::{Kind, XenOptions};

/// Reports of one session.
#[derive(Clone, Debug, Default)]
pub struct Reports {
    /// The guest that it ran in.
    pub hello: Hello,
    /// Options of its Xen.
    pub xen: XenOptions,
    /// Races at the same entries.
    pub races: Vec<Race>,
    /// Entries that the probe cleared, a mechanism and batch each; first untraced, then traced.
    pub clears: Vec<Clear>,
    /// Other repetitions of the probe, in the same order.
    pub repeats: Vec<Repeat>,
    /// Operations of user space, in the same order.
    pub users: Vec<User>,
    /// Memory of another domain that was mapped and unmapped.
    pub foreign: Vec<Foreign>,
    /// Flushes of all CPUs at once.
    pub contended: Option<Contended>,
    /// Times that Xen's lock was held and waited for meanwhile; none where Xen does not say.
    pub lock: Option<Lock>,
    /// Pages that Xen had left of that domain in the end.
    pub released: Option<ForeignReleased>,
    /// The reason why there was no other domain.
    pub no_foreign: Option<ForeignUnavailable>,
    /// Xen's counts between the marks of each traced step.
    pub crossings: BTreeMap<u16, Crossings>,
    /// QEMU's counts between the marks of each step; empty where it counted nothing.
    pub flushes: BTreeMap<u16, Flushes>,
    /// Day in UTC of the session, where it is kept from an earlier run.
    pub kept: Option<String>,
}

impl Reports {
    /// Sorts the reports of a session; `None` where the guest never said what it is.
    #[must_use]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "other reports are of other routes"
    )]
    pub fn new(reports: &[Report]) -> Option<Self> {
        let mut all = Self::default();
        let mut hello = None;
        for report in reports {
            match report {
                Report::Hello(greeting) => hello = Some(greeting.clone()),
                Report::Clear(clear) => all.clears.push(clear.clone()),
                Report::Repeat(repeat) => all.repeats.push(repeat.clone()),
                Report::User(user) => all.users.push(user.clone()),
                Report::Foreign(foreign) => all.foreign.push(foreign.clone()),
                Report::ForeignReleased(released) => all.released = Some(*released),
                Report::ForeignUnavailable(reason) => all.no_foreign = Some(*reason),
                Report::Contended(contended) => all.contended = Some(*contended),
                Report::Lock(lock) => all.lock = Some(lock.clone()),
                Report::Race(race) => all.races.push(race.clone()),
                _ => {}
            }
        }
        all.hello = hello?;
        Some(all)
    }

    /// Reports with costs in a unit of which a tick of the counter is so much.
    #[must_use]
    pub fn in_units(mut self, tick: f64) -> Self {
        let clears = self.clears.iter_mut().map(|one| &mut one.instructions);
        let repeats = self.repeats.iter_mut().map(|one| &mut one.instructions);
        let users = self.users.iter_mut().map(|one| &mut one.instructions);
        let foreign = self.foreign.iter_mut().map(|one| &mut one.instructions);
        let contended = self.contended.iter_mut().map(|one| &mut one.instructions);
        let all = clears.chain(repeats).chain(users).chain(foreign);
        for cost in all.chain(contended) {
            *cost = scaled(*cost, tick);
        }
        self
    }
}

/// Instructions that flush, between the marks of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// Writes of CR3.
    pub cr3: u64,
    /// Writes of CR4.
    pub cr4: u64,
    /// Flushes of one address.
    pub invlpg: u64,
    /// Flushes of an address, or of a whole context.
    pub invpcid: u64,
}

/// Reports of all sessions, one entry a run.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// A 64-bit PV guest.
    pub dom0: Vec<Reports>,
    /// Such a guest with the memory of another domain.
    pub foreign: Vec<Reports>,
    /// The dom0 kernel without Xen.
    pub native: Vec<Reports>,
    /// Two vCPUs at the same entries.
    pub races: Vec<Race>,
    /// Day in UTC of the races, where they are kept from an earlier run.
    pub races_kept: Option<String>,
    /// The reason why the probe did nothing.
    pub no_probe: Option<Unavailable>,
    /// The reason why crossings were not counted.
    pub no_crossings: Option<Unavailable>,
    /// A 32-bit dom0.
    pub pv32: Vec<Reports>,
    /// The reason why there was none.
    pub no_pv32: Option<Unavailable>,
}

impl Findings {
    /// Findings of no session, by which every row of an order is listed and none has figures.
    #[must_use]
    pub fn unbilled() -> Self {
        let foreign = Reports {
            no_foreign: Some(ForeignUnavailable { errno: 0 }),
            ..Reports::default()
        };
        Self {
            foreign: vec![foreign],
            ..Self::default()
        }
    }

    /// Adds the reports of a session of this kind.
    pub fn add(&mut self, kind: Kind, reports: Reports) {
        match kind {
            Kind::Dom0 => self.dom0.push(reports),
            Kind::Foreign => self.foreign.push(reports),
            Kind::Native => self.native.push(reports),
            Kind::Pv32 => self.pv32.push(reports),
            Kind::Race => {
                self.races.extend(reports.races);
                self.races_kept = reports.kept;
            }
        }
    }
}
