//! A text to items.

use std::io::BufRead;

use pagetoll_units::Nanos;

use super::TraceTextError;
use super::line::{Line, Printed};
use super::lines::{self, Lines, MAX_LINE_BYTES};
use crate::tracepoint::{
    Event, Item, Known, Lost, Missing, Name, Names, Payload, Stamp, Tally, Task, Words,
};

/// Reads a text, line by line.
#[derive(Debug)]
pub struct Reader<S> {
    lines: Lines<S>,
    parser: Parser,
}

/// Lines that a mailer may have made of one, at most, after the first.
const MOST_JOINED: u64 = 4;

/// Takes lines and makes items of them.
#[derive(Debug, Default)]
pub struct Parser {
    names: Names,
    tally: Tally,
    latest: u64,
    held: Option<Held>,
}

/// An event that lacks a field, or columns that lack an event, which the next line may have: mailers wrap lines.
#[derive(Debug)]
struct Held {
    /// The number of its first line.
    number: u64,
    text: String,
    joined: u64,
    /// The field; none where the event itself is missing.
    lacks: Option<String>,
}

impl<S: BufRead> Reader<S> {
    /// Reads nothing yet.
    pub fn new(source: S) -> Self {
        Self {
            lines: Lines::new(source),
            parser: Parser::default(),
        }
    }

    /// The next item, in the text's order; `None` at its end. Of a last line without a line end the last word is not used, since a
    /// number there may be cut: what needs it is left out.
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
                    self.parser.line(number, &String::from_utf8_lossy(line))
                }
                Some(lines::Line::TooLong) => {
                    self.parser
                        .tally
                        .count_other(number, "(a line that is too long)");
                    None
                }
                Some(lines::Line::Cut(line)) => {
                    let item = self
                        .parser
                        .last_line(number, &String::from_utf8_lossy(line));
                    if item.is_none() {
                        self.parser.tally.truncated_at(self.lines.offset, "a line");
                    }
                    item
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
        &self.parser.tally
    }

    fn end(&mut self) -> Result<Option<Item>, TraceTextError> {
        self.parser.end();
        let tally = &self.parser.tally;
        let events = tally.events + tally.unreadable + tally.unknown_events();
        match events == 0 && tally.other_lines > 0 {
            true => Err(TraceTextError::NoEvents {
                line: self.lines.number,
            }),
            false => Ok(None),
        }
    }
}

impl Parser {
    /// The item that a line completes, if it does.
    pub fn line(&mut self, number: u64, line: &str) -> Option<Item> {
        if line.len() > MAX_LINE_BYTES {
            self.end();
            self.tally.other_lines += 1;
            return None;
        }
        let wrapped = |held: &mut Held| {
            held.joined < MOST_JOINED
                && match Line::read(line) {
                    Line::Other => true,
                    Line::Event(event) => held.lacks.is_none() && event.time == Stamp::None,
                    _ => false,
                }
        };
        let Some(held) = self.held.take_if(wrapped) else {
            self.end();
            return self.take(number, line);
        };
        let item = self.take(held.number, &format!("{} {}", held.text, line.trim()));
        if let Some(again) = &mut self.held {
            again.joined = held.joined + 1;
        }
        item
    }

    /// The event of a last line that may be cut.
    fn last_line(&mut self, number: u64, line: &str) -> Option<Item> {
        let line = match self.held.take() {
            Some(held) => format!("{} {}", held.text, line.trim()),
            None => line.to_owned(),
        };
        let Line::Event(printed) = Line::read(&line) else {
            return None;
        };
        let known = known(printed)?;
        let (without_last, _) = printed.text.trim_end().rsplit_once(' ')?;
        let payload = known.payload(Words(without_last), &mut self.names);
        let payload = payload.or_else(|missing| match known {
            // No figure comes from its fields.
            Known::KvmEntry => known.payload(Words(printed.text), &mut self.names),
            _ => Err(missing),
        });
        self.event(number, &line, printed, payload)
            .filter(|_| self.held.take().is_none())
            .map(Item::Event)
    }

    /// Counts, at the end of the text, an event that no further line completed.
    pub fn end(&mut self) {
        let Some(held) = self.held.take() else {
            return;
        };
        let others = held.joined + u64::from(held.lacks.is_none());
        (0..others).for_each(|_| self.tally.count_other(held.number, &held.text));
        if let Some(lacks) = held.lacks {
            self.tally.count_unreadable(|| lacks);
        }
    }

    /// Counts so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    fn take(&mut self, number: u64, line: &str) -> Option<Item> {
        match Line::read(line) {
            Line::Event(printed) => {
                let Some(known) = known(printed) else {
                    self.tally.count_unknown(printed.name);
                    return None;
                };
                let payload = known.payload(Words(printed.text), &mut self.names);
                self.event(number, line, printed, payload).map(Item::Event)
            }
            Line::Columns => {
                self.held = Some(Held {
                    number,
                    text: line.to_owned(),
                    joined: 0,
                    lacks: None,
                });
                None
            }
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
                self.tally.count_other(number, line);
                None
            }
        }
    }

    fn lost(&mut self, lost: Lost) -> Item {
        self.tally.count_lost(&lost);
        Item::Lost(lost)
    }

    fn event(
        &mut self,
        number: u64,
        line: &str,
        printed: Printed<'_>,
        payload: Result<Payload, Missing>,
    ) -> Option<Event> {
        match payload {
            Ok(payload) => {
                self.count(printed.time);
                Some(Event {
                    time: printed.time,
                    cpu: printed.head.cpu,
                    task: self.task(printed),
                    payload,
                })
            }
            // Prose that mentions an event.
            Err(_) if is_prose(line, printed) => {
                self.tally.count_other(number, line);
                None
            }
            Err(missing) => {
                self.held = Some(Held {
                    number,
                    text: line.to_owned(),
                    joined: 0,
                    lacks: Some(format!(
                        "line {number}: {} has no readable `{}`",
                        printed.name,
                        missing.0.trim()
                    )),
                });
                None
            }
        }
    }

    fn count(&mut self, time: Stamp) {
        self.tally.events += 1;
        let (Stamp::Time(Nanos(time)) | Stamp::Ticks(time)) = time else {
            return;
        };
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

fn known(printed: Printed<'_>) -> Option<Known> {
    let (system, event) = match printed.name.split_once(':') {
        Some((system, event)) => (Some(system), event),
        None => (None, printed.name),
    };
    Known::named(system, event)
}

/// An event's name with a colon inside a sentence.
fn is_prose(line: &str, printed: Printed<'_>) -> bool {
    let has_columns = printed.head.cpu.is_some() || printed.head.tid.is_some();
    printed.time == Stamp::None && !has_columns && !line.trim_start().starts_with(printed.name)
}
