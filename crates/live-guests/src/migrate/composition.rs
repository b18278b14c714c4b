//! A migration composed from the bills of its parts: what a page costs that is tracked, fetched, or touched for the first time, and
//! what the connection and the switch cost of a guest that writes nothing. It checks parts and whole against each other. Pure.
//!
//! The guest's bursts and the rounds are gone through one after another, as they are in a migration.

use std::collections::VecDeque;

use pagetoll_bill::row::median;

use super::destination::AHEAD;
use super::workload::BURST;

/// Costs in nanoseconds; of calls for each page of the guest, but for those that are tracked again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Costs {
    /// A page that is sent.
    pub(super) send: f64,
    /// A page of [`AHEAD`] that are fetched at once.
    pub(super) fetch: f64,
    /// The guest's stop at the source until its first instruction at the destination, where nothing is left to be sent.
    pub(super) switch: f64,
    /// A page that is written, and neither tracked nor missing.
    pub(super) untracked: f64,
    /// A page that is written for the first time since it was tracked.
    pub(super) tracked: f64,
    /// Such a write while pages are tracked again.
    pub(super) tracked_beside: f64,
    pub(super) arm: f64,
    pub(super) harvest: f64,
    /// A page that a harvest reports, beside that.
    pub(super) report: f64,
    pub(super) re_arm: f64,
    /// A page that the host has and that the guest touches for the first time at the destination.
    pub(super) populated: f64,
    /// A missing page that the guest touches, but for its way over the connection.
    pub(super) fault: f64,
    /// A page that is fetched over the connection by itself, after another one.
    pub(super) request: f64,
    /// Such a page between requests for several.
    pub(super) between: f64,
    /// Delay of the rest by a page that the guest waits for.
    pub(super) delay: f64,
    /// A page that was sent and is discarded at the destination, since the guest has written it again.
    pub(super) discard: f64,
}

impl Costs {
    /// Time of a request for so many pages: a line through that of one page and that of [`AHEAD`] pages.
    fn chunk(&self, pages: u64) -> f64 {
        let whole = AHEAD as f64;
        let page = (whole * self.fetch - self.request).max(0.0) / (whole - 1.0);
        self.request + (pages as f64 - 1.0) * page
    }
}

/// Plan of a migration in numbers.
#[derive(Clone, Debug)]
pub(super) struct Parts<'a> {
    /// Pages of the guest.
    pub(super) pages: u64,
    /// Pages that it writes, in order.
    pub(super) set: &'a [u64],
    /// Nanoseconds between the beginnings of bursts.
    pub(super) interval: f64,
    /// Pages are sent while the guest runs.
    pub(super) precopy: Option<Precopy>,
    /// Missing pages are fetched while the guest runs.
    pub(super) is_postcopy: bool,
}

/// Rounds of a precopy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Precopy {
    pub(super) most_rounds: u32,
    /// Pages that may be left.
    pub(super) limit: u64,
    /// Every page is reported first, and none is protected by arming.
    pub(super) is_reported_first: bool,
}

/// A migration's times in nanoseconds, and the pages that it sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Composed {
    pub(super) total: f64,
    pub(super) downtime: f64,
    pub(super) stall: f64,
    pub(super) sent: f64,
}

impl Composed {
    /// Medians of several; `None` of none.
    pub(super) fn median(all: &[Self]) -> Option<Self> {
        let middle = |value: fn(&Self) -> f64| median(&all.iter().map(value).collect::<Vec<_>>());
        Some(Self {
            total: middle(|one| one.total)?,
            downtime: middle(|one| one.downtime)?,
            stall: middle(|one| one.stall)?,
            sent: middle(|one| one.sent)?,
        })
    }
}

