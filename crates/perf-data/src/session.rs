//! Meaning of records: samples to events, names to threads, losses to gaps.

use pagetoll_ftrace::tracepoint::{Event, Item, Lost, Name, Names, Payload, Stamp, Tally, Task};
use pagetoll_units::Nanos;

use super::PerfDataError;
use super::attributes::{Attribute, Attributes, TRACEPOINT, sample};
use super::header::take_feature;
use super::little_endian::Bytes;
use super::losses::Losses;
use super::order::{MAX_QUEUED, Queue};
use super::records::Record;
use super::sample::{Origin, Sample};
use super::threads::Threads;
use super::tracing_data::Tracepoints;

/// `enum perf_event_type` of `include/uapi/linux/perf_event.h`, and `enum perf_user_event_type` of
/// `tools/lib/perf/include/perf/event.h`.
pub(super) mod kind {
    pub(in super::super) const LOST: u32 = 2;
    pub(in super::super) const COMM: u32 = 3;
    pub(in super::super) const FORK: u32 = 7;
    pub(in super::super) const SAMPLE: u32 = 9;
    pub(in super::super) const LOST_SAMPLES: u32 = 13;
    pub(in super::super) const HEADER_ATTR: u32 = 64;
    pub(in super::super) const HEADER_TRACING_DATA: u32 = 66;
    pub(in super::super) const FINISHED_ROUND: u32 = 68;
    pub(in super::super) const AUXTRACE: u32 = 71;
    pub(in super::super) const HEADER_FEATURE: u32 = 80;
    pub(in super::super) const COMPRESSED: u32 = 81;
    pub(in super::super) const COMPRESSED2: u32 = 83;
}

/// `PERF_RECORD_MISC_LOST_SAMPLES_BPF`: a filter of the user's refused them.
const FILTERED: u16 = 1 << 15;

/// State that outlives a record.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) attributes: Attributes,
    pub(super) tracepoints: Tracepoints,
    pub(super) tally: Tally,
    queue: Queue<Queued>,
    threads: Threads,
    names: Names,
    losses: Losses,
    latest: u64,
}

/// An item that waits for its time.
#[derive(Debug)]
enum Queued {
    Sample { origin: Origin, payload: Payload },
    Comm { tid: u32, comm: Name },
    Fork { tid: u32, parent: u32 },
    Lost(Lost),
}

impl Session {
    pub(super) fn new() -> Self {
        Self {
            attributes: Attributes::default(),
            tracepoints: Tracepoints::default(),
            tally: Tally::default(),
            queue: Queue::new(MAX_QUEUED),
            threads: Threads::default(),
            names: Names::default(),
            losses: Losses::default(),
            latest: 0,
        }
    }

