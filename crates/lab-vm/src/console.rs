//! Reads a guest's console while it is written: results, and signs of trouble.
//!
//! A result is a line `@pagetoll CRC32 {...}`; anything else is chatter. A line that carries the marker but not the
//! right checksum was cut into by other output or is not ours: that is trouble, not something to be skipped.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use pagetoll_host::Error;
use pagetoll_protocol::report::{Garbled, object_in};

use crate::LabError;

/// A longer line is not a report, and is cut.
const LINE_LIMIT: usize = 64 * 1024;
/// A guest that writes more bytes has lost its way. A normal boot writes 30 KiB.
const CONSOLE_LIMIT: u64 = 8 << 20;
/// The failure of such a guest.
pub(crate) const FLOODED: &str = "it wrote more than 8 MiB to its console";
/// Bytes that are read at once, so that a stop is seen and little is kept, however fast the guest writes.
const AT_ONCE: u64 = 1 << 20;
/// A kernel on x86-64 met a breakpoint of its own where none is: see [`crate::boot`]. Linux 6.1 writes no "Oops" before it.
pub(crate) const STALE_BREAKPOINT: &str = "int3: 0000 [#";
/// The end of a dom0, which its kernel's panic or the crash by Xen comes before, if either could be written.
pub(crate) const DOM0_CRASHED: &str = "Hardware Dom0 crashed";
/// Words that a kernel or hypervisor writes when it gives up, and nothing else writes.
const LAST_WORDS: [&str; 10] = [
    // Before the panic that follows, because they say why: see pagetoll_pv::pv32.
    "Found 32-bit PV kernel, but CONFIG_PV32 missing",
    "Dom0 failed to switch to compat",
    // Before the panic that follows, too.
    STALE_BREAKPOINT,
    "Kernel panic - not syncing",
    "(XEN) Panic on CPU",
    "(XEN) Domain 0 (vcpu#",
    "Could not construct d0",
    DOM0_CRASHED,
    "Could not construct domain 0",
    "No working init found",
];

/// The meaning of a line of the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A result: the JSON text of it.
    Result(String),
    /// The system inside gave up, in its own words.
    Trouble(String),
    /// There are more than [`CONSOLE_LIMIT`] bytes.
    Flood,
}

/// A console file and how far it was read.
#[derive(Debug)]
pub(crate) struct Console {
    path: PathBuf,
    offset: u64,
    partial: Vec<u8>,
    has_more: bool,
}

impl Console {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            partial: Vec::new(),
            has_more: false,
        }
    }

    /// Returns whether the last call of [`Console::poll`] left something unread.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Events since the last call, as far as they are read at once. A file that is not there yet has none.
    ///
    /// # Errors
    /// [`Error::Io`] when it cannot be read.
    pub(crate) fn poll(&mut self) -> Result<Vec<Event>, LabError> {
        let Ok(mut file) = File::open(&self.path) else {
            return Ok(Vec::new());
        };
        let mut fresh = Vec::new();
        file.seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.take(AT_ONCE).read_to_end(&mut fresh))
            .map_err(Error::io("read", &self.path))?;
        let size = u64::try_from(fresh.len()).unwrap_or(u64::MAX);
        self.offset += size;
        self.has_more = size == AT_ONCE;
        let mut events = self.take(&fresh);
        if self.offset > CONSOLE_LIMIT {
            events.push(Event::Flood);
        }
        Ok(events)
    }

    pub(crate) fn take(&mut self, fresh: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for piece in fresh.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_LIMIT.saturating_sub(self.partial.len());
            let fitting = piece.get(..room).unwrap_or(piece);
            self.partial.extend_from_slice(fitting);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                events.extend(event(String::from_utf8_lossy(&line).trim_end()));
            }
        }
        events
    }
}

fn event(line: &str) -> Option<Event> {
    match object_in(line) {
        Some(Ok(object)) => return Some(Event::Result(object.to_owned())),
        Some(Err(Garbled)) => {
            let words = format!("a garbled result line: {}", shortened(line));
            return Some(Event::Trouble(words));
        }
        None => {}
    }
    LAST_WORDS
        .iter()
        .any(|words| line.contains(words))
        .then(|| Event::Trouble(shortened(line)))
}

fn shortened(line: &str) -> String {
    const MOST: usize = 200;
    line.chars()
        .filter(|c| !c.is_control())
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(json: &str) -> String {
        format!(
            "@pagetoll {:08x} {json}\r\n",
            crc32fast::hash(json.as_bytes())
        )
    }

    fn console() -> Console {
        Console::new(PathBuf::from("none"))
    }

    #[test]
    fn results_are_found_among_chatter_and_across_reads() {
        let text = format!(
            "(XEN) boot\r\n{}[ 1.0] x\r\n{}",
            line("{\"a\":1}"),
            line("{}")
        );
        let mut console = console();
        let mut events = Vec::new();
        for byte in text.as_bytes() {
            events.extend(console.take(&[*byte]));
        }
        let results = ["{\"a\":1}", "{}"].map(|json| Event::Result(json.to_owned()));
        assert_eq!(events, results);
    }

    #[test]
    fn a_line_that_was_cut_into_is_trouble() {
        let cut = line("{\"pages\":16384}").replace("16384", "16[ 2.0] 384");
        assert!(matches!(
            console().take(cut.as_bytes())[..],
            [Event::Trouble(_)]
        ));
        assert!(matches!(
            console().take(b"@pagetoll zz\n")[..],
            [Event::Trouble(_)]
        ));
    }

    #[test]
    fn last_words_are_told() {
        let panic = "[    1.2] Kernel panic - not syncing: Attempted to kill init!\n";
        let [Event::Trouble(words)] = &console().take(panic.as_bytes())[..] else {
            panic!("no trouble seen");
        };
        assert!(words.contains("Attempted to kill init"), "{words}");
        let stale = [
            "Oops: int3: 0000 [#1] SMP NOPTI",      // Linux 7.3
            "int3: 0000 [#1] PREEMPT_RT SMP NOPTI", // Linux 6.1
        ];
        for stale in stale {
            let lines = format!(
                "[    6.8] {stale}\n[    6.9] Kernel panic - not syncing: Fatal exception\n"
            );
            let [Event::Trouble(first), _] = &console().take(lines.as_bytes())[..] else {
                panic!("{stale}: not both seen");
            };
            assert!(first.contains(STALE_BREAKPOINT), "{first}");
        }
        let by_xen = "(XEN) Domain 0 (vcpu#1) crashed on cpu#1:\n(XEN) Hardware Dom0 crashed: rebooting machine\n";
        let [Event::Trouble(first), _] = &console().take(by_xen.as_bytes())[..] else {
            panic!("not both seen");
        };
        assert!(first.contains("vcpu#1"), "{first}");
    }

    #[test]
    fn a_line_without_end_is_not_kept_without_end() {
        let mut console = console();
        for _ in 0..100 {
            console.take(&[b'x'; 4096]);
        }
        assert!(console.partial.len() <= LINE_LIMIT + 4096);
        assert_eq!(
            console.take(format!("\n{}", line("{}")).as_bytes()).len(),
            1
        );
    }

    #[test]
    fn a_growing_file_is_read_once() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut console = Console::new(file.path().to_path_buf());
        assert_eq!(console.poll().unwrap(), []);
        file.write_all(line("{}").as_bytes()).unwrap();
        assert_eq!(console.poll().unwrap().len(), 1);
        assert_eq!(console.poll().unwrap(), []);
    }
}
