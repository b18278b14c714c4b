//! Both forms of a trace give the same events; what is lost, unknown or cut is said.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

mod captures;
mod hostile;
mod made;
mod pipe;

use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

use pagetoll_ftrace::trace_text;
use pagetoll_ftrace::tracepoint::{Event, Item, Lost, Tally};
use pagetoll_perf_data::{PerfDataError, Reader};

/// Items of a reader.
#[derive(Debug)]
struct Read {
    items: Vec<Item>,
    tally: Tally,
    failure: Option<String>,
}

impl Read {
    fn events(&self) -> Vec<&Event> {
        let events = self.items.iter().filter_map(|item| match item {
            Item::Event(event) => Some(event),
            Item::Lost(_) => None,
        });
        events.collect()
    }

    fn lost(&self) -> Vec<Lost> {
        let lost = self.items.iter().filter_map(|item| match item {
            Item::Lost(lost) => Some(*lost),
            Item::Event(_) => None,
        });
        lost.collect()
    }
}

/// Shows the first difference, not all of both.
fn assert_same(left: &Read, right: &Read) {
    for (index, (left, right)) in left.items.iter().zip(&right.items).enumerate() {
        assert_eq!(left, right, "item {index}");
    }
    assert_eq!(left.items.len(), right.items.len());
    assert_eq!((&left.tally, &left.failure), (&right.tally, &right.failure));
}

/// Items up to the end or the first error, and that error.
fn drain<E: ToString>(
    mut next: impl FnMut() -> Result<Option<Item>, E>,
) -> (Vec<Item>, Option<String>) {
    let mut items = Vec::new();
    loop {
        match next() {
            Ok(Some(item)) => items.push(item),
            Ok(None) => return (items, None),
            Err(error) => return (items, Some(error.to_string())),
        }
    }
}

fn perf(bytes: &[u8]) -> Result<Read, PerfDataError> {
    let mut reader = Reader::open(Cursor::new(bytes))?;
    let (items, failure) = drain(|| reader.next_item());
    assert!(matches!(reader.next_item(), Ok(None)));
    Ok(Read {
        items,
        tally: reader.tally().clone(),
        failure,
    })
}

fn text(bytes: &[u8]) -> Read {
    let mut reader = trace_text::Reader::new(bytes);
    let (items, failure) = drain(|| reader.next_item());
    Read {
        items,
        tally: reader.tally().clone(),
        failure,
    }
}

fn data(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../captures/tests/data");
    fs::read(folder.join(name)).unwrap()
}
