//! Safety in few words: bits that a mechanism loses when two vCPUs use a page at once.

use pagetoll_bill::{Check, Row, Verdict};

/// Names of checks of lost bits begin so; what follows is the bit.
const LOST: &str = "smp-lost-";

/// `safe`, `loses D: 746 of 85246`, `inconclusive` or `not checked`; of a race that was kept also its day.
pub(super) fn verdict(row: &Row) -> String {
    let races = || row.checks.iter().filter(|check| check.is_race());
    let losses: Vec<_> = races()
        .filter(|check| check.verdict == Verdict::Fail)
        .map(loss)
        .collect();
    let kept = races().find_map(|check| Some((check, check.kept.as_ref()?)));
    let verdict = if !losses.is_empty() {
        format!("loses {}", losses.join(", "))
    } else if row.smp_safe() == Some(true) {
        match kept {
            Some((check, _)) => format!("safe: {} of {} lost", check.failed, check.tried),
            None => "safe".to_owned(),
        }
    } else if races().next().is_some() {
        "inconclusive".to_owned()
    } else {
        "not checked".to_owned()
    };
    match kept {
        Some((_, day)) => format!("{verdict}, kept from {day}"),
        None => verdict,
    }
}

fn loss(check: &Check) -> String {
    let what = match check.name.strip_prefix(LOST) {
        Some("accessed") => "A",
        Some("dirty") => "D",
        _ => &check.name,
    };
    format!("{what}: {} of {}", check.failed, check.tried)
}
