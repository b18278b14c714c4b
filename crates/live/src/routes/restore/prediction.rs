//! The time of a replay, predicted from other lines of the bill. Pure.
//!
//! A replay copies a recorded set by calls of up to 2 MiB, and then the guest touches its working set: pages that were
//! recorded are there, the others are faults. A call and a page cost what readers took for both in the lines of `uffd` at the
//! least and the largest batch; a touch of a page that is there costs what it does after `read`; a fault costs what it
//! does by `uffd` at the same batch; and the first instruction comes as late as by `uffd`.

use std::collections::BTreeSet;

/// Costs that other lines have, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Time of the first instruction without a replay.
    pub(super) first: f64,
    /// A call that copies, beside its pages.
    pub(super) call: f64,
    /// A page that is copied.
    pub(super) page: f64,
    /// A touch of a page that is there.
    pub(super) touch: f64,
    /// A touch of a page that is missing.
    pub(super) fault: f64,
}

/// Work of handlers: how many calls and pages, and their time in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    pub(super) calls: f64,
    pub(super) pages: f64,
    pub(super) time: f64,
}

impl Work {
    /// The cost of a call and of a page where both lines are made of these two; `None` where they do not tell them apart.
    pub(super) fn split(self, other: Self) -> Option<(f64, f64)> {
        let determinant = self.calls * other.pages - other.calls * self.pages;
        if determinant.abs() < 1e-9 * self.pages * other.pages {
            return None;
        }
        let call = (self.time * other.pages - other.time * self.pages) / determinant;
        let page = (self.calls * other.time - other.calls * self.time) / determinant;
        Some((call.max(0.0), page.max(0.0)))
    }
}

/// Time until a working set has been touched, in nanoseconds, after these runs of pages were replayed. `most` pages are
/// copied by a call.
pub(super) fn of_replay(costs: Costs, set: &[u64], recorded: &[(u64, u64)], most: u64) -> f64 {
    let known: BTreeSet<u64> = recorded
        .iter()
        .flat_map(|(first, n)| *first..first + n)
        .collect();
    let there = set.iter().filter(|page| known.contains(page)).count() as f64;
    let missing = set.len() as f64 - there;
    let calls: u64 = recorded.iter().map(|(_, count)| count.div_ceil(most)).sum();
    costs.first
        + calls as f64 * costs.call
        + known.len() as f64 * costs.page
        + there * costs.touch
        + missing * costs.fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_and_a_page_are_told_apart_by_two_batches() {
        // 1000 a call and 300 a page.
        let work = |calls: f64, pages: f64| Work {
            calls,
            pages,
            time: 1000.0 * calls + 300.0 * pages,
        };
        let (call, page) = work(100.0, 100.0).split(work(2.0, 128.0)).unwrap();
        assert!((call - 1000.0).abs() < 1e-6 && (page - 300.0).abs() < 1e-6);
        assert_eq!(work(1.0, 64.0).split(work(2.0, 128.0)), None);
    }

    #[test]
    fn a_replay_is_its_calls_and_pages_and_what_it_missed() {
        let costs = Costs {
            first: 10_000.0,
            call: 1000.0,
            page: 300.0,
            touch: 100.0,
            fault: 9000.0,
        };
        // Three pages there, one missing; 600 pages by two calls and one page by one.
        let predicted = of_replay(costs, &[0, 1, 599, 1000], &[(0, 600), (800, 1)], 512);
        assert_eq!(
            predicted,
            10_000.0 + 3000.0 + 601.0 * 300.0 + 300.0 + 9000.0
        );
    }
}
