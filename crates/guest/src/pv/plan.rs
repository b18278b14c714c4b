//! The steps of every guest, whatever the route: orders for `guests/init`.

use pagetoll_bill::Order;
use pagetoll_units::Pages;

use crate::step::Step;

/// Pages of a traced step.
pub const TRACED_PAGES: u64 = 4096;
/// Xen's buffer for one step of that many pages: the longest writes 2 MiB, this is 4 MiB.
const TRACE_BUFFER_PAGES: u32 = 1024;

/// Where a guest of the lab finds its module.
pub const PROBE_MODULE: &str = "modules/xen-probe.ko";
/// As [`PROBE_MODULE`].
pub const PRIVCMD_MODULE: &str = "modules/xen-privcmd.ko";

/// What a dom0 can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// There is a probe for its kernel.
    pub probe: bool,
    /// User space can make hypercalls.
    pub privcmd: Privcmd,
}

/// How user space gets at hypercalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privcmd {
    /// It is in the kernel.
    BuiltIn,
    /// By loading a module.
    Module,
    /// Not at all, so nothing is traced.
    None,
    /// To map memory of this domain, and for nothing else.
    Domain(u16),
}

/// What is done for a route in each guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The first use of memory after boot costs more than all that follow, and is not billed.
    pub warm_up: Option<Step>,
    /// What other figures are compared with, by the probe. Not traced.
    pub baselines: Vec<Step>,
    /// The mechanisms, by the probe.
    pub mechanisms: Vec<Step>,
    /// What user space does.
    pub observed: Vec<Step>,
}

impl Privcmd {
    /// The step that loads it, where it is a module.
    pub(crate) fn module(self) -> Option<Step> {
        (self == Self::Module).then(|| Step::Module(PRIVCMD_MODULE.to_owned()))
    }

    /// Whether Xen's trace can be had by it.
    const fn traces(self) -> bool {
        matches!(self, Self::BuiltIn | Self::Module)
    }
}

impl Abilities {
    /// Of a dom0 that can do everything.
    pub const ALL: Self = Self {
        probe: true,
        privcmd: Privcmd::Module,
    };
}

/// Steps with the trace.
pub(crate) fn traced(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let begin = Step::TraceBegin {
        buffer_pages: TRACE_BUFFER_PAGES,
    };
    let steps = [begin].into_iter().chain(steps);
    steps.chain([Step::TraceEnd]).collect()
}

/// The order's pages, or as many of them as are traced: crossings per page do not depend on their number.
pub(crate) fn traced_pages(order: &Order) -> Step {
    Step::Pages(Pages(order.pages.get().min(TRACED_PAGES)))
}

/// Counts in a dom0: first without the trace, which costs, then with it.
pub(crate) fn counting(order: &Order, abilities: Abilities, steps: &Steps) -> Vec<Step> {
    let mut all = vec![Step::Settle];
    if abilities.probe {
        all.push(Step::Module(PROBE_MODULE.to_owned()));
    }
    all.extend(abilities.privcmd.module());
    all.push(Step::Pages(order.pages));
    all.extend(steps.warm_up.clone());
    if abilities.probe {
        all.extend(steps.baselines.iter().cloned());
    }
    all.extend(measured(abilities, steps));
    if abilities.privcmd.traces() {
        all.push(traced_pages(order));
        all.extend(traced(measured(abilities, steps)));
    }
    all
}

fn measured(abilities: Abilities, steps: &Steps) -> Vec<Step> {
    let mut all = Vec::new();
    if abilities.probe {
        all.extend(steps.mechanisms.iter().cloned());
        // What user space does needs as much memory again.
        all.push(Step::Release);
    }
    all.extend(steps.observed.iter().cloned());
    all
}

/// Counts what user space sees without Xen.
pub(crate) fn native(order: &Order, steps: &Steps) -> Vec<Step> {
    let mut all = vec![Step::Settle, Step::Pages(order.pages)];
    all.extend(steps.warm_up.clone());
    all.extend(steps.observed.iter().cloned());
    all
}
