//! Restoring ahead of faults: a prefault beside the guest, and the replay of what another run touched.

use super::error::PagerError;
use super::handler::Counts;
use super::ranges::GuestRange;
use super::reader::ReaderStop;
use super::source::PageSource;
use super::{Pager, window};

/// The most bytes of one call of a replay: 512 pages of 4 KiB, the most that a huge page would map.
const CHUNK: u64 = 2 << 20;

impl<S: PageSource> Pager<S> {
    /// Populates all that is missing, in the order of the ranges, until nothing is or `end` is requested. Returns what
    /// was done.
    ///
    /// For a thread of its own, beside readers or vCPUs. `pages` of 4 KiB are populated at a time: a power of two,
    /// never less than the page size of the memory. No fault waits for more than that. Threads that wait for these
    /// pages are woken. Memory that is given back meanwhile may be populated again.
    ///
    /// # Errors
    /// A page could not be populated.
    pub fn prefault(&self, pages: u32, end: &ReaderStop) -> Result<Counts, PagerError> {
        let mut handler = self.handler();
        for range in &self.paged.ranges {
            let step = window(pages, range.unit);
            let mut units = 0..range.units();
            while !units.is_empty() {
                if end.is_requested() {
                    return Ok(*handler.counts());
                }
                let next = units.end.min(units.start + step);
                handler.populate_absent(range, units.start..next)?;
                units.start = next;
            }
        }
        Ok(*handler.counts())
    }

    /// Populates what is missing of these parts of the memory, in the order given, at most 2 MiB by one call. Returns
    /// what was done.
    ///
    /// They are what [`present`](Self::present) recorded in another run, of a pager with the same memory; its ranges
    /// may differ. Replayed before the guest runs, or beside it, on a thread of its own.
    ///
    /// # Errors
    /// A part is not paged, or not page-aligned; then nothing is populated. A page could not be populated.
    pub fn populate(&self, ranges: &[GuestRange]) -> Result<Counts, PagerError> {
        let mut parts = Vec::with_capacity(ranges.len());
        for range in ranges {
            parts.extend(self.paged.parts(*range)?);
        }
        let mut handler = self.handler();
        for (range, mut units) in parts {
            let step = range.unit_of(CHUNK).max(1);
            while !units.is_empty() {
                let next = units.end.min(units.start + step);
                handler.populate_absent(range, units.start..next)?;
                units.start = next;
            }
        }
        Ok(*handler.counts())
    }

    /// The parts of the memory that are populated, as maximal runs in order of address.
    ///
    /// Whole batches: with [`Options::batch`](super::Options::batch) 1 and without a prefault, what was touched.
    #[must_use]
    pub fn present(&self) -> Vec<GuestRange> {
        self.paged.present()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use pagetoll_test_support::{skip, skipped};
    use proptest::prelude::*;
    use vm_memory::GuestAddress;

    use super::super::ranges::give_back;
    use super::super::testing::{
        OPTIONS, anonymous, content, mapped, memfd, no_minor_faults, pages, punch_hole, source,
        word,
    };
    use super::super::{Delivery, Features, MemorySource, Options, PagerError};
    use super::*;

    type TestPager = Pager<MemorySource<Vec<u8>>>;

    fn pager(count: u64, ranges: &[GuestRange]) -> TestPager {
        Pager::new(anonymous(count), ranges, source(count), OPTIONS).unwrap()
    }

    fn restored(pager: &TestPager, page: u64) -> bool {
        word(&pager.paged.memory, page) == content(page)
    }

    /// Maximal runs of pages, found page by page.
    fn naive_runs(present: &[bool]) -> Vec<GuestRange> {
        let mut runs: Vec<GuestRange> = Vec::new();
        for page in (0..)
            .zip(present)
            .filter_map(|(page, is)| is.then_some(page))
        {
            match runs.last_mut() {
                Some(run) if run.start.0 + run.bytes == page * 4096 => run.bytes += 4096,
                _ => runs.push(pages(page, 1)),
            }
        }
        runs
    }

    /// Paged ranges, as first page and number: two adjoin, one page is not paged, and they are not in order.
    const RANGES: [(u64, u64); 4] = [(90, 38), (0, 20), (20, 50), (71, 10)];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn what_is_present_is_what_was_populated_and_not_forgotten(
            steps in prop::collection::vec((0_usize..4, 0_u64..50, 1_u64..50, any::<bool>()), 0..12),
        ) {
            if let Err(error) = Features::detect() {
                skipped(format_args!("userfaultfd: {error}"));
                return Ok(());
            }
            let pager = pager(128, &RANGES.map(|(start, count)| pages(start, count)));
            let mut present = [false; 128];
            for (range, first, count, populate) in steps {
                let (start, length) = RANGES[range];
                let first = start + first % length;
                let count = count.min(start + length - first);
                if populate {
                    pager.populate(&[pages(first, count)]).unwrap();
                } else {
                    pager.forget(pages(first, count)).unwrap();
                }
                let touched = usize::try_from(first).unwrap()..usize::try_from(first + count).unwrap();
                present[touched].fill(populate);
            }
            prop_assert_eq!(pager.present(), naive_runs(&present));
        }
    }

