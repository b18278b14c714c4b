//! What was charged: a ring of 16-byte entries, exact [`Total`]s, and the trace hash.
//!
//! The ring keeps the newest [`Record`]s and counts those it overwrote; totals and the trace hash
//! cover every record ever made. They are brought up to date when the ring wraps or somebody asks,
//! not with each charge. Rendering is not done here.

use std::cell::{Cell, Ref, RefCell};

use crate::ids::{TaskId, Toll};
use crate::time::{Ticks, Time};

/// One charge: `ticks` of `toll`, paid by `task`, the last of them at `at`.
///
/// A charge of more than `u32::MAX` ticks fills several records, all but the last with `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it had been paid in full.
    pub at: Time,
    /// How much was paid.
    pub ticks: Ticks,
    /// Who paid.
    pub task: TaskId,
    /// What for.
    pub toll: Toll,
}

/// How often and how much one task paid for one toll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Charges, including those of zero ticks.
    pub count: u64,
    /// The sum of their ticks.
    pub ticks: Ticks,
}

/// The number of a (task, toll) pair, dense enough to index a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account(u32);

impl Account {
    /// The account of the same task for `toll`.
    #[inline]
    pub(crate) const fn of(self, toll: Toll) -> Self {
        Self(self.0 | toll.0 as u32)
    }
}

/// A record as the ring holds it.
#[derive(Clone, Copy, Default)]
struct Entry {
    at: u64,
    ticks: u32,
    account: u32,
}

/// Entries that are posted together: as many as a `u8` counts.
const BATCH: usize = 256;

/// The book that every charge is written into: first into a batch, then into the [`Archive`].
pub(crate) struct Ledger {
    batch: [Cell<Entry>; BATCH],
    /// Where in the batch the next entry goes. There is always room for it.
    next: Cell<u8>,
    toll_bits: u32,
    archive: RefCell<Archive>,
}

/// All full batches: the ring, the hash and the accounts.
struct Archive {
    ring: Box<[Entry]>,
    /// Where in the ring the next entry goes.
    next: usize,
    written: u64,
    hash: u64,
    /// By account.
    counts: Box<[u64]>,
    /// By account.
    ticks: Box<[u64]>,
}

impl Ledger {
    /// Bits that `tolls` tolls need in an account number.
    pub(crate) const fn toll_bits(tolls: usize) -> u32 {
        tolls.next_power_of_two().trailing_zeros()
    }

    /// A book for `actors` payers and `tolls` tolls that keeps the newest `records` records.
    pub(crate) fn new(actors: usize, tolls: usize, records: usize) -> Self {
        let toll_bits = Self::toll_bits(tolls);
        let accounts = vec![0; actors << toll_bits];
        let archive = Archive {
            ring: vec![Entry::default(); records.max(1)].into(),
            next: 0,
            written: 0,
            hash: 0,
            counts: accounts.clone().into(),
            ticks: accounts.into(),
        };
        Self {
            batch: [const {
                Cell::new(Entry {
                    at: 0,
                    ticks: 0,
                    account: 0,
                })
            }; BATCH],
            next: Cell::new(0),
            toll_bits,
            archive: RefCell::new(archive),
        }
    }

    /// The first account of a payer, from which all are derived.
    pub(crate) fn accounts_of(&self, task: u32) -> Account {
        Account(task << self.toll_bits)
    }

    /// Writes one charge.
    #[inline]
    pub(crate) fn record(&self, at: Time, ticks: Ticks, account: Account) {
        match u32::try_from(ticks.0) {
            Ok(ticks) => self.push(Entry {
                at: at.0,
                ticks,
                account: account.0,
            }),
            Err(_) => self.push_long(at, ticks, account),
        }
    }

    #[inline]
    fn push(&self, entry: Entry) {
        let next = self.next.get();
        self.batch[usize::from(next)].set(entry);
        self.next.set(next.wrapping_add(1));
        if next == u8::MAX {
            self.post(BATCH);
        }
    }

