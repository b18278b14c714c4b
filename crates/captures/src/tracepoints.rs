//! Observations of Linux's tracepoints, from perf.data or as text: who mapped, unmapped and flushed how many pages, for
//! each page that was mapped for a guest or a device.

mod occurrence;
mod thread;

use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use pagetoll_ftrace::trace_text;
use pagetoll_ftrace::tracepoint::{Event, Item as Traced, Name, Tally};
use pagetoll_observation::{Capture, Observation, Party, Recorded, Thread as Named};
use pagetoll_perf_data::Reader;

use crate::events::understood;
use crate::source::{CaptureError, Content, Source};
use thread::Thread;

/// Threads counted separately; the events of any others are summed.
const MAX_THREADS: usize = 16_384;

/// Name and number of a thread, which both forms of a capture have.
type Key = (Name, Option<u32>);

/// Reads perf.data to its end, or to where it is cut off.
pub(crate) fn observe_perf_data(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let capture = source.capture();
    match &mut source.content {
        Content::File(file) => observe_records(capture, Reader::open(BufReader::new(file))?),
        Content::Stream(stream) => observe_records(capture, Reader::stream(stream)?),
    }
}

fn observe_records<S: Read>(
    capture: Capture,
    mut reader: Reader<S>,
) -> Result<Observation, CaptureError> {
    let threads = Threads::read(|| reader.next_item())?;
    understood(threads.observed(capture, reader.tally()))
}

/// Reads tracepoints as text to their end, or to where they are cut off.
pub(crate) fn observe_text(source: &mut Source<'_>) -> Result<Observation, CaptureError> {
    let capture = source.capture();
    let mut reader = trace_text::Reader::new(BufReader::new(source));
    let threads = Threads::read(|| reader.next_item())?;
    understood(threads.observed(capture, reader.tally()))
}

/// Takes in a capture's events in their order.
#[derive(Default)]
pub(super) struct Threads {
    by_key: BTreeMap<Key, Thread>,
    others: Thread,
    seen: Recorded,
}

impl Threads {
    /// Takes a reader's events to their end.
    fn read<E>(mut next: impl FnMut() -> Result<Option<Traced>, E>) -> Result<Self, E> {
        let mut threads = Self::default();
        while let Some(item) = next()? {
            threads.take(Some(item));
        }
        Ok(threads)
    }

    /// Takes an item, if there is one.
    pub(super) fn take(&mut self, item: Option<Traced>) {
        match item {
            Some(Traced::Event(event)) => {
                self.seen.insert(&event.payload);
                self.thread(&event).take(&event);
            }
            Some(Traced::Lost(_)) => self.gap(),
            None => {}
        }
    }

    /// Any thread may have run where events were lost.
    fn gap(&mut self) {
        let named = self.by_key.values_mut();
        named.chain([&mut self.others]).for_each(Thread::gap);
    }

    fn thread(&mut self, event: &Event) -> &mut Thread {
        let key = (Name::clone(&event.task.comm), event.task.tid);
        if self.by_key.len() >= MAX_THREADS && !self.by_key.contains_key(&key) {
            return &mut self.others;
        }
        self.by_key.entry(key).or_default()
    }

    /// The threads as parties, in descending order of their work.
    pub(super) fn observed(self, capture: Capture, tally: &Tally) -> Observation {
        let named = self.by_key.into_iter().map(|((comm, tid), thread)| {
            let pid = thread.pid;
            Party {
                thread: Some(Box::new(Named {
                    comm: comm.as_ref().to_owned(),
                    pid,
                })),
                ..thread.party(&comm, tid)
            }
        });
        let others = Some(self.others.party("(others)", None));
        let others = others.filter(|party| !party.items.is_empty());
        let mut parties: Vec<_> = named.chain(others).collect();
        parties.sort_by_key(|party| std::cmp::Reverse(party.unit.map(|unit| unit.count)));
        Observation {
            capture: Capture {
                recorded: recorded(self.seen, tally),
                ..capture.with_tally(tally)
            },
            parties,
        }
    }
}

/// Tracepoints that were seen, and those of which a capture says that they were recorded; unless some events could not be
/// read, which may have been any.
fn recorded(mut seen: Recorded, tally: &Tally) -> Recorded {
    if tally.unreadable == 0 {
        seen.extend(Recorded::tracepoints(
            tally.recorded.iter().map(String::as_str),
        ));
    }
    seen
}

#[cfg(test)]
mod tests;
