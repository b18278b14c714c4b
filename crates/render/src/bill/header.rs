//! The head of a bill: backend, evidence, stack and order.

use pagetoll_bill::{Bill, Evidence, Route, Unit};

use crate::document::Fact;
use crate::setting::{GUEST_RAM, host_load, stack};

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
    let ram = bill.stack.get(GUEST_RAM);
    facts.extend(ram.map(|size| Fact::new("guest RAM", size.clone())));
    let of_each = bill.route != Route::Restore;
    let pages = if of_each && bill.rows.iter().any(|row| row.key.vcpus.is_some()) {
        "pages of each vCPU"
    } else {
        bill.route.item().many
    };
    facts.push(Fact::new(pages, bill.order.pages.get().to_string()));
    if bill.rows.iter().any(|row| row.key.batch > 1) {
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
