//! The pages of a VM: for each, what last happened to it.
//!
//! A page is in one of three states: it has an entry, its entry was taken away, or its entry was write-protected. The first
//! that takes an entry away is the cause of the next fault, except that a discard of the page itself always is: without the
//! first it would have been.

use std::collections::BTreeMap;
use std::ops::Range;

use pagetoll_units::budget::{Budget, in_tree};

use super::Cause;
use super::ranges::Ranges;

/// Entries of a page table.
const ENTRIES: u64 = 512;
/// Bytes of a record, at least, as perf.data and texts have them.
const RECORD_BYTES: usize = 64;

/// Pages of a discard that are looked at again where records were lost.
const MOST_REFRESHED: u64 = 4096;

/// Origin of a change that made a page fault again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Origin {
    Discard,
    Beside,
    CopyOnWrite,
    DirtyLog,
    PageSize,
    Host,
    Protection,
    Memslots,
    Unknown,
}

impl Origin {
    const ALL: [Self; 9] = [
        Self::Discard,
        Self::Beside,
        Self::CopyOnWrite,
        Self::DirtyLog,
        Self::PageSize,
        Self::Host,
        Self::Protection,
        Self::Memslots,
        Self::Unknown,
    ];

    const fn cause(self) -> Cause {
        match self {
            Self::Discard => Cause::Discarded,
            Self::Beside => Cause::BesideDiscard,
            Self::CopyOnWrite => Cause::CopyOnWrite,
            Self::DirtyLog => Cause::DirtyLog,
            Self::PageSize => Cause::PageSize,
            Self::Host => Cause::HostMemory,
            Self::Protection => Cause::Protected,
            Self::Memslots => Cause::Memslots,
            Self::Unknown => Cause::Unexplained,
        }
    }
}

/// Part of a take-down that decides about a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// A call that discards; the second range of the take-down is its own.
    Discard,
    /// A thread's own fault, of a page that was written.
    Fault,
    /// Another.
    Other(Origin),
}

/// Frames that lost their entries at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TakeDown {
    pub(super) frames: Range<u64>,
    /// Addresses that the call was about.
    pub(super) own: Range<u64>,
    pub(super) taker: Taker,
}

/// An entry that KVM made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) gfn: u64,
    pub(super) level: u32,
    pub(super) writable: bool,
    /// The host would let it be written.
    pub(super) host_writable: bool,
    /// The processor found an entry that did not allow the access; `None` where that is not recorded.
    pub(super) was_present: Option<bool>,
}

/// State of a page and the number of the record that made it so, in a word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live { writable: bool, host_writable: bool },
    Gone(Origin),
    Protected(Origin),
}

impl Entry {
    const GONE: u64 = 0x10;
    const PROTECTED: u64 = 0x20;

    const fn new(record: u64, state: State) -> Self {
        let state = match state {
            State::Live {
                writable,
                host_writable,
            } => writable as u64 | (host_writable as u64) << 1,
            State::Gone(origin) => Self::GONE | origin as u64,
            State::Protected(origin) => Self::PROTECTED | origin as u64,
        };
        Self(record << 8 | state)
    }

    const fn record(self) -> u64 {
        self.0 >> 8
    }

    fn state(self) -> State {
        let origin = usize::try_from(self.0 & 0xf).ok();
        let origin = origin.and_then(|index| Origin::ALL.get(index)).copied();
        let origin = origin.unwrap_or(Origin::Unknown);
        match self.0 & 0xf0 {
            Self::GONE => State::Gone(origin),
            Self::PROTECTED => State::Protected(origin),
            _ => State::Live {
                writable: self.0 & 1 != 0,
                host_writable: self.0 & 2 != 0,
            },
        }
    }
}

/// A huge entry that was taken away.
struct GoneBlock {
    entry: Entry,
    /// Its pages that were discarded themselves.
    own: Option<Box<OwnPages>>,
}

/// Pages of a huge entry, a bit each, and the last record about them.
#[derive(Default)]
struct OwnPages {
    bits: [u64; 8],
    record: u64,
}