    /// Writes several entries, which all count as one charge.
    #[cold]
    #[inline(never)]
    fn push_long(&self, at: Time, ticks: Ticks, account: Account) {
        let mut left = ticks.0;
        while left > u64::from(u32::MAX) {
            left -= u64::from(u32::MAX);
            let at = at.0.saturating_sub(left);
            self.push(Entry {
                at,
                ticks: u32::MAX,
                account: account.0,
            });
            let count = &mut self.archive.borrow_mut().counts[account.0 as usize];
            *count = count.wrapping_sub(1);
        }
        let ticks = u32::try_from(left).unwrap_or(u32::MAX);
        self.push(Entry {
            at: at.0,
            ticks,
            account: account.0,
        });
    }

    /// Moves the first `entries` of the batch to the archive.
    #[cold]
    #[inline(never)]
    fn post(&self, entries: usize) {
        let mut archive = self.archive.borrow_mut();
        archive.add_up(&self.batch[..entries]);
        archive.keep(&self.batch[..entries]);
    }

    /// The archive, with the batch so far.
    fn archive(&self) -> Ref<'_, Archive> {
        let entries = usize::from(self.next.replace(0));
        // Not even borrowed without need: somebody may be looking at the records.
        if entries > 0 {
            self.post(entries);
        }
        self.archive.borrow()
    }

    /// The records still in the ring, oldest first.
    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = Record> + '_ {
        let archive = self.archive();
        let oldest = if archive.overwritten() == 0 {
            0
        } else {
            archive.next
        };
        let kept = archive
            .ring
            .len()
            .min(usize::try_from(archive.written).unwrap_or(usize::MAX));
        (0..kept).map(move |i| self.record_of(archive.ring[(oldest + i) % archive.ring.len()]))
    }

    fn record_of(&self, entry: Entry) -> Record {
        let tolls = (1 << self.toll_bits) - 1;
        Record {
            at: Time(entry.at),
            ticks: Ticks(u64::from(entry.ticks)),
            task: TaskId(entry.account >> self.toll_bits),
            toll: Toll((entry.account & tolls & 0xffff) as u16),
        }
    }

    /// How many records the ring has lost to newer ones.
    pub(crate) fn overwritten(&self) -> u64 {
        self.archive().overwritten()
    }

    /// What `task` has paid for `toll`.
    pub(crate) fn total(&self, task: TaskId, toll: Toll) -> Total {
        let archive = self.archive();
        let account = self.accounts_of(task.0).of(toll).0 as usize;
        Total {
            count: archive.counts[account],
            ticks: Ticks(archive.ticks[account]),
        }
    }

    /// A digest of every record so far, in order.
    pub(crate) fn trace_hash(&self) -> u64 {
        let hash = self.archive().hash;
        hash ^ hash >> 32
    }
}

impl Archive {
    /// Adds entries to their accounts and to the hash: a polynomial in an odd factor, modulo 2^64.
    fn add_up(&mut self, entries: &[Cell<Entry>]) {
        const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
        let accounts = self.counts.len().min(self.ticks.len());
        let (counts, ticks) = (&mut self.counts[..accounts], &mut self.ticks[..accounts]);
        let mut hash = self.hash;
        for entry in entries.iter().map(Cell::get) {
            let charge = u64::from(entry.ticks) << 32 | u64::from(entry.account);
            let word = entry
                .at
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(charge);
            hash = hash.wrapping_mul(FACTOR).wrapping_add(word);
            let account = entry.account as usize;
            counts[account] = counts[account].wrapping_add(1);
            ticks[account] = ticks[account].wrapping_add(u64::from(entry.ticks));
        }
        self.hash = hash;
    }

    /// Copies entries into the ring, over the oldest.
    fn keep(&mut self, mut entries: &[Cell<Entry>]) {
        self.written += entries.len() as u64;
        while !entries.is_empty() {
            let room = entries.len().min(self.ring.len() - self.next);
            let (now, later) = entries.split_at(room);
            for (slot, entry) in self.ring[self.next..].iter_mut().zip(now) {
                *slot = entry.get();
            }
            self.next = (self.next + room) % self.ring.len();
            entries = later;
        }
    }

