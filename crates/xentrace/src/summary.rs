//! Counts per vcpu and log volume per physical CPU, as xenalyze's summary gives them.
//!
//! A PV record belongs to the vcpu that runs on the CPU that recorded it. Who runs is known from
//! the runstate records of that CPU; before the first of them, records belong to the default
//! domain, with one vcpu per physical CPU. After lost records, the vcpu that the lost-records
//! record names runs.
//!
//! Differences to xenalyze, none of them on sound captures: xenalyze orders the CPUs by time and
//! repairs runstates across them when their clocks disagree, we count each CPU alone and order only what has a time; xenalyze
//! drops PV records of idle vcpus and of CPUs where no domain is known to run, we count them apart;
//! it enters the volume of lost-records records twice, we enter it once. With core scheduling Xen
//! writes the runstates of a whole core on one CPU, which misleads both.
//!
//! Source: `process_record`, `pv_process`, `sched_runstate_process`, `vcpu_start` and
//! `process_lost_records` of `tools/xentrace/xenalyze.c`, Xen 4.17.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use super::{
    Class, HvmEvent, Keep, LostRecords, Pcpu, PvCounts, PvEvent, Reader, Record, Runstate,
    SchedEvent, Times, Vcpu, XentraceError,
};
use crate::times::{Measurement, Stamp, Stay};

/// Owners that a [`Summary`] counts at most. Assumed to exceed any real host's vcpus in one trace;
/// it bounds memory to some 20 MiB on a corrupt one.
pub const MAX_OWNERS: usize = 16384;

/// Owner of a PV record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Recorded before the trace said who runs on this physical CPU: xenalyze's "Default domain".
    Default(Pcpu),
    /// Recorded while this vcpu ran.
    Vcpu(Vcpu),
    /// Recorded after a vcpu stopped and before another one was seen to run.
    Unknown,
}

/// Name as xenalyze has it: `d0v1`; `default v0` before the trace says who runs on CPU 0.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default(cpu) => write!(f, "default v{cpu}"),
            Self::Vcpu(vcpu) => write!(f, "{vcpu}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Volume that one physical CPU recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcpuLog {
    bytes: [u64; Class::ALL.len()],
    /// Records of all classes.
    pub records: u64,
    /// Records that Xen could not write because the CPU's buffer was full.
    pub lost: u64,
}

impl PcpuLog {
    /// Bytes of this class's records, headers and time stamps included; CPU change records are of
    /// no class.
    #[must_use]
    pub const fn bytes(&self, class: Class) -> u64 {
        self.bytes[class as usize]
    }
}

/// One physical CPU: its log, and who runs there.
#[derive(Clone, Copy, Debug)]
struct PcpuState {
    log: PcpuLog,
    running: Owner,
    /// Index of the counts of `running`, once it has some.
    slot: Option<usize>,
    stay: Stay,
}

/// Counts every record of a trace, and keeps `K` of each vcpu's PV records. Memory is bounded by the number of vcpus, see
/// [`MAX_OWNERS`].
#[derive(Clone, Debug, Default)]
pub struct Summary<K = PvCounts> {
    pcpus: Vec<PcpuState>,
    slots: BTreeMap<Owner, usize>,
    kept: Vec<K>,
    measurement: Measurement,
}

impl<K: Keep> Summary<K> {
    /// A summary of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a trace to its end and counts it.
    ///
    /// # Errors
    ///
    /// The first error of the [`Reader`] or of [`observe`](Self::observe).
    pub fn read(source: impl Read) -> Result<Self, XentraceError> {
        let mut summary = Self::new();
        summary.observe_all(source)?;
        Ok(summary)
    }

    /// Reads a trace, and counts it up to where it is cut off, if it is: inside a record or a window.
    ///
    /// # Errors
    ///
    /// The first error that is no [`truncation`](XentraceError::is_truncation).
    pub fn read_all(source: impl Read) -> Result<(Self, Option<XentraceError>), XentraceError> {
        let mut summary = Self::new();
        match summary.observe_all(source) {
            Ok(()) => Ok((summary, None)),
            Err(error) if error.is_truncation() => Ok((summary, Some(error))),
            Err(error) => Err(error),
        }
    }

    fn observe_all(&mut self, source: impl Read) -> Result<(), XentraceError> {
        let mut reader = Reader::new(source);
        while let Some(record) = reader.next_record()? {
            self.observe(&record)?;
        }
        Ok(())
    }

