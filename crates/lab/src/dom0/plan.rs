//! What every guest is told to do, whatever the route: orders for `guests/init`, a step a line.

use pagetoll_bill::Order;

use crate::dom0::materials::Materials;
use pagetoll_images::dom0::Part;

/// Guest time in seconds that the kernel gets to finish its work after boot. Linux 7.2 takes 2, idle time is free.
const SETTLE_LIMIT_S: u32 = 60;
/// Crossings per page do not depend on how many pages there are, so a part is traced.
pub(crate) const TRACED_PAGES: u64 = 4096;
/// Xen's buffer for one step of that many pages: the dearest writes 2 MiB, this is 4 MiB.
pub(crate) const TRACE_BUFFER_PAGES: u32 = 1024;

/// Where the guest finds its modules.
pub(crate) const PROBE_MODULE: &str = "modules/xen-probe.ko";
pub(crate) const PRIVCMD_MODULE: &str = "modules/xen-privcmd.ko";

/// What a dom0 can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// There is a probe for its kernel.
    pub(crate) probe: bool,
    /// User space can make hypercalls.
    pub(crate) privcmd: Privcmd,
}

/// How user space gets at hypercalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privcmd {
    /// It is in the kernel.
    BuiltIn,
    /// By loading a module.
    Module,
    /// Not at all, so nothing is traced.
    None,
}

/// What is done for a route in each guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// What the first user of memory after boot pays once more than anybody after it.
    pub(crate) warm_up: Option<String>,
    /// What other figures are compared with, by the probe. Not traced.
    pub(crate) baselines: Vec<String>,
    /// The mechanisms, by the probe.
    pub(crate) mechanisms: Vec<String>,
    /// What user space does.
    pub(crate) observed: Vec<String>,
}

impl Abilities {
    /// Of a dom0 that can do everything.
    pub(crate) const ALL: Self = Self {
        probe: true,
        privcmd: Privcmd::Module,
    };
}

/// What a dom0 that is made from these can do.
pub(crate) fn abilities(materials: &Materials) -> Abilities {
    Abilities {
        probe: materials.probe.is_ok(),
        privcmd: match materials.privcmd {
            Part::BuiltIn => Privcmd::BuiltIn,
            Part::Module(_) => Privcmd::Module,
            Part::Missing(_) => Privcmd::None,
        },
    }
}

/// Counts in a dom0: first without the trace, which costs, then with it.
pub(crate) fn counting(order: &Order, abilities: Abilities, steps: &Steps) -> Vec<String> {
    let mut lines = vec![format!("settle {SETTLE_LIMIT_S}")];
    if abilities.probe {
        lines.push(format!("module /{PROBE_MODULE}"));
    }
    if abilities.privcmd == Privcmd::Module {
        lines.push(format!("module /{PRIVCMD_MODULE}"));
    }
    lines.push(format!("pages {}", order.pages.get()));
    lines.extend(steps.warm_up.clone());
    if abilities.probe {
        lines.extend(steps.baselines.iter().cloned());
    }
    lines.extend(measured(abilities, steps));
    if abilities.privcmd != Privcmd::None {
        lines.push(format!("pages {}", order.pages.get().min(TRACED_PAGES)));
        lines.push(format!("trace-begin {TRACE_BUFFER_PAGES}"));
        lines.extend(measured(abilities, steps));
        lines.push("trace-end".to_owned());
    }
    lines
}

fn measured(abilities: Abilities, steps: &Steps) -> Vec<String> {
    let mut lines = Vec::new();
    if abilities.probe {
        lines.extend(steps.mechanisms.iter().cloned());
        // What user space does needs as much memory again.
        lines.push("release".to_owned());
    }
    lines.extend(steps.observed.iter().cloned());
    lines
}

/// Counts what user space sees without Xen.
pub(crate) fn native(order: &Order, steps: &Steps) -> Vec<String> {
    let mut lines = vec![format!("settle {SETTLE_LIMIT_S}")];
    lines.push(format!("pages {}", order.pages.get()));
    lines.extend(steps.warm_up.clone());
    lines.extend(steps.observed.iter().cloned());
    lines
}
