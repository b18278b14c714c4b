//! `struct perf_event_attr`: what was recorded, and which fields each record has.

use std::collections::HashMap;

use super::PerfDataError;
use super::little_endian::Bytes;

/// `PERF_TYPE_TRACEPOINT`.
pub(super) const TRACEPOINT: u32 = 2;

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;

/// `PERF_TYPE_SOFTWARE`.
const SOFTWARE: u32 = 1;

/// `enum perf_hw_id`.
pub(crate) const HARDWARE_EVENTS: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];

/// `enum perf_sw_ids`.
pub(crate) const SOFTWARE_EVENTS: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// `PERF_ATTR_SIZE_VER0`.
const MIN_ATTR_BYTES: usize = 64;

/// `enum perf_event_sample_format`, as far as fields before the raw data go.
pub(super) mod sample {
    pub(in super::super) const IP: u64 = 1;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDR: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// Layout of a record's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) kind: u32,
    /// Number of the tracepoint, if it is one.
    pub(super) config: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) sample_id_all: bool,
}

impl Attribute {
    /// Reads the structure; what newer kernels have behind it is passed over.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        let kind = bytes.u32()?;
        let _size = bytes.u32()?;
        let config = bytes.u64()?;
        let _sample_period = bytes.u64()?;
        let sample_type = bytes.u64()?;
        let read_format = bytes.u64()?;
        let flags = bytes.u64()?;
        Some(Self {
            kind,
            config,
            sample_type,
            read_format,
            sample_id_all: flags & (1 << 18) != 0,
        })
    }

    /// Name that `perf list` gives to the event.
    pub(super) fn name(&self) -> String {
        // Of several kinds of CPUs the upper half says which (`PERF_PMU_TYPE_SHIFT`).
        let index = usize::try_from(self.config & 0xffff_ffff).unwrap_or(usize::MAX);
        let named = match self.kind {
            HARDWARE => HARDWARE_EVENTS.get(index),
            SOFTWARE => SOFTWARE_EVENTS.get(index),
            _ => None,
        };
        named.map_or_else(
            || format!("perf type {} config {:#x}", self.kind, self.config),
            |name| (*name).to_owned(),
        )
    }

    pub(super) const fn has(&self, field: u64) -> bool {
        self.sample_type & field != 0
    }
}

/// All attributes of a file, and the ids by which records name them.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    all: Vec<Attribute>,
    by_id: HashMap<u64, usize>,
}

/// Attributes of a file: perf opens one for each event that `-e` names.
pub(super) const MAX_ATTRIBUTES: usize = 1 << 14;

/// Ids of a file: one for each event on each CPU. They take some 7 MB.
pub(super) const MAX_IDS: usize = 1 << 17;

impl Attributes {
    /// Adds the attribute that a structure at `offset` describes. Past [`MAX_ATTRIBUTES`] or [`MAX_IDS`] nothing is added.
    pub(super) fn add(
        &mut self,
        structure: &[u8],
        ids: impl Iterator<Item = u64>,
        offset: u64,
    ) -> Result<(), PerfDataError> {
        let attribute = Attribute::read(structure)
            .filter(|_| structure.len() >= MIN_ATTR_BYTES)
            .ok_or(PerfDataError::Short {
                offset,
                record: "perf_event_attr",
                field: "sample_type",
            })?;
        if self.all.len() < MAX_ATTRIBUTES {
            let index = self.all.len();
            self.all.push(attribute);
            let room = MAX_IDS - self.by_id.len().min(MAX_IDS);
            self.by_id.extend(ids.take(room).map(|id| (id, index)));
        }
        Ok(())
    }

    /// The attribute of a sample.
    pub(super) fn of_sample(&self, body: &[u8]) -> Option<&Attribute> {
        match &self.all[..] {
            [only] => Some(only),
            [first, ..] => {
                let mut fields = Bytes(body);
                fields.take(8 * fields_before_id(first.sample_type))?;
                self.by_id(fields.u64()?)
            }
            [] => None,
        }
    }

    /// The attribute of another record: its id is among its last fields. The fields are the same for all attributes, so
    /// any will do where the id is not known.
    pub(super) fn of_record(&self) -> Option<&Attribute> {
        self.all.first()
    }

    /// Numbers of the tracepoints that were recorded.
    pub(super) fn tracepoints(&self) -> impl Iterator<Item = u64> {
        let tracepoints = self.all.iter().filter(|one| one.kind == TRACEPOINT);
        tracepoints.map(|one| one.config)
    }

    fn by_id(&self, id: u64) -> Option<&Attribute> {
        self.by_id.get(&id).and_then(|&index| self.all.get(index))
    }
}

/// Words of a sample before its id, which all attributes have at the same place (`evlist__valid_sample_type`).
fn fields_before_id(sample_type: u64) -> usize {
    if sample_type & sample::IDENTIFIER != 0 {
        return 0;
    }
    let before = [sample::IP, sample::TID, sample::TIME, sample::ADDR];
    before
        .iter()
        .filter(|&field| sample_type & field != 0)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_names_of_perf_list() {
        let name = |kind, config| {
            let attribute = Attribute {
                kind,
                config,
                sample_type: 0,
                read_format: 0,
                sample_id_all: false,
            };
            attribute.name()
        };
        assert_eq!(name(HARDWARE, 0), "cycles");
        assert_eq!(name(HARDWARE, 0x8_0000_0001), "instructions");
        assert_eq!(name(SOFTWARE, 2), "page-faults");
        assert_eq!(name(4, 0x1c2), "perf type 4 config 0x1c2");
    }
}
