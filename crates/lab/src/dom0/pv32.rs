//! What a 32-bit PAE dom0 does of a route, beside the 64-bit one.
//!
//! No kernel of Debian's is a 32-bit PV guest, so the guest is one of our own (`guests/pv32-probe`): it travels the
//! route, and has no user space that could be observed. A Xen that starts no such guest makes rows that say why.
//! Source: xen/arch/x86/pv/dom0_build.c, `dom0_construct_pv`, and pv/domain.c, `switch_compat`, 4.17.

use pagetoll_bill::{Order, Role, Route, Row, System, Toll, crossing};

use pagetoll_images::xen::pv32::NO_PV32;

use crate::dom0::findings::Findings;
use crate::dom0::plan::{TRACE_BUFFER_PAGES, TRACED_PAGES};

/// What Xen says when it starts no 32-bit PV guest, and what that means. All else is a guest that failed.
const REFUSALS: [(&str, &str); 2] = [
    (
        NO_PV32,
        "this Xen was built without CONFIG_PV32, so it starts no 32-bit PV guest",
    ),
    // -EOPNOTSUPP, of `opt_pv32` alone.
    (
        "Dom0 failed to switch to compat: -95",
        "this Xen was told to start no 32-bit PV guest (pv=no-32)",
    ),
];

/// Mechanisms that are two emulated instructions, the half of the entry that each goes for, in order, and the part
/// that was counted by itself.
const HALVES: [(&str, [&str; 2], &str); 2] = [
    (
        "emulate-2x32",
        ["upper-half", "lower-half"],
        "store-upper-half",
    ),
    (
        "xchg-and-store",
        ["lower-half", "upper-half"],
        "xchg-lower-half",
    ),
];

/// Why this Xen starts no 32-bit guest, when that is what its last words say.
pub(crate) fn refusal(last_words: &str) -> Option<&'static str> {
    let said = |(words, _): &&(&str, &str)| last_words.contains(words);
    REFUSALS.iter().find(said).map(|(_, reason)| *reason)
}

/// Whether the order asks for a 32-bit guest.
pub(crate) fn is_ordered(route: Route, order: &Order) -> bool {
    !order.mechanisms_on(route, System::XenPv32Dom0).is_empty()
}

/// Counts without the trace, which costs, then with it.
pub(crate) fn counting(order: &Order, baselines: &[String], mechanisms: &[String]) -> Vec<String> {
    let mut lines = vec![format!("pages {}", order.pages.get())];
    lines.extend(baselines.iter().chain(mechanisms).cloned());
    lines.push(format!("pages {}", order.pages.get().min(TRACED_PAGES)));
    lines.push(format!("trace-begin {TRACE_BUFFER_PAGES}"));
    lines.extend(mechanisms.iter().cloned());
    lines.push("trace-end".to_owned());
    lines
}

impl Findings {
    /// The 32-bit guest's findings as if they were all there are.
    pub(crate) fn of_pv32(&self) -> Self {
        Self {
            dom0: self.pv32.clone(),
            no_probe: self.no_pv32.clone(),
            ..Self::default()
        }
    }
}

/// Says of rows that the 32-bit guest gave them, and takes the mechanisms apart that are two instructions.
pub(crate) fn attributed(mut rows: Vec<Row>) -> Vec<Row> {
    let baselines: Vec<_> = rows
        .iter()
        .filter(|row| row.role == Role::Baseline)
        .cloned()
        .collect();
    for row in &mut rows {
        row.system = System::XenPv32Dom0;
        itemise_halves(row, &baselines);
    }
    rows
}

fn itemise_halves(row: &mut Row, baselines: &[Row]) {
    let Some((_, [first, second], part)) = HALVES.iter().find(|(name, ..)| *name == row.mechanism)
    else {
        return;
    };
    let part = baselines.iter().find(|other| other.mechanism == *part);
    let (Some(whole), Some(part)) = (row.cost_per_page, part.and_then(|row| row.cost_per_page))
    else {
        return;
    };
    // Two traps: what is not what was ordered is not taken apart.
    if row.crossings.get(crossing::PTWR) == Some(&2.0) {
        row.tolls = vec![toll(first, part), toll(second, whole - part)];
    }
}

fn toll(name: &str, cost_each: f64) -> Toll {
    Toll {
        name: name.to_owned(),
        count_per_page: 1.0,
        cost_each,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pagetoll_bill::Backend;
    use pagetoll_units::Pages;

    use super::*;

    fn order(mechanisms: &[&str]) -> Order {
        let asked = Order {
            pages: Pages(16_384),
            batches: vec![1],
            mechanisms: mechanisms.iter().map(|&name| name.to_owned()).collect(),
            runs: 1,
        };
        Order::new((Route::Fault, Backend::Lab), asked, crate::LIMITS).unwrap()
    }

    #[test]
    fn only_two_of_xens_last_words_are_a_reason() {
        let refused = |words: &str| refusal(&format!("(XEN) {words}")).is_some();
        assert!(refused(NO_PV32));
        assert!(refused("Dom0 failed to switch to compat: -95"));
        assert!(!refused("Dom0 failed to switch to compat: -12"));
        assert!(!refused("Panic on CPU 0: Could not construct d0"));
    }

    #[test]
    fn a_32_bit_guest_is_not_started_for_what_others_can_say() {
        assert!(!is_ordered(Route::Fault, &order(&["emulate", "hypercall"])));
        assert!(is_ordered(Route::Fault, &order(&["emulate-2x32"])));
        assert!(is_ordered(Route::Fault, &order(&[])));
    }

    #[test]
    fn two_halves_sum_to_the_whole() {
        let mut baseline = Row::new("baseline", "store-upper-half", Role::Baseline, Pages(1));
        baseline.set_runs(vec![1545.0]);
        let mut row = Row::new("set", "emulate-2x32", Role::Before, Pages(1));
        row.set_runs(vec![3205.0]);
        row.crossings = BTreeMap::from([(crossing::PTWR.to_owned(), 2.0)]);
        let rows = attributed(vec![baseline, row]);
        assert!(rows.iter().all(|row| row.system == System::XenPv32Dom0));
        let tolls: Vec<_> = rows[1]
            .tolls
            .iter()
            .map(|toll| (toll.name.as_str(), toll.cost_each))
            .collect();
        assert_eq!(tolls, [("upper-half", 1545.0), ("lower-half", 1660.0)]);
    }
}
