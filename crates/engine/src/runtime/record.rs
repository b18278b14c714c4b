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

/// The number of a (task, toll) pair, dense enough to index a table, where a [`Payment`] has it: in the
/// upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account(u64);

impl Account {
    /// Numbers are below this.
    pub(crate) const LIMIT: u64 = 1 << 31;

    /// The account of the same task for `toll`.
    #[inline]
    pub(crate) const fn with_toll(self, toll: Toll) -> Self {
        Self(self.0 | (toll.0 as u64) << 32)
    }

    /// The bare number.
    const fn index(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// Ticks, in the lower half, and the account that they are paid from, at the end of a task's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payment(u64);

impl Payment {
    /// No charge to record.
    pub(crate) const NOTHING: Self = Self(u64::MAX);
    /// In place of the ticks of a wait, which are fewer.
    const OPEN: u64 = 1 << 31;

    /// `ticks`, of which there must be less than 2^31, from `account`.
    #[inline]
    pub(crate) const fn new(account: Account, ticks: u64) -> Self {
        Self(account.0 | ticks)
    }

    /// From `account`, for as long as the wait takes.
    #[inline]
    pub(crate) const fn open(account: Account) -> Self {
        Self(account.0 | Self::OPEN)
    }

    /// An open payment of so many ticks, of which there must be less than 2^31.
    #[inline]
    pub(crate) const fn close(self, ticks: u64) -> Self {
        Self(self.0.wrapping_sub(Self::OPEN).wrapping_add(ticks))
    }

    /// True for no charge.
    #[inline]
    pub(crate) const fn is_nothing(self) -> bool {
        self.0 == Self::NOTHING.0
    }

    /// True if the ticks are known: neither open nor nothing.
    #[inline]
    pub(crate) const fn is_known(self) -> bool {
        self.0 & Self::OPEN == 0
    }

    /// From where it is paid, unless it is nothing.
    #[inline]
    pub(crate) const fn account(self) -> Account {
        Account(self.0 >> 32 << 32)
    }

    /// Amount, if it is known.
    #[inline]
    pub(crate) const fn ticks(self) -> Ticks {
        Ticks(self.0 & 0xffff_ffff)
    }
}

/// A toll that is paid for as long as a wait takes.
#[derive(Clone, Copy)]
pub(crate) struct OpenToll(Payment);

impl OpenToll {
    pub(crate) const fn new(toll: Toll) -> Self {
        Self(Payment::open(Account(0).with_toll(toll)))
    }

    /// The payment by the payer of these accounts.
    #[inline]
    pub(crate) const fn paid_by(self, accounts: Account) -> Payment {
        Payment(self.0.0 | accounts.0)
    }
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

/// Records that are gathered before they are added up and go to the ring.
const GATHERED: usize = 256;

/// Charges in the order in which they were paid, in columns: what is paid at each time.
struct Columns<A, P> {
    at: A,
    paid: P,
}

/// The book that every charge is written into.
pub(crate) struct Ledger {
    /// The newest charges; what is paid is known.
    newest: Columns<[Cell<u64>; GATHERED], [Cell<u64>; GATHERED]>,
    /// Number of the newest.
    count: Cell<usize>,
    toll_bits: u32,
    past: RefCell<Past>,
}

/// Everything that has been gathered so far.
struct Past {
    /// The records that are kept.
    ring: Columns<Box<[u64]>, Box<[u64]>>,
    /// The ring's place for the next record.
    next: usize,
    /// Number of records so far.
    written: u64,
    /// A running hash of all charges; only with [`Statistics::TotalsAndHash`].
    hash: Option<u64>,
    /// Indexed by account.
    counts: Box<[u64]>,
    /// Sums of payments, with their accounts, modulo 2^64; indexed by account.
    payments: Box<[u64]>,
}

impl Ledger {
    /// Bits that `tolls` tolls need in an account number.
    pub(crate) const fn toll_bits(tolls: usize) -> u32 {
        tolls.next_power_of_two().trailing_zeros()
    }

    /// A book for `actors` payers and `tolls` tolls that keeps the newest `records` records.
    pub(crate) fn new(actors: usize, tolls: usize, records: usize, keep: Statistics) -> Self {
        let toll_bits = Self::toll_bits(tolls);
        let (ring, accounts) = (vec![0; records.max(1)], vec![0; actors << toll_bits]);
        let past = Past {
            ring: Columns {
                at: ring.clone().into(),
                paid: ring.into(),
            },
            next: 0,
            written: 0,
            hash: (keep == Statistics::TotalsAndHash).then_some(0),
            counts: accounts.clone().into(),
            payments: accounts.into(),
        };
        Self {
            newest: Columns {
                at: [const { Cell::new(0) }; GATHERED],
                paid: [const { Cell::new(0) }; GATHERED],
            },
            count: Cell::new(0),
            toll_bits,
            past: RefCell::new(past),
        }
    }

    /// The first account of a payer, from which all are derived.
    pub(crate) fn accounts_of(&self, task: u32) -> Account {
        Account(u64::from(task) << self.toll_bits << 32)
    }

    /// Writes what is paid, which must be known.
    #[inline]
    pub(crate) fn record(&self, at: Time, paid: Payment) {
        let count = self.count.get();
        if count >= GATHERED {
            return self.record_first(at, paid);
        }
        self.newest.at[count].set(at.0);
        self.newest.paid[count].set(paid.0);
        self.count.set(count + 1);
    }

    /// Writes what is the first after others have been gathered.
    #[cold]
    #[inline(never)]
    fn record_first(&self, at: Time, paid: Payment) {
        self.past();
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
            self.past.borrow_mut().subtract(account);
        }
        self.record(at, Payment::new(account, rest));
    }

    /// The past up to now.
    fn past(&self) -> RefMut<'_, Past> {
        let mut past = self.past.borrow_mut();
        let count = self.count.replace(0).min(GATHERED);
        past.add(&self.newest.at[..count], &self.newest.paid[..count]);
        past
    }

    /// The records still in the ring, oldest first.
    pub(crate) fn records(&self) -> impl ExactSizeIterator<Item = Record> + '_ {
        let (kept, oldest) = self.past().kept();
        (0..kept).map(move |i| {
            let past = self.past.borrow();
            let place = (oldest + i) % past.ring.at.len();
            self.record_of(past.ring.at[place], Payment(past.ring.paid[place]))
        })
    }