    /// Counts one record. Records of one CPU must come in their order.
    ///
    /// # Errors
    ///
    /// A payload that cannot be decoded, or [`XentraceError::TooManyVcpus`]. The record is then in
    /// its CPU's volume, and counted nowhere else.
    #[inline(always)]
    pub fn observe(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        let class = record.event.class();
        let pcpu = self.pcpu(record.cpu);
        pcpu.log.records += 1;
        pcpu.log.bytes[class as usize] += record.bytes() as u64;
        match class {
            Class::Pv => self.observe_pv(record),
            Class::Sched => self.observe_sched(record),
            Class::Gen => self.observe_gen(record),
            Class::Hvm => self.observe_hvm(record),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn observe_pv(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        let Some(event) = PvEvent::decode(record)? else {
            return Ok(());
        };
        let slot = match self.pcpu(record.cpu).slot {
            Some(slot) => slot,
            None => self.find_slot(record)?,
        };
        self.kept[slot].record(&event);
        Ok(())
    }

    fn observe_sched(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        match SchedEvent::decode(record)? {
            Some(SchedEvent::RunstateChange { vcpu, old, new }) => {
                let (stamp, _) = self.stamp(record);
                self.measurement.change(stamp, vcpu, old, new);
                if new == Runstate::Running {
                    self.run(record, Owner::Vcpu(vcpu));
                } else if old == Runstate::Running {
                    self.run(record, Owner::Unknown);
                }
            }
            Some(SchedEvent::ContinueRunning { vcpu }) => self.run(record, Owner::Vcpu(vcpu)),
            None => {}
        }
        Ok(())
    }

    fn observe_gen(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        if let Some(lost) = LostRecords::decode(record)? {
            let (stamp, pcpu) = self.stamp(record);
            self.pcpus[pcpu].log.lost += u64::from(lost.count);
            let stay = &mut self.pcpus[pcpu].stay;
            self.measurement
                .lose(stamp, stay, lost.first_tsc, lost.running);
            self.run(record, Owner::Vcpu(lost.running));
        }
        Ok(())
    }

    fn observe_hvm(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        let Some(event) = HvmEvent::decode(record)? else {
            return Ok(());
        };
        let (stamp, pcpu) = self.stamp(record);
        let stay = &mut self.pcpus[pcpu].stay;
        match event {
            HvmEvent::Exit { reason, .. } => self.measurement.exit(stamp, stay, reason),
            HvmEvent::Entry => self.measurement.enter(stamp, stay),
        }
        Ok(())
    }

    /// Who a record is of, and the index of its CPU. All that is open ends where the CPU's clock went back.
    #[inline]
    fn stamp(&mut self, record: &Record<'_>) -> (Stamp, usize) {
        let (cpu, tsc) = (record.cpu, record.tsc);
        let pcpu = self.pcpu(cpu);
        let owner = pcpu.running;
        if let Some(tsc) = tsc
            && !pcpu.stay.advance(tsc)
        {
            let pcpus = self.pcpus.iter_mut();
            let stays = pcpus.map(|pcpu| (pcpu.running, std::mem::take(&mut pcpu.stay)));
            self.measurement.end(stays);
            self.pcpu(cpu).stay.advance(tsc);
        }
        (Stamp { owner, cpu, tsc }, cpu.0 as usize)
    }

    fn run(&mut self, record: &Record<'_>, owner: Owner) {
        let (cpu, tsc) = (record.cpu, record.tsc);
        let pcpu = &mut self.pcpus[cpu.0 as usize];
        if pcpu.running != owner {
            let owner = std::mem::replace(&mut pcpu.running, owner);
            pcpu.slot = None;
            let stamp = Stamp { owner, cpu, tsc };
            self.measurement.leave(stamp, &mut pcpu.stay);
        }
    }

    /// The state of `cpu`, which the reader keeps below [`MAX_PCPUS`](super::MAX_PCPUS).
    fn pcpu(&mut self, cpu: Pcpu) -> &mut PcpuState {
        let index = cpu.0 as usize;
        if index >= self.pcpus.len() {
            self.grow(index);
        }
        &mut self.pcpus[index]
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        let unseen = (0..).skip(self.pcpus.len()).map(|cpu| PcpuState {
            log: PcpuLog::default(),
            running: Owner::Default(Pcpu(cpu)),
            slot: None,
            stay: Stay::default(),
        });
        let missing = index + 1 - self.pcpus.len();
        self.pcpus.extend(unseen.take(missing));
    }

    /// Finds or makes the counts of who runs on the record's CPU.
    #[cold]
    fn find_slot(&mut self, record: &Record<'_>) -> Result<usize, XentraceError> {
        let running = self.pcpu(record.cpu).running;
        let free = self.kept.len();
        if free >= MAX_OWNERS && !self.slots.contains_key(&running) {
            return Err(XentraceError::TooManyVcpus {
                offset: record.offset,
                limit: MAX_OWNERS,
            });
        }
        let slot = *self.slots.entry(running).or_insert(free);
        if slot == free {
            self.kept.push(K::default());
        }
        self.pcpu(record.cpu).slot = Some(slot);
        Ok(slot)
    }

    /// Counts of `owner`, if it has any.
    #[must_use]
    pub fn get(&self, owner: Owner) -> Option<&K> {
        self.kept.get(*self.slots.get(&owner)?)
    }

    /// Everyone with PV records, in order, and what is theirs.
    pub fn owners(&self) -> impl Iterator<Item = (Owner, &K)> {
        self.slots
            .iter()
            .map(|(owner, slot)| (*owner, &self.kept[*slot]))
    }

    /// The PV records of everyone together.
    #[must_use]
    pub fn total(&self) -> K {
        let mut total = K::default();
        for kept in &self.kept {
            total.add(kept);
        }
        total
    }

    /// Time of all vcpus in each runstate, and out of their guests.
    #[must_use]
    pub fn times(&self) -> Times {
        let pcpus = self.pcpus.iter();
        self.measurement
            .times(pcpus.map(|pcpu| (pcpu.running, pcpu.stay)))
    }

    /// The physical CPUs that recorded something, in order, and how much.
    pub fn pcpus(&self) -> impl Iterator<Item = (Pcpu, &PcpuLog)> {
        let numbered = (0..).map(Pcpu).zip(&self.pcpus);
        numbered
            .map(|(cpu, state)| (cpu, &state.log))
            .filter(|(_, log)| log.records > 0)
    }

    /// Records that Xen could not write, on all CPUs: if not 0, every count is too low.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.pcpus.iter().map(|state| state.log.lost).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::HypercallOp;
    use super::super::synthetic::Trace;
    use super::*;

    const D0V1: Owner = Owner::Vcpu(Vcpu { domain: 0, vcpu: 1 });
    const D1V0: Owner = Owner::Vcpu(Vcpu { domain: 1, vcpu: 0 });

    fn summarise(trace: &Trace) -> Summary {
        Summary::read(trace.bytes()).unwrap()
    }

    fn ptwr(summary: &Summary, owner: Owner) -> u64 {
        summary.get(owner).map_or(0, |counts| counts.ptwr)
    }

    #[test]
    fn records_belong_to_the_default_domain_until_a_runstate_says_more() {
        let trace = Trace::default()
            .window(1, |cpu| cpu.ptwr().runstate(0, 1, 0, 1).ptwr())
            .window(0, |cpu| cpu.runstate(1, 0, 1, 0).ptwr().ptwr())
            .window(1, |cpu| cpu.runstate(0, 1, 1, 0).ptwr().ptwr().ptwr());
        let summary = summarise(&trace);
        let owners: Vec<_> = summary
            .owners()
            .map(|(owner, counts)| (owner, counts.ptwr))
            .collect();
        let expected = [
            (Owner::Default(Pcpu(1)), 1),
            (D0V1, 3),
            (D1V0, 2),
            (Owner::Unknown, 1),
        ];
        assert_eq!(owners, expected);
        assert_eq!(summary.total().ptwr, 7);
    }

    #[test]
    fn waking_a_vcpu_does_not_run_it_and_continuing_does() {
        let trace = Trace::default().window(0, |cpu| {
            cpu.runstate(0, 1, 2, 1)
                .ptwr()
                .record(0x2_1002, &[1])
                .ptwr()
                .ptwr()
        });
        let summary = summarise(&trace);
        assert_eq!(ptwr(&summary, Owner::Default(Pcpu(0))), 1);
        assert_eq!(ptwr(&summary, D0V1), 2);
    }

    #[test]
    fn lost_records_are_counted_and_name_who_runs() {
        let trace = Trace::default().window(3, |cpu| {
            cpu.runstate(0, 1, 1, 0)
                .ptwr()
                .lost(41, 1, 0)
                .ptwr()
                .lost(1, 1, 0)
        });
        let summary = summarise(&trace);
        assert_eq!(summary.lost(), 42);
        assert_eq!((ptwr(&summary, D0V1), ptwr(&summary, D1V0)), (1, 1));
        let (cpu, log) = summary.pcpus().next().unwrap();
        assert_eq!((cpu, log.records, log.lost), (Pcpu(3), 5, 42));
    }

    #[test]
    fn volume_is_booked_by_class_with_headers_and_padding() {
        let trace = Trace::default().window(0, |cpu| {
            cpu.hypercall(17)
                .bare_record(0x1_f002, &[0, 0])
                .record(0x80_2008, &[1, 2])
        });
        let summary = summarise(&trace);
        let (_, log) = summary.pcpus().next().unwrap();
        let volumes =
            [Class::Pv, Class::Gen, Class::Hw, Class::Sched].map(|class| log.bytes(class));
        assert_eq!(volumes, [16, 12, 20, 0]);
    }

    #[test]
    fn hypercalls_and_subcalls_are_kept_apart_and_unknown_records_counted() {
        let trace = Trace::default().window(0, |cpu| {
            cpu.hypercall(13)
                .subcall(14)
                .subcall(14)
                .record(0x20_1fff, &[])
        });
        let total = summarise(&trace).total();
        assert_eq!(
            total.hypercalls.iter().collect::<Vec<_>>(),
            [(HypercallOp::MULTICALL, 1)]
        );
        assert_eq!(total.subcalls.get(HypercallOp::UPDATE_VA_MAPPING), 2);
        assert_eq!((total.unknown, total.traps()), (1, 0));
    }

    #[test]
    fn more_vcpus_than_can_be_real_are_refused() {
        let trace = Trace::default().window(0, |cpu| {
            (0..=16384).fold(cpu, |cpu, vcpu| {
                cpu.record(0x2_1101, &[vcpu]).bare_record(0x20_1008, &[])
            })
        });
        let error = Summary::<PvCounts>::read(trace.bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 327708: PV records of more than 16384 vcpus"
        );
    }
}
