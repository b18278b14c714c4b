//! The part of a 32-bit PAE dom0 in a route, beside the 64-bit one.
//!
//! No kernel of Debian's is a 32-bit PV guest, so the guest is one of our own (`guests/pv32-probe`): it runs the
//! route, and has no user space that could be observed. A Xen that starts no such guest makes rows that say why.
//! Source: xen/arch/x86/pv/dom0_build.c, `dom0_construct_pv`, and pv/domain.c, `switch_compat`, 4.17.

use pagetoll_bill::route::{Fault, Unmap};
use pagetoll_bill::row::Baseline;
use pagetoll_bill::{Figures, Mechanism, Order, Toll, crossing};
use pagetoll_images::xen::pv32::NO_PV32;
use pagetoll_protocol::step::Step;

use crate::findings::Findings;
use crate::plan::Trace;

const LOWER: &str = "lower-half";
const UPPER: &str = "upper-half";

/// Messages of a Xen that starts no 32-bit PV guest, and their meanings. After any other, the guest has failed.
const REFUSALS: [(&str, &str); 2] = [
    (
        NO_PV32,
        "this Xen was built without CONFIG_PV32, so it starts no 32-bit PV guest",
    ),
    // -EOPNOTSUPP, of `opt_pv32` alone.
    (
        "Dom0 failed to switch to compat: -95",
        "this Xen was booted to start no 32-bit PV guest (pv=no-32)",
    ),
];

/// The reason why this Xen starts no 32-bit guest, where its last words are one of those messages.
pub fn refusal(last_words: &str) -> Option<&'static str> {
    let said = |(words, _): &&(&str, &str)| last_words.contains(words);
    REFUSALS.iter().find(said).map(|(_, reason)| *reason)
}

/// Counts without the trace, which costs, then with it.
pub(crate) fn counting(order: &Order, baselines: &[Step], mechanisms: &[Step]) -> Vec<Step> {
    let mut all = vec![Step::Pages(order.pages)];
    all.extend(baselines.iter().chain(mechanisms).cloned());
    all.push(Trace::LAB.step_of_pages(order));
    all.extend(Trace::LAB.around(mechanisms.iter().cloned()));
    all
}

impl Findings {
    /// The 32-bit guest's findings as if they were all there are.
    pub(crate) fn pv32_alone(&self) -> Self {
        Self {
            dom0: self.pv32.clone(),
            no_probe: self.no_pv32.clone(),
            ..Self::default()
        }
    }
}

/// Tolls of a mechanism that is two emulated instructions, one for each half of the entry; `None` of all others, and
/// where two traps were not what was counted. `cost` is that of a half by itself.
pub(crate) fn halves(
    mechanism: Mechanism,
    whole: &Figures,
    cost: impl Fn(Baseline) -> Option<f64>,
) -> Option<Vec<Toll>> {
    let (part, [first, second]) = if mechanism == Fault::Emulate2x32.into() {
        (Baseline::StoreUpperHalf, [UPPER, LOWER])
    } else if mechanism == Unmap::XchgAndStore.into() {
        (Baseline::XchgLowerHalf, [LOWER, UPPER])
    } else {
        return None;
    };
    let traps = whole.crossings.as_ref()?.by_kind.get(crossing::PTWR)?;
    let part = cost(part)?;
    let rest = whole.cost_per_page - part;
    (*traps == 2.0).then(|| vec![Toll::once(first, part), Toll::once(second, rest)])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pagetoll_bill::Crossings;

    use super::*;

    #[test]
    fn only_two_of_xens_last_words_are_a_reason() {
        let refused = |words: &str| refusal(&format!("(XEN) {words}")).is_some();
        assert!(refused(NO_PV32));
        assert!(refused("Dom0 failed to switch to compat: -95"));
        assert!(!refused("Dom0 failed to switch to compat: -12"));
        assert!(!refused("Panic on CPU 0: Could not construct d0"));
    }

    #[test]
    fn two_halves_sum_to_the_whole() {
        let whole = |traps| Figures {
            crossings: Some(Crossings {
                per_page: traps,
                by_kind: BTreeMap::from([(crossing::PTWR.to_owned(), traps)]),
            }),
            ..Figures::of_runs(vec![3205.0]).unwrap()
        };
        let cost = |part| (part == Baseline::StoreUpperHalf).then_some(1545.0);
        let of = |mechanism: Fault, traps| halves(mechanism.into(), &whole(traps), cost);
        let tolls = [
            Toll::once("upper-half", 1545.0),
            Toll::once("lower-half", 1660.0),
        ];
        assert_eq!(of(Fault::Emulate2x32, 2.0), Some(tolls.to_vec()));
        assert_eq!(of(Fault::Emulate2x32, 1.0), None);
        assert_eq!(of(Fault::Emulate, 2.0), None);
    }
}
