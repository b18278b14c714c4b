//! Changes of functions from one kernel to another, row by row, whoever called them.

use std::collections::{BTreeMap, BTreeSet};

use inferno::flamegraph::color::Color;
use pagetoll_bill::profile::Stacks;

use super::drawing::plain;
use crate::figure;

/// The colour of what did not change.
pub(super) const WHITE: Color = Color {
    r: 250,
    g: 250,
    b: 250,
};
/// The change up to which a function is the same; that of `diff`.
const SAME: f64 = 0.005;
/// The change from which on colours are full.
const FULL: f64 = 1.0;

/// A function of a row; the row itself, without a function.
type Place<'a> = (&'a str, Option<&'a str>);

/// Instructions of each function that both kernels execute, with those of functions that one of them inlined into it.
pub(super) struct Changes<'a> {
    common: BTreeSet<Place<'a>>,
    counts: BTreeMap<Place<'a>, Change>,
}

/// Instructions of a function, without what it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    first: u64,
    second: u64,
    /// Instructions on the first kernel, with what it calls: a frame is as wide.
    whole: u64,
}

impl<'a> Changes<'a> {
    pub(super) fn new(first: &'a Stacks, second: &'a Stacks) -> Self {
        let (of_first, of_second) = (places(first), places(second));
        let mut changes = Self {
            common: of_first.intersection(&of_second).copied().collect(),
            counts: BTreeMap::new(),
        };
        for (frames, count) in first {
            changes.add(frames, *count, |change| &mut change.first);
            changes.add_whole(frames, *count);
        }
        for (frames, count) in second {
            changes.add(frames, *count, |change| &mut change.second);
        }
        changes
    }

