//! Threads that use memory while readers, a prefault and a replay populate it: each word is right at the end, and no
//! write is lost.

#![allow(clippy::unwrap_used, reason = "test code outside of #[test] functions")]

use std::fs::File;
use std::io::{self, Write};
use std::process;
use std::thread;

use pagetoll_pager::vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap, VolatileSlice};
use pagetoll_pager::{
    Delivery, Features, FileSource, GuestRange, Multiplexer, Options, PageSource, Pager,
    PagerError, ReaderStop, Wake,
};
use pagetoll_test_support::skip;
use rustix::fs::{MemfdFlags, memfd_create};

const PAGES: u64 = 2048;
/// Words of 8 bytes in a page.
const WORDS: u64 = 512;
const USERS: u64 = 4;
/// Accesses of a user in a round.
const TOUCHES: usize = 300;
const ROUNDS: u64 = 20;

/// Memory and how it is populated.
#[derive(Clone, Copy, Debug)]
enum Memory {
    /// Anonymous, by `UFFDIO_COPY`.
    Copied,
    /// A memfd, by `UFFDIO_CONTINUE`.
    Shared,
}

/// An image that gives other threads time between a claim and its content.
struct Slow(FileSource);

impl PageSource for Slow {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        thread::yield_now();
        self.0.read_at(offset, buffer)
    }

    fn read_volatile_at(&self, offset: u64, target: &VolatileSlice<'_>) -> io::Result<usize> {
        thread::yield_now();
        self.0.read_volatile_at(offset, target)
    }
}

/// Words of the image: never those of a user, which are below `USERS * TOUCHES << 32`.
const fn content(word: u64) -> u64 {
    !word
}

fn image() -> Slow {
    let mut file = tempfile::tempfile().unwrap();
    let words = (0..PAGES * WORDS).flat_map(|word| content(word).to_le_bytes());
    file.write_all(&words.collect::<Vec<_>>()).unwrap();
    Slow(FileSource(file))
}

/// xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn memfd() -> File {
    let file = File::from(memfd_create("pagetoll-test", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(PAGES * 4096).unwrap();
    file
}

fn mapped(file: Option<&File>) -> GuestMemoryMmap {
    let file = file.map(|file| FileOffset::new(file.try_clone().unwrap(), 0));
    let bytes = usize::try_from(PAGES * 4096).unwrap();
    GuestMemoryMmap::from_ranges_with_files([(GuestAddress(0), bytes, file)]).unwrap()
}

fn part(page: u64, pages: u64) -> GuestRange {
    GuestRange {
        start: GuestAddress(page * 4096),
        bytes: pages * 4096,
    }
}

type ImagePager<'a> = Pager<&'a Slow>;

fn pager(kind: Memory, image: &Slow, options: Options) -> (GuestMemoryMmap, ImagePager<'_>) {
    let all = [part(0, PAGES)];
    let made = match kind {
        Memory::Copied => {
            let memory = mapped(None);
            (memory.clone(), Pager::new(memory, &all, image, options))
        }
        Memory::Shared => {
            let file = memfd();
            let (memory, second) = (mapped(Some(&file)), mapped(Some(&file)));
            let pager = Pager::new_shared(memory.clone(), second, &all, image, options);
            (memory, pager)
        }
    };
    (made.0, made.1.unwrap())
}

/// A thread that waits for a page that does not come would sleep for ever.
fn or_exit<T>(done: Result<T, PagerError>) -> T {
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        process::exit(1)
    })
}

/// A user's writes: of word `user` of each page, the last one.
type Writes = Vec<Option<u64>>;

/// Reads and writes words of random pages, each checked; returns what was written, and the pages that it populated.
fn touch(
    memory: &GuestMemoryMmap,
    pager: &ImagePager<'_>,
    delivery: Delivery,
    user: u64,
    seed: u64,
) -> (Writes, u64) {
    let (mut random, mut handler) = (Random(seed), pager.handler());
    let mut writes = vec![None; usize::try_from(PAGES).unwrap()];
    for touch in 1..=TOUCHES as u64 {
        let page = random.below(PAGES);
        let address = |word: u64| GuestAddress((page * WORDS + word) * 8);
        if delivery == Delivery::Error {
            or_exit(handler.populate(address(0), Wake::None));
        }
        let own = &mut writes[usize::try_from(page).unwrap()];
        let expected = own.unwrap_or(content(page * WORDS + user));
        assert_eq!(memory.read_obj::<u64>(address(user)).unwrap(), expected);
        let word = USERS + random.below(WORDS - USERS);
        let read: u64 = memory.read_obj(address(word)).unwrap();
        assert_eq!(
            read,
            content(page * WORDS + word),
            "page {page}, word {word}"
        );
        let written = user << 32 | touch;
        memory.write_obj(written, address(user)).unwrap();
        *own = Some(written);
    }
    (writes, handler.counts().pages)
}

