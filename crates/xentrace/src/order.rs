//! Order of time of what several CPUs recorded about one vcpu, in one pass and in bounded memory.
//!
//! xentrace goes round the CPUs by number, and writes of each one window: all that its buffer holds at that moment. What a
//! round lacks was recorded after the round began, and so after all of the round before. Once a round is written, the one
//! before it is therefore complete: what is kept is two rounds, at most two buffers of each CPU. A round ends where a
//! CPU's number is lower than the one before; rounds that do not show so count to the next one, which keeps more events and
//! mixes up none.
//!
//! xenalyze reads the windows of each CPU at its own place in the file instead, which a pipe does not allow. Source:
//! `monitor_tbufs` and `write_buffer` of `tools/xentrace/xentrace.c`, `choose_next_record` of `tools/xentrace/xenalyze.c`;
//! Xen 4.17.

use super::{ExitReason, Pcpu, Runstate, Vcpu};

/// Events that are kept until they are in order: 8 MiB. Assumed to exceed those of two rounds; of more, the later half is.
pub(super) const MOST_KEPT: usize = 1 << 18;

/// Events that are put in order at once, at least.
const FEWEST: usize = 16;

/// A change of a vcpu that may go on on another CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) tsc: u64,
    pub(super) vcpu: Vcpu,
    pub(super) kind: Kind,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Another runstate begins, as this CPU recorded.
    Runstate {
        old: Runstate,
        new: Runstate,
        cpu: Pcpu,
    },
    /// The vcpu left its CPU before it entered its guest again: an exit for this reason, at this time, has not ended.
    Leave { reason: ExitReason, exit: u64 },
    /// It entered its guest, after an exit that its CPU did not record since it took it.
    Enter,
    /// An exit that has not ended will not: another exit followed.
    Forget,
    /// Its CPU lost records, until this time, and among them maybe the end of what the vcpu has left open. A CPU says so with
    /// its next record, which may be rounds later.
    Lose { cpu: Pcpu, until: u64 },
}

/// Events on their way into the order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    kept: Vec<Event>,
    /// Number of events that were kept when others were handed on: sorting them costs as much as twice as many take to come.
    left: usize,
    /// CPU of the last event.
    cpu: Pcpu,
    /// Last time stamps of the round that is read, and of the one before.
    round: u64,
    round_before: u64,
    /// Time up to which events have been handed on, and events of before that came after.
    released: u64,
    late: u64,
}

impl Order {
    /// Takes in an event, and hands on what is in order. Events of one CPU come in their order.
    pub(super) fn push(&mut self, cpu: Pcpu, event: Event, release: impl FnMut(Event)) {
        let begins_round = cpu < self.cpu;
        if self.kept.len() >= MOST_KEPT {
            self.kept.sort_by_key(|event| event.tsc);
            let middle = self.kept[MOST_KEPT / 2].tsc;
            self.release(middle.max(self.round_before), release);
        } else if begins_round && self.kept.len() >= FEWEST.max(2 * self.left) {
            self.release(self.round_before, release);
        }
        if begins_round {
            self.round_before = self.round;
            self.round = 0;
        }
        let is_loss = matches!(event.kind, Kind::Lose { .. });
        self.late += u64::from(event.tsc < self.released && !is_loss);
        self.cpu = cpu;
        self.round = self.round.max(event.tsc);
        self.kept.push(event);
    }

    /// Hands on the events up to a time, in order. Events of one CPU and one time stay in their order.
    pub(super) fn release(&mut self, until: u64, mut release: impl FnMut(Event)) {
        self.kept.sort_by_key(|event| event.tsc);
        let due = self.kept.partition_point(|event| event.tsc <= until);
        for event in self.kept.drain(..due) {
            self.released = self.released.max(event.tsc);
            release(event);
        }
        self.left = self.kept.len();
    }

    /// Hands on all events. What follows is of another time.
    pub(super) fn end(&mut self, release: impl FnMut(Event)) {
        self.release(u64::MAX, release);
        *self = Self {
            late: self.late,
            ..Self::default()
        };
    }

    /// Events that came when what follows them had been handed on; losses are not counted.
    pub(super) const fn late(&self) -> u64 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time stamps in the order in which they are handed on, of events by CPU and time, and how many were late.
    fn ordered(events: impl Iterator<Item = (u32, u64)>) -> (Vec<u64>, u64) {
        let (mut order, mut released) = (Order::default(), Vec::new());
        for (cpu, tsc) in events {
            let vcpu = Vcpu { domain: 1, vcpu: 0 };
            let kind = Kind::Enter;
            order.push(Pcpu(cpu), Event { tsc, vcpu, kind }, |event| {
                released.push(event.tsc)
            });
        }
        let late = order.late();
        order.end(|event| released.push(event.tsc));
        (released, late)
    }

    #[test]
    fn a_round_is_complete_when_the_next_one_is_written() {
        let rounds = [
            (0, 5),
            (1, 3),
            (1, 6),
            (0, 9),
            (1, 7),
            (1, 11),
            (0, 13),
            (1, 10),
            (0, 14),
        ];
        let (released, late) = ordered(rounds.into_iter());
        assert!(released.is_sorted() && late == 0, "{released:?}");
        let many = u64::try_from(4 * FEWEST).unwrap();
        let rounds = (1..many).flat_map(|time| [(0, 2 * time), (1, 2 * time - 1)]);
        let (released, late) = ordered(rounds.clone());
        assert!(released.is_sorted() && late == 0);
        assert_eq!(ordered(rounds.chain([(2, 1)])).1, 1);
    }

    #[test]
    fn one_cpu_alone_takes_no_more_than_is_kept() {
        let most = u64::try_from(3 * MOST_KEPT).unwrap();
        let (released, late) = ordered((0..most).map(|tsc| (3, tsc)));
        assert!(released.is_sorted() && late == 0 && released.len() == 3 * MOST_KEPT);
    }
}
