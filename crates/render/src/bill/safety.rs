//! Safety in few words: bits that a mechanism loses when two vCPUs use a page at once.

use pagetoll_bill::{Check, Row, Verdict};

/// Names of checks of lost bits begin so; what follows is the bit.
const LOST: &str = "smp-lost-";

/// `safe`, `loses D: 746 of 85246`, `inconclusive` or `not checked`.
pub(super) fn verdict(row: &Row) -> String {
    let races = || row.checks.iter().filter(|check| check.is_race());
    let losses: Vec<_> = races()
        .filter(|check| check.verdict == Verdict::Fail)
        .map(loss)
        .collect();
    if !losses.is_empty() {
        return format!("loses {}", losses.join(", "));
    }
    let verdict = if row.smp_safe() == Some(true) {
        "safe"
    } else if races().next().is_some() {
        "inconclusive"
    } else {
        "not checked"
    };
    verdict.to_owned()
}

fn loss(check: &Check) -> String {
    let what = match check.name.strip_prefix(LOST) {
        Some("accessed") => "A",
        Some("dirty") => "D",
        _ => &check.name,
    };
    format!("{what}: {} of {}", check.failed, check.tried)
}
