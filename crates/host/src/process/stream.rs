//! Reads a child's stream on a thread of its own, into bounded memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Part of a stream to keep where it is longer than its memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamPart {
    /// The beginning; the rest is read and dropped, so that the child does not block.
    First(usize),
    /// The end.
    Last(usize),
}

#[derive(Debug, Default)]
struct Contents {
    bytes: VecDeque<u8>,
    overflowed: bool,
    ended: bool,
}

impl Contents {
    fn add(&mut self, chunk: &[u8], kept: StreamPart) {
        self.bytes.extend(chunk);
        let (StreamPart::First(limit) | StreamPart::Last(limit)) = kept;
        let excess = self.bytes.len().saturating_sub(limit);
        self.overflowed |= excess > 0;
        match kept {
            StreamPart::First(limit) => self.bytes.truncate(limit),
            StreamPart::Last(_) => drop(self.bytes.drain(..excess)),
        }
    }
}

/// A stream that is being read.
#[derive(Debug)]
pub(super) struct Reader {
    shared: Arc<(Mutex<Contents>, Condvar)>,
}

impl Reader {
    /// Starts to read; the thread ends with the stream.
    pub(super) fn start(stream: impl Read + Send + 'static, kept: StreamPart) -> Self {
        let shared = Arc::new((Mutex::new(Contents::default()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        thread::spawn(move || {
            read_all(stream, kept, &theirs.0);
            lock(&theirs.0).ended = true;
            theirs.1.notify_all();
        });
        Self { shared }
    }

    /// Waits for the end of the stream. A process that escaped its group can hold it open for ever: hence a limit.
    pub(super) fn await_end(&self, limit: Duration) {
        let contents = lock(&self.shared.0);
        let waited = self
            .shared
            .1
            .wait_timeout_while(contents, limit, |contents| !contents.ended);
        drop(waited);
    }

    /// Bytes kept so far.
    pub(super) fn kept(&self) -> Vec<u8> {
        lock(&self.shared.0).bytes.iter().copied().collect()
    }

    /// True if bytes were dropped.
    pub(super) fn overflowed(&self) -> bool {
        lock(&self.shared.0).overflowed
    }
}

fn read_all(mut stream: impl Read, kept: StreamPart, contents: &Mutex<Contents>) {
    let mut chunk = [0; 8192];
    // An unreadable pipe has nothing more to say: same as its end.
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        lock(contents).add(&chunk[..count], kept);
    }
}

/// A reader that panicked left bytes that are still good to quote.
fn lock(contents: &Mutex<Contents>) -> MutexGuard<'_, Contents> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last bytes of a file as text; what cannot be read is left out, since it would only be quoted.
pub(super) fn end_of_file(path: &Path, limit: usize) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_beginning_or_the_end() {
        for (kept, expected) in [
            (StreamPart::First(4), &b"abcd"[..]),
            (StreamPart::Last(4), b"efgh"),
        ] {
            let reader = Reader::start(&b"abcdefgh"[..], kept);
            reader.await_end(Duration::from_secs(5));
            assert_eq!(reader.kept(), expected);
            assert!(reader.overflowed());
        }
    }

    #[test]
    fn a_missing_log_has_no_end() {
        assert_eq!(end_of_file(Path::new("no/such/log"), 10), "");
    }
}
