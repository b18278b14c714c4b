//! Records of charges: a ring of 16-byte entries, exact [`Total`]s, and the trace hash.
//!
//! The ring keeps the newest [`Record`]s and counts those it overwrote; totals and the trace hash
//! cover every record ever made. They are brought up to date when the ring wraps or is read,
//! not with each charge. Rendering is not done here.

use std::cell::{Cell, RefCell, RefMut};

use crate::ids::{TaskId, Toll};
use crate::time::{Ticks, Time};

/// One charge: `ticks` of `toll`, paid by `task`, the last of them at `at`.
///
/// A charge of more than `u32::MAX` ticks fills several records, all but the last with `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time at which it had been paid in full.
    pub at: Time,
    /// Amount.
    pub ticks: Ticks,
    /// The task or core that paid.
    pub task: TaskId,
    /// The toll that the time is charged under.
    pub toll: Toll,
}

/// Number and sum of one task's charges for one toll.
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
    /// Numbers are below this: an entry marks what is not paid yet by larger ones.
    pub(crate) const LIMIT: u64 = 1 << 31;

    /// The account of the same task for `toll`.
    #[inline]
    pub(crate) const fn with_toll(self, toll: Toll) -> Self {
        Self(self.0 | toll.0 as u32)
    }
}

/// Ticks and the account that they are paid from, at the end of a task's wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payment {
    ticks: u32,
    account: u32,
}

impl Payment {
    /// No charge to record.
    pub(crate) const NOTHING: Self = Self {
        ticks: 0,
        account: u32::MAX,
    };
    const OPEN: u32 = 1 << 31;

    /// `ticks`, of which there must be less than 2^32, from `account`.
    #[inline]
    pub(crate) const fn new(account: Account, ticks: u64) -> Self {
        Self {
            ticks: (ticks & 0xffff_ffff) as u32,
            account: account.0,
        }
    }

    /// From `account`, for as long as the wait takes.
    #[inline]
    pub(crate) const fn open(account: Account) -> Self {
        Self {
            ticks: 0,
            account: account.0 | Self::OPEN,
        }
    }

    /// True for no charge.
    #[inline]
    pub(crate) const fn is_nothing(self) -> bool {
        self.account == Self::NOTHING.account
    }

    /// True if the ticks are known: neither open nor nothing.
    #[inline]
    pub(crate) const fn is_known(self) -> bool {
        self.account & Self::OPEN == 0
    }

    /// From where it is paid, unless it is nothing.
    #[inline]
    pub(crate) const fn account(self) -> Account {
        Account(self.account & !Self::OPEN)
    }

    /// Amount, if it is known.
    #[inline]
    pub(crate) const fn ticks(self) -> Ticks {
        Ticks(self.ticks as u64)
    }
}

/// A record as the ring holds it. What is paid is known.
#[derive(Clone, Copy, Default)]
struct Entry {
    at: u64,
    paid: Payment,
}

/// Statistics of a run that are kept besides its newest records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Statistics {
    /// Number and sum of charges, by payer and toll.
    #[default]
    Totals,
    /// Totals, and a digest of all records in their order: [`Engine::trace_hash`](crate::Engine::trace_hash).
    TotalsAndHash,
}

/// The book that every charge is written into.
pub(crate) struct Ledger {
    ring: Box<[Cell<Entry>]>,
    /// Index of the ring's next entry; its length if that is the start.
    next: Cell<usize>,
    /// Number of times that the ring was filled.
    rounds: Cell<u64>,
    toll_bits: u32,
    sums: RefCell<Sums>,
}

/// Statistics that cover records which the ring has lost.
struct Sums {
    /// So many entries of the present round are included.
    included: usize,
    /// A running hash of all charges; only with [`Statistics::TotalsAndHash`].
    hash: Option<u64>,
    /// Indexed by account.
    counts: Box<[u64]>,
    /// Indexed by account.
    ticks: Box<[u64]>,
}

impl Ledger {
    /// Bits that `tolls` tolls need in an account number.
    pub(crate) const fn toll_bits(tolls: usize) -> u32 {
        tolls.next_power_of_two().trailing_zeros()
    }

    /// A book for `actors` payers and `tolls` tolls that keeps the newest `records` records.
    pub(crate) fn new(actors: usize, tolls: usize, records: usize, keep: Statistics) -> Self {
        let toll_bits = Self::toll_bits(tolls);
        let accounts = vec![0; actors << toll_bits];
        let sums = Sums {
            included: 0,
            hash: (keep == Statistics::TotalsAndHash).then_some(0),
            counts: accounts.clone().into(),
            ticks: accounts.into(),
        };
        Self {
            ring: vec![Cell::default(); records.max(1)].into(),
            next: Cell::new(0),
            rounds: Cell::new(0),
            toll_bits,
            sums: RefCell::new(sums),
        }
    }

    /// The first account of a payer, from which all are derived.
    pub(crate) fn accounts_of(&self, task: u32) -> Account {
        Account(task << self.toll_bits)
    }

    /// Writes what is paid, which must be known.
    #[inline]
    pub(crate) fn record(&self, at: Time, paid: Payment) {
        let next = self.next.get();
        let Some(slot) = self.ring.get(next) else {
            return self.begin_round(at, paid);
        };
        slot.set(Entry { at: at.0, paid });
        self.next.set(next + 1);
    }

