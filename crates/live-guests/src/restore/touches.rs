//! The pages that a guest touches first: its working set, in order; and sets that were recorded. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use pagetoll_bill::spec::Access;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Order in which pages are touched first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after another, from the first page on.
    Sequential,
    /// Any page, with equal chances.
    Random,
    /// Page number k of a shuffled image, with a chance of 1/k.
    Zipf,
    /// These pages.
    Listed(Vec<u64>),
}

/// A seed and the image that pages are chosen from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) seed: u64,
    /// Pages of the image.
    pub(crate) pages: u64,
}

impl Choice {
    /// The first `count` pages of an order, each once; as many as there are.
    pub(crate) fn set(self, order: &Order, count: u64) -> Vec<u64> {
        let count = count.min(self.pages);
        match order {
            Order::Sequential => (0..count).collect(),
            Order::Random => {
                let mut pages = self.shuffled();
                pages.truncate(usize::try_from(count).unwrap_or(usize::MAX));
                pages
            }
            Order::Zipf => self.zipf(count),
            Order::Listed(pages) => {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                pages.iter().copied().take(count).collect()
            }
        }
    }

    /// These pages in another order.
    pub(super) fn shuffled_set(self, mut pages: Vec<u64>) -> Vec<u64> {
        shuffle(&mut pages, &mut SplitMix64::seed_from_u64(self.seed));
        pages
    }

    fn shuffled(self) -> Vec<u64> {
        let mut random = SplitMix64::seed_from_u64(self.seed);
        let mut pages: Vec<u64> = (0..self.pages).collect();
        shuffle(&mut pages, &mut random);
        pages
    }

    /// First touches of a run of draws by Zipf's law with exponent 1, by the inverse of its continuous form.
    fn zipf(self, count: u64) -> Vec<u64> {
        let places = self.shuffled();
        let mut random = SplitMix64::seed_from_u64(!self.seed);
        let mut untouched = vec![true; places.len()];
        let mut set = Vec::new();
        let all = places.len() as f64;
        // The last pages of an image take more draws than all before: they come in the order of their ranks.
        for _ in 0..count.saturating_mul(8) {
            if set.len() as u64 == count {
                return set;
            }
            let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the fraction of a rank below the number of pages"
            )]
            let rank = ((all + 1.0).powf(share) - 1.0) as usize;
            let rank = rank.min(places.len() - 1);
            if std::mem::take(&mut untouched[rank]) {
                set.push(places[rank]);
            }
        }
        let rest = (0..places.len()).filter(|rank| untouched[*rank]);
        let missing = usize::try_from(count).unwrap_or(usize::MAX) - set.len();
        set.extend(rest.take(missing).map(|rank| places[rank]));
        set
    }

    /// A set as large as `touched`, of which `percent` of a hundred are touched again.
    pub(super) fn recorded(self, touched: &[u64], percent: u32) -> Vec<u64> {
        let mut random = SplitMix64::seed_from_u64(self.seed ^ 0x5ca1_ab1e);
        let mut kept = touched.to_vec();
        shuffle(&mut kept, &mut random);
        let share = touched.len() as u64 * u64::from(percent) / 100;
        kept.truncate(usize::try_from(share).unwrap_or(usize::MAX));
        let known: BTreeSet<u64> = touched.iter().copied().collect();
        let mut others: Vec<u64> = (0..self.pages)
            .filter(|page| !known.contains(page))
            .collect();
        shuffle(&mut others, &mut random);
        others.truncate(touched.len() - kept.len());
        kept.extend(others);
        kept.sort_unstable();
        kept
    }
}

/// Entries of a guest's order: offsets in bytes, with bit 0 set where the page is written.
pub(super) fn entries(pages: &[u64], access: Access, seed: u64) -> Vec<u64> {
    let mut random = SplitMix64::seed_from_u64(seed ^ 0x0dd5);
    let entry = |page: &u64| {
        let written = match access {
            Access::Read => false,
            Access::Write => true,
            Access::Mixed => random.next_u64() >> 63 == 1,
        };
        (page * 4096) | u64::from(written)
    };
    pages.iter().map(entry).collect()
}

/// Entries that read every page which `touched` does not name, in order.
pub(super) fn rest(touched: &[u64], pages: u64) -> Vec<u64> {
    let known: BTreeSet<u64> = touched.iter().map(|entry| entry / 4096).collect();
    let others = (0..pages).filter(|page| !known.contains(page));
    others.map(|page| page * 4096).collect()
}