/// Composes a migration.
pub(super) fn composed(parts: &Parts<'_>, costs: &Costs) -> Composed {
    let mut guest = Guest::new(parts, costs);
    let mut sent = 0.0;
    let mut time = 0.0;
    let all = parts.pages as f64;
    let mut left = Left::All;
    if let Some(precopy) = parts.precopy {
        (time, sent) = guest.precopy(precopy);
        left = Left::Written;
    }
    let left_pages = match left {
        Left::All => all,
        Left::Written => guest.written() as f64,
    };
    let downtime = costs.switch
        + match (parts.precopy, parts.is_postcopy) {
            // The switch of a guest that stops at once is that of all its pages.
            (None, _) => 0.0,
            (Some(_), true) => all * costs.harvest + left_pages * (costs.report + costs.discard),
            (Some(_), false) => left_pages * costs.send,
        };
    let resumed = time + downtime;
    guest.stall += downtime;
    guest.arrive(&left, parts.is_postcopy);
    let end = match parts.is_postcopy {
        true => guest.postcopy(resumed),
        false => {
            guest.afterwards(resumed);
            resumed
        }
    };
    Composed {
        total: end,
        downtime,
        stall: guest.stall,
        sent: sent + left_pages,
    }
}

/// Pages that are left when the guest stops.
enum Left {
    All,
    Written,
}

/// State of a page of the working set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Written, or never tracked.
    Free,
    /// Tracked: the next write is reported.
    Tracked,
    /// At the destination, and not touched there yet.
    Arrived,
    /// Not at the destination yet.
    Missing,
}

/// The guest, by the states of the pages that it writes.
struct Guest<'a> {
    parts: &'a Parts<'a>,
    costs: &'a Costs,
    states: Vec<State>,
    written: Vec<bool>,
    writes: usize,
    /// Beginning of the next burst.
    next: f64,
    /// End of the time in which pages are tracked again.
    re_armed: f64,
    stall: f64,
}

impl<'a> Guest<'a> {
    fn new(parts: &'a Parts<'a>, costs: &'a Costs) -> Self {
        Self {
            parts,
            costs,
            states: vec![State::Free; parts.set.len()],
            written: vec![false; parts.set.len()],
            writes: 0,
            next: 0.0,
            re_armed: 0.0,
            stall: 0.0,
        }
    }

    fn written(&self) -> usize {
        self.written.iter().filter(|written| **written).count()
    }

    /// Lets bursts begin until a time.
    fn run_until(&mut self, time: f64) {
        self.run_beside(&mut Fetching::default(), time);
    }

    /// Lets bursts begin until a time, while missing pages are fetched.
    fn run_beside(&mut self, fetching: &mut Fetching, time: f64) {
        while self.next < time && !self.states.is_empty() {
            let all = self.states.len();
            let place = self.writes % all;
            let burst = place..(place + BURST).min(all);
            let mut now = self.next;
            for place in burst {
                fetching.advance(now, self.costs, &mut self.states);
                let extra = match self.states[place] {
                    State::Free => 0.0,
                    State::Tracked => self.tracked_write(now) - self.costs.untracked,
                    State::Arrived => self.costs.populated - self.costs.untracked,
                    State::Missing => fetching.wait(now, self.costs),
                };
                let extra = extra.max(0.0);
                self.stall += extra;
                now += extra + self.costs.untracked;
                self.states[place] = State::Free;
                self.written[place] = true;
                self.writes += 1;
            }
            self.next = now.max(self.next + self.parts.interval);
        }
    }

    /// Time of a tracked write that begins at a time. One that lasts beyond the tracking of pages again goes on as any other.
    fn tracked_write(&self, begun: f64) -> f64 {
        let Costs {
            tracked,
            tracked_beside,
            ..
        } = *self.costs;
        let beside = (self.re_armed - begun).clamp(0.0, tracked_beside);
        match beside > 0.0 {
            true => beside + (1.0 - beside / tracked_beside) * tracked,
            false => tracked,
        }
    }

    /// Tracks pages that are written from now on: those that were written, or all.
    fn track(&mut self) {
        let tracked = self.states.iter_mut();
        tracked.for_each(|state| *state = State::Tracked);
        self.written.fill(false);
    }

    /// Rounds until few pages are left; returns the time then, and the pages that were sent.
    fn precopy(&mut self, precopy: Precopy) -> (f64, f64) {
        let all = self.parts.pages as f64;
        let mut time = all * self.costs.arm;
        if precopy.is_reported_first {
            time += all * (self.costs.harvest + self.costs.report + self.costs.re_arm);
        }
        self.run_until(time);
        self.track();
        let (mut left, mut sent) = (all, 0.0);
        for round in 1..=precopy.most_rounds {
            time += left * self.costs.send;
            sent += left;
            self.run_until(time);
            left = self.written() as f64;
            time += all * self.costs.harvest + left * self.costs.report;
            if left <= precopy.limit as f64 || round == precopy.most_rounds {
                break;
            }
            time += left * self.costs.re_arm;
            // What is written while it is harvested and tracked again is reported by either.
            self.track();
            self.re_armed = time;
        }
        (time, sent)
    }

