//! `PERF_RECORD_COMPRESSED`: one zstd stream over all such records, flushed at the end of each.
//!
//! Source: `tools/perf/util/zstd.c`; `PERF_RECORD_COMPRESSED2` (Linux 6.16) says how long its data is.

use zstd_safe::{DCtx, InBuffer, OutBuffer};

use super::PerfDataError;
use super::little_endian::Bytes;
use super::records::{HEADER_BYTES, Record, RecordHeader};
use super::session::{Session, kind};

/// Bytes that are decompressed at once, `ZSTD_BLOCKSIZE_MAX`. A record of 64 KiB may hold gigabytes: what it holds is taken in
/// such pieces, so that events can leave between them.
const CHUNK: usize = 128 << 10;

/// The stream, and what is left of the last record.
pub(super) struct Compressed {
    stream: DCtx<'static>,
    /// Position of the last record in the file.
    offset: u64,
    data: Vec<u8>,
    /// Bytes of `data` that the stream has taken.
    taken: usize,
    chunk: Vec<u8>,
    /// Decompressed, and no whole record yet.
    pending: Vec<u8>,
}

impl Compressed {
    pub(super) fn new() -> Self {
        Self {
            stream: DCtx::create(),
            offset: 0,
            data: Vec::new(),
            taken: 0,
            chunk: vec![0; CHUNK],
            pending: Vec::new(),
        }
    }

    /// Goes on with the data of a record. That of the one before has been taken.
    pub(super) fn begin(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        self.offset = record.offset;
        self.taken = 0;
        self.data.clear();
        self.data.extend_from_slice(data_of(record)?);
        Ok(())
    }

    /// Takes the records of a chunk; `false` when nothing is left.
    pub(super) fn take_some(&mut self, session: &mut Session) -> Result<bool, PerfDataError> {
        let more = self.decompress().map_err(|reason| PerfDataError::Zstd {
            offset: self.offset,
            reason,
        })?;
        let taken = take_whole(&self.pending, self.offset, session)?;
        self.pending.drain(..taken);
        Ok(more)
    }

    /// Decompresses a chunk; `false` when the stream neither takes nor gives anything.
    fn decompress(&mut self) -> Result<bool, &'static str> {
        if self.data.is_empty() {
            return Ok(false);
        }
        let mut input = InBuffer::around(&self.data[self.taken..]);
        let mut output = OutBuffer::around(&mut self.chunk[..]);
        self.stream
            .decompress_stream(&mut output, &mut input)
            .map_err(zstd_safe::get_error_name)?;
        let (read, written) = (input.pos(), output.pos());
        self.taken += read;
        self.pending.extend_from_slice(&self.chunk[..written]);
        let more = read > 0 || written > 0;
        if !more {
            self.data.clear();
        }
        Ok(more)
    }
}

fn data_of(record: Record<'_>) -> Result<&[u8], PerfDataError> {
    if record.kind == kind::COMPRESSED {
        return Ok(record.body);
    }
    let mut fields = Bytes(record.body);
    let size = fields.u64().ok_or(PerfDataError::Short {
        offset: record.offset,
        record: "compressed2",
        field: "data_size",
    })?;
    fields.sized(size).ok_or(PerfDataError::Field {
        offset: record.offset,
        field: "data_size",
        found: size,
        expected: "at most what the record has",
    })
}

/// Takes the whole records at the front, and says how many bytes these are.
fn take_whole(bytes: &[u8], offset: u64, session: &mut Session) -> Result<usize, PerfDataError> {
    let mut taken = 0;
    while let Some(header) = RecordHeader::read(&bytes[taken..], offset)? {
        let Some(record) = bytes.get(taken..taken + header.size) else {
            break;
        };
        session.take(Record {
            offset,
            kind: header.kind,
            misc: header.misc,
            body: &record[HEADER_BYTES..],
        })?;
        taken += header.size;
    }
    Ok(taken)
}