    fn overwritten(&self) -> u64 {
        self.written.saturating_sub(self.ring.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pay(ledger: &Ledger, at: u64, ticks: u64, task: u32, toll: u16) {
        ledger.record(
            Time(at),
            Ticks(ticks),
            ledger.accounts_of(task).of(Toll(toll)),
        );
    }

    fn at(ledger: &Ledger) -> Vec<u64> {
        ledger.records().map(|record| record.at.0).collect()
    }

    #[test]
    fn an_entry_is_sixteen_bytes_and_gives_back_what_it_was_given() {
        assert_eq!(size_of::<Entry>(), 16);
        let ledger = Ledger::new(70_000, 5, 1);
        pay(&ledger, 9, 4, 69_999, 3);
        let paid = Record {
            at: Time(9),
            ticks: Ticks(4),
            task: TaskId(69_999),
            toll: Toll(3),
        };
        assert_eq!(ledger.records().collect::<Vec<_>>(), [paid]);
    }

    #[test]
    fn a_full_ring_keeps_the_newest_and_counts_the_rest() {
        let ledger = Ledger::new(1, 1, 4);
        (0..4).for_each(|i| pay(&ledger, i, 1, 0, 0));
        assert_eq!((at(&ledger), ledger.overwritten()), (vec![0, 1, 2, 3], 0));
        (4..6).for_each(|i| pay(&ledger, i, 1, 0, 0));
        assert_eq!((at(&ledger), ledger.overwritten()), (vec![2, 3, 4, 5], 2));
        (6..13).for_each(|i| pay(&ledger, i, 1, 0, 0));
        assert_eq!(
            (at(&ledger), ledger.overwritten()),
            (vec![9, 10, 11, 12], 9)
        );
    }

    #[test]
    fn totals_outlive_the_ring() {
        let ledger = Ledger::new(2, 2, 3);
        for paid in 1..=10 {
            pay(&ledger, 1, 3, 1, 0);
            let total = Total {
                count: paid,
                ticks: Ticks(3 * paid),
            };
            assert_eq!(ledger.total(TaskId(1), Toll(0)), total);
        }
        assert_eq!(ledger.total(TaskId(0), Toll(1)), Total::default());
    }

    #[test]
    fn a_long_charge_is_split_and_counted_once() {
        let max = u64::from(u32::MAX);
        for (ticks, parts) in [
            (max - 1, vec![(max - 1, max - 1)]),
            (max, vec![(max, max)]),
            (max + 5, vec![(max, max), (max + 5, 5)]),
        ] {
            let ledger = Ledger::new(1, 1, 8);
            pay(&ledger, ticks, ticks, 0, 0);
            let records: Vec<_> = ledger.records().map(|r| (r.at.0, r.ticks.0)).collect();
            assert_eq!(records, parts);
            let total = Total {
                count: 1,
                ticks: Ticks(ticks),
            };
            assert_eq!(ledger.total(TaskId(0), Toll(0)), total);
        }
    }

    fn hash(records: usize, charges: &[(u64, u64, u32, u16)]) -> u64 {
        let ledger = Ledger::new(2, 2, records);
        charges
            .iter()
            .for_each(|&(at, ticks, task, toll)| pay(&ledger, at, ticks, task, toll));
        ledger.trace_hash()
    }

    #[test]
    fn the_hash_sees_order_and_every_field_but_not_the_ring() {
        let base = hash(8, &[(1, 1, 0, 0), (1, 1, 1, 0)]);
        assert_eq!(base, hash(1, &[(1, 1, 0, 0), (1, 1, 1, 0)]));
        for other in [
            [(1, 1, 1, 0), (1, 1, 0, 0)],
            [(2, 1, 0, 0), (1, 1, 1, 0)],
            [(1, 2, 0, 0), (1, 1, 1, 0)],
            [(1, 1, 0, 1), (1, 1, 1, 0)],
        ] {
            assert_ne!(base, hash(8, &other));
        }
    }
}