impl OwnPages {
    fn has(&self, gfn: u64) -> bool {
        let bit = gfn % ENTRIES;
        let word = usize::try_from(bit / 64).ok();
        let word = word.and_then(|word| self.bits.get(word));
        word.is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn set(&mut self, gfn: u64, is_own: bool) {
        let bit = gfn % ENTRIES;
        let word = usize::try_from(bit / 64).ok();
        if let Some(word) = word.and_then(|word| self.bits.get_mut(word)) {
            *word = *word & !(1 << (bit % 64)) | u64::from(is_own) << (bit % 64);
        }
    }

    const fn entry(&self) -> Entry {
        Entry::new(self.record, State::Gone(Origin::Discard))
    }
}

impl GoneBlock {
    fn entry_of(&self, gfn: u64) -> Entry {
        match &self.own {
            Some(own) if own.has(gfn) => own.entry(),
            _ => self.entry,
        }
    }

    /// Discarded where any page was.
    fn entry_of_any(&self) -> Entry {
        self.own.as_ref().map_or(self.entry, |own| own.entry())
    }

    /// Notes that pages were discarded; what was so before records were lost is as old as the rest.
    fn discard(&mut self, record: u64, frames: Range<u64>, lost: u64) {
        let own = self.own.get_or_insert_default();
        if own.record <= lost {
            own.bits = [0; 8];
        }
        own.record = record;
        frames.for_each(|gfn| own.set(gfn, true));
    }
}

/// An entry, and the level at which it was made.
type Found = (Entry, u32);

/// Memory for the parts of huge entries, each of which takes 512 entries where one record made it.
struct Allowance(Budget);

impl Default for Allowance {
    fn default() -> Self {
        Self(Budget::new(0))
    }
}

impl Allowance {
    const fn take(&mut self) -> bool {
        const EACH: usize = in_tree::<u64, Entry>() + in_tree::<u64, GoneBlock>();
        self.0.take(512 * EACH).is_some()
    }
}

/// The first that is known of a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The capture began later.
    #[default]
    Earlier,
    /// The capture has it.
    Recorded,
    /// The capture has it, and may have mixed up this VM with an earlier one, whose pages are not its own.
    Succession,
}

/// Pages of a VM. Records are numbered from 1 on.
#[derive(Default)]
pub(super) struct Pages {
    live: BTreeMap<u64, Entry>,
    /// By frame / 512.
    live_blocks: BTreeMap<u64, Entry>,
    /// By frame / 512².
    live_gigabytes: BTreeMap<u64, Entry>,
    gone: BTreeMap<u64, Entry>,
    discarded: BTreeMap<u64, Entry>,
    gone_blocks: BTreeMap<u64, GoneBlock>,
    discarded_blocks: BTreeMap<u64, Entry>,
    allowance: Allowance,
    /// Discarded frames, also of pages that were not seen before.
    discards: Ranges,
    /// Last record of each kind that is about all pages.
    logged: u64,
    unjoined: u64,
    /// Last record that took frames which no slot has.
    outside: u64,
    lost: u64,
    slots: Vec<Range<u64>>,
    beginning: Beginning,
}

impl Pages {
    /// Pages of a VM, none known yet. Slots are the frames whose invalidations are recorded.
    pub(super) fn new(beginning: Beginning, slots: Vec<Range<u64>>) -> Self {
        Self {
            beginning,
            slots,
            ..Self::default()
        }
    }

    /// Another VM began, which cannot be told from this one: nothing is known of its pages, or of these.
    pub(super) fn succeed(&mut self) {
        if self.has_none() {
            return;
        }
        *self = Self {
            slots: std::mem::take(&mut self.slots),
            allowance: std::mem::take(&mut self.allowance),
            lost: self.lost,
            beginning: Beginning::Succession,
            ..Self::default()
        };
    }

    /// Returns whether no page was mapped yet.
    fn has_none(&self) -> bool {
        let pages = [&self.live, &self.gone, &self.discarded];
        let huge = [
            &self.live_blocks,
            &self.live_gigabytes,
            &self.discarded_blocks,
        ];
        pages.into_iter().chain(huge).all(BTreeMap::is_empty) && self.gone_blocks.is_empty()
    }

    /// The dirty log was turned on, read or cleared.
    pub(super) const fn log(&mut self, record: u64) {
        self.logged = record;
    }

    /// KVM dropped all entries.
    pub(super) fn drop_all(&mut self, record: u64) {
        let down = TakeDown {
            frames: 0..u64::MAX,
            own: 0..0,
            taker: Taker::Other(Origin::Memslots),
        };
        self.take_down(record, &down);
    }

    /// Something was taken away, and it is not known from where.
    pub(super) const fn take_unjoined(&mut self, record: u64) {
        self.unjoined = record;
    }

    /// Something was taken away, and not from any slot that is known.
    pub(super) const fn take_outside(&mut self, record: u64) {
        self.outside = record;
    }

