//! Bytes to records, in constant memory.
//!
//! It checks the framing: windows follow each other without a gap and records fill them exactly.
//! It does not look into payloads, and it reports what it finds instead of searching for the next
//! plausible record.
//!
//! Source: `write_buffer` of `tools/xentrace/xentrace.c` (each window is one CPU change record
//! and then a whole number of records; with `-M` the ring of windows is written from a window's
//! head on) and `__insert_record` of `xen/common/trace.c`, Xen 4.17.

use std::io::{self, Read};

use super::record::{Header, MAX_RECORD_BYTES, join};
use super::{EventId, Pcpu, Record, Words, XentraceError};

/// Bytes that a [`Reader`] buffers by default.
pub const DEFAULT_BUFFER_BYTES: usize = 256 * 1024;

/// The first physical CPU number that a trace cannot hold: Xen's largest `NR_CPUS` is 16383
/// (`xen/arch/Kconfig`; 4095 in Xen 4.17).
pub const MAX_PCPUS: u32 = 16384;

/// `CPU_CHANGE_HEADER` of `xentrace.c`: event, no time stamp, two extra words.
const CPU_CHANGE_HEADER: u32 = 2 << 28 | EventId::TRACE_CPU_CHANGE.0;
const CPU_CHANGE_BYTES: usize = 12;

/// Recognises a capture of xentrace by its first bytes.
#[must_use]
pub fn is_capture(head: &[u8]) -> bool {
    head.starts_with(&CPU_CHANGE_HEADER.to_le_bytes())
}

/// Reads records from any source of bytes, one at a time, in file order.
///
/// Memory is one fixed buffer, whatever the size of the stream; nothing is allocated per record.
/// An error is not skipped: asking again reports it again (or, for I/O, tries again).
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    buffer: Box<[u8]>,
    /// The unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Position of `buffer[start]` in the stream.
    offset: u64,
    source_ended: bool,
    /// The CPU whose window is being read, and what is left of it.
    cpu: Pcpu,
    window_left: u32,
}

impl<R: Read> Reader<R> {
    /// Reads from `source` with a buffer of [`DEFAULT_BUFFER_BYTES`].
    pub fn new(source: R) -> Self {
        Self::with_capacity(source, DEFAULT_BUFFER_BYTES)
    }

    /// Reads from `source` with a buffer of `bytes`, or of one record if that is more.
    pub fn with_capacity(source: R, bytes: usize) -> Self {
        Self {
            source,
            buffer: vec![0; bytes.max(MAX_RECORD_BYTES)].into_boxed_slice(),
            start: 0,
            end: 0,
            offset: 0,
            source_ended: false,
            cpu: Pcpu(0),
            window_left: 0,
        }
    }

    /// Position of the next record, in bytes from the start of the stream.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next record, or `None` at the end of the stream.
    ///
    /// CPU change records are not yielded: they are the [`cpu`](Record::cpu) of what follows.
    /// All others are, the padding [`EventId::TRACE_WRAP_BUFFER`] included. An empty stream is a
    /// trace without records, as `xentrace` leaves when nothing was traced.
    ///
    /// # Errors
    ///
    /// A framing variant of [`XentraceError`], or [`XentraceError::Io`].
    // A record that is returned through memory is read back wider than it was written, which stalls the CPU: four times as
    // slow. So is an event that is decoded.
    #[inline(always)]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, XentraceError> {
        while self.window_left == 0 {
            if !self.open_window()? {
                return Ok(None);
            }
        }
        let header = self.record_header()?;
        let size = header.record_bytes();
        let begin = self.start;
        let offset = self.offset;
        self.consume(size as usize);
        self.window_left -= size;