    #[test]
    fn a_recorded_set_is_replayed_in_chunks_across_ranges() {
        if let Err(error) = Features::detect() {
            skip!("userfaultfd: {error}");
        }
        let pager = pager(1200, &[pages(0, 100), pages(100, 1100)]);
        let set = [pages(1190, 10), pages(90, 1025)];
        let counts = pager.populate(&set).unwrap();
        // 10 pages; then 10 in the first range, 512, 512 and 1 - 10 of them in the second.
        assert_eq!((counts.pages, counts.calls, counts.exists), (1035, 4, 0));
        assert_eq!(pager.present(), [pages(90, 1025), pages(1190, 10)]);
        assert!(restored(&pager, 90) && restored(&pager, 1114) && restored(&pager, 1199));
        assert_eq!(pager.populate(&set).unwrap().calls, 0);
        let other = Pager::new(anonymous(1200), &[pages(0, 1200)], source(1200), OPTIONS).unwrap();
        assert_eq!(other.populate(&pager.present()).unwrap().pages, 1035);
        assert_eq!(other.present(), pager.present());
    }

    #[test]
    fn a_set_of_other_memory_is_refused_as_a_whole() {
        if let Err(error) = Features::detect() {
            skip!("userfaultfd: {error}");
        }
        let pager = pager(64, &[pages(0, 16), pages(20, 12)]);
        let part = |start, bytes| GuestRange {
            start: GuestAddress(start),
            bytes,
        };
        for bad in [
            pages(10, 8),
            pages(16, 1),
            pages(40, 1),
            pages(31, 2),
            part(0x1800, 0x1000),
            part(0x1000, 0x800),
            part(u64::MAX - 0xfff, 0x2000),
        ] {
            let refused = pager.populate(&[pages(0, 1), bad]);
            assert!(
                matches!(&refused, Err(PagerError::BadRange { range, .. }) if *range == bad),
                "{bad:?}: {refused:?}"
            );
        }
        assert_eq!(pager.present(), []);
    }

    #[test]
    fn one_thread_answers_faults_between_other_work() {
        if let Err(error) = Features::detect() {
            skip!("userfaultfd: {error}");
        }
        let options = Options {
            delivery: Delivery::Message,
            ..OPTIONS
        };
        let pager = Pager::new(anonymous(64), &[pages(0, 64)], source(64), options).unwrap();
        let mut handler = pager.handler();
        handler.serve_pending(0).unwrap();
        assert_eq!(handler.counts().faults, 0);
        thread::scope(|scope| {
            let touched = [60, 3, 40];
            let pager = &pager;
            let guest = scope.spawn(move || touched.map(|page| restored(pager, page)));
            while !guest.is_finished() {
                handler.serve_pending(0).unwrap();
                thread::yield_now();
            }
            assert_eq!(guest.join().unwrap(), [true; 3]);
        });
        assert!(handler.counts().faults >= 3, "{:?}", handler.counts());
        assert_eq!(pager.present(), [pages(3, 1), pages(40, 1), pages(60, 1)]);
    }

    #[test]
    fn a_prefault_populates_what_is_missing_and_ends_on_request() {
        if let Err(error) = Features::detect() {
            skip!("userfaultfd: {error}");
        }
        let pager = pager(128, &[pages(64, 64), pages(0, 60)]);
        let end = ReaderStop::new().unwrap();
        pager.populate(&[pages(66, 2)]).unwrap();
        let counts = pager.prefault(16, &end).unwrap();
        assert_eq!((counts.pages, counts.calls, counts.exists), (122, 5 + 4, 0));
        assert_eq!(pager.present(), [pages(0, 60), pages(64, 64)]);
        // The first range begins the source.
        assert_eq!(word(&pager.paged.memory, 64), content(0));
        assert_eq!(word(&pager.paged.memory, 0), content(64));
        assert_eq!(pager.prefault(16, &end).unwrap(), Counts::default());
        pager.forget(pages(0, 60)).unwrap();
        end.request();
        assert_eq!(pager.prefault(16, &end).unwrap(), Counts::default());
    }

    #[test]
    fn a_page_that_is_there_already_is_an_outcome() {
        if let Err(error) = Features::detect() {
            skip!("userfaultfd: {error}");
        }
        let pager = pager(16, &[pages(0, 16)]);
        pager.populate(&[pages(4, 3)]).unwrap();
        // Not given back: the kernel has them, and the pager does not know.
        pager.forget(pages(4, 3)).unwrap();
        let counts = pager.prefault(16, &ReaderStop::new().unwrap()).unwrap();
        assert_eq!((counts.pages, counts.exists), (13, 3));
        assert_eq!(pager.present(), [pages(0, 16)]);
        assert!((0..16).all(|page| restored(&pager, page)));
    }

    #[test]
    fn memory_that_was_given_back_comes_again() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let part = pages(5, 3);
        let private = pager(16, &[pages(0, 16)]);
        let file = memfd(16);
        let options = Options {
            batch: 4,
            ..OPTIONS
        };
        let shared = Pager::new_shared(
            mapped(&file),
            mapped(&file),
            &[pages(0, 16)],
            source(16),
            options,
        );
        let shared = shared.unwrap();
        let given_back: [(&TestPager, &dyn Fn()); 2] = [
            (&private, &|| give_back(&private.paged.memory, part)),
            (&shared, &|| punch_hole(&file, part)),
        ];
        for (pager, give_back) in given_back {
            pager.populate(&[pages(0, 16)]).unwrap();
            use vm_memory::Bytes;
            for page in 4..9 {
                let address = GuestAddress(page * 4096);
                pager.paged.memory.write_obj(77_u64, address).unwrap();
            }
            give_back();
            pager.forget(part).unwrap();
            assert_eq!(pager.present(), [pages(0, 5), pages(8, 8)]);
            pager
                .handler()
                .populate(GuestAddress(6 * 4096), super::super::Wake::None)
                .unwrap();
            let counts = pager.populate(&[pages(0, 16)]).unwrap();
            assert_eq!(counts.exists, 0);
            let words: Vec<u64> = (4..9).map(|page| word(&pager.paged.memory, page)).collect();
            assert_eq!(words, [77, content(5), content(6), content(7), 77]);
        }
    }
}