    /// Writes what is the first of a round.
    #[cold]
    #[inline(never)]
    fn begin_round(&self, at: Time, paid: Payment) {
        self.sums().included = 0;
        self.next.set(0);
        self.rounds.set(self.rounds.get() + 1);
        self.record(at, paid);
    }

    /// Writes `ticks`, however many. What does not fit an entry becomes several, which count as one.
    #[inline(never)]
    pub(crate) fn record_span(&self, at: Time, ticks: Ticks, account: Account) {
        let longest = u64::from(u32::MAX);
        let mut rest = ticks.0;
        while rest > longest {
            rest -= longest;
            self.record(
                Time(at.0.saturating_sub(rest)),
                Payment::new(account, longest),
            );
            let count = &mut self.sums.borrow_mut().counts[account.0 as usize];
            *count = count.wrapping_sub(1);
        }
        self.record(at, Payment::new(account, rest));
    }

    /// The sums over everything so far.
    fn sums(&self) -> RefMut<'_, Sums> {
        let mut sums = self.sums.borrow_mut();
        let next = self.next.get();
        let included = std::mem::replace(&mut sums.included, next);
        sums.add_up(&self.ring[included..next]);
        sums
    }

    /// The records still in the ring, oldest first.
    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = Record> + '_ {
        let (kept, oldest) = match self.rounds.get() {
            0 => (self.next.get(), 0),
            _ => (self.ring.len(), self.next.get()),
        };
        let tolls = (1 << self.toll_bits) - 1;
        (0..kept).map(move |i| {
            let entry = self.ring[(oldest + i) % self.ring.len()].get();
            let Account(account) = entry.paid.account();
            Record {
                at: Time(entry.at),
                ticks: entry.paid.ticks(),
                task: TaskId(account >> self.toll_bits),
                toll: Toll((account & tolls & 0xffff) as u16),
            }
        })
    }

    /// Number of records that the ring has lost to newer ones.
    pub(crate) fn overwritten(&self) -> u64 {
        match self.rounds.get() {
            0 => 0,
            rounds => (rounds - 1) * self.ring.len() as u64 + self.next.get() as u64,
        }
    }

    /// Total that `task` has paid for `toll`.
    pub(crate) fn total(&self, task: TaskId, toll: Toll) -> Total {
        let sums = self.sums();
        let account = self.accounts_of(task.0).with_toll(toll).0 as usize;
        Total {
            count: sums.counts[account],
            ticks: Ticks(sums.ticks[account]),
        }
    }

    /// A digest of every record so far, in order, if it is kept.
    pub(crate) fn trace_hash(&self) -> Option<u64> {
        self.sums().hash.map(|hash| hash ^ hash >> 32)
    }
}

impl Sums {
    /// Adds entries to their accounts, and to the hash.
    fn add_up(&mut self, entries: &[Cell<Entry>]) {
        if let Some(hash) = &mut self.hash {
            *hash = entries
                .iter()
                .fold(*hash, |hash, entry| digest(hash, entry.get()));
        }
        let accounts = self.counts.len().min(self.ticks.len());
        let (counts, ticks) = (&mut self.counts[..accounts], &mut self.ticks[..accounts]);
        let mut add = |entry: &Cell<Entry>| {
            let Entry { paid, .. } = entry.get();
            let account = paid.account as usize;
            counts[account] = counts[account].wrapping_add(1);
            ticks[account] = ticks[account].wrapping_add(paid.ticks().0);
        };
        // Unrolled by hand: the compiler does not, as an account out of range would end the loop.
        let chunks = entries.chunks_exact(16);
        let rest = chunks.remainder();
        for chunk in chunks {
            chunk.iter().for_each(&mut add);
        }
        rest.iter().for_each(add);
    }
}

/// Adds an entry to a hash: a step of a polynomial in an odd factor, modulo 2^64, whose upper half
/// goes into the lower one each time.
#[inline]
fn digest(hash: u64, Entry { at, paid }: Entry) -> u64 {
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
    let product = hash.wrapping_add(at).wrapping_mul(FACTOR);
    product.wrapping_add(paid.ticks().0).rotate_left(32) ^ u64::from(paid.account().0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pay(ledger: &Ledger, at: u64, ticks: u64, task: u32, toll: u16) {
        let account = ledger.accounts_of(task).with_toll(Toll(toll));
        ledger.record_span(Time(at), Ticks(ticks), account);
    }

    fn at(ledger: &Ledger) -> Vec<u64> {
        ledger.records().map(|record| record.at.0).collect()
    }

    #[test]
    fn an_entry_is_sixteen_bytes_and_gives_back_what_it_was_given() {
        assert_eq!(size_of::<Entry>(), 16);
        let ledger = Ledger::new(70_000, 5, 1, Statistics::TotalsAndHash);
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
        let ledger = Ledger::new(1, 1, 4, Statistics::TotalsAndHash);
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
        let ledger = Ledger::new(2, 2, 3, Statistics::TotalsAndHash);
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
            let ledger = Ledger::new(1, 1, 8, Statistics::TotalsAndHash);
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
        let ledger = Ledger::new(2, 2, records, Statistics::TotalsAndHash);
        charges
            .iter()
            .for_each(|&(at, ticks, task, toll)| pay(&ledger, at, ticks, task, toll));
        ledger.trace_hash().unwrap()
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