    fn record_of(&self, at: u64, paid: Payment) -> Record {
        let account = paid.account().0 >> 32;
        Record {
            at: Time(at),
            ticks: paid.ticks(),
            task: TaskId((account >> self.toll_bits & 0xffff_ffff) as u32),
            toll: Toll((account & ((1 << self.toll_bits) - 1) & 0xffff) as u16),
        }
    }

    /// Number of records that the ring has lost to newer ones.
    pub(crate) fn overwritten(&self) -> u64 {
        let past = self.past();
        past.written.saturating_sub(past.ring.at.len() as u64)
    }

    /// Total that `task` has paid for `toll`.
    pub(crate) fn total(&self, task: TaskId, toll: Toll) -> Total {
        let past = self.past();
        let account = self.accounts_of(task.0).with_toll(toll).index();
        Total {
            count: past.counts[account],
            ticks: past.ticks_of(account),
        }
    }

    /// A digest of every record so far, in order, if it is kept.
    pub(crate) fn trace_hash(&self) -> Option<u64> {
        self.past().hash.map(|hash| hash ^ hash >> 32)
    }
}

impl Past {
    /// Number of records that the ring holds, and the place of the oldest.
    fn kept(&self) -> (usize, usize) {
        let length = self.ring.at.len();
        match usize::try_from(self.written) {
            Ok(written) if written < length => (written, 0),
            _ => (length, self.next),
        }
    }

    /// Adds records to their accounts, to the hash and to the ring.
    fn add(&mut self, at: &[Cell<u64>], paid: &[Cell<u64>]) {
        if let Some(hash) = &mut self.hash {
            let records = at.iter().zip(paid);
            *hash = records.fold(*hash, |hash, (at, paid)| {
                digest(hash, at.get(), Payment(paid.get()))
            });
        }
        self.add_up(paid);
        self.keep(at, paid);
    }

    /// Adds what is paid to its accounts.
    fn add_up(&mut self, paid: &[Cell<u64>]) {
        let accounts = self.counts.len().min(self.payments.len());
        let counts = &mut self.counts[..accounts];
        let payments = &mut self.payments[..accounts];
        let mut add = |paid: &Cell<u64>| {
            let paid = paid.get();
            let account = (paid >> 32) as usize;
            counts[account] = counts[account].wrapping_add(1);
            payments[account] = payments[account].wrapping_add(paid);
        };
        // Unrolled by hand: the compiler does not, as an account out of range would end the loop.
        let chunks = paid.chunks_exact(16);
        let rest = chunks.remainder();
        for chunk in chunks {
            chunk.iter().for_each(&mut add);
        }
        rest.iter().for_each(add);
    }

    /// Lets a payment of no ticks not count.
    fn subtract(&mut self, account: Account) {
        let index = account.index();
        self.counts[index] = self.counts[index].wrapping_sub(1);
        self.payments[index] = self.payments[index].wrapping_sub(account.0);
    }

    /// The sum of ticks paid from an account.
    fn ticks_of(&self, account: usize) -> Ticks {
        let accounts = (account as u64) << 32;
        let accounts = self.counts[account].wrapping_mul(accounts);
        Ticks(self.payments[account].wrapping_sub(accounts))
    }

    /// Puts records into the ring, of which as many as it has room for are enough.
    fn keep(&mut self, at: &[Cell<u64>], paid: &[Cell<u64>]) {
        self.written += at.len() as u64;
        let length = self.ring.at.len();
        let lost = at.len().saturating_sub(length);
        let (at, paid) = (&at[lost..], &paid[lost..]);
        let first = at.len().min(length - self.next);
        copy(&at[..first], &mut self.ring.at[self.next..]);
        copy(&paid[..first], &mut self.ring.paid[self.next..]);
        copy(&at[first..], &mut self.ring.at);
        copy(&paid[first..], &mut self.ring.paid);
        self.next = (self.next + at.len()) % length;
    }
}

/// Copies cells to the beginning of a slice.
fn copy(from: &[Cell<u64>], to: &mut [u64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = from.get();
    }
}

/// Adds an entry to a hash: a step of a polynomial in an odd factor, modulo 2^64, whose upper half
/// goes into the lower one each time.
#[inline]
fn digest(hash: u64, at: u64, paid: Payment) -> u64 {
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
    let product = hash.wrapping_add(at).wrapping_mul(FACTOR);
    product.wrapping_add(paid.ticks().0).rotate_left(32) ^ paid.account().index() as u64
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
    fn a_record_gives_back_what_it_was_given() {
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
