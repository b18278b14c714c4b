//! What was billed, where, and how far the figures can be trusted.

use pagetoll_bill::{Bill, Evidence, HostLoad, Unit};

use crate::document::Fact;
use crate::figure;

/// From this share of CPU time on, others disturb what is measured. Assumed.
const BUSY: f64 = 0.1;

pub(super) fn facts(bill: &Bill) -> Vec<Fact> {
    let mut facts = vec![
        Fact::new(
            "backend",
            format!("{}: {}", bill.backend, bill.backend_reason),
        ),
        Fact::new("evidence", evidence(bill.evidence)),
        Fact::new("figures", format!("{} per {}", unit(bill), item(bill))),
        Fact::new("stack", stack(bill)),
    ];
    facts.extend(guest_ram(bill));
    let pages = if bill.rows.iter().any(|row| row.key.vcpus.is_some()) {
        "pages of each vCPU"
    } else {
        bill.route.item().many
    };
    facts.push(Fact::new(pages, bill.order.pages.get().to_string()));
    if has_batches(bill) {
        let batches = bill.order.batches.iter().map(ToString::to_string);
        facts.push(Fact::new("batches", batches.collect::<Vec<_>>().join(", ")));
    }
    facts.push(Fact::new("runs", bill.order.runs.to_string()));
    facts.extend(host_load(bill));
    facts
}

const fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Exact => "exact: counted; the same run gives the same figure",
        Evidence::Measured => "measured, with a spread",
        Evidence::Modelled => "modelled: computed, not run",
    }
}

const fn unit(bill: &Bill) -> &'static str {
    match bill.unit {
        Unit::Instructions => "guest and hypervisor instructions",
        Unit::Nanoseconds => "nanoseconds",
    }
}

fn item(bill: &Bill) -> &'static str {
    match bill.route.item().one {
        "page" => "page of 4 KiB",
        other => other,
    }
}

fn has_batches(bill: &Bill) -> bool {
    bill.rows.iter().any(|row| row.key.batch > 1)
}

/// The component of the stack that is no version.
const GUEST_RAM: &str = "guest-ram";

/// Versions, by component.
pub(crate) fn stack(bill: &Bill) -> String {
    let versions = bill.stack.iter().filter(|(name, _)| *name != GUEST_RAM);
    let parts = versions.map(|(name, version)| format!("{name} {version}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn guest_ram(bill: &Bill) -> Option<Fact> {
    let size = bill.stack.get(GUEST_RAM)?;
    Some(Fact::new("guest RAM", size.clone()))
}

/// What else ran on the host, and a warning where that was much.
pub(crate) fn host_load(bill: &Bill) -> Vec<Fact> {
    let Some(load) = bill.provenance.inputs.host_load else {
        return Vec::new();
    };
    let HostLoad {
        load_average,
        others,
        steal,
    } = load;
    let average = figure::fixed(load_average, 1);
    let (taken, stolen) = (figure::percent(others), figure::percent(steal));
    let text = format!("{average} before the run, {taken} taken by others, {stolen} stolen");
    let warning = "the host was busy, so figures may differ on an idle one";
    let busy = (others >= BUSY || steal >= BUSY).then(|| Fact::new("warning", warning));
    [Fact::new("host load", text)]
        .into_iter()
        .chain(busy)
        .collect()
}
