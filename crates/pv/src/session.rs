//! Sessions: what one guest does from its start to its end.

use pagetoll_bill::route::Flush;
use pagetoll_bill::{Mechanism, Method, Operation, Order, RowKey, System};
use pagetoll_protocol::step::{Step, divided};

use crate::plan::{self, Abilities, Steps};

/// The work of one guest for a bill.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its name among those of the order.
    pub name: String,
    /// In which kind of guest.
    pub kind: Kind,
    /// Under which options of Xen.
    pub xen: XenOptions,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts under Xen.
    Dom0,
    /// Counts under Xen, with the memory of another domain.
    Foreign,
    /// Counts without Xen.
    Native,
    /// Races under Xen, on two vCPUs.
    Race,
    /// Counts under Xen in a 32-bit guest.
    Pv32,
}

/// Options of Xen that a mechanism takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XenOptions {
    /// Nothing.
    #[default]
    Default,
    /// Page tables are not isolated, guests' pages may be global.
    GlobalPages,
    /// Page tables are not isolated, guests' pages are not global.
    NoGlobalPages,
}

/// A mechanism that is Xen's choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct XenVariant {
    /// The mechanism's name.
    pub(crate) name: &'static str,
    pub(crate) options: XenOptions,
}

impl Kind {
    /// Whose rows it counts.
    const fn system(self) -> Option<System> {
        match self {
            Self::Dom0 | Self::Foreign => Some(System::XenPvDom0),
            Self::Native => Some(System::Native),
            Self::Pv32 => Some(System::XenPv32Dom0),
            Self::Race => None,
        }
    }
}

impl XenOptions {
    /// Options under which a mechanism that is Xen's choice is billed.
    pub(crate) const fn from_mechanism(mechanism: Flush) -> Self {
        match mechanism {
            Flush::GlobalPages => Self::GlobalPages,
            Flush::NoGlobalPages => Self::NoGlobalPages,
        }
    }
}

impl Session {
    /// The number of the step whose count is the cost of a row, as the guest numbers those of its order: from 1 on. Steps
    /// are also done under a trace, and to warm up.
    #[must_use]
    pub fn step_of(&self, row: &RowKey) -> Option<u16> {
        if self.kind.system() != Some(row.system) || !self.has_xen_of(row.method) {
            return None;
        }
        let (_, ordered) = divided(&self.steps);
        let is_trace = |step: &Step| matches!(step, Step::TraceBegin { .. });
        let traced = ordered.iter().position(is_trace).unwrap_or(ordered.len());
        let step = ordered[..traced].iter().rposition(|step| step.bills(row))?;
        u16::try_from(step + 1).ok()
    }

    /// Tests for a count or a check that the row takes from this session.
    #[must_use]
    pub fn serves(&self, row: &RowKey) -> bool {
        let is_foreign = matches!(
            row.operation,
            Operation::MapForeign | Operation::MunmapForeign
        );
        match self.kind {
            Kind::Race => row.system == System::XenPvDom0 && row.method.mechanism().is_some(),
            Kind::Foreign => is_foreign,
            // Its system is what a bill says of all rows under Xen.
            Kind::Dom0 => row.system != System::Native && self.has_xen_of(row.method),
            Kind::Native => row.system == System::Native,
            Kind::Pv32 => row.system == System::XenPv32Dom0,
        }
    }

    fn has_xen_of(&self, method: Method) -> bool {
        let Method::Mechanism(Mechanism::Flush(mechanism)) = method else {
            return true;
        };
        self.xen == XenOptions::from_mechanism(mechanism)
    }

    fn new(name: impl Into<String>, kind: Kind, steps: Vec<Step>) -> Self {
        Self {
            name: name.into(),
            kind,
            xen: XenOptions::Default,
            steps,
        }
    }

    fn for_run(name: &str, order: &Order, run: u32, kind: Kind, steps: Vec<Step>) -> Self {
        match order.runs {
            1 => Self::new(name, kind, steps),
            _ => Self::new(format!("{name}-{run}"), kind, steps),
        }
    }
}

/// The counting sessions of an order: for each run a dom0 and a native kernel.
pub(crate) fn counting(order: &Order, abilities: Abilities, steps: &Steps) -> Vec<Session> {
    let dom0 = plan::counting(order, abilities, steps);
    let native = plan::native(order, steps);
    let of_run = |run| {
        [
            Session::for_run("dom0", order, run, Kind::Dom0, dom0.clone()),
            Session::for_run("native", order, run, Kind::Native, native.clone()),
        ]
    };
    (1..=order.runs).flat_map(of_run).collect()
}

/// The counting sessions of an order whose mechanisms are options of Xen: for each run and mechanism a dom0.
pub(crate) fn under(xens: &[XenVariant], order: &Order, steps: &[Step]) -> Vec<Session> {
    let of_run = |run| {
        xens.iter().map(move |xen| Session {
            xen: xen.options,
            ..Session::for_run(xen.name, order, run, Kind::Dom0, steps.to_vec())
        })
    };
    (1..=order.runs).flat_map(of_run).collect()
}

/// The counting sessions of a 32-bit dom0, one for each run.
pub(crate) fn pv32(order: &Order, steps: &[Step]) -> Vec<Session> {
    each_run("pv32", order, Kind::Pv32, steps)
}

/// The counting sessions with the memory of another domain, one for each run; none where there is nothing to do.
pub(crate) fn foreign(order: &Order, steps: &[Step]) -> Vec<Session> {
    match steps {
        [] => Vec::new(),
        _ => each_run("foreign", order, Kind::Foreign, steps),
    }
}

fn each_run(name: &str, order: &Order, kind: Kind, steps: &[Step]) -> Vec<Session> {
    let of_run = |run| Session::for_run(name, order, run, kind, steps.to_vec());
    (1..=order.runs).map(of_run).collect()
}

/// A session on two vCPUs that race. One, whatever the runs of the order.
pub(crate) fn race(steps: Vec<Step>) -> Session {
    Session::new("race", Kind::Race, steps)
}