    /// The last record that may have taken a frame away, and is not told of it.
    fn unjoined(&self, gfn: u64) -> u64 {
        match self.slots.iter().any(|slot| slot.contains(&gfn)) {
            true => self.unjoined,
            false => self.unjoined.max(self.outside),
        }
    }

    /// Records up to this one may lack others among them.
    pub(super) const fn lose(&mut self, record: u64) {
        self.lost = record;
    }

    /// Entries went.
    pub(super) fn take_down(&mut self, record: u64, down: &TakeDown) {
        let TakeDown { frames, own, taker } = down;
        for gfn in keys(&self.live, frames) {
            let Some(entry) = self.live.remove(&gfn) else {
                continue;
            };
            match own.contains(&gfn) && *taker == Taker::Discard {
                true => {
                    let gone = Entry::new(record, State::Gone(Origin::Discard));
                    self.discarded.insert(gfn, gone)
                }
                false => self.gone.insert(gfn, self.gone(record, gfn, *taker, entry)),
            };
        }
        self.split_gigabytes(frames);
        for block in keys(&self.live_blocks, &blocks(frames)) {
            if let Some(entry) = self.live_blocks.remove(&block) {
                let entry = self.gone(record, block * ENTRIES, *taker, entry);
                self.gone_blocks
                    .insert(block, GoneBlock { entry, own: None });
            }
        }
        if *taker == Taker::Discard && !own.is_empty() {
            self.discard(record, own);
        }
    }

    /// The state of an entry that was taken away by what is no discard of its own. What was lost since it was made may have
    /// taken it away before.
    fn gone(&self, record: u64, gfn: u64, taker: Taker, entry: Entry) -> Entry {
        let since = entry.record();
        let origin = match (taker, entry.state()) {
            _ if self.unjoined(gfn) > since => Origin::Unknown,
            (Taker::Discard, _) => Origin::Beside,
            (
                Taker::Fault,
                State::Live {
                    writable: false, ..
                },
            ) => Origin::CopyOnWrite,
            (Taker::Fault, _) => Origin::Unknown,
            (Taker::Other(origin), _) => origin,
        };
        Entry::new(self.known(record, gfn, since), State::Gone(origin))
    }

    /// Record that what is known of a page is as new as: the one that takes it away, unless it may have gone before.
    fn known(&self, record: u64, gfn: u64, since: u64) -> u64 {
        match self.has_lost(since) || self.unjoined(gfn) > since {
            true => since,
            false => record,
        }
    }

    /// Returns whether records were lost since that one.
    const fn has_lost(&self, since: u64) -> bool {
        self.lost > 0 && self.lost >= since
    }

    /// Pages that went before were discarded as well.
    fn discard(&mut self, record: u64, own: &Range<u64>) {
        let discarded = Entry::new(record, State::Gone(Origin::Discard));
        for gfn in keys(&self.gone, own) {
            self.gone.remove(&gfn);
            self.discarded.insert(gfn, discarded);
        }
        for block in keys(&self.gone_blocks, &blocks(own)) {
            let start = (block * ENTRIES).max(own.start);
            let end = (block * ENTRIES + ENTRIES).min(own.end);
            if end - start == ENTRIES {
                self.gone_blocks.remove(&block);
                self.discarded_blocks.insert(block, discarded);
            } else if let Some(gone) = self.gone_blocks.get_mut(&block) {
                gone.discard(record, start..end, self.lost);
            }
        }
        // Of pages that were discarded before records were lost, it is known again.
        if self.lost > 0 && own.end - own.start <= MOST_REFRESHED {
            for (_, entry) in self.discarded.range_mut(own.clone()) {
                *entry = discarded;
            }
        }
        self.discards.add(own.clone());
    }

    /// Makes entries of 1 GiB in a range into 512 of 2 MiB. Past the memory for them, they count as lost.
    fn split_gigabytes(&mut self, frames: &Range<u64>) {
        let blocks_of = blocks(frames);
        for gigabyte in keys(&self.live_gigabytes, &blocks(&blocks_of)) {
            let Some(entry) = self.live_gigabytes.remove(&gigabyte) else {
                continue;
            };
            if self.allowance.take() {
                let first = gigabyte * ENTRIES;
                self.live_blocks
                    .extend((first..first + ENTRIES).map(|block| (block, entry)));
            } else {
                self.lost = self.lost.max(entry.record());
            }
        }
    }

