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
    /// What it does by hypercalls, after all else, so that no other figure depends on it.
    pub privileged: Privileged,
}

/// Steps with a number of pages of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileged {
    /// How many, where there are no fewer of them.
    pub pages: Pages,
    /// In their order, with and without the trace.
    pub steps: Vec<Step>,
    /// Undoes them.
    pub release: Option<Step>,
}

impl Privileged {
    fn at(&self, most: Pages) -> impl Iterator<Item = Step> {
        let pages = (!self.steps.is_empty()).then(|| Step::Pages(self.pages.min(most)));
        pages.into_iter().chain(self.steps.iter().cloned())
    }
}

impl Abilities {
    /// Of a dom0 that can do everything.
    pub const ALL: Self = Self {
        probe: true,
        privcmd: Privcmd::Module,
    };
}

/// The order's pages, or as many of them as are traced: crossings per page do not depend on their number.
pub(crate) fn traced(order: &Order, steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let begin = [
        Step::Pages(Pages(order.pages.get().min(TRACED_PAGES))),
        Step::TraceBegin {
            buffer_pages: TRACE_BUFFER_PAGES,
        },
    ];
    begin
        .into_iter()
        .chain(steps)
        .chain([Step::TraceEnd])
        .collect()
}

/// Counts in a dom0: first without the trace, which costs, then with it.
pub(crate) fn counting(order: &Order, abilities: Abilities, steps: &Steps) -> Vec<Step> {
    let mut all = vec![Step::Settle];
    if abilities.probe {
        all.push(Step::Module(PROBE_MODULE.to_owned()));
    }
    if abilities.privcmd == Privcmd::Module {
        all.push(Step::Module(PRIVCMD_MODULE.to_owned()));
    }
    all.push(Step::Pages(order.pages));
    all.extend(steps.warm_up.clone());
    if abilities.probe {
        all.extend(steps.baselines.iter().cloned());
    }
    all.extend(measured(abilities, steps));
    let privileged = &steps.privileged;
    match abilities.privcmd {
        Privcmd::None => {}
        Privcmd::Domain(id) => {
            all.push(Step::Domain(id));
            all.extend(privileged.at(order.pages));
        }
        Privcmd::BuiltIn | Privcmd::Module => {
            let first = measured(abilities, steps).into_iter();
            let second = privileged.at(Pages(TRACED_PAGES));
            all.extend(traced(order, first.chain(second)));
            all.extend(privileged.at(order.pages));
            all.extend(privileged.release.clone());
        }
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
