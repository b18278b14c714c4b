//! Shared memory whose missing pages are written through a second mapping, then mapped by `UFFDIO_CONTINUE`.
//!
//! The page cache may be written only while the guest's mapping does not have the page: afterwards the guest may have
//! written to it. So a handler claims units before it writes them, and one handler has each. A claim that ends with an
//! error, or by a panic of the source, is released, and the next handler writes the unit from its first byte again.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;
use vm_memory::{
    Address, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, VolatileSlice,
};

use super::error::PagerError;
use super::ranges::{GuestRange, PagedRange, host_range};
use super::units::UnitSet;
use super::userfaultfd::Wake;

/// `MAP_SHARED` of mmap(2) (include/uapi/linux/mman.h).
const MAP_SHARED: i32 = 1;

/// The units of a range of shared memory, beside their presence.
#[derive(Debug)]
pub(super) struct SharedUnits {
    /// Memory of the same file at the same guest addresses, where content is written.
    second: GuestMemoryMmap,
    /// Units that a handler populates, or has populated.
    claimed: UnitSet,
    /// Units whose whole content is in the page cache.
    pub(super) written: UnitSet,
    arrivals: Arrivals,
}

impl SharedUnits {
    /// The units of `range`; what its file holds by now counts as written.
    pub(super) fn new(
        memory: &GuestMemoryMmap,
        second: &GuestMemoryMmap,
        range: GuestRange,
        unit: u64,
    ) -> Result<Self, PagerError> {
        let bad = |why| PagerError::BadRange { range, why };
        if unit != 4096 {
            return Err(bad("is restored by UFFDIO_CONTINUE in pages of 4 KiB only"));
        }
        if host_range(memory, range, unit)? == host_range(second, range, unit)? {
            return Err(bad("is the same mapping twice; a second one is needed"));
        }
        let (file, offset) = part_of_file(memory, range)?;
        let (second_file, second_offset) = part_of_file(second, range)?;
        if identity(file)? != identity(second_file)? || offset != second_offset {
            return Err(bad(
                "is another file, or another part of it, in the second mapping",
            ));
        }
        let count = usize::try_from(range.bytes / unit).unwrap_or(usize::MAX);
        let written = UnitSet::none(count);
        for data in data(file, offset..offset + range.bytes)? {
            let units = [data.start / unit, data.end.div_ceil(unit)];
            let [start, end] = units.map(|unit| usize::try_from(unit).unwrap_or(usize::MAX));
            written.insert(start..end);
        }
        Ok(Self {
            second: second.clone(),
            claimed: UnitSet::none(count),
            written,
            arrivals: Arrivals::default(),
        })
    }

    /// Memory of the second mapping.
    pub(super) fn slice(
        &self,
        start: GuestAddress,
        bytes: usize,
    ) -> Result<VolatileSlice<'_>, PagerError> {
        self.second
            .get_slice(start, bytes)
            .map_err(|_| PagerError::Elsewhere(start.0))
    }

    /// Sleeps until a unit is present, or is claimed by no handler.
    pub(super) fn wait(&self, range: &PagedRange, unit: usize) {
        self.arrivals
            .wait_until(|| range.present.has(unit) || !self.claimed.has(unit));
    }

    /// The units are missing, and their content is to be written again.
    pub(super) fn forget(&self, units: Range<usize>) {
        self.written.remove(units.clone());
        // The last: who claims a unit must not take its content for written.
        self.claimed.remove(units);
        self.arrivals.announce();
    }
}

/// The file behind a range, and the offset of its first byte.
fn part_of_file(memory: &GuestMemoryMmap, range: GuestRange) -> Result<(&File, u64), PagerError> {
    let bad = |why| PagerError::BadRange { range, why };
    let region = memory.find_region(range.start);
    let region = region.ok_or(bad("is no guest memory"))?;
    if region.flags() & MAP_SHARED == 0 {
        return Err(bad("is mapped privately; UFFDIO_CONTINUE needs MAP_SHARED"));
    }
    let part = GuestMemoryRegion::file_offset(region);
    let part = part.ok_or(bad("has no file: map a memfd, with a FileOffset"))?;
    let within = range.start.unchecked_offset_from(region.start_addr());
    Ok((part.file(), part.start() + within))
}

