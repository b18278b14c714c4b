//! Memory slots: guest frames of host addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::str::FromStr;

use serde::Serialize;

/// Bytes of a page, as a shift.
const PAGE_SHIFT: u32 = 12;
/// Votes that are needed.
const FEWEST_VOTES: u64 = 8;
/// Votes of a hundred that must agree.
const MAJORITY: u64 = 90;
/// Re-faults and unmaps of which all pairs are tried.
const SAMPLE: usize = 256;
/// Pages that vote, and offsets that are voted for, at most.
const MOST: usize = 1 << 20;
/// Frames below 4 GiB, which x86 separates from those above.
const LOW: u64 = 1 << 20;

/// Guest memory in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Guest physical address.
    pub gpa: u64,
    /// Address in the VMM.
    pub hva: u64,
    /// Bytes.
    pub size: u64,
}

impl FromStr for Slot {
    type Err = String;

    /// Reads `GPA=HVA:SIZE`, hexadecimal numbers, in whole pages.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "{text}: expected GPA=HVA:SIZE in hexadecimal, whole pages of 4 KiB, such as 0x100000000=0x7f5b1ec00000:0x40000000"
            )
        };
        let number = |text: &str| {
            let digits = text.trim().strip_prefix("0x").unwrap_or(text.trim());
            let number = u64::from_str_radix(digits, 16).ok();
            number.filter(|number| number % (1 << PAGE_SHIFT) == 0)
        };
        let parts = text.split_once('=').and_then(|(gpa, rest)| {
            let (hva, size) = rest.split_once(':')?;
            Some((number(gpa)?, number(hva)?, number(size)?))
        });
        let (gpa, hva, size) = parts.ok_or_else(expected)?;
        let fits = gpa.checked_add(size).is_some() && hva.checked_add(size).is_some();
        match fits && size > 0 {
            true => Ok(Self { gpa, hva, size }),
            false => Err(expected()),
        }
    }
}

impl Slot {
    /// Frames behind a range of addresses.
    pub(super) fn frames(&self, start: u64, end: u64) -> Option<Range<u64>> {
        let start = start.max(self.hva);
        let end = end.min(self.hva + self.size);
        (start < end).then(|| {
            let frame = |address: u64| (self.gpa + (address - self.hva)) >> PAGE_SHIFT;
            frame(start)..frame(end - 1) + 1
        })
    }
}

/// Votes for the difference of addresses and frames, of a part of a VM's memory.
#[derive(Debug, Default)]
struct Part {
    seen: BTreeSet<u64>,
    again: BTreeSet<u64>,
    named: BTreeMap<u64, u64>,
}

/// Evidence of a VM's slots in a capture.
#[derive(Debug, Default)]
pub(super) struct Votes {
    parts: [Part; 2],
    taken: BTreeSet<u64>,
}

/// Agreement of votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Votes for the slots that were taken.
    pub agree: u64,
    /// Votes that named any page.
    pub votes: u64,
}

impl Votes {
    fn part(&mut self, gfn: u64) -> &mut Part {
        let [low, high] = &mut self.parts;
        if gfn < LOW { low } else { high }
    }

    /// A page got an entry.
    pub(super) fn map(&mut self, gfn: u64) {
        let part = self.part(gfn);
        if part.seen.len() < MOST && part.seen.insert(gfn) {
            return;
        }
        if part.again.len() < MOST {
            part.again.insert(gfn);
        }
    }

    /// A page was taken away from an address.
    pub(super) fn take(&mut self, hva: u64) {
        if self.taken.len() < MOST {
            self.taken.insert(hva >> PAGE_SHIFT);
        }
    }

    /// A thread took a page from an address, and then this frame was what it was about.
    pub(super) fn name(&mut self, hva: u64, gfn: u64) {
        let part = self.part(gfn);
        let offset = (hva >> PAGE_SHIFT).wrapping_sub(gfn);
        if part.named.len() < MOST || part.named.contains_key(&offset) {
            *part.named.entry(offset).or_default() += 1;
        }
    }

    /// The slots that a large majority names.
    pub(super) fn slots(&self) -> Option<(Vec<Slot>, Agreement)> {
        let mut sum = Agreement { agree: 0, votes: 0 };
        let mut slots = Vec::new();
        for part in &self.parts {
            let Some((slot, agreement)) = part.slot(&self.taken) else {
                continue;
            };
            slots.push(slot);
            sum.agree += agreement.agree;
            sum.votes += agreement.votes;
        }
        (!slots.is_empty()).then_some((slots, sum))
    }
}

