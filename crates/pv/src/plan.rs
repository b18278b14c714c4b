//! The steps of every guest, whatever the route: orders for `guests/init`.

use pagetoll_bill::Order;
use pagetoll_protocol::step::Step;
use pagetoll_units::Pages;

/// The part of a step that Xen's trace takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Pages of a traced step, at most. Crossings per page do not depend on their number, but in what a batch that is not
    /// full adds.
    pub pages: Pages,
    /// Pages of each CPU's buffer: a step of that many pages writes half of it at most.
    buffer_pages: u32,
}

impl Trace {
    /// In a guest of the lab.
    pub const LAB: Self = Self {
        pages: Pages(4096),
        buffer_pages: 1024,
    };
    /// On a host, where Xen keeps the buffers until it is booted again: one of the largest batches.
    pub const HOST: Self = Self {
        pages: Pages(512),
        buffer_pages: 128,
    };

    /// The order's pages, or as many of them as are traced.
    pub(crate) fn step_of_pages(self, order: &Order) -> Step {
        Step::Pages(order.pages.min(self.pages))
    }

    /// Steps with the trace.
    pub(crate) fn around(self, steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
        let begin = Step::TraceBegin {
            buffer_pages: self.buffer_pages,
        };
        let steps = [begin].into_iter().chain(steps);
        steps.chain([Step::TraceEnd]).collect()
    }
}

/// The path of the probe's module in a guest of the lab.
pub const PROBE_MODULE: &str = "modules/xen-probe.ko";
/// The path of the module of Xen's hypercalls, as [`PROBE_MODULE`].
pub const PRIVCMD_MODULE: &str = "modules/xen-privcmd.ko";

/// Abilities of a dom0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// There is a probe for its kernel.
    pub probe: bool,
    /// User space can make hypercalls.
    pub privcmd: Privcmd,
    /// Xen's trace can be had by them.
    pub trace: Option<Trace>,
    /// Whose memory it maps.
    pub other: Other,
    /// CPUs whose TLBs it flushes at once.
    pub cpus: usize,
}

/// The way of user space to hypercalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privcmd {
    /// It is in the kernel.
    BuiltIn,
    /// By loading a module.
    Module,
    /// Not at all.
    None,
}

/// Another domain, whose memory is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// None.
    None,
    /// One that is made for it.
    Made,
    /// The one with this number.
    Existing(u16),
}

/// Steps of a route in each guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// The first use of memory after boot costs more than all that follow, and is not billed.
    pub warm_up: Option<Step>,
    /// Baselines of other figures, by the probe. Not traced.
    pub baselines: Vec<Step>,
    /// The mechanisms, by the probe.
    pub mechanisms: Vec<Step>,
    /// Operations of user space.
    pub observed: Vec<Step>,
}

impl Steps {
    /// Twice: the second fills what the first has emptied.
    fn warm_ups(&self) -> impl Iterator<Item = Step> {
        self.warm_up.iter().chain(&self.warm_up).cloned()
    }
}

impl Privcmd {
    /// The step that loads it, where it is a module.
    pub(crate) fn module(self) -> Option<Step> {
        (self == Self::Module).then(|| Step::Module(PRIVCMD_MODULE.to_owned()))
    }
}

impl Abilities {
    /// Abilities of a dom0 that can do everything.
    pub const ALL: Self = Self {
        probe: true,
        privcmd: Privcmd::Module,
        trace: Some(Trace::LAB),
        other: Other::Made,
        cpus: 1,
    };
}

/// Steps that make a dom0 ready, the same for all that count: they are one guest until they get their orders.
pub(crate) fn preparation(abilities: Abilities) -> Vec<Step> {
    let probe = Step::Module(PROBE_MODULE.to_owned());
    let modules = abilities.probe.then_some(probe);
    let modules = modules.into_iter().chain(abilities.privcmd.module());
    [Step::Settle, Step::Steady]
        .into_iter()
        .chain(modules)
        .collect()
}

/// Counts in a dom0: first without the trace, which costs, then with it.
pub(crate) fn counting(order: &Order, abilities: Abilities, steps: &Steps) -> Vec<Step> {
    let mut all = preparation(abilities);
    all.push(Step::Pages(order.pages));
    all.extend(steps.warm_ups());
    if abilities.probe {
        all.extend(steps.baselines.iter().cloned());
    }
    all.extend(measured(abilities, steps));
    if let Some(trace) = abilities.trace {
        all.push(trace.step_of_pages(order));
        all.extend(trace.around(measured(abilities, steps)));
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
    let mut all = vec![Step::Settle, Step::Steady, Step::Pages(order.pages)];
    all.extend(steps.warm_ups());
    all.extend(steps.observed.iter().cloned());
    all
}