    /// Adds to the innermost function that both kernels have, and to the row.
    fn add(&mut self, frames: &'a [String], count: u64, to: fn(&mut Change) -> &mut u64) {
        let row = frames.first().map(|row| (row.as_str(), None));
        let own = self.innermost(frames).filter(|place| Some(*place) != row);
        for place in row.into_iter().chain(own) {
            let sum = to(self.counts.entry(place).or_default());
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds to the row and to each function of the stack, once.
    fn add_whole(&mut self, frames: &'a [String], count: u64) {
        let Some((row, functions)) = frames.split_first() else {
            return;
        };
        let functions = functions.iter().map(|name| Some(name.as_str()));
        for function in functions.chain([None]).collect::<BTreeSet<_>>() {
            let change = self.counts.entry((row, function)).or_default();
            change.whole = change.whole.saturating_add(count);
        }
    }

    /// The change of the last of these frames, or else of the function that it counts as.
    pub(super) fn innermost_change(&self, frames: &'a [String]) -> Change {
        let place = self.innermost(frames);
        let change = place.and_then(|place| self.counts.get(&place));
        change.copied().unwrap_or_default()
    }

    fn innermost(&self, frames: &'a [String]) -> Option<Place<'a>> {
        let (row, functions) = frames.split_first()?;
        let places = functions
            .iter()
            .map(|name| (row.as_str(), Some(name.as_str())));
        let common = places.rev().find(|place| self.common.contains(place));
        Some(common.unwrap_or((row, None)))
    }
}

fn places(stacks: &Stacks) -> BTreeSet<Place<'_>> {
    let rows = stacks.keys().filter_map(|frames| frames.split_first());
    let places = rows.flat_map(|(row, functions)| {
        functions
            .iter()
            .map(|name| (row.as_str(), Some(name.as_str())))
    });
    places.collect()
}

/// Suffixes that give functions a colour where kernels are not compared.
const ANNOTATIONS: [&str; 3] = ["_[k]", "_[j]", "_[i]"];

fn unannotated(frame: &str) -> &str {
    let mut suffixes = ANNOTATIONS.iter();
    let name = suffixes.find_map(|suffix| frame.strip_suffix(suffix));
    name.unwrap_or(frame)
}

impl Change {
    /// The difference as a share of the function with what it calls; nothing where that is too little to matter. A share of
    /// the function alone would be large where it only calls others.
    fn share(self) -> f64 {
        let difference = self.second as f64 - self.first as f64;
        let share = difference / self.whole.max(1) as f64;
        if share.abs() <= SAME { 0.0 } else { share }
    }

    /// White, and the more red or blue the larger the change: by its square root, so that 5 % are seen.
    pub(super) fn colour(self) -> Color {
        let share = self.share();
        if share == 0.0 {
            return WHITE;
        }
        let rest = 250.0 - 150.0 * (share.abs() / FULL).min(1.0).sqrt();
        #[expect(clippy::cast_possible_truncation, reason = "100 to 250")]
        let paleness = rest as u8;
        match share > 0.0 {
            true => Color {
                r: 255,
                g: paleness,
                b: paleness,
            },
            false => Color {
                r: paleness,
                g: paleness,
                b: 255,
            },
        }
    }

    /// The name of a frame, which says by how much its function changed.
    pub(super) fn label(self, frame: &str) -> String {
        let name = plain(unannotated(frame));
        match self.share() {
            0.0 => name,
            share => format!("{name} {} %", figure::signed(100.0 * share, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(stacks: &[(&str, u64)]) -> Stacks {
        let stacks = stacks.iter().map(|(frames, count)| {
            let frames = frames.split(';').map(str::to_owned);
            (frames.collect(), *count)
        });
        stacks.collect()
    }

    fn label(changes: &Changes<'_>, frames: &str) -> String {
        let frames: Vec<_> = frames.split(';').map(str::to_owned).collect();
        // The frames outlive the changes in the program.
        let frames: &'static [String] = Vec::leak(frames);
        changes
            .innermost_change(frames)
            .label(&frames[frames.len() - 1])
    }

    #[test]
    fn a_function_whose_callers_were_inlined_did_not_change() {
        let old = stacks(&[
            ("r;zap;set_pte_[k];emulate_[j]", 1000),
            ("r;zap;set_pte_[k]", 50),
        ]);
        let new = stacks(&[("r;zap;emulate_[j]", 1000), ("r;zap", 50)]);
        let changes = Changes::new(&old, &new);
        assert_eq!(label(&changes, "r;zap;emulate_[j]"), "emulate");
        assert_eq!(label(&changes, "r;zap"), "zap");
        let backwards = Changes::new(&new, &old);
        assert_eq!(label(&backwards, "r;zap;set_pte_[k]"), "set_pte");
    }

    #[test]
    fn a_function_that_executes_more_says_so_in_its_row_alone() {
        let old = stacks(&[("a;f", 1000), ("b;f", 1000), ("b;g", 10)]);
        let new = stacks(&[("a;f", 1056), ("b;f", 1004), ("b;g", 5)]);
        let changes = Changes::new(&old, &new);
        assert_eq!(label(&changes, "a;f"), "f +5.6 %");
        assert_eq!(label(&changes, "a"), "a +5.6 %");
        assert_eq!(label(&changes, "b;f"), "f");
        assert_eq!(label(&changes, "b;g"), "g -50.0 %");
    }

    #[test]
    fn a_function_that_only_calls_what_changed_did_not_change() {
        let old = stacks(&[("r;main", 1), ("r;main;f", 1000), ("r;main;g", 1000)]);
        let new = stacks(&[("r;main", 6), ("r;main;f", 1000), ("r;main;g", 2000)]);
        let changes = Changes::new(&old, &new);
        assert_eq!(label(&changes, "r;main"), "main");
        assert_eq!(label(&changes, "r;main;f"), "f");
        assert_eq!(label(&changes, "r;main;g"), "g +100.0 %");
    }

    #[test]
    fn the_larger_the_change_the_deeper_the_colour() {
        let colour = |second| {
            Change {
                first: 1000,
                second,
                whole: 1000,
            }
            .colour()
        };
        assert_eq!(colour(1004), WHITE);
        let (some, more, all) = (colour(1050), colour(1500), colour(9000));
        assert_eq!((some.r, more.r, all.r), (255, 255, 255));
        assert!(some.g > more.g && more.g > all.g && all.g == 100);
        assert_eq!((colour(500).b, colour(0).r), (255, 100));
    }
}
