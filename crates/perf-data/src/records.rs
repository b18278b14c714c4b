//! Bytes to records: the framing alone.

use std::io::{self, Read};

use pagetoll_ftrace::tracepoint::Tally;

use super::PerfDataError;
use super::header::{Form, fill};
use super::little_endian::Bytes;

/// Bytes of `struct perf_event_header`.
pub(super) const HEADER_BYTES: usize = 8;

/// `struct perf_event_header`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHeader {
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// With the header.
    pub(super) size: usize,
}

impl RecordHeader {
    /// The header at the front of a slice, which is at `offset` of the file; `None` where the slice is too short.
    pub(super) fn read(bytes: &[u8], offset: u64) -> Result<Option<Self>, PerfDataError> {
        let mut bytes = Bytes(bytes);
        let (Some(kind), Some(misc), Some(size)) = (bytes.u32(), bytes.u16(), bytes.u16()) else {
            return Ok(None);
        };
        if usize::from(size) < HEADER_BYTES {
            return Err(PerfDataError::Field {
                offset,
                field: "size of a record",
                found: size.into(),
                expected: "8 or more",
            });
        }
        Ok(Some(Self {
            kind,
            misc,
            size: size.into(),
        }))
    }
}

/// A record and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) offset: u64,
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: &'a [u8],
}

/// The records of a file or a pipe.
#[derive(Debug)]
pub(super) struct Records<S> {
    source: S,
    offset: u64,
    end: u64,
    is_pipe: bool,
    buffer: Vec<u8>,
}

impl<S: Read> Records<S> {
    /// The source is at the first record.
    pub(super) fn new(source: S, form: Form) -> Self {
        let (offset, end) = match form {
            Form::File { start, end } => (start, end),
            Form::Pipe => (super::header::PIPE_HEADER_BYTES, u64::MAX),
        };
        Self {
            source,
            offset,
            end,
            is_pipe: form == Form::Pipe,
            buffer: Vec::new(),
        }
    }

    /// The next record; `None` at the end, also at an early one, which the tally says.
    pub(super) fn next(&mut self, tally: &mut Tally) -> Result<Option<Record<'_>>, PerfDataError> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let offset = self.offset;
        let mut header = [0; HEADER_BYTES];
        let found = fill(&mut self.source, &mut header, offset)?;
        if found < HEADER_BYTES {
            // A pipe may end between two records.
            if found > 0 || !self.is_pipe {
                tally.truncated_at(offset + found as u64, "the records");
            }
            self.end = offset;
            return Ok(None);
        }
        let Some(header) = RecordHeader::read(&header, offset)? else {
            return Ok(None);
        };
        self.offset = self.after(offset, header.size as u64, "size of a record")?;
        self.buffer.resize(header.size - HEADER_BYTES, 0);
        let found = fill(
            &mut self.source,
            &mut self.buffer,
            offset + HEADER_BYTES as u64,
        )?;
        if found < self.buffer.len() {
            tally.truncated_at(offset + (HEADER_BYTES + found) as u64, "a record");
            self.end = offset;
            return Ok(None);
        }
        Ok(Some(Record {
            offset,
            kind: header.kind,
            misc: header.misc,
            body: &self.buffer,
        }))
    }

    fn after(&self, offset: u64, size: u64, field: &'static str) -> Result<u64, PerfDataError> {
        let after = offset.checked_add(size).filter(|&after| after <= self.end);
        after.ok_or(PerfDataError::Field {
            offset,
            field,
            found: size,
            expected: "at most what is left of the records",
        })
    }

    /// The bytes that follow a record and are part of none.
    pub(super) fn data_behind(
        &mut self,
        size: u64,
        tally: &mut Tally,
    ) -> Result<Vec<u8>, PerfDataError> {
        let mut data = Vec::new();
        self.pass(size, tally, |source| {
            source.read_to_end(&mut data).map(|read| read as u64)
        })?;
        Ok(data)
    }

    /// Passes over the bytes that follow a record and are part of none.
    pub(super) fn skip_behind(
        &mut self,
        size: u64,
        tally: &mut Tally,
    ) -> Result<(), PerfDataError> {
        self.pass(size, tally, |source| io::copy(source, &mut io::sink()))
    }

    fn pass(
        &mut self,
        size: u64,
        tally: &mut Tally,
        read: impl FnOnce(&mut io::Take<&mut S>) -> io::Result<u64>,
    ) -> Result<(), PerfDataError> {
        let offset = self.offset;
        self.offset = self.after(offset, size, "size of the data behind a record")?;
        let read = read(&mut self.source.by_ref().take(size));
        let read = read.map_err(|source| PerfDataError::Io { offset, source })?;
        if read < size {
            tally.truncated_at(offset + read, "the data behind a record");
            self.end = offset;
        }
        Ok(())
    }
}