    /// An entry was write-protected.
    pub(super) fn protect(&mut self, record: u64, gfn: u64, level: u32, origin: Origin) {
        let entry = Entry::new(record, State::Protected(origin));
        let (map, key) = match level {
            1 => (&mut self.live, gfn),
            2 => (&mut self.live_blocks, gfn / ENTRIES),
            _ => (&mut self.live_gigabytes, gfn / ENTRIES / ENTRIES),
        };
        map.insert(key, entry);
    }

    /// A huge entry became 512 entries, all there and write-protected.
    pub(super) fn split(&mut self, record: u64, gfn: u64, level: u32) {
        let (block, entry) = (
            gfn / ENTRIES,
            Entry::new(record, State::Protected(Origin::DirtyLog)),
        );
        self.split_gigabytes(&(gfn..gfn.saturating_add(1)));
        if level != 2 {
            return;
        }
        if !self.allowance.take() {
            return self.protect(record, gfn, level, Origin::DirtyLog);
        }
        self.live_blocks.remove(&block);
        let first = block * ENTRIES;
        self.live
            .extend((first..first + ENTRIES).map(|gfn| (gfn, entry)));
    }

    /// An entry was made; returns the cause of the fault that it answers.
    pub(super) fn map(&mut self, record: u64, mapping: Mapping) -> Cause {
        let live = Entry::new(
            record,
            State::Live {
                writable: mapping.writable,
                host_writable: mapping.host_writable,
            },
        );
        self.allowance.0.grow(RECORD_BYTES);
        let (gfn, block) = (mapping.gfn, mapping.gfn / ENTRIES);
        let found = match mapping.level {
            1 => self.history(gfn),
            _ => self.clear(mapping),
        };
        let cause = self.cause(found, mapping);
        match mapping.level {
            1 => {
                self.break_block(record, block);
                self.gone.remove(&gfn);
                self.discarded.remove(&gfn);
                let gone = self.gone_blocks.get_mut(&block);
                if let Some(own) = gone.and_then(|gone| gone.own.as_mut()) {
                    own.set(gfn, false);
                }
                self.live.insert(gfn, live);
            }
            2 => {
                self.live_blocks.insert(block, live);
            }
            _ => {
                self.live_gigabytes.insert(block / ENTRIES, live);
            }
        }
        cause
    }

    /// A fault was fixed by making an entry writable that was there.
    pub(super) fn make_writable(&mut self, record: u64, gfn: u64) -> Cause {
        let found = self.history(gfn);
        let since = found.map_or(0, |(entry, _)| entry.record());
        let cause = match found.map(|(entry, _)| entry.state()) {
            _ if self.has_lost(since) => Cause::RecordsLost,
            Some(State::Gone(Origin::DirtyLog) | State::Protected(Origin::DirtyLog)) => {
                Cause::DirtyLog
            }
            Some(State::Gone(_) | State::Protected(_)) => Cause::Unexplained,
            _ if self.logged > since => Cause::DirtyLog,
            _ => Cause::Unexplained,
        };
        let live = State::Live {
            writable: true,
            host_writable: true,
        };
        let map = match found {
            Some((_, 2)) => (&mut self.live_blocks, gfn / ENTRIES),
            Some((_, 3)) => (&mut self.live_gigabytes, gfn / ENTRIES / ENTRIES),
            _ => (&mut self.live, gfn),
        };
        map.0.insert(map.1, Entry::new(record, live));
        cause
    }

    fn cause(&self, found: Option<Found>, mapping: Mapping) -> Cause {
        let Some((entry, level)) = found else {
            return match self.beginning {
                _ if self.lost > 0 => Cause::RecordsLost,
                Beginning::Recorded => Cause::FirstTouch,
                Beginning::Succession => Cause::Unexplained,
                Beginning::Earlier if self.discards.contains(mapping.gfn) => {
                    Cause::FirstAfterDiscard
                }
                Beginning::Earlier => Cause::FirstSeen,
            };
        };
        let since = entry.record();
        if self.has_lost(since) {
            return Cause::RecordsLost;
        }
        let unjoined = self.unjoined(mapping.gfn);
        let logged = self.logged > since && mapping.was_present != Some(false);
        match entry.state() {
            // Taken by nothing that is known: but what was huge is not any more.
            State::Gone(Origin::Unknown) if level > mapping.level && unjoined < since => {
                Cause::PageSize
            }
            State::Gone(origin) => origin.cause(),
            _ if unjoined > since => Cause::Unexplained,
            State::Protected(origin) if mapping.writable && level >= mapping.level => {
                origin.cause()
            }
            State::Protected(_) => Cause::Unexplained,
            State::Live { .. } if level > mapping.level && logged => Cause::DirtyLog,
            State::Live { .. } if level != mapping.level => Cause::PageSize,
            State::Live { .. } if !mapping.writable => Cause::Unexplained,
            State::Live { writable: true, .. } if logged => Cause::DirtyLog,
            State::Live { writable: true, .. } => Cause::Unexplained,
            State::Live {
                host_writable: false,
                ..
            } => Cause::CopyOnWrite,
            State::Live { .. } if logged => Cause::DirtyLog,
            State::Live { .. } => Cause::GuestTables,
        }
    }