        let (words, _) = self.buffer[begin + 4..self.start].as_chunks::<4>();
        let (tsc, words) = match (header.has_tsc(), words) {
            (true, [low, high, words @ ..]) => {
                let tsc = join(u32::from_le_bytes(*low), u32::from_le_bytes(*high));
                (Some(tsc), words)
            }
            _ => (None, words),
        };
        Ok(Some(Record {
            cpu: self.cpu,
            tsc,
            event: header.event(),
            words: Words(words),
            offset,
        }))
    }

    /// Reads a CPU change record; false at the end of the stream.
    #[cold]
    fn open_window(&mut self) -> Result<bool, XentraceError> {
        let offset = self.offset;
        let found = self.available(CPU_CHANGE_BYTES)?;
        if found == 0 {
            return Ok(false);
        }
        let (words, _) = self.buffer[self.start..self.end].as_chunks::<4>();
        match words.first().map(|word| u32::from_le_bytes(*word)) {
            None | Some(CPU_CHANGE_HEADER) => {}
            Some(found) if offset == 0 => return Err(XentraceError::NotXentrace { found }),
            Some(found) => return Err(XentraceError::ExpectedCpuChange { offset, found }),
        }
        let [_, cpu, bytes, ..] = words else {
            return Err(self.truncated(CPU_CHANGE_BYTES));
        };
        let (cpu, bytes) = (u32::from_le_bytes(*cpu), u32::from_le_bytes(*bytes));
        if cpu >= MAX_PCPUS {
            let limit = MAX_PCPUS;
            return Err(XentraceError::CpuOutOfRange { offset, cpu, limit });
        }
        let cpu = Pcpu(cpu);
        if bytes % 4 != 0 {
            return Err(XentraceError::UnalignedWindow { offset, cpu, bytes });
        }
        self.consume(CPU_CHANGE_BYTES);
        self.cpu = cpu;
        self.window_left = bytes;
        Ok(true)
    }

    /// The header of the record at `start`, once the whole record is buffered and known to fit.
    fn record_header(&mut self) -> Result<Header, XentraceError> {
        let found = self.available(MAX_RECORD_BYTES)?;
        let Some(word) = self.buffer[self.start..self.end].first_chunk::<4>() else {
            return Err(self.truncated(4));
        };
        let header = Header(u32::from_le_bytes(*word));
        let size = header.record_bytes();
        if size > self.window_left || found < size as usize {
            return Err(self.incomplete(header, found));
        }
        if header.event() == EventId::TRACE_CPU_CHANGE {
            return Err(XentraceError::UnexpectedCpuChange {
                offset: self.offset,
                cpu: self.cpu,
                left: self.window_left,
            });
        }
        Ok(header)
    }

    #[cold]
    fn incomplete(&self, header: Header, found: usize) -> XentraceError {
        let needed = header.record_bytes() as usize;
        if needed > self.window_left as usize {
            return XentraceError::RecordExceedsWindow {
                offset: self.offset,
                event: header.event(),
                needed,
                left: self.window_left,
            };
        }
        XentraceError::TruncatedRecord {
            offset: self.offset,
            needed,
            found,
        }
    }

    /// The stream ended before `needed` bytes of a record.
    #[cold]
    fn truncated(&self, needed: usize) -> XentraceError {
        let found = self.end - self.start;
        let offset = self.offset;
        if found == 0 {
            let (cpu, missing) = (self.cpu, self.window_left);
            return XentraceError::TruncatedWindow {
                offset,
                cpu,
                missing,
            };
        }
        XentraceError::TruncatedRecord {
            offset,
            needed,
            found,
        }
    }

    /// Fills the buffer to at least `needed` bytes, unless the stream ends before; the number of bytes in it.
    #[inline]
    fn available(&mut self, needed: usize) -> Result<usize, XentraceError> {
        if self.end - self.start < needed && !self.source_ended {
            self.refill(needed)?;
        }
        Ok(self.end - self.start)
    }

    #[cold]
    fn refill(&mut self, needed: usize) -> Result<(), XentraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < needed && !self.source_ended {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.source_ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let offset = self.offset + self.end as u64;
                    return Err(XentraceError::Io { offset, source });
                }
            }
        }
        Ok(())
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::Trace;
    use super::*;

    fn first_error(bytes: &[u8]) -> XentraceError {
        let mut reader = Reader::new(bytes);
        loop {
            match reader.next_record() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("read to its end"),
                Err(error) => return error,
            }
        }
    }

    fn bytes_of(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn an_empty_stream_and_empty_windows_hold_no_records() {
        assert_eq!(Reader::new(io::empty()).next_record().unwrap(), None);
        let empty = bytes_of(&[CPU_CHANGE_HEADER, 0, 0, CPU_CHANGE_HEADER, 3, 0]);
        assert_eq!(Reader::new(empty.as_slice()).next_record().unwrap(), None);
    }

    #[test]
    fn records_carry_cpu_time_stamp_words_and_offset() {
        let trace = Trace::default()
            .window(2, |cpu| {
                cpu.record(0x2_1021, &[5]).bare_record(0x80_1002, &[])
            })
            .window(0, |cpu| cpu.record(0x20_2222, &[1, 2, 3, 4, 5, 6, 7]));
        let mut reader = Reader::with_capacity(trace.bytes(), 0);

        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.cpu, record.offset), (Pcpu(2), 12));
        assert_eq!(record.event, EventId(0x2_1021));
        assert!(record.tsc.is_some());
        assert_eq!(record.words.get(0), Some(5));
        assert_eq!(record.bytes(), 16);

        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(
            (record.tsc, record.words.len(), record.offset),
            (None, 0, 28)
        );

        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.cpu, record.bytes()), (Pcpu(0), MAX_RECORD_BYTES));
        assert!(record.words.iter().eq(1..=7));
        assert_eq!(reader.next_record().unwrap(), None);
        assert_eq!(reader.offset(), trace.bytes().len() as u64);
    }

    #[test]
    fn another_file_is_rejected_at_its_first_word() {
        let error = first_error(b"#!/bin/sh\necho not a trace\n");
        assert_eq!(
            error.to_string(),
            "byte 0: not an xentrace file: expected a CPU change record (0x2001f003), found 0x622f2123"
        );
        assert!(first_error(&[3]).is_truncation());
    }

    #[test]
    fn framing_errors_say_where_and_what() {
        let head = |cpu, bytes| [CPU_CHANGE_HEADER, cpu, bytes];
        let record = [0x1020_100d_u32, 17];
        let cases: [(Vec<u32>, &str); 6] = [
            (
                [&head(0, 8)[..], &record, &record].concat(),
                "byte 20: expected a CPU change record (0x2001f003), found 0x1020100d",
            ),
            (
                [&head(1, 20)[..], &record, &head(0, 8)].concat(),
                "byte 20: CPU change record, but the window of CPU 1 has 12 bytes left",
            ),
            (
                head(16384, 8).to_vec(),
                "byte 0: CPU 16384 in a CPU change record, expected one below 16384",
            ),
            (
                head(1, 6).to_vec(),
                "byte 0: window of 6 bytes for CPU 1, expected a multiple of 4",
            ),
            (
                [&head(0, 4)[..], &record].concat(),
                "byte 12: record 0x20100d of 8 bytes, but its window has 4 bytes left",
            ),
            (
                [&head(5, 16)[..], &record].concat(),
                "byte 20: the trace ends inside a window: expected 8 more bytes of CPU 5",
            ),
        ];
        for (words, expected) in cases {
            assert_eq!(first_error(&bytes_of(&words)).to_string(), expected);
        }
    }

    #[test]
    fn an_end_inside_a_record_says_how_much_was_there() {
        let trace = Trace::default().window(0, |cpu| cpu.record(0x20_100d, &[17]));
        let cut = &trace.bytes()[..12 + 9];
        let error = first_error(cut);
        assert!(error.is_truncation());
        assert_eq!(
            error.to_string(),
            "byte 12: the trace ends inside a record: expected 16 bytes, found 9"
        );
    }

    #[test]
    fn an_error_is_reported_again_and_not_skipped() {
        let mut reader = Reader::new(&b"text that is no trace"[..]);
        for _ in 0..3 {
            assert!(matches!(
                reader.next_record(),
                Err(XentraceError::NotXentrace { .. })
            ));
        }
    }

    /// Fails once in the middle, as a network file system may.
    struct Flaky<'a> {
        bytes: &'a [u8],
        calls: u32,
    }

    impl Read for Flaky<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.calls += 1;
            match self.calls {
                2 => Err(io::ErrorKind::Interrupted.into()),
                3 => Err(io::ErrorKind::TimedOut.into()),
                _ => {
                    let size = buffer.len().min(18);
                    self.bytes.read(&mut buffer[..size])
                }
            }
        }
    }

    #[test]
    fn an_io_error_carries_its_offset_and_may_be_retried() {
        let trace = Trace::default().window(0, |cpu| cpu.record(0x20_100d, &[17]));
        let mut reader = Reader::new(Flaky {
            bytes: trace.bytes(),
            calls: 0,
        });
        let error = reader.next_record().unwrap_err();
        assert!(
            matches!(error, XentraceError::Io { offset: 18, .. }),
            "{error}"
        );
        assert!(reader.next_record().unwrap().is_some());
        assert!(reader.next_record().unwrap().is_none());
    }
}