impl Part {
    fn slot(&self, taken: &BTreeSet<u64>) -> Option<(Slot, Agreement)> {
        let (offset, agreement) = self.named().or_else(|| self.matched(taken))?;
        let (first, last) = (*self.seen.first()?, *self.seen.last()?);
        let slot = Slot {
            gpa: first << PAGE_SHIFT,
            hva: first.wrapping_add(offset) << PAGE_SHIFT,
            size: (last - first + 1) << PAGE_SHIFT,
        };
        let fits = slot.hva.checked_add(slot.size).is_some();
        fits.then_some((slot, agreement))
    }

    /// By threads that took one page and named its frame.
    fn named(&self) -> Option<(u64, Agreement)> {
        let (&offset, &agree) = self.named.iter().max_by_key(|(_, votes)| **votes)?;
        majority(offset, agree, self.named.values().sum())
    }

    /// By pages that faulted again and addresses that were taken: of all differences, the one that most have. Another must be
    /// contradicted by [`FEWEST_VOTES`] of them, as it is not where all of a contiguous range went.
    fn matched(&self, taken: &BTreeSet<u64>) -> Option<(u64, Agreement)> {
        let again: Vec<_> = self.again.iter().copied().collect();
        let hvas: Vec<_> = taken.iter().copied().collect();
        let mut pairs: BTreeMap<u64, u64> = BTreeMap::new();
        let mut try_all = |again: &[u64], hvas: &[u64]| {
            for (gfn, hva) in again
                .iter()
                .flat_map(|gfn| hvas.iter().map(move |hva| (gfn, hva)))
            {
                *pairs.entry(hva.wrapping_sub(*gfn)).or_default() += 1;
            }
        };
        try_all(&spread(&again), &spread(&hvas));
        for eighth in 0..8 {
            try_all(window(&again, eighth), window(&hvas, eighth));
        }
        let mut best: Vec<_> = pairs.into_iter().collect();
        best.sort_by_key(|&(_, pairs)| std::cmp::Reverse(pairs));
        let score = |(offset, _): &(u64, u64)| {
            let hits = again
                .iter()
                .filter(|gfn| taken.contains(&gfn.wrapping_add(*offset)));
            (u64::try_from(hits.count()).unwrap_or(u64::MAX), *offset)
        };
        best.truncate(32);
        if let Some(&(offset, _)) = best.first() {
            best.extend([1, u64::MAX].map(|next| (offset.wrapping_add(next), 0)));
        }
        best.sort_unstable_by_key(|&(offset, _)| offset);
        best.dedup_by_key(|(offset, _)| *offset);
        let mut scores: Vec<_> = best.iter().map(score).collect();
        scores.sort_unstable_by_key(|&(score, _)| std::cmp::Reverse(score));
        let &(agree, offset) = scores.first()?;
        let against = scores.get(1).map_or(0, |&(score, _)| score);
        let votes: u64 = again.len().min(hvas.len()).try_into().ok()?;
        let (agree, against) = (agree.min(votes), against.min(votes));
        let contradicted = |agree: u64| votes - agree;
        let is_apart = contradicted(against) >= FEWEST_VOTES + 4 * contradicted(agree);
        majority(offset, agree, votes).filter(|_| is_apart)
    }
}

fn majority(offset: u64, agree: u64, votes: u64) -> Option<(u64, Agreement)> {
    let is_large = agree >= FEWEST_VOTES && agree * 100 >= votes * MAJORITY;
    is_large.then_some((offset, Agreement { agree, votes }))
}

/// Up to [`SAMPLE`], in equal distances.
fn spread(sorted: &[u64]) -> Vec<u64> {
    let step = sorted.len().div_ceil(SAMPLE).max(1);
    sorted.iter().step_by(step).copied().collect()
}

/// Some from an eighth on: two sets that differ by an offset alone have the same there.
fn window(sorted: &[u64], eighth: usize) -> &[u64] {
    let start = sorted.len() * eighth / 8;
    let end = (start + SAMPLE / 4).min(sorted.len());
    sorted.get(start..end).unwrap_or_default()
}