    /// The newest that is known of a page.
    fn history(&self, gfn: u64) -> Option<Found> {
        let (block, gigabyte) = (gfn / ENTRIES, gfn / ENTRIES / ENTRIES);
        let gone_block = self.gone_blocks.get(&block).map(|gone| gone.entry_of(gfn));
        // Of one record, the small entry is the newer one.
        let found = [
            (self.live_gigabytes.get(&gigabyte).copied(), 3),
            (gone_block, 2),
            (self.discarded_blocks.get(&block).copied(), 2),
            (self.live_blocks.get(&block).copied(), 2),
            (self.gone.get(&gfn).copied(), 1),
            (self.discarded.get(&gfn).copied(), 1),
            (self.live.get(&gfn).copied(), 1),
        ];
        newest(
            found
                .into_iter()
                .filter_map(|(entry, level)| Some((entry?, level))),
        )
    }

    /// Forgets all pages below a huge entry that is made; the newest that was known of any.
    fn clear(&mut self, mapping: Mapping) -> Option<Found> {
        let pages = ENTRIES.pow(mapping.level.clamp(2, 3) - 1);
        let first = mapping.gfn - mapping.gfn % pages;
        let frames = first..first.saturating_add(pages);
        let mut found = None;
        let mut take = |entry: Option<Entry>, level| {
            found = newest(found.into_iter().chain(entry.map(|entry| (entry, level))));
        };
        let gigabyte = first / ENTRIES / ENTRIES;
        take(self.live_gigabytes.get(&gigabyte).copied(), 3);
        if mapping.level > 2 {
            self.live_gigabytes.remove(&gigabyte);
        }
        let blocks = blocks(&frames);
        for map in [&mut self.live_blocks, &mut self.discarded_blocks] {
            for block in keys(map, &blocks) {
                take(map.remove(&block), 2);
            }
        }
        for block in keys(&self.gone_blocks, &blocks) {
            let gone = self.gone_blocks.remove(&block);
            take(gone.map(|gone| gone.entry_of_any()), 2);
        }
        for map in [&mut self.live, &mut self.gone, &mut self.discarded] {
            for gfn in keys(map, &frames) {
                take(map.remove(&gfn), 1);
            }
        }
        found
    }

    /// A table took a huge entry's place.
    pub(super) fn replace(&mut self, record: u64, gfn: u64) {
        self.break_block(record, gfn / ENTRIES);
    }

    /// A page was mapped in a huge entry's place: the other pages of that will fault too.
    fn break_block(&mut self, record: u64, block: u64) {
        let first = block * ENTRIES;
        self.split_gigabytes(&(first..first + 1));
        let Some(entry) = self.live_blocks.remove(&block) else {
            return;
        };
        let origin = match entry.state() {
            _ if self.unjoined(first) > entry.record() => Origin::Unknown,
            State::Protected(origin) => origin,
            _ if self.logged > entry.record() => Origin::DirtyLog,
            _ => Origin::PageSize,
        };
        let entry = Entry::new(
            self.known(record, first, entry.record()),
            State::Gone(origin),
        );
        self.gone_blocks
            .insert(block, GoneBlock { entry, own: None });
    }
}

fn newest(found: impl Iterator<Item = Found>) -> Option<Found> {
    found.max_by_key(|(entry, _)| entry.record())
}

/// Huge pages that a range touches.
fn blocks(frames: &Range<u64>) -> Range<u64> {
    match frames.is_empty() {
        true => 0..0,
        false => frames.start / ENTRIES..(frames.end - 1) / ENTRIES + 1,
    }
}

fn keys<V>(map: &BTreeMap<u64, V>, range: &Range<u64>) -> Vec<u64> {
    match range.is_empty() {
        true => Vec::new(),
        false => map.range(range.clone()).map(|(key, _)| *key).collect(),
    }
}
