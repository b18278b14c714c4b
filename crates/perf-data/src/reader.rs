//! A file or a pipe to items.

use std::io::{Read, Seek};

use pagetoll_ftrace::tracepoint::{Item, Tally};

use super::PerfDataError;
use super::compression::Compressed;
use super::header::{self, Form, PIPE_HEADER_BYTES};
use super::little_endian::Bytes;
use super::records::Records;
use super::session::{Session, kind};

/// Reads a perf.data file.
pub struct Reader<S> {
    records: Records<S>,
    session: Session,
    compressed: Option<Compressed>,
    ended: bool,
    failure: Option<PerfDataError>,
}

impl<S: Read + Seek> Reader<S> {
    /// Reads the header of a file, also of one that was written through a pipe.
    ///
    /// # Errors
    /// [`PerfDataError`] when this is no perf.data file, or when its header is broken.
    pub fn open(mut source: S) -> Result<Self, PerfDataError> {
        let mut session = Session::new();
        let form = match header::magic(&mut source)? {
            PIPE_HEADER_BYTES => Form::Pipe,
            size => header::read_file(&mut source, size, &mut session)?,
        };
        Ok(Self::new(source, form, session))
    }
}

impl<S: Read> Reader<S> {
    /// Reads the header of what `perf record -o -` writes; the source need not be able to seek.
    ///
    /// # Errors
    /// [`PerfDataError`] when this is no perf.data, or not in that form.
    pub fn stream(mut source: S) -> Result<Self, PerfDataError> {
        match header::magic(&mut source)? {
            PIPE_HEADER_BYTES => Ok(Self::new(source, Form::Pipe, Session::new())),
            _ => Err(PerfDataError::NotAStream),
        }
    }

    fn new(source: S, form: Form, session: Session) -> Self {
        Self {
            records: Records::new(source, form),
            session,
            compressed: None,
            ended: false,
            failure: None,
        }
    }

    /// The next item; `None` at the end of the trace.
    ///
    /// # Errors
    /// [`PerfDataError`] once, after all items before the byte at fault; then the trace has ended.
    pub fn next_item(&mut self) -> Result<Option<Item>, PerfDataError> {
        loop {
            if let Some(item) = self.session.next_item() {
                return Ok(Some(item));
            }
            if self.ended {
                return self.failure.take().map_or(Ok(None), Err);
            }
            match self.read_record() {
                Ok(true) => {}
                Ok(false) => self.end(None),
                Err(error) => self.end(Some(error)),
            }
        }
    }

    /// Counts so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.session.tally
    }

    fn end(&mut self, failure: Option<PerfDataError>) {
        self.session.finish();
        self.ended = true;
        self.failure = failure;
    }

    fn read_record(&mut self) -> Result<bool, PerfDataError> {
        if let Some(compressed) = &mut self.compressed
            && compressed.take_some(&mut self.session)?
        {
            return Ok(true);
        }
        let Some(record) = self.records.next(&mut self.session.tally)? else {
            return Ok(false);
        };
        let offset = record.offset;
        match record.kind {
            kind::COMPRESSED | kind::COMPRESSED2 => {
                let compressed = self.compressed.get_or_insert_with(Compressed::new);
                compressed.begin(record)?;
            }
            kind::HEADER_TRACING_DATA => {
                let size = Bytes(record.body)
                    .u32()
                    .ok_or(short(offset, "header_tracing_data"))?;
                let formats = self
                    .records
                    .data_behind(size.into(), &mut self.session.tally)?;
                let session = &mut self.session;
                header::read_formats(
                    &mut session.tracepoints,
                    &formats,
                    offset,
                    &mut session.tally,
                );
            }
            kind::AUXTRACE => {
                let size = Bytes(record.body).u64().ok_or(short(offset, "auxtrace"))?;
                self.records.skip_behind(size, &mut self.session.tally)?;
            }
            _ => self.session.take(record)?,
        }
        Ok(true)
    }
}

const fn short(offset: u64, record: &'static str) -> PerfDataError {
    PerfDataError::Short {
        offset,
        record,
        field: "size",
    }
}
