//! The copy of tracefs's `format` files in a perf.data file.
//!
//! Source: `tools/perf/util/trace-event-read.c`, `trace_report`; trace-cmd's header of version 6 has the same parts.

use std::collections::HashMap;

use pagetoll_ftrace::tracepoint::Tracepoint;

use super::little_endian::Bytes;

/// Tracepoints of a kernel at most: one has some 2500. They take some 2 MB.
const MAX_TRACEPOINTS: usize = 1 << 14;

/// Tracepoints of a machine, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Tracepoints(HashMap<u64, Tracepoint>);

const MAGIC: &[u8] = b"\x17\x08Dtracing";

impl Tracepoints {
    pub(super) fn get(&self, id: u64) -> Option<&Tracepoint> {
        self.0.get(&id)
    }

    /// Adds the formats that the bytes have, up to where they end. `false` where they end early, or begin otherwise.
    pub(super) fn read(&mut self, bytes: &[u8]) -> bool {
        self.read_all(Bytes(bytes)).is_some()
    }

    fn read_all(&mut self, mut bytes: Bytes<'_>) -> Option<()> {
        (bytes.take(MAGIC.len())? == MAGIC).then_some(())?;
        text(&mut bytes)?; // version
        bytes.take(1 + 1 + 4)?; // endianness, size of long, size of a page
        for name in [b"header_page\0".as_slice(), b"header_event\0"] {
            (bytes.take(name.len())? == name).then_some(())?;
            sized(&mut bytes)?;
        }
        for _ftrace in 0..bytes.u32()? {
            sized(&mut bytes)?;
        }
        for _system in 0..bytes.u32()? {
            let system = String::from_utf8_lossy(text(&mut bytes)?);
            for _event in 0..bytes.u32()? {
                self.add(&system, &String::from_utf8_lossy(sized(&mut bytes)?));
            }
        }
        Some(())
    }

    fn add(&mut self, system: &str, format: &str) {
        let Some(tracepoint) = Tracepoint::read(system, format) else {
            return;
        };
        if self.0.len() < MAX_TRACEPOINTS {
            self.0.insert(tracepoint.id, tracepoint);
        }
    }
}

fn sized<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let size = bytes.u64()?;
    bytes.sized(size)
}

fn text<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let text = bytes.text();
    bytes.take(text.len() + 1)?;
    Some(text)
}
