//! What Linux's tracepoints say, from perf.data or as text: who mapped, unmapped and flushed how many pages, for each page
//! that was mapped for a guest or a device.

mod thread;
mod what;

pub(crate) use what::USERFAULTFD;

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Event, Item as Traced, Name, Tally};

use crate::observation::{Capture, Observation};
use thread::Thread;

/// Threads counted separately; the events of any others are summed.
const MAX_THREADS: usize = 16_384;

/// Whose events they are: a name and a number, which both forms of a capture have.
type Key = (Name, Option<u32>);

/// Takes in a capture's events in their order.
#[derive(Default)]
pub(crate) struct Threads {
    by_key: BTreeMap<Key, Thread>,
    others: Thread,
}

impl Threads {
    /// Those of a reader's events, to its end.
    pub(crate) fn of<E>(mut next: impl FnMut() -> Result<Option<Traced>, E>) -> Result<Self, E> {
        let mut threads = Self::default();
        while let Some(item) = next()? {
            if let Traced::Event(event) = item {
                threads.thread(&event).take(&event);
            }
        }
        Ok(threads)
    }

    fn thread(&mut self, event: &Event) -> &mut Thread {
        let key = (Name::clone(&event.task.comm), event.task.tid);
        if self.by_key.len() >= MAX_THREADS && !self.by_key.contains_key(&key) {
            return &mut self.others;
        }
        self.by_key.entry(key).or_default()
    }

    /// The threads as parties: those that did most of the work first.
    pub(crate) fn observed(self, file: &str, format: &'static str, tally: &Tally) -> Observation {
        let named = self.by_key.into_iter().map(|((comm, tid), thread)| {
            let tid = tid.map_or_else(|| "?".to_owned(), |tid| tid.to_string());
            thread.party(format!("{comm} {tid}"))
        });
        let others = Some(self.others.party("(others)".to_owned()));
        let others = others.filter(|party| !party.items.is_empty());
        let mut parties: Vec<_> = named.chain(others).collect();
        parties.sort_by_key(|party| std::cmp::Reverse(party.unit.map(|unit| unit.count)));
        Observation {
            capture: capture(file, format, tally),
            parties,
        }
    }
}

fn capture(file: &str, format: &'static str, tally: &Tally) -> Capture {
    let mut unknown = tally.unknown.clone();
    let mut more = |name: &str, count: u64| {
        if count > 0 {
            unknown.insert(name.to_owned(), count);
        }
    };
    more("(events of other names)", tally.unknown_others);
    more("(events that lack a field)", tally.unreadable);
    more("(gaps of unknown length)", tally.gaps);
    let truncated = tally.truncated.as_ref();
    Capture {
        file: file.to_owned(),
        format,
        kernel: tally.machine.kernel.clone(),
        arch: tally.machine.arch.clone(),
        lost: tally.lost,
        truncated: truncated.map(|end| format!("byte {}: ends inside {}", end.offset, end.inside)),
        unknown,
        cpus: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
