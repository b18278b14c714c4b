//! Counts of one thread.

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Event, Payload, Stamp};
use pagetoll_observation::{Group, Item, Party, Unit, per, total};
use pagetoll_units::Nanos;

use super::occurrence::Occurrence;

/// Events of a thread counted separately; any others are summed.
const MAX_EVENTS: usize = 4096;

/// Counts of a thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// Its process, where the capture says so.
    pub(super) pid: Option<u32>,
    events: BTreeMap<(Group, String), Sum>,
    /// The last exit of the guest, return to user space and call of the kernel, with their time.
    open: [Option<(String, Stamp)>; 3],
    /// Frame after the last page that was mapped.
    next: Option<u64>,
    /// First and last time that pages were mapped.
    mapping: Option<(Nanos, Nanos)>,
    /// An exit came while another was open, and no gap was before it: where events do not name their thread, vCPUs are mixed.
    mixed: bool,
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    pages: Option<u64>,
    /// Time of the occurrences that ended.
    time: Option<Nanos>,
    ticks: Option<u64>,
    ended: u64,
    adjacent: u64,
}

/// Index into `open` of the span that an event begins or ends.
#[derive(Clone, Copy)]
enum Span {
    Exit,
    UserSpace,
    Call,
}

impl Thread {
    pub(super) fn take(&mut self, event: &Event) {
        self.end(event);
        self.pid = self.pid.or(event.task.pid);
        let Some(occurrence) = Occurrence::new(&event.payload) else {
            return;
        };
        let is_mapping =
            occurrence.group == Group::Mapped && matches!(event.payload, Payload::SetSpte(_));
        let adjacent = is_mapping && self.is_adjacent(event, occurrence.pages);
        let is_work = is_mapping || occurrence.group == Group::Pinned;
        if let Some(time) = event.time.time().filter(|_| is_work) {
            let first = self.mapping.map_or(time, |(first, _)| first);
            self.mapping = Some((first, time));
        }
        if let Some(span) = begins(&event.payload) {
            let [exit, user_space, _] = &self.open;
            self.mixed |= matches!(span, Span::Exit) && (exit.is_some() || user_space.is_some());
            self.open[span as usize] = Some((occurrence.name.clone(), event.time));
        }
        let sum = self.sum(occurrence.group, occurrence.name);
        sum.count += 1;
        sum.adjacent += u64::from(adjacent);
        if let Some(pages) = occurrence.pages {
            sum.pages = Some(sum.pages.unwrap_or(0).saturating_add(pages));
        }
    }

    fn sum(&mut self, group: Group, name: String) -> &mut Sum {
        let mut key = (group, name);
        if self.events.len() >= MAX_EVENTS && !self.events.contains_key(&key) {
            key.1 = "(others)".to_owned();
        }
        self.events.entry(key).or_default()
    }

    /// Forgets what has begun: what ends it may be among events that were lost.
    pub(super) fn gap(&mut self) {
        self.open = [None, None, None];
        self.next = None;
    }

    /// An entry into the guest ends what was done upon its exit, in the kernel and in user space; a return of ioctl(2) ends the
    /// call.
    fn end(&mut self, event: &Event) {
        match event.payload {
            Payload::KvmEntry(_) => {
                self.end_span(event, Span::Exit, false);
                self.end_span(event, Span::UserSpace, false);
            }
            Payload::KvmUserspaceExit(_) => self.end_span(event, Span::Exit, false),
            Payload::IoctlExit { ret } => self.end_span(event, Span::Call, ret < 0),
            _ => {}
        }
    }

    fn end_span(&mut self, event: &Event, span: Span, failed: bool) {
        let group = match span {
            Span::Exit => Group::Exits,
            Span::UserSpace => Group::ToUserSpace,
            Span::Call => Group::Calls,
        };
        let Some((mut name, since)) = self.open[span as usize].take() else {
            return;
        };
        if failed {
            self.sum(group, name.clone()).count -= 1;
            name.push_str(", failed");
            self.sum(group, name.clone()).count += 1;
        }
        let sum = self.sum(group, name);
        match (since, event.time) {
            (Stamp::Time(since), Stamp::Time(until)) => {
                let took = until.0.saturating_sub(since.0);
                sum.time = Some(Nanos(sum.time.map_or(0, Nanos::get).saturating_add(took)));
            }
            (Stamp::Ticks(since), Stamp::Ticks(until)) => {
                let took = until.saturating_sub(since);
                sum.ticks = Some(sum.ticks.unwrap_or(0).saturating_add(took));
            }
            _ => return,
        }
        sum.ended += 1;
    }

    /// An exit of one vCPU may have ended at the entry of another.
    fn forget_times(&mut self) {
        for sum in self.events.values_mut() {
            (sum.time, sum.ticks, sum.ended) = (None, None, 0);
        }
    }

    fn is_adjacent(&mut self, event: &Event, pages: Option<u64>) -> bool {
        let Payload::SetSpte(set) = &event.payload else {
            return false;
        };
        let follows = self.next == Some(set.gfn.0);
        self.next = pages.and_then(|pages| set.gfn.0.checked_add(pages));
        follows
    }

    /// A thread without a name and number is all that the capture does not name.
    pub(super) fn party(mut self, comm: &str, tid: Option<u32>) -> Party {
        let name = match (comm, tid) {
            ("", None) => "(threads without a name)".to_owned(),
            ("", Some(tid)) => format!("thread {tid}"),
            ("(others)", None) => comm.to_owned(),
            (comm, None) => format!("{comm} ?"),
            (comm, Some(tid)) => format!("{comm} {tid}"),
        };
        if tid.is_none() && self.mixed {
            self.forget_times();
        }
        let unit = self.unit();
        let between = unit.map(|unit| unit.count - 1).filter(|count| *count > 0);
        let span = self
            .mapping
            .map(|(first, last)| last.0.saturating_sub(first.0));
        let counted = self.events.into_iter().filter(|(_, sum)| sum.count > 0);
        let items = counted.map(|((group, name), sum)| Item {
            pages: sum.pages,
            nanos: sum.time.map(Nanos::get),
            ticks: sum.ticks,
            timed: (sum.ended > 0 && sum.ended < sum.count).then_some(sum.ended),
            adjacent: sum.adjacent,
            ..Item::counted(group, name, sum.count)
        });
        Party {
            nanos_per_unit: span.zip(between).map(|(span, count)| per(span, count)),
            ..Party::new(name, unit, items.collect())
        }
    }

    /// Pages that were mapped for a guest, or else for a device.
    fn unit(&self) -> Option<Unit> {
        let pages = |group: Group, names: &[&str]| -> u64 {
            let events = self.events.iter().filter(|((of, name), _)| {
                *of == group && (names.is_empty() || names.contains(&name.as_str()))
            });
            total(events.filter_map(|(_, sum)| sum.pages))
        };
        let mapped = Unit {
            name: "page mapped for the guest",
            count: pages(Group::Mapped, &["4K", "2M", "1G"]),
        };
        let pinned = Unit {
            name: "page mapped for a device",
            count: pages(Group::Pinned, &[]),
        };
        [mapped, pinned].into_iter().find(|unit| unit.count > 0)
    }
}

const fn begins(payload: &Payload) -> Option<Span> {
    match payload {
        Payload::KvmExit(_) => Some(Span::Exit),
        Payload::KvmUserspaceExit(_) => Some(Span::UserSpace),
        Payload::IoctlEnter { .. } => Some(Span::Call),
        _ => None,
    }
}