/// Device and inode.
fn identity(file: &File) -> Result<(u64, u64), PagerError> {
    let stat = fstat(file).map_err(PagerError::system("fstat of guest memory"))?;
    Ok((stat.st_dev, stat.st_ino))
}

/// The parts of a file that are no holes, within and relative to `part`.
fn data(file: &File, part: Range<u64>) -> Result<Vec<Range<u64>>, PagerError> {
    let find = |from| match seek(file.as_fd(), from) {
        // Only a hole is left.
        Err(Errno::NXIO) => Ok(part.end),
        found => found.map_err(PagerError::system("lseek of guest memory")),
    };
    let (mut all, mut position) = (Vec::new(), part.start);
    while position < part.end {
        let start = find(SeekFrom::Data(position))?.min(part.end);
        position = match start {
            start if start == part.end => start,
            start => find(SeekFrom::Hole(start))?.min(part.end),
        };
        if start < position {
            all.push(start - part.start..position - part.start);
        }
    }
    Ok(all)
}

/// Units that this handler alone populates. Those that it has not settled are released at the end.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    range: &'a PagedRange,
    shared: &'a SharedUnits,
    runs: Vec<Range<usize>>,
    wake: Wake,
}

impl<'a> Claim<'a> {
    /// Claims those of `units` that no other handler has.
    pub(super) fn new(
        range: &'a PagedRange,
        shared: &'a SharedUnits,
        units: Range<usize>,
        wake: Wake,
    ) -> Self {
        let runs = shared.claimed.claim(units);
        Self {
            range,
            shared,
            runs,
            wake,
        }
    }

    /// The first run that is left.
    pub(super) fn first(&self) -> Option<Range<usize>> {
        self.runs.first().cloned()
    }

    /// The first `count` units of the first run are populated.
    pub(super) fn settle(&mut self, count: usize) {
        let Some(run) = self.runs.first_mut() else {
            return;
        };
        self.range.present.insert(run.start..run.start + count);
        run.start += count;
        if Range::is_empty(run) {
            self.runs.remove(0);
        }
        self.shared.arrivals.announce();
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        for run in self.runs.drain(..) {
            self.shared.claimed.remove(run.clone());
            self.shared.arrivals.announce();
            if self.wake == Wake::Waiters {
                // Readers that lost the claim left its waiters to this handler: they fault again. A userfaultfd that
                // cannot wake has no waiters.
                let _ = self.range.userfaultfd.wake(self.range.host_range(&run));
            }
        }
    }
}

