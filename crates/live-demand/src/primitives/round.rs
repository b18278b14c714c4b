//! One round: every primitive once.

use std::collections::BTreeMap;
use std::time::Duration;

use pagetoll_backend::Stop;

use super::topology::Cpus;
use super::{Primitive, SOURCE_PAGES};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::cpu_time::thread_time;

/// A round while it is measured.
pub(super) struct Round<'a> {
    /// What pages are filled with, [`SOURCE_PAGES`] of them.
    pub(super) content: &'a [u8],
    pub(super) cpus: &'a Cpus,
    pub(super) number: u32,
    pub(super) stop: &'a Stop,
    /// Where the next pages of the content are taken.
    next: usize,
    samples: BTreeMap<Primitive, f64>,
    absent: BTreeMap<Primitive, String>,
}

impl<'a> Round<'a> {
    pub(super) fn new(content: &'a [u8], cpus: &'a Cpus, number: u32, stop: &'a Stop) -> Self {
        Self {
            content,
            cpus,
            number,
            stop,
            next: number as usize * 7,
            samples: BTreeMap::new(),
            absent: BTreeMap::new(),
        }
    }

    /// A primitive took so many nanoseconds.
    pub(super) fn note(&mut self, primitive: Primitive, nanoseconds: f64) {
        self.samples.insert(primitive, nanoseconds);
    }

    /// A primitive cannot be measured here.
    pub(super) fn lacks(&mut self, primitive: Primitive, reason: impl Into<String>) {
        self.absent.insert(primitive, reason.into());
    }

    pub(super) fn into_parts(self) -> (BTreeMap<Primitive, f64>, BTreeMap<Primitive, String>) {
        (self.samples, self.absent)
    }

    /// So many pages of the content, other ones each time, so that they come from memory as those of a large source.
    pub(super) fn pages(&mut self, pages: u64) -> &'a [u8] {
        let blocks = (SOURCE_PAGES / pages).max(1);
        let block = self.next as u64 % blocks;
        self.next += 1;
        let bytes = |pages: u64| usize::try_from(pages * 4096).unwrap_or(usize::MAX);
        let range = bytes(block * pages)..bytes((block + 1) * pages);
        self.content.get(range).unwrap_or_default()
    }
}

/// CPU time of this thread for one of `count` things that `work` does, in nanoseconds.
pub(super) fn each_takes(
    count: u64,
    work: impl FnOnce() -> Result<(), LiveError>,
) -> Result<f64, LiveError> {
    let began = thread_time();
    work()?;
    Ok(nanoseconds(thread_time() - began) / count as f64)
}

/// A time as a number of nanoseconds.
pub(super) fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}
