//! The work of a guest that is migrated: it writes the pages of its working set one after another, again and again, by bursts at a
//! steady rate. Each page has thereby words that say by which write it was left. Pure, but for the look at memory and the clock.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use pagetoll_live_host::LiveError;
use pagetoll_live_host::own_process::now;
use pagetoll_live_host::vcpus::content::Content;

/// Pages of a burst.
pub(super) const BURST: usize = 8;
/// Longest sleep between looks at the end.
const NAP: u64 = 1_000_000;

/// Pages and their rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Workload {
    /// The working set, in the order in which it is written; empty where the guest writes nothing.
    pub(super) set: Vec<u64>,
    /// Nanoseconds from the beginning of one burst to that of the next.
    pub(super) interval: u64,
}

/// Offset in a page of the word that the guest writes at the destination, in bytes. At the source it writes the first one, whose
/// last value would otherwise be lost without a trace.
pub(super) const AT_DESTINATION: u64 = 8;

/// Pages that the guest wrote at either end, one after another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writes {
    pub(super) at_source: u64,
    pub(super) at_destination: u64,
}

impl Workload {
    /// Places in the set of the burst after so many writes; it ends with the set.
    pub(super) fn burst(&self, writes: u64) -> Option<Range<u64>> {
        let all = self.set.len() as u64;
        let first = writes.checked_rem(all)?;
        Some(first..(first + BURST as u64).min(all))
    }

    /// Number of the last of so many writes, from 1, that was of the page at a place; `None` where there was none.
    fn last_write(&self, place: u64, writes: u64) -> Option<u64> {
        let after = writes.checked_sub(place + 1)?;
        Some(writes - after % self.set.len() as u64)
    }

    /// Pages of a guest that hold another word somewhere than they should after so many writes by either end.
    pub(super) fn wrong_pages(
        &self,
        memory: &GuestMemoryMmap,
        data: u64,
        content: Content,
        pages: u64,
        writes: Writes,
    ) -> Result<u64, LiveError> {
        let mut places = vec![None; usize::try_from(pages).unwrap_or(0)];
        for (place, page) in (0..).zip(&self.set) {
            if let Some(of_page) = places.get_mut(usize::try_from(*page).unwrap_or(usize::MAX)) {
                *of_page = Some(place);
            }
        }
        let mut wrong = 0;
        let mut bytes = [0; 4096];
        for (page, place) in (0..pages).zip(places) {
            memory.read_slice(&mut bytes, GuestAddress(data + page * 4096))?;
            let written = |writes| place.and_then(|place| self.last_write(place, writes));
            let written = [written(writes.at_source), written(writes.at_destination)];
            wrong += u64::from(!is_right(&bytes, page, content, written));
        }
        Ok(wrong)
    }
}

/// True where each word is that of the content, but for the first two, where they were written.
fn is_right(bytes: &[u8; 4096], page: u64, content: Content, written: [Option<u64>; 2]) -> bool {
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = (page * 512..).zip(words).enumerate();
    words.all(|(index, (number, word))| {
        let written = written.get(index).copied().flatten();
        u64::from_ne_bytes(*word) == written.unwrap_or_else(|| content.word(number))
    })
}

/// Beginnings of bursts.
#[derive(Debug)]
pub(super) struct Ticks {
    next: u64,
    interval: u64,
}

impl Ticks {
    /// Ticks from now on.
    pub(super) fn new(interval: u64) -> Self {
        Self {
            next: now(),
            interval,
        }
    }

    /// Waits for the next one, or until `end` is set. One that is late by then is not made up for.
    pub(super) fn wait(&mut self, end: &AtomicBool) {
        self.next = now().max(self.next + self.interval);
        loop {
            let left = self.next.saturating_sub(now());
            if left == 0 || end.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(Duration::from_nanos(left.min(NAP)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(set: &[u64]) -> Workload {
        Workload {
            set: set.to_vec(),
            interval: 1,
        }
    }

    #[test]
    fn bursts_go_round_the_set_and_the_last_write_of_a_page_is_known() {
        let set: Vec<u64> = (0..20).rev().collect();
        let workload = workload(&set);
        let mut last = vec![None; set.len()];
        let mut writes = 0;
        for _ in 0..7 {
            for place in workload.burst(writes).unwrap() {
                writes += 1;
                last[usize::try_from(place).unwrap()] = Some(writes);
                let found: Vec<_> = (0..20).map(|p| workload.last_write(p, writes)).collect();
                assert_eq!(found, last);
            }
        }
        // 8, 8 and 4 pages are the set.
        assert_eq!(writes, 3 * 20 - 4 - 8);
        assert_eq!(self::workload(&[]).burst(0), None);
    }

    #[test]
    fn a_page_is_wrong_where_one_word_is() {
        let content = Content::WORDS;
        let all = GuestAddress(0);
        let memory = GuestMemoryMmap::<()>::from_ranges(&[(all, 3 * 4096)]).unwrap();
        memory.write_slice(&content.bytes(3), all).unwrap();
        let workload = workload(&[2, 0]);
        let wrong = |(at_source, at_destination)| {
            let writes = Writes {
                at_source,
                at_destination,
            };
            workload.wrong_pages(&memory, 0, content, 3, writes)
        };
        assert_eq!(wrong((0, 0)).unwrap(), 0);
        // Three writes of the source, one of the destination: pages 2, 0, 2 and 2.
        assert_eq!(wrong((3, 1)).unwrap(), 2);
        for (page, offset, word) in [(2, 0, 3_u64), (0, 0, 2), (2, 8, 1)] {
            let address = GuestAddress(page * 4096 + offset);
            memory.write_obj(word, address).unwrap();
        }
        assert_eq!(wrong((3, 1)).unwrap(), 0);
        memory.write_obj(5_u64, GuestAddress(4096 + 4088)).unwrap();
        assert_eq!(wrong((3, 1)).unwrap(), 1);
    }
}
