//! The head of a file, and what it points to.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use super::attributes::{Attributes, MAX_ATTRIBUTES, MAX_IDS};
use super::little_endian::Bytes;
use super::tracing_data::Tracepoints;
use super::{PerfDataError, session::Session};

const MAGIC: &[u8; 8] = b"PERFILE2";
const SWAPPED: &[u8; 8] = b"2ELIFREP";

/// Bytes of `struct perf_pipe_file_header`.
pub(super) const PIPE_HEADER_BYTES: u64 = 16;

/// Bytes of `struct perf_file_header`, with 256 bits of features.
const FILE_HEADER_BYTES: u64 = 104;

/// The most that is read of the formats: a kernel's formats are 8 MB.
const MAX_TRACING_DATA: u64 = 128 << 20;

/// Features, by their numbers in the `enum` of `tools/perf/util/header.h`.
const TRACING_DATA: u32 = 1;
const OS_RELEASE: u32 = 4;
const ARCH: u32 = 6;

/// The most that is read of a name: perf writes 64 bytes.
const MAX_NAME: u64 = 4096;

/// Form of the file, which says how records follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Between these two offsets.
    File { start: u64, end: u64 },
    /// To the end.
    Pipe,
}

/// Position and size of a part of the file.
#[derive(Clone, Copy, Debug)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn read(bytes: &mut Bytes<'_>) -> Option<Self> {
        let (offset, size) = (bytes.u64()?, bytes.u64()?);
        Some(Self { offset, size })
    }
}

/// Recognises a file of perf's, of a machine of either order of bytes, by its first bytes.
#[must_use]
pub fn is_capture(head: &[u8]) -> bool {
    head.starts_with(MAGIC) || head.starts_with(SWAPPED)
}

/// Reads the first 16 bytes: `None` for a pipe, the size of the header of a file.
pub(super) fn magic(source: &mut impl Read) -> Result<u64, PerfDataError> {
    let mut head = [0; 16];
    let found = fill(source, &mut head, 0)?;
    let (magic, size) = head.split_at(8);
    if magic == SWAPPED {
        return Err(PerfDataError::BigEndian);
    }
    if magic != MAGIC {
        let found = magic[..found.min(8)].escape_ascii().to_string();
        return Err(PerfDataError::NotPerfData { found });
    }
    Bytes(size)
        .u64()
        .filter(|_| found == head.len())
        .ok_or(short("size"))
}

const fn short(field: &'static str) -> PerfDataError {
    PerfDataError::Short {
        offset: 0,
        record: "perf_file_header",
        field,
    }
}

/// Reads what the header of a file points to, and leaves the source at its first record.
pub(super) fn read_file<S: Read + Seek>(
    source: &mut S,
    size: u64,
    session: &mut Session,
) -> Result<Form, PerfDataError> {
    if size < FILE_HEADER_BYTES {
        return Err(PerfDataError::Field {
            offset: 8,
            field: "size",
            found: size,
            expected: "16 for a stream, 104 or more for a file",
        });
    }
    let mut rest = [0; 88];
    if fill(source, &mut rest, 16)? < rest.len() {
        return Err(short("data"));
    }
    let head = FileHeader::read(Bytes(&rest)).ok_or(short("data"))?;
    head.attributes(source, &mut session.attributes)?;
    let end = head.data.offset.checked_add(head.data.size);
    let end = end.ok_or(PerfDataError::Field {
        offset: 48,
        field: "data.size",
        found: head.data.size,
        expected: "an end below 2^64",
    })?;
    // perf writes the size when it ends: 0 is left by one that was killed. Then there are no features either.
    if head.data.size == 0 {
        session
            .tally
            .truncated_at(48, "the header: perf record did not end by itself");
    } else {
        head.features(source, end, session)?;
    }
    seek(source, head.data.offset)?;
    let end = if head.data.size == 0 { u64::MAX } else { end };
    Ok(Form::File {
        start: head.data.offset,
        end,
    })
}

struct FileHeader {
    attr_size: u64,
    attrs: Section,
    data: Section,
    features: [u64; 4],
}

impl FileHeader {
    fn read(mut bytes: Bytes<'_>) -> Option<Self> {
        Some(Self {
            attr_size: bytes.u64()?,
            attrs: Section::read(&mut bytes)?,
            data: Section::read(&mut bytes)?,
            features: {
                let _event_types = Section::read(&mut bytes)?;
                [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?]
            },
        })
    }