    /// Takes a record. What has a time waits for it.
    pub(super) fn take(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        match record.kind {
            kind::SAMPLE => self.sample(record),
            kind::COMM => self.comm(record),
            kind::FORK => self.fork(record),
            kind::LOST => self.lost(record),
            kind::LOST_SAMPLES => self.lost_samples(record),
            kind::HEADER_ATTR => self.attribute(record),
            kind::HEADER_FEATURE => self.feature(record),
            kind::FINISHED_ROUND => {
                self.queue.finish_round();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The oldest item that no later record can precede.
    pub(super) fn next_item(&mut self) -> Option<Item> {
        loop {
            match self.queue.pop()? {
                Queued::Comm { tid, comm } => self.threads.rename(tid, comm),
                Queued::Fork { tid, parent } => self.threads.fork(tid, parent),
                Queued::Lost(lost) => return Some(Item::Lost(lost)),
                Queued::Sample { origin, payload } => {
                    return Some(Item::Event(self.event(origin, payload)));
                }
            }
        }
    }

    /// No more records will come.
    pub(super) fn finish(&mut self) {
        for number in self.attributes.tracepoints() {
            let tracepoint = self.tracepoints.get(number);
            if let Some(known) = tracepoint.filter(|tracepoint| tracepoint.layout.is_some()) {
                self.tally.count_recorded(&known.name);
            }
        }
        self.queue.finish();
        if let Some(lost) = self.losses.rest() {
            self.tally.count_lost(&lost);
            self.queue.push(u64::MAX, Queued::Lost(lost));
        }
    }

    fn event(&mut self, origin: Origin, payload: Payload) -> Event {
        let time = origin.time.unwrap_or(0);
        self.tally.events += 1;
        self.tally.out_of_order += u64::from(time < self.latest);
        self.latest = self.latest.max(time);
        Event {
            time: origin
                .time
                .map_or(Stamp::None, |time| Stamp::Time(Nanos(time))),
            cpu: origin.cpu,
            task: Task {
                pid: origin.pid,
                tid: origin.tid,
                comm: self.threads.comm(origin.tid, &mut self.names),
            },
            payload,
        }
    }

    fn sample(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        let Some(&attribute) = self.attributes.of_sample(record.body) else {
            self.tally.count_unknown("no attribute");
            return Ok(());
        };
        if attribute.kind != TRACEPOINT {
            self.tally.count_unknown(&attribute.name());
            return Ok(());
        }
        let Some(tracepoint) = self.tracepoints.get(attribute.config) else {
            let name = format!("tracepoint {}", attribute.config);
            self.tally.count_unknown(&name);
            return Ok(());
        };
        let Some(layout) = &tracepoint.layout else {
            self.tally.count_unknown(&tracepoint.name);
            return Ok(());
        };
        let sample = read_sample(&attribute, record)?;
        self.queue.allow(record.body.len());
        match layout.payload(sample.raw, &mut self.names) {
            Ok(payload) => {
                let origin = sample.origin;
                let time = origin.time.unwrap_or(0);
                self.queue.push(time, Queued::Sample { origin, payload });
            }
            Err(missing) => self.tally.count_unreadable(|| {
                format!(
                    "byte {}: {} has no field {}",
                    record.offset, tracepoint.name, missing.0
                )
            }),
        }
        Ok(())
    }

    /// `struct perf_record_comm`.
    fn comm(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        let mut fields = Bytes(record.body);
        let (_pid, tid) = (fields.u32(), fields.u32());
        let tid = tid.ok_or(short(record, "comm", "tid"))?;
        let comm = self.names.intern(&String::from_utf8_lossy(fields.text()));
        self.push(record, Queued::Comm { tid, comm });
        Ok(())
    }

    /// `struct perf_record_fork`.
    fn fork(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        let mut fields = Bytes(record.body);
        let (_pid, _ppid, tid, parent) = (fields.u32(), fields.u32(), fields.u32(), fields.u32());
        let tid = tid.ok_or(short(record, "fork", "tid"))?;
        let parent = parent.ok_or(short(record, "fork", "ptid"))?;
        self.push(record, Queued::Fork { tid, parent });
        Ok(())
    }

    /// `struct perf_record_lost`.
    fn lost(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        let mut fields = Bytes(record.body);
        let _id = fields.u64();
        let records = fields.u64().ok_or(short(record, "lost", "lost"))?;
        let origin = self.origin(record);
        let lost = Lost {
            time: origin.time.map(Nanos),
            cpu: origin.cpu,
            records: Some(records),
        };
        self.losses.gaps = self.losses.gaps.saturating_add(records);
        self.tally.count_lost(&lost);
        self.push(record, Queued::Lost(lost));
        Ok(())
    }

    /// `struct perf_record_lost_samples`.
    fn lost_samples(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        let lost = Bytes(record.body)
            .u64()
            .ok_or(short(record, "lost_samples", "lost"))?;
        if record.misc & FILTERED == 0 {
            self.losses.sums = self.losses.sums.saturating_add(lost);
        }
        Ok(())
    }

    /// `struct perf_record_header_attr`: the attribute, then its ids to the end.
    fn attribute(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        let mut fields = Bytes(record.body);
        let _kind = fields.u32();
        let size = fields.u32().ok_or(short(record, "header_attr", "size"))?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let split = record.body.split_at_checked(size);
        let (attribute, ids) = split.ok_or(short(record, "header_attr", "attr"))?;
        let ids = ids.chunks_exact(8).filter_map(|id| Bytes(id).u64());
        self.attributes.add(attribute, ids, record.offset)
    }

    /// `struct perf_record_header_feature`: the number, then what a file has of it in a section.
    fn feature(&mut self, record: Record<'_>) -> Result<(), PerfDataError> {
        let mut fields = Bytes(record.body);
        let number = fields
            .u64()
            .ok_or(short(record, "header_feature", "feat_id"))?;
        if let Ok(number) = u32::try_from(number) {
            take_feature(self, number, fields.0);
        }
        Ok(())
    }

    fn origin(&self, record: Record<'_>) -> Origin {
        let attribute = self.attributes.of_record();
        attribute.map_or_else(Origin::default, |attribute| {
            Origin::of_record(attribute, record.body)
        })
    }

    fn push(&mut self, record: Record<'_>, what: Queued) {
        let time = self.origin(record).time.unwrap_or(0);
        self.queue.push(time, what);
    }
}

fn read_sample<'a>(attribute: &Attribute, record: Record<'a>) -> Result<Sample<'a>, PerfDataError> {
    if !attribute.has(sample::TIME) {
        return Err(PerfDataError::Field {
            offset: record.offset,
            field: "sample_type",
            found: attribute.sample_type,
            expected: "PERF_SAMPLE_TIME among others: record without --no-timestamp",
        });
    }
    Sample::read(attribute, record.body).map_err(|field| short(record, "sample", field))
}

const fn short(record: Record<'_>, name: &'static str, field: &'static str) -> PerfDataError {
    PerfDataError::Short {
        offset: record.offset,
        record: name,
        field,
    }
}
