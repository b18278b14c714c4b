//! The fields of samples, and those that end every other record.
//!
//! Source: `__evsel__parse_sample` and `perf_evsel__parse_id_sample` of `tools/perf/util/evsel.c`.

use super::attributes::{Attribute, sample};
use super::little_endian::Bytes;

/// Thread, time and CPU of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) time: Option<u64>,
    pub(super) cpu: Option<u32>,
}

/// A sample of a tracepoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    pub(super) origin: Origin,
    /// The record as the kernel's trace buffer would have it.
    pub(super) raw: &'a [u8],
}

/// The name of the field that a sample ends before.
pub(super) type Field = &'static str;

impl<'a> Sample<'a> {
    /// The body of a `PERF_RECORD_SAMPLE`.
    pub(super) fn read(attribute: &Attribute, body: &'a [u8]) -> Result<Self, Field> {
        let mut fields = Fields {
            attribute,
            bytes: Bytes(body),
        };
        fields.word(sample::IDENTIFIER, "identifier")?;
        fields.word(sample::IP, "ip")?;
        let task = fields.word(sample::TID, "tid")?;
        let time = fields.word(sample::TIME, "time")?;
        fields.word(sample::ADDR, "addr")?;
        fields.word(sample::ID, "id")?;
        fields.word(sample::STREAM_ID, "stream_id")?;
        let cpu = fields.word(sample::CPU, "cpu")?;
        fields.word(sample::PERIOD, "period")?;
        fields.read_values()?;
        fields.callchain()?;
        let origin = Origin::new(task, time, cpu);
        Ok(Self {
            origin,
            raw: fields.raw()?,
        })
    }
}

impl Origin {
    fn new(task: Option<u64>, time: Option<u64>, cpu: Option<u64>) -> Self {
        Self {
            pid: task.map(low).filter(|&pid| pid != u32::MAX),
            tid: task
                .map(|task| low(task >> 32))
                .filter(|&tid| tid != u32::MAX),
            time,
            cpu: cpu.map(low).filter(|&cpu| cpu != u32::MAX),
        }
    }

    /// The last fields of a record that is no sample. Without them, nothing is known.
    pub(super) fn of_record(attribute: &Attribute, body: &[u8]) -> Self {
        const LAST: [u64; 6] = [
            sample::TID,
            sample::TIME,
            sample::ID,
            sample::STREAM_ID,
            sample::CPU,
            sample::IDENTIFIER,
        ];
        let words = LAST.iter().filter(|&&field| attribute.has(field)).count();
        let at = body.len().checked_sub(8 * words);
        let Some(last) = at
            .filter(|_| attribute.sample_id_all)
            .and_then(|at| body.get(at..))
        else {
            return Self::default();
        };
        let mut bytes = Bytes(last);
        let mut word = |field| attribute.has(field).then(|| bytes.u64()).flatten();
        let task = word(sample::TID);
        let time = word(sample::TIME);
        let (_id, _stream) = (word(sample::ID), word(sample::STREAM_ID));
        Self::new(task, time, word(sample::CPU))
    }
}

fn low(word: u64) -> u32 {
    u32::try_from(word & 0xffff_ffff).unwrap_or(u32::MAX)
}

struct Fields<'a, 'b> {
    attribute: &'b Attribute,
    bytes: Bytes<'a>,
}

/// `enum perf_event_read_format`.
const TOTAL_TIME_ENABLED: u64 = 1;
const TOTAL_TIME_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

impl<'a> Fields<'a, '_> {
    fn word(&mut self, field: u64, name: Field) -> Result<Option<u64>, Field> {
        match self.attribute.has(field) {
            true => self.bytes.u64().map(Some).ok_or(name),
            false => Ok(None),
        }
    }

    fn skip(&mut self, words: u64, name: Field) -> Result<(), Field> {
        let bytes = words
            .checked_mul(8)
            .and_then(|bytes| self.bytes.sized(bytes));
        bytes.map(|_| ()).ok_or(name)
    }

    fn read_values(&mut self) -> Result<(), Field> {
        if !self.attribute.has(sample::READ) {
            return Ok(());
        }
        let format = self.attribute.read_format;
        let one = |flag| u64::from(format & flag != 0);
        let times = one(TOTAL_TIME_ENABLED) + one(TOTAL_TIME_RUNNING);
        let each = 1 + one(READ_ID) + one(READ_LOST);
        let words = match format & READ_GROUP {
            0 => Some(times + each),
            _ => {
                let values = self.bytes.u64().ok_or("read")?;
                values
                    .checked_mul(each)
                    .and_then(|words| words.checked_add(times))
            }
        };
        self.skip(words.ok_or("read")?, "read")
    }

    fn callchain(&mut self) -> Result<(), Field> {
        match self.word(sample::CALLCHAIN, "callchain")? {
            Some(addresses) => self.skip(addresses, "callchain"),
            None => Ok(()),
        }
    }

    fn raw(&mut self) -> Result<&'a [u8], Field> {
        if !self.attribute.has(sample::RAW) {
            return Ok(&[]);
        }
        let size = self.bytes.u32().ok_or("raw_size")?;
        self.bytes.sized(size.into()).ok_or("raw_data")
    }
}