    /// Sets what the guest finds at the destination.
    fn arrive(&mut self, left: &Left, is_postcopy: bool) {
        let states = self.states.iter_mut().zip(&self.written);
        for (state, written) in states {
            let is_left = matches!(left, Left::All) || *written;
            *state = match is_postcopy && is_left {
                true => State::Missing,
                false => State::Arrived,
            };
        }
        self.writes = 0;
    }

    /// One pass over the working set with all memory there.
    fn afterwards(&mut self, resumed: f64) {
        self.next = resumed;
        self.finish_pass(&mut Fetching::default());
    }

    fn finish_pass(&mut self, fetching: &mut Fetching) {
        while self.writes < self.states.len() {
            self.run_beside(fetching, self.next + 1.0);
        }
    }

    /// Fetches what is missing, by chunks in the order of the pages, beside the guest; returns when the last one is there.
    fn postcopy(&mut self, resumed: f64) -> f64 {
        let mut fetching = Fetching {
            chunks: self.missing().into(),
            on_its_way: Vec::new(),
            ended: resumed,
        };
        self.next = resumed;
        while !fetching.chunks.is_empty() {
            self.run_beside(&mut fetching, self.next + 1.0);
            fetching.advance(self.next, self.costs, &mut self.states);
        }
        let last = fetching.ended;
        self.finish_pass(&mut fetching);
        last
    }

    /// Missing pages by chunks: how many, and the places of those of the working set.
    fn missing(&self) -> Vec<Chunk> {
        let mut place_of = vec![None; usize::try_from(self.parts.pages).unwrap_or(0)];
        for (place, page) in self.parts.set.iter().enumerate() {
            place_of[usize::try_from(*page).unwrap_or(0)] = Some(place);
        }
        let is_whole = self.parts.precopy.is_none();
        let is_missing = |place: &Option<usize>| match place {
            Some(place) => self.states[*place] == State::Missing,
            None => is_whole,
        };
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut before = None;
        for (page, place) in place_of.iter().enumerate() {
            if !is_missing(place) {
                continue;
            }
            let goes_on = before == Some(page.wrapping_sub(1));
            match chunks.last_mut() {
                Some(chunk) if goes_on && chunk.pages < AHEAD => {
                    chunk.pages += 1;
                    chunk.places.extend(place);
                }
                _ => chunks.push(Chunk {
                    pages: 1,
                    places: place.iter().copied().collect(),
                }),
            }
            before = Some(page);
        }
        chunks
    }
}

/// Pages that are fetched at once.
struct Chunk {
    pages: u64,
    places: Vec<usize>,
}

/// Chunks of missing pages on their way, one after another.
#[derive(Default)]
struct Fetching {
    /// Chunks that are not on their way yet.
    chunks: VecDeque<Chunk>,
    /// Places of the chunk that is on its way.
    on_its_way: Vec<usize>,
    /// Time at which it arrives.
    ended: f64,
}

impl Fetching {
    /// Lets chunks arrive until a time, and the next one be on its way.
    fn advance(&mut self, time: f64, costs: &Costs, states: &mut [State]) {
        while self.ended <= time {
            for place in self.on_its_way.drain(..) {
                if states[place] == State::Missing {
                    states[place] = State::Arrived;
                }
            }
            let Some(next) = self.chunks.pop_front() else {
                return;
            };
            self.ended += costs.chunk(next.pages);
            self.on_its_way = next.places;
        }
    }

