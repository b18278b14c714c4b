//! The unmap route on a real Xen and a real Linux.
//!
//! Four kinds of boot: dom0 under Xen, counting; dom0 with another domain's memory, counting; the same kernel without
//! Xen, counting; dom0 with two vCPUs, racing. Each run of an order is a boot of its own of all but the last.

mod plan;
mod rows;

use pagetoll_bill::Order;

use crate::pv::plan::Abilities;
use crate::pv::session::{self, Session};
use crate::routes::Billing;

/// How the route is billed.
pub(crate) const BILLING: Billing = Billing {
    sessions,
    rows: rows::rows,
    notes: &[],
    lab_notes: &[],
    host_notes: |_| Vec::new(),
    counts_flushes: false,
};

fn sessions(order: &Order, abilities: Abilities) -> Vec<Session> {
    let mut all = session::counting(order, abilities, &plan::steps(order));
    all.extend(session::foreign(order, &plan::foreign(order, abilities)));
    if abilities.probe {
        all.push(session::race(plan::race(order)));
    }
    if order.needs_pv32() {
        all.extend(session::pv32(order, &plan::pv32(order)));
    }
    all
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::{RowKey, System};
    use pagetoll_units::Pages;

    use super::*;
    use crate::pv::findings::Findings;

    fn order() -> Order {
        Order {
            pages: Pages(64),
            batches: vec![1],
            mechanisms: pagetoll_bill::Route::Unmap.mechanisms().collect(),
            runs: 1,
        }
    }

    fn serving(is_selected: impl Fn(&RowKey) -> bool) -> Vec<String> {
        let order = order();
        let rows = (BILLING.rows)(&order, &Findings::default());
        let keys: Vec<_> = rows.into_iter().map(|row| row.key).collect();
        let sessions = sessions(&order, Abilities::ALL).into_iter();
        let serves = |session: &Session| {
            let mut selected = keys.iter().filter(|key| is_selected(key));
            selected.any(|key| session.serves(key))
        };
        sessions
            .filter(serves)
            .map(|session| session.name)
            .collect()
    }

    #[test]
    fn native_rows_alone_boot_no_xen() {
        let native = serving(|key| key.system == System::Native);
        assert_eq!(native, ["native"]);
    }

    #[test]
    fn rows_of_mechanisms_are_raced_and_those_of_user_space_are_not() {
        let emulate = |key: &RowKey| key.to_string().starts_with("clear emulate");
        assert_eq!(serving(emulate), ["dom0", "race"]);
        let munmap = |key: &RowKey| key.to_string() == "munmap-zero kernel, xen-pv-dom0";
        assert_eq!(serving(munmap), ["dom0"]);
        assert_eq!(
            serving(|_| true),
            ["dom0", "native", "foreign", "race", "pv32"]
        );
    }
}