/// Fisher and Yates; the bias of the remainder is below 2^-43 for 2^21 pages.
pub(crate) fn shuffle(pages: &mut [u64], random: &mut SplitMix64) {
    for last in (1..pages.len()).rev() {
        let other = random.next_u64() % (last as u64 + 1);
        pages.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

/// The pages of a list, in its order, each once: a page number or a range `FIRST-LAST` in a line, decimal or with `0x`;
/// `#` begins a comment.
///
/// # Errors
/// The number of the line and what is wrong with it.
pub(super) fn parse(text: &str, pages: u64) -> Result<Vec<u64>, String> {
    let mut known = BTreeSet::new();
    let mut listed = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let word = line.split('#').next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        let range = range(word).ok_or_else(|| {
            format!("line {number}: '{word}': expected a page number, or FIRST-LAST")
        })?;
        let (first, last) = range;
        if first > last || last >= pages {
            return Err(format!(
                "line {number}: '{word}': expected pages from 0 to {}, the last of the image",
                pages - 1
            ));
        }
        listed.extend((first..=last).filter(|page| known.insert(*page)));
    }
    match listed.is_empty() {
        true => Err("no page is listed".to_owned()),
        false => Ok(listed),
    }
}

fn range(word: &str) -> Option<(u64, u64)> {
    let number = |word: &str| match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    };
    match word.split_once('-') {
        Some((first, last)) => Some((number(first.trim())?, number(last.trim())?)),
        None => number(word).map(|page| (page, page)),
    }
}

/// A list of pages, as [`parse`] reads it.
pub(super) fn listed(runs: &[(u64, u64)]) -> String {
    let mut text = String::from("# Pages of 4 KiB of a memory image, by number from 0.\n");
    for (first, count) in runs {
        // A String takes all that is written.
        let _ = match count {
            1 => writeln!(text, "{first}"),
            _ => writeln!(text, "{first}-{}", first + count - 1),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHOICE: Choice = Choice {
        seed: 7,
        pages: 1000,
    };

    /// Maximal runs of sorted pages.
    fn runs(pages: &[u64]) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for page in pages {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == *page => *count += 1,
                _ => runs.push((*page, 1)),
            }
        }
        runs
    }

    fn unique(pages: &[u64]) -> BTreeSet<u64> {
        let set: BTreeSet<u64> = pages.iter().copied().collect();
        assert_eq!(set.len(), pages.len(), "a page twice");
        assert!(set.iter().all(|page| *page < 1000));
        set
    }

    #[test]
    fn a_set_has_as_many_pages_as_ordered_each_once() {
        for order in [Order::Sequential, Order::Random, Order::Zipf] {
            for count in [1, 125, 1000, 2000] {
                let set = CHOICE.set(&order, count);
                assert_eq!(unique(&set).len() as u64, count.min(1000), "{order:?}");
                assert_eq!(
                    CHOICE.set(&order, count),
                    set,
                    "another set by the same seed"
                );
            }
        }
        assert_eq!(CHOICE.set(&Order::Sequential, 3), [0, 1, 2]);
        let other = Choice { seed: 8, ..CHOICE };
        assert_ne!(other.set(&Order::Random, 9), CHOICE.set(&Order::Random, 9));
    }

    #[test]
    fn a_zipf_order_begins_with_the_pages_of_low_ranks() {
        let places = CHOICE.shuffled();
        let first = CHOICE.set(&Order::Zipf, 50);
        let low = first
            .iter()
            .filter(|page| places[..250].contains(page))
            .count();
        assert!(low > 30, "{low} of 50 in the first quarter of the ranks");
    }

    #[test]
    fn a_recorded_set_overlaps_as_ordered() {
        let touched = CHOICE.set(&Order::Random, 200);
        for percent in [0, 50, 90, 100] {
            let recorded = CHOICE.recorded(&touched, percent);
            let again = unique(&recorded).intersection(&unique(&touched)).count();
            assert_eq!((recorded.len(), again), (200, 2 * percent as usize));
        }
        // Of a set that is most of the image there are not as many others.
        let most = CHOICE.set(&Order::Random, 900);
        assert_eq!(CHOICE.recorded(&most, 50).len(), 550);
    }

    #[test]
    fn the_rest_is_read_and_is_all_that_was_not_touched() {
        let touched = entries(&[2, 0], Access::Write, 1);
        assert_eq!(touched, [8193, 1]);
        assert_eq!(rest(&touched, 4), [4096, 12288]);
        let mixed = entries(&[1; 64], Access::Mixed, 1);
        assert!(mixed.contains(&4096) && mixed.contains(&4097));
    }

    #[test]
    fn a_line_that_is_no_page_is_named() {
        let refused = |text| parse(text, 10).unwrap_err();
        assert!(refused("1\nx\n").starts_with("line 2: 'x': expected a page number"));
        assert!(refused("10").contains("expected pages from 0 to 9"));
        assert!(refused("5-3").contains("'5-3'"));
        assert_eq!(refused("# nothing\n"), "no page is listed");
        assert_eq!(
            parse("7 # first\n\n0x2-4\n3\n", 10),
            Ok(vec![7, 2, 3, 4]),
            "a page that is listed again is touched already"
        );
    }

    proptest! {
        #[test]
        fn what_is_listed_is_read_again(pages in prop::collection::btree_set(0..1000_u64, 1..100)) {
            let pages: Vec<u64> = pages.into_iter().collect();
            let text = listed(&runs(&pages));
            prop_assert_eq!(parse(&text, 1000), Ok(pages));
        }
    }
}
