//! The report of a guest: its times, and every word of its memory compared with the image.

use std::collections::BTreeSet;
use std::fs::File;

use pagetoll_vmm::guest::Layout;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::super::conversation::{CloneReport, Extent, Handled};
use super::super::image::read_page;
use super::super::memory::Usage;
use super::super::visit::Share;
use super::{Clone, Run};
use pagetoll_live_host::LiveError;

impl Clone<'_> {
    /// The report of a run that began at this time of the monotonic clock.
    pub(super) fn report(
        &self,
        began: u64,
        run: &Run,
        used: Usage,
    ) -> Result<CloneReport, LiveError> {
        let latest = |time: fn(&super::Visited) -> u64| {
            let times = run.visited.iter().map(time);
            times.max().unwrap_or(began).saturating_sub(began)
        };
        let mut handled = run.by_readers;
        run.visited
            .iter()
            .for_each(|visited| handled.add(Handled::from(&visited.counts)));
        let stalls = run.visited.iter().filter_map(|visited| visited.stall);
        let expected = Expected {
            image: &self.booted.image,
            shares: &self.booted.shares,
        };
        let backing = self.booted.machine.backing();
        Ok(CloneReport {
            first: latest(|visited| visited.first),
            set: latest(|visited| visited.set),
            last: latest(|visited| visited.last),
            stall: stalls.reduce(f64::max),
            wrong_in_guest: run.visited.iter().map(|visited| visited.wrong).sum(),
            wrong_on_host: match self.order.extent {
                Extent::LastPage => expected.wrong_pages(
                    &backing.memory,
                    backing.layout,
                    self.order.pages,
                    self.words(),
                )?,
                Extent::Set => 0,
            },
            misread: expected.misread(run, self.words())?,
            handled,
            ahead: run.ahead,
            minor_faults: used.minor_faults,
            major_faults: used.major_faults,
            cpu: used.cpu,
            storage: used.storage,
            kept: None,
            present: run.present.clone(),
        })
    }

    fn words(&self) -> Option<pagetoll_live_host::vcpus::content::Content> {
        self.booted.content
    }
}

/// Content that guests must find.
struct Expected<'a> {
    image: &'a File,
    shares: &'a [Share],
}

type Words = Option<pagetoll_live_host::vcpus::content::Content>;

impl Expected<'_> {
    /// The bytes of a page of the image: by its words where they are known, not by what the file may hold instead.
    fn page(&self, page: u64, words: Words) -> Result<[u8; 4096], LiveError> {
        match words {
            Some(words) => {
                let mut bytes = [0; 4096];
                bytes.copy_from_slice(&words.bytes_from(page, 1));
                Ok(bytes)
            }
            None => read_page(self.image, page),
        }
    }

    /// Pages that hold something else than the image does and the guest has written.
    fn wrong_pages(
        &self,
        memory: &GuestMemoryMmap,
        layout: Layout,
        pages: u64,
        words: Words,
    ) -> Result<u64, LiveError> {
        let entries = self.shares.iter().flat_map(|share| share.entries.iter());
        let written: BTreeSet<u64> = entries.filter(|entry| *entry & 1 == 1).copied().collect();
        let mut found = [0; 4096];
        let mut wrong = 0;
        for page in 0..pages {
            let offset = page * 4096;
            memory.read_slice(&mut found, GuestAddress(layout.data + offset))?;
            let mut expected = self.page(page, words)?;
            if written.contains(&(offset | 1)) {
                expected[8..16].copy_from_slice(&(offset | 1).to_le_bytes());
            }
            wrong += u64::from(found != expected);
        }
        Ok(wrong)
    }

    /// vCPUs that read something else than the first word of each page.
    fn misread(&self, run: &Run, words: Words) -> Result<u64, LiveError> {
        let mut misread = 0;
        for (share, visited) in self.shares.iter().zip(&run.visited) {
            let mut sum = 0_u64;
            for entry in share.entries.iter().filter(|entry| *entry & 1 == 0) {
                let word = match words {
                    Some(words) => words.word(entry / 8),
                    None => {
                        let page = read_page(self.image, entry / 4096)?;
                        let (first, _) = page.as_chunks::<8>();
                        u64::from_le_bytes(first[0])
                    }
                };
                sum = sum.wrapping_add(word);
            }
            misread += u64::from(sum != visited.sum);
        }
        Ok(misread)
    }
}
