//! A text to items.

use std::io::BufRead;

use super::TraceTextError;
use super::line::{Line, Printed};
use super::lines::{self, Lines};
use crate::tracepoint::{Event, Item, Known, Lost, Name, Names, Tally, Task, Words};

/// Reads a text, line by line.
#[derive(Debug)]
pub struct Reader<S> {
    lines: Lines<S>,
    seen: Seen,
}

/// Lines that a mailer may have made of one, at most, after the first.
const MOST_JOINED: u64 = 4;

/// State that outlives a line.
#[derive(Debug, Default)]
struct Seen {
    names: Names,
    tally: Tally,
    latest: u64,
    held: Option<Held>,
}

/// An event that lacks a field, which the next line may have: mailers wrap lines.
#[derive(Debug)]
struct Held {
    /// The number of its first line.
    number: u64,
    text: String,
    joined: u64,
    lacks: String,
}

impl<S: BufRead> Reader<S> {
    /// Reads nothing yet.
    pub fn new(source: S) -> Self {
        Self {
            lines: Lines::new(source),
            seen: Seen::default(),
        }
    }

    /// The next item, in the text's order; `None` at its end. A last line without a line end is not read: a number at its
    /// end may be cut.
    ///
    /// # Errors
    /// [`TraceTextError`] when the source fails; at the end, when it has lines but no event.
    pub fn next_item(&mut self) -> Result<Option<Item>, TraceTextError> {
        loop {
            let number = self.lines.number + 1;
            let line = self.lines.next();
            let line = line.map_err(|source| TraceTextError::Io {
                line: number,
                source,
            })?;
            let item = match line {
                Some(lines::Line::Whole(line)) => {
                    self.seen.line(number, &String::from_utf8_lossy(line))
                }
                Some(lines::Line::TooLong) => {
                    self.seen.tally.other_lines += 1;
                    None
                }
                Some(lines::Line::Cut) => {
                    self.seen.tally.truncated_at(self.lines.offset, "a line");
                    None
                }
                None => return self.end(),
            };
            if item.is_some() {
                return Ok(item);
            }
        }
    }

    /// Counts so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.seen.tally
    }

    fn end(&mut self) -> Result<Option<Item>, TraceTextError> {
        self.seen.give_up();
        let tally = &self.seen.tally;
        let events = tally.events + tally.unreadable + tally.unknown_events();
        match events == 0 && tally.other_lines > 0 {
            true => Err(TraceTextError::NoEvents {
                line: self.lines.number,
            }),
            false => Ok(None),
        }
    }
}

impl Seen {
    fn line(&mut self, number: u64, line: &str) -> Option<Item> {
        let wrapped =
            |held: &mut Held| held.joined < MOST_JOINED && matches!(Line::read(line), Line::Other);
        let Some(held) = self.held.take_if(wrapped) else {
            self.give_up();
            return self.take(number, line);
        };
        let item = self.take(held.number, &format!("{} {}", held.text, line.trim()));
        if let Some(again) = &mut self.held {
            again.joined = held.joined + 1;
        }
        item
    }

    /// Counts an event that no further line completed.
    fn give_up(&mut self) {
        if let Some(held) = self.held.take() {
            self.tally.other_lines += held.joined;
            self.tally.count_unreadable(|| held.lacks);
        }
    }

    fn take(&mut self, number: u64, line: &str) -> Option<Item> {
        match Line::read(line) {
            Line::Event(printed) => self.event(number, line, printed).map(Item::Event),
            Line::Lost { time, cpu, records } => Some(self.lost(Lost { time, cpu, records })),
            Line::Overwritten(records) => Some(self.lost(Lost {
                time: None,
                cpu: None,
                records: Some(records),
            })),
            Line::Kernel(release) => {
                self.tally.machine.kernel = Some(release.to_owned());
                None
            }
            Line::Arch(name) => {
                self.tally.machine.arch = Some(name.to_owned());
                None
            }
            Line::Recorded(name) => {
                self.tally.count_recorded(name);
                None
            }
            Line::Nothing => None,
            Line::Other => {
                self.tally.other_lines += 1;
                None
            }
        }
    }

    fn lost(&mut self, lost: Lost) -> Item {
        self.tally.count_lost(&lost);
        Item::Lost(lost)
    }

    fn event(&mut self, number: u64, line: &str, printed: Printed<'_>) -> Option<Event> {
        let (system, event) = match printed.name.split_once(':') {
            Some((system, event)) => (Some(system), event),
            None => (None, printed.name),
        };
        let Some(known) = Known::named(system, event) else {
            self.tally.count_unknown(printed.name);
            return None;
        };
        match known.payload(Words(printed.text), &mut self.names) {
            Ok(payload) => Some(Event {
                time: printed.time,
                cpu: printed.head.cpu,
                task: self.task(printed),
                payload,
            })
            .inspect(|_| self.count(printed.time.get())),
            Err(missing) => {
                self.held = Some(Held {
                    number,
                    text: line.to_owned(),
                    joined: 0,
                    lacks: format!(
                        "line {number}: {} has no readable `{}`",
                        printed.name,
                        missing.0.trim()
                    ),
                });
                None
            }
        }
    }

    fn count(&mut self, time: u64) {
        self.tally.events += 1;
        self.tally.out_of_order += u64::from(time < self.latest);
        self.latest = self.latest.max(time);
    }

    fn task(&mut self, printed: Printed<'_>) -> Task {
        let head = printed.head;
        Task {
            pid: head.pid,
            tid: head.tid,
            comm: self.comm(head.comm, head.tid),
        }
    }

    /// ftrace's names of what has none become perf's.
    fn comm(&mut self, comm: &str, tid: Option<u32>) -> Name {
        match (comm, tid) {
            ("<idle>", _) => self.names.intern("swapper"),
            ("<...>", Some(tid)) => self.names.intern(&format!(":{tid}")),
            _ => self.names.intern(comm),
        }
    }
}