    /// Time for which the guest waits for a missing page: it comes after the chunk that is on its way, and the next chunk after it.
    fn wait(&mut self, now: f64, costs: &Costs) -> f64 {
        let wait = (self.ended - now).max(0.0) + costs.between + costs.fault - costs.untracked;
        self.ended += costs.delay;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        send: 1000.0,
        fetch: 1000.0,
        switch: 50_000.0,
        untracked: 10.0,
        tracked: 510.0,
        tracked_beside: 510.0,
        arm: 1.0,
        harvest: 2.0,
        report: 0.0,
        re_arm: 4.0,
        populated: 110.0,
        fault: 3000.0,
        request: 2000.0,
        between: 2000.0,
        delay: 900.0,
        discard: 100.0,
    };

    fn parts(set: &[u64]) -> Parts<'_> {
        Parts {
            pages: 1000,
            set,
            interval: 80_000.0,
            precopy: None,
            is_postcopy: false,
        }
    }

    const ROUNDS: Precopy = Precopy {
        most_rounds: 30,
        limit: 20,
        is_reported_first: false,
    };

    #[test]
    fn a_guest_that_writes_nothing_pays_for_its_pages_and_the_switch() {
        let idle = Parts {
            precopy: Some(ROUNDS),
            ..parts(&[])
        };
        let composed = composed(&idle, &COSTS);
        assert_eq!(composed.downtime, 50_000.0);
        assert_eq!(composed.total, 1000.0 + 1_000_000.0 + 2000.0 + 50_000.0);
        assert_eq!((composed.stall, composed.sent), (50_000.0, 1000.0));
    }

    #[test]
    fn rounds_send_what_was_written_in_the_round_before() {
        let set: Vec<u64> = (0..1000).collect();
        let precopy = Parts {
            interval: 20_000.0,
            precopy: Some(ROUNDS),
            ..parts(&set)
        };
        let rounds = composed(&precopy, &COSTS);
        // A burst of 8 begins every 20 us. The first one is before anything is tracked; 50 follow while a millisecond passes,
        // then 20, 8, 3 and 1 in the rounds that send what was written in the one before.
        assert_eq!(rounds.sent, 1000.0 + 8.0 * (50.0 + 20.0 + 8.0 + 3.0 + 1.0));
        assert_eq!(rounds.downtime, 50_000.0 + 8.0 * 1000.0);
        let tracked = (rounds.stall - rounds.downtime - 1000.0 * 100.0) / 500.0;
        assert!((tracked - 656.0).abs() < 1e-6, "{tracked}");
        // One round alone, and what is left is fetched.
        let hybrid = Parts {
            precopy: Some(Precopy {
                most_rounds: 1,
                ..ROUNDS
            }),
            is_postcopy: true,
            ..parts(&set)
        };
        let hybrid = composed(&hybrid, &COSTS);
        assert_eq!(hybrid.sent, 1096.0);
        assert_eq!(hybrid.downtime, 50_000.0 + 2000.0 + 96.0 * 100.0);
    }

    #[test]
    fn a_guest_that_is_held_up_while_pages_are_tracked_again_writes_fewer() {
        let set: Vec<u64> = (0..1000).collect();
        let precopy = Parts {
            interval: 20_000.0,
            precopy: Some(ROUNDS),
            ..parts(&set)
        };
        let slow = Costs {
            re_arm: 500.0,
            ..COSTS
        };
        let held_up = Costs {
            tracked_beside: 1e9,
            ..slow
        };
        let [all, few] = [&slow, &held_up].map(|costs| composed(&precopy, costs));
        // 400 pages are tracked again within 200 us, and then 400 us pass: 30 bursts follow where none is held up, else 20.
        assert!(few.sent + 8.0 * 10.0 <= all.sent, "{few:?} {all:?}");
        assert!(few.stall > all.stall);
    }

    #[test]
    fn postcopy_sends_each_page_once_and_the_guest_waits_for_some() {
        let set: Vec<u64> = (0..1000).rev().collect();
        let postcopy = Parts {
            is_postcopy: true,
            ..parts(&set)
        };
        let slow = composed(&postcopy, &COSTS);
        assert_eq!((slow.sent, slow.downtime), (1000.0, 50_000.0));
        assert!(slow.stall > slow.downtime + 1000.0 * 100.0);
        let free = Costs {
            fault: 10.0,
            request: 0.0,
            between: 0.0,
            ..COSTS
        };
        assert!(composed(&postcopy, &free).stall < slow.stall);
    }
}