/// Changes of units, for handlers that wait for those of others.
#[derive(Debug, Default)]
struct Arrivals {
    /// Handlers that wait: mostly none, and then an announcement costs no system call.
    waiting: AtomicUsize,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Arrivals {
    fn wait_until(&self, done: impl Fn() -> bool) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // Pairs with that of `announce`: it sees this waiter, or this waiter sees the change.
        fence(Ordering::SeqCst);
        let mut guard = self.lock();
        while !done() {
            let woken = self.changed.wait(guard);
            guard = woken.unwrap_or_else(PoisonError::into_inner);
        }
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes waiters. After the change.
    fn announce(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // A waiter that has looked already sleeps once the lock is free, and is not missed.
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::fs::FileExt;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Duration;

    use pagetoll_test_support::skip;
    use vm_memory::Bytes;

    use super::super::ranges::give_back;
    use super::super::testing::{
        OPTIONS, anonymous, content, mapped, memfd, no_minor_faults, pages, source, word,
    };
    use super::super::{Delivery, FileSource, Multiplexer, Options, PageSource, Pager, ReaderStop};
    use super::*;

    fn shared<S: PageSource>(file: &File, source: S, options: Options) -> Pager<S> {
        let all = [pages(0, file.metadata().unwrap().len() / 4096)];
        Pager::new_shared(mapped(file), mapped(file), &all, source, options).unwrap()
    }

    #[test]
    fn what_the_file_holds_is_mapped_and_not_read_again() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let file = memfd(32);
        for page in [0_u64, 7, 8, 31] {
            file.write_all_at(&99_u64.to_le_bytes(), page * 4096)
                .unwrap();
        }
        let pager = shared(
            &file,
            source(32),
            Options {
                batch: 8,
                ..OPTIONS
            },
        );
        assert_eq!(pager.present(), []);
        let counts = pager.populate(&[pages(0, 32)]).unwrap();
        assert_eq!((counts.pages, counts.exists), (32, 0));
        for page in 0..32 {
            let is_kept = [0, 7, 8, 31].contains(&page);
            let expected = if is_kept { 99 } else { content(page) };
            assert_eq!(word(&pager.paged.memory, page), expected);
        }
    }

    #[test]
    fn a_page_that_the_kernel_unmapped_is_mapped_again_with_the_guests_content() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let file = memfd(4);
        let options = Options {
            delivery: Delivery::Message,
            ..OPTIONS
        };
        let pager = shared(&file, source(4), options);
        let memory = &pager.paged.memory;
        pager.populate(&[pages(0, 4)]).unwrap();
        memory.write_obj(55_u64, GuestAddress(4096)).unwrap();
        // As for swapping it out: of shared memory, this takes the mapping and not the page.
        give_back(memory, pages(0, 4));
        let stop = ReaderStop::new().unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(|| pager.serve(0, &stop, Multiplexer::Poll).unwrap());
            assert_eq!(
                [0, 1, 2].map(|page| word(memory, page)),
                [1, 55, content(2)]
            );
            stop.request();
            let counts = reader.join().unwrap();
            assert!(counts.faults >= 3 && counts.pages == 0);
            assert_eq!(counts.reading, Duration::ZERO);
        });
    }

    #[test]
    fn guests_of_one_image_do_not_see_each_others_writes() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let image = tempfile::tempfile().unwrap();
        image.write_all_at(&source(16).0, 0).unwrap();
        let image = FileSource(image);
        let files = [memfd(16), memfd(16)];
        let [first, second] = [&files[0], &files[1]].map(|file| shared(file, &image, OPTIONS));
        let third = Pager::new(anonymous(16), &[pages(0, 16)], &image, OPTIONS).unwrap();
        first.populate(&[pages(0, 16)]).unwrap();
        let start = GuestAddress(0);
        first.paged.memory.write_obj(5_u64, start).unwrap();
        for pager in [&second, &third] {
            pager.populate(&[pages(0, 16)]).unwrap();
            assert!((0..16).all(|page| word(&pager.paged.memory, page) == content(page)));
        }
        assert_eq!(word(&first.paged.memory, 0), 5);
    }

    #[test]
    fn mappings_that_do_not_fit_are_refused() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let (file, other) = (memfd(16), memfd(16));
        let memory = mapped(&file);
        let huge = Options {
            page_size: 2 << 20,
            ..OPTIONS
        };
        let cases = [
            (memory.clone(), mapped(&other), OPTIONS, "another file"),
            (memory.clone(), memory.clone(), OPTIONS, "same mapping"),
            (anonymous(16), mapped(&file), OPTIONS, "MAP_SHARED"),
            (memory.clone(), anonymous(16), OPTIONS, "MAP_SHARED"),
            (
                memory.clone(),
                anonymous(8),
                OPTIONS,
                "longer than its region",
            ),
            (memory, mapped(&file), huge, "4 KiB only"),
        ];
        for (memory, second, options, why) in cases {
            let made = Pager::new_shared(memory, second, &[pages(0, 16)], source(16), options);
            let error = made.unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    /// Fails, panics or answers as the test says, at the moment that it says.
    struct Directed {
        asked: Sender<()>,
        answers: Mutex<Receiver<Answer>>,
    }

    enum Answer {
        Fail,
        Panic,
        Half,
        Content,
    }

    impl PageSource for Directed {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.asked.send(()).unwrap();
            let answer = self.answers.lock().unwrap().recv().unwrap();
            let length = match answer {
                Answer::Fail => return Err(io::Error::other("as the test says")),
                Answer::Panic => {
                    // Not through the standard hook: nothing is wrong.
                    std::panic::resume_unwind(Box::new("as the test says"))
                }
                Answer::Half => buffer.len() / 2,
                Answer::Content => buffer.len(),
            };
            source(16).read_at(offset, &mut buffer[..length])
        }
    }

    fn directed() -> (Directed, Receiver<()>, Sender<Answer>) {
        let ((asked, questions), (answer, answers)) = (channel(), channel());
        let answers = Mutex::new(answers);
        (Directed { asked, answers }, questions, answer)
    }

    #[test]
    fn the_loser_of_a_claim_waits_and_takes_over_from_one_that_failed() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let (source, questions, answer) = directed();
        let file = memfd(16);
        let pager = shared(
            &file,
            source,
            Options {
                batch: 16,
                ..OPTIONS
            },
        );
        let populate = |page: u64| {
            let mut handler = pager.handler();
            let done = handler.populate(GuestAddress(page * 4096), Wake::None);
            done.map(|()| handler.counts().pages)
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| populate(3));
            questions.recv().unwrap();
            let second = scope.spawn(|| populate(4));
            let third = scope.spawn(|| pager.populate(&[pages(0, 16)]).map(|counts| counts.pages));
            let waiting = &pager.paged.ranges[0]
                .shared
                .as_ref()
                .unwrap()
                .arrivals
                .waiting;
            while waiting.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
            // Half of the content is written when the source fails.
            answer.send(Answer::Half).unwrap();
            answer.send(Answer::Fail).unwrap();
            (0..64).for_each(|_| answer.send(Answer::Content).unwrap());
            let error = first.join().unwrap().unwrap_err();
            assert!(matches!(error, PagerError::Source { .. }), "{error}");
            let done = [second, third].map(|handler| handler.join().unwrap().unwrap());
            assert_eq!(done[0] + done[1], 16);
        });
        assert!((0..16).all(|page| word(&pager.paged.memory, page) == content(page)));
    }

    #[test]
    fn a_claim_is_released_by_a_source_that_panics() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let (source, _questions, answer) = directed();
        let pager = shared(&memfd(16), source, OPTIONS);
        answer.send(Answer::Panic).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| pager.populate(&[pages(2, 1)])));
        assert!(panicked.is_err());
        answer.send(Answer::Content).unwrap();
        assert_eq!(pager.populate(&[pages(2, 1)]).unwrap().pages, 1);
        assert_eq!(word(&pager.paged.memory, 2), content(2));
    }

    #[test]
    fn who_sleeps_on_a_page_of_a_claim_that_fails_is_left_to_the_reader() {
        if let Some(reason) = no_minor_faults() {
            skip!("{reason}");
        }
        let (source, questions, answer) = directed();
        let options = Options {
            delivery: Delivery::Message,
            batch: 16,
            ..OPTIONS
        };
        let pager = shared(&memfd(16), source, options);
        let stop = ReaderStop::new().unwrap();
        thread::scope(|scope| {
            let populating = scope.spawn(|| pager.populate(&[pages(0, 16)]));
            questions.recv().unwrap();
            let user = scope.spawn(|| word(&pager.paged.memory, 9));
            let reader = scope.spawn(|| pager.serve(0, &stop, Multiplexer::Poll).unwrap());
            // The reader may have lost the claim by now, or take it after its release: the user must not sleep on.
            answer.send(Answer::Fail).unwrap();
            assert!(populating.join().unwrap().is_err());
            answer.send(Answer::Content).unwrap();
            assert_eq!(user.join().unwrap(), content(9));
            stop.request();
            assert_eq!(reader.join().unwrap().pages, 16);
        });
    }
}