    /// `struct perf_file_attr`: the attribute, then where its ids are.
    fn attributes<S: Read + Seek>(
        &self,
        source: &mut S,
        into: &mut Attributes,
    ) -> Result<(), PerfDataError> {
        const IDS: usize = 16;
        let entry = usize::try_from(self.attr_size)
            .ok()
            .filter(|size| (64 + IDS..=4096).contains(size));
        let entry = entry.ok_or(PerfDataError::Field {
            offset: 16,
            field: "attr_size",
            found: self.attr_size,
            expected: "80 to 4096",
        })?;
        let most = (MAX_ATTRIBUTES * entry) as u64;
        let table = section(source, self.attrs, most)?;
        for (index, entry) in table.chunks_exact(entry).enumerate() {
            let (attribute, ids) = entry.split_at(entry.len() - IDS);
            let at = self
                .attrs
                .offset
                .saturating_add((index * entry.len()) as u64);
            let ids = Section::read(&mut Bytes(ids)).ok_or(short("ids"))?;
            let ids = section(source, ids, 8 * MAX_IDS as u64)?;
            let ids = ids.chunks_exact(8).filter_map(|id| Bytes(id).u64());
            into.add(attribute, ids, at)?;
        }
        Ok(())
    }

    /// The table of sections behind the records, one for each bit; of them the formats and the machine are read.
    fn features<S: Read + Seek>(
        &self,
        source: &mut S,
        end: u64,
        session: &mut Session,
    ) -> Result<(), PerfDataError> {
        let count: u32 = self.features.iter().map(|word| word.count_ones()).sum();
        let size = 16 * u64::from(count);
        let table = section(source, Section { offset: end, size }, size)?;
        let complete = table.len() as u64 == size;
        if !complete {
            session
                .tally
                .truncated_at(end + table.len() as u64, "the table of features");
        }
        for feature in [OS_RELEASE, ARCH] {
            if let Some(at) = self.feature(feature, &table) {
                take_feature(session, feature, &section(source, at, MAX_NAME)?);
            }
        }
        let Some(at) = self.feature(TRACING_DATA, &table) else {
            return Ok(());
        };
        let formats = section(source, at, MAX_TRACING_DATA)?;
        read_formats(
            &mut session.tracepoints,
            &formats,
            at.offset,
            &mut session.tally,
        );
        Ok(())
    }

    /// Section of a feature, by its place in the table.
    fn feature(&self, number: u32, table: &[u8]) -> Option<Section> {
        let bit = 1 << number;
        let before = (self.features[0] & (bit - 1)).count_ones() as usize;
        let entry = table.get(16 * before..)?;
        (self.features[0] & bit != 0).then(|| Section::read(&mut Bytes(entry)))?
    }
}

/// Takes the name of a kernel or an architecture; other features have none that is read.
pub(super) fn take_feature(session: &mut Session, feature: u32, bytes: &[u8]) {
    let machine = &mut session.tally.machine;
    match feature {
        OS_RELEASE => machine.kernel = name(bytes),
        ARCH => machine.arch = name(bytes),
        _ => {}
    }
}

/// `struct perf_header_string`: its length with padding, then the text, which ends at a 0.
fn name(bytes: &[u8]) -> Option<String> {
    let mut fields = Bytes(bytes);
    let _length = fields.u32()?;
    let text = fields.text();
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
}

/// Reads formats, and says where they end early.
pub(super) fn read_formats(
    tracepoints: &mut Tracepoints,
    bytes: &[u8],
    offset: u64,
    tally: &mut pagetoll_ftrace::tracepoint::Tally,
) {
    if !tracepoints.read(bytes) {
        tally.truncated_at(
            offset.saturating_add(bytes.len() as u64),
            "the formats of tracepoints",
        );
    }
}

/// The bytes of a section, as far as the source has them. What is allocated is what was there.
fn section<S: Read + Seek>(
    source: &mut S,
    section: Section,
    most: u64,
) -> Result<Vec<u8>, PerfDataError> {
    seek(source, section.offset)?;
    let mut bytes = Vec::new();
    let read = source.take(section.size.min(most)).read_to_end(&mut bytes);
    read.map_err(|error| io(section.offset, error))?;
    Ok(bytes)
}

fn seek(source: &mut impl Seek, offset: u64) -> Result<(), PerfDataError> {
    let sought = source.seek(SeekFrom::Start(offset));
    sought.map(|_| ()).map_err(|error| io(offset, error))
}

const fn io(offset: u64, source: std::io::Error) -> PerfDataError {
    PerfDataError::Io { offset, source }
}

/// Reads until the buffer is full or the source ends; says how much.
pub(super) fn fill(
    source: &mut impl Read,
    buffer: &mut [u8],
    offset: u64,
) -> Result<usize, PerfDataError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(io(offset + filled as u64, error)),
        }
    }
    Ok(filled)
}