/// All words: those of users are what they wrote last, the others those of the image.
fn check(memory: &GuestMemoryMmap, writes: &[Writes]) {
    let mut words = vec![0_u8; 4096];
    for page in 0..PAGES {
        memory
            .read_slice(&mut words, GuestAddress(page * 4096))
            .unwrap();
        for (word, bytes) in (0..).zip(words.chunks(8)) {
            let of_user = writes.get(usize::try_from(word).unwrap());
            let written = of_user.and_then(|writes| writes[usize::try_from(page).unwrap()]);
            let expected = written.unwrap_or(content(page * WORDS + word));
            let read = u64::from_le_bytes(bytes.try_into().unwrap());
            assert_eq!(read, expected, "page {page}, word {word}");
        }
    }
}

fn round(kind: Memory, image: &Slow, delivery: Delivery, batch: u32, seed: u64) {
    let options = Options {
        delivery,
        batch,
        ..Options::default()
    };
    let (memory, pager) = pager(kind, image, options);
    let (memory, pager) = (&memory, &pager);
    let stop = ReaderStop::new().unwrap();
    let stop = &stop;
    let mut random = Random(seed);
    let set: Vec<_> = (0..20)
        .map(|_| part(random.below(PAGES - 40), 1 + random.below(40)))
        .collect();
    let (writes, populated) = thread::scope(|scope| {
        let readers = [Multiplexer::Poll, Multiplexer::Epoll]
            .map(|with| scope.spawn(move || or_exit(pager.serve(0, stop, with))));
        let ahead = [
            scope.spawn(move || or_exit(pager.prefault(16, stop))),
            scope.spawn(move || or_exit(pager.populate(&set))),
        ];
        let users: Vec<_> = (0..USERS)
            .map(|user| {
                let seed = seed << 8 | (user + 1);
                scope.spawn(move || touch(memory, pager, delivery, user, seed))
            })
            .collect();
        // A user that panicked is reported when all others have ended.
        let users: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        let ahead = ahead.map(|thread| thread.join().unwrap().pages);
        stop.request();
        let readers = readers.map(|reader| reader.join().unwrap().pages);
        let (writes, by_users): (Vec<_>, Vec<_>) = users.into_iter().map(Result::unwrap).unzip();
        let populated = [&by_users[..], &ahead, &readers]
            .concat()
            .iter()
            .sum::<u64>();
        (writes, populated)
    });
    // Each page once.
    assert_eq!(populated, PAGES);
    assert_eq!(pager.present(), [part(0, PAGES)]);
    check(memory, &writes);
}

fn rounds(kind: Memory, delivery: Delivery, batch: u32) {
    let image = image();
    for seed in 1..=ROUNDS {
        round(kind, &image, delivery, batch, seed);
    }
}

#[test]
fn copied_page_by_page() {
    if let Err(error) = Features::detect() {
        skip!("userfaultfd: {error}");
    }
    rounds(Memory::Copied, Delivery::Message, 1);
}

#[test]
fn copied_by_16() {
    if let Err(error) = Features::detect() {
        skip!("userfaultfd: {error}");
    }
    rounds(Memory::Copied, Delivery::Message, 16);
}

#[test]
fn copied_by_64() {
    if let Err(error) = Features::detect() {
        skip!("userfaultfd: {error}");
    }
    rounds(Memory::Copied, Delivery::Message, 64);
}

#[test]
fn shared_and_continued() {
    match Features::detect() {
        Err(error) => skip!("userfaultfd: {error}"),
        Ok(features) if !features.minor_shmem() => skip!("no UFFD_FEATURE_MINOR_SHMEM"),
        Ok(_) => rounds(Memory::Shared, Delivery::Message, 16),
    }
}

#[test]
fn shared_and_continued_by_its_users() {
    match Features::detect() {
        Err(error) => skip!("userfaultfd: {error}"),
        Ok(features) if !features.minor_shmem() => skip!("no UFFD_FEATURE_MINOR_SHMEM"),
        Ok(_) => rounds(Memory::Shared, Delivery::Error, 16),
    }
}
