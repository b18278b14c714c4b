//! Crossings between two markers that a guest wrote into the trace.
//!
//! A guest cannot write a trace record of its own, but Xen records the `cmd` argument of every
//! `sched_op`, the invalid ones too, before it answers `-ENOSYS`. A marker is such a call: nothing
//! changes in Xen, and its record lies in the order of all others of that CPU.
//!
//! A window belongs to the physical CPU that recorded its markers and counts whatever that CPU
//! records, also for another vcpu that is scheduled in between: measure on a pinned vcpu and look
//! at [`Crossings::switches`].
//!
//! Source: `_pv_hypercall` of `xen/arch/x86/pv/hypercall.c` (records on entry),
//! `__trace_hypercall` of `xen/common/trace.c` (argument 0 of `sched_op`, cut to 32 bits) and
//! `do_sched_op` of `xen/common/sched/core.c` (default: `-ENOSYS`), Xen 4.17.

use std::collections::BTreeMap;
use std::io::Read;

use super::{
    Class, Hypercall, HypercallOp, LostRecords, Pcpu, PvCounts, PvEvent, Reader, Record, Runstate,
    SchedEvent, XentraceError,
};

/// `PT` in ASCII; the real commands of `sched_op` are below 16 (`xen/include/public/sched.h`).
const BEGIN_CMD: u64 = 0x5054_0000;
const END_CMD: u64 = 0x5055_0000;

/// A marker: one end of the window `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// `sched_op` command `0x5054_0000 + id`.
    Begin(u16),
    /// `sched_op` command `0x5055_0000 + id`.
    End(u16),
}

impl Marker {
    /// The marker that this hypercall is, if it is one. A `sched_op` in a `multicall` is none: it
    /// is recorded as a subcall.
    #[must_use]
    pub fn decode(call: &Hypercall<'_>) -> Option<Self> {
        if call.op != HypercallOp::SCHED_OP {
            return None;
        }
        let cmd = call.arg(0)?;
        let id = u16::try_from(cmd & 0xffff).ok()?;
        match cmd - u64::from(id) {
            BEGIN_CMD => Some(Self::Begin(id)),
            END_CMD => Some(Self::End(id)),
            _ => None,
        }
    }
}

/// Crossings of a guest into Xen inside the windows of one id, without the markers themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Number of windows that these are the sum of.
    pub windows: u64,
    /// PV records in them: [`traps`](PvCounts::traps) and each kind of them, hypercalls by
    /// number, subcalls by number.
    pub pv: PvCounts,
    /// Times that the scheduler put a vcpu on the CPU. Always 0 when the scheduler class was not
    /// traced.
    pub switches: u64,
    /// Records that Xen lost in them: if not 0, all counts are too low.
    pub lost: u64,
}

impl Crossings {
    fn add(&mut self, other: &Self) {
        self.windows += other.windows;
        self.pv.add(&other.pv);
        self.switches += other.switches;
        self.lost += other.lost;
    }
}

/// A window between its begin and its end.
#[derive(Clone, Copy, Debug)]
struct Open {
    id: u16,
    /// Position of its begin marker.
    offset: u64,
    crossings: Crossings,
}

/// Sums the crossings between begin and end markers, by id.
///
/// After an error it can go on: a stray end marker is ignored, a nested begin marker too, and a
/// window with lost records is kept with its [`lost`](Crossings::lost) count. Memory is about 1 KiB
/// per id in use and per open window.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    open: BTreeMap<Pcpu, Open>,
    closed: BTreeMap<u16, Crossings>,
}

impl Windows {
    /// A table without windows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a trace to its end and sums its windows by id.
    ///
    /// # Errors
    ///
    /// The first error of the [`Reader`], of [`observe`](Self::observe) or of
    /// [`finish`](Self::finish).
    pub fn read(source: impl Read) -> Result<BTreeMap<u16, Crossings>, XentraceError> {
        let mut reader = Reader::new(source);
        let mut windows = Self::new();
        while let Some(record) = reader.next_record()? {
            windows.observe(&record)?;
        }
        windows.finish()
    }

    /// Takes in one record. Records of one CPU must come in their order.
    ///
    /// # Errors
    ///
    /// [`EndWithoutBegin`](XentraceError::EndWithoutBegin),
    /// [`NestedBegin`](XentraceError::NestedBegin),
    /// [`LostInWindow`](XentraceError::LostInWindow), or a payload that cannot be decoded.
    pub fn observe(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        match record.event.class() {
            Class::Pv => self.observe_pv(record),
            Class::Sched => self.observe_sched(record),
            Class::Gen => self.observe_gen(record),
            _ => Ok(()),
        }
    }

    /// The crossings by window id.
    ///
    /// # Errors
    ///
    /// [`UnterminatedWindow`](XentraceError::UnterminatedWindow) for the lowest CPU with one.
    pub fn finish(self) -> Result<BTreeMap<u16, Crossings>, XentraceError> {
        match self.open.first_key_value() {
            None => Ok(self.closed),
            Some((cpu, open)) => Err(XentraceError::UnterminatedWindow {
                offset: open.offset,
                cpu: *cpu,
                id: open.id,
            }),
        }
    }

    fn observe_pv(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        let Some(event) = PvEvent::decode(record)? else {
            return Ok(());
        };
        let marker = match &event {
            PvEvent::Hypercall(call) => Marker::decode(call),
            _ => None,
        };
        match marker {
            Some(Marker::Begin(id)) => self.begin(record, id),
            Some(Marker::End(id)) => self.end(record, id),
            None => {
                if let Some(open) = self.open.get_mut(&record.cpu) {
                    open.crossings.pv.record(&event);
                }
                Ok(())
            }
        }
    }

    fn observe_sched(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        let event = SchedEvent::decode(record)?;
        let runs = matches!(
            event,
            Some(SchedEvent::RunstateChange {
                new: Runstate::Running,
                ..
            })
        );
        if let Some(open) = self.open.get_mut(&record.cpu).filter(|_| runs) {
            open.crossings.switches += 1;
        }
        Ok(())
    }

    fn observe_gen(&mut self, record: &Record<'_>) -> Result<(), XentraceError> {
        let lost = LostRecords::decode(record)?;
        let (Some(lost), Some(open)) = (lost, self.open.get_mut(&record.cpu)) else {
            return Ok(());
        };
        open.crossings.lost += u64::from(lost.count);
        Err(XentraceError::LostInWindow {
            offset: record.offset,
            cpu: record.cpu,
            id: open.id,
            lost: lost.count,
        })
    }

    fn begin(&mut self, record: &Record<'_>, id: u16) -> Result<(), XentraceError> {
        let (offset, cpu) = (record.offset, record.cpu);
        if let Some(open) = self.open.get(&cpu) {
            return Err(XentraceError::NestedBegin {
                offset,
                cpu,
                id,
                open: open.id,
                opened_at: open.offset,
            });
        }
        let crossings = Crossings {
            windows: 1,
            ..Crossings::default()
        };
        self.open.insert(
            cpu,
            Open {
                id,
                offset,
                crossings,
            },
        );
        Ok(())
    }

    fn end(&mut self, record: &Record<'_>, id: u16) -> Result<(), XentraceError> {
        let (offset, cpu) = (record.offset, record.cpu);
        if self.open.get(&cpu).is_none_or(|open| open.id != id) {
            return Err(XentraceError::EndWithoutBegin { offset, cpu, id });
        }
        if let Some(open) = self.open.remove(&cpu) {
            self.closed.entry(id).or_default().add(&open.crossings);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::Trace;
    use super::*;

    const BEGIN: u32 = 0x5054_0000;
    const END: u32 = 0x5055_0000;

    fn error_of(trace: &Trace) -> String {
        Windows::read(trace.bytes()).unwrap_err().to_string()
    }

    #[test]
    fn windows_of_one_id_are_summed_without_their_markers() {
        let trace = Trace::default()
            .window(0, |cpu| {
                cpu.ptwr()
                    .sched_op(BEGIN + 7)
                    .ptwr()
                    .ptwr()
                    .sched_op(END + 7)
                    .ptwr()
            })
            .window(0, |cpu| {
                cpu.sched_op(BEGIN + 7)
                    .hypercall(1)
                    .subcall(14)
                    .page_fault()
            })
            .window(0, |cpu| {
                cpu.sched_op(3)
                    .sched_op(END + 7)
                    .sched_op(BEGIN)
                    .sched_op(END)
            });
        let windows = Windows::read(trace.bytes()).unwrap();
        assert_eq!(windows.keys().copied().collect::<Vec<_>>(), [0, 7]);
        let seven = windows[&7];
        assert_eq!(
            (seven.windows, seven.pv.ptwr, seven.pv.page_fault),
            (2, 2, 1)
        );
        assert_eq!(seven.pv.traps(), 3);
        let hypercalls: Vec<_> = seven.pv.hypercalls.iter().collect();
        assert_eq!(
            hypercalls,
            [(HypercallOp::MMU_UPDATE, 1), (HypercallOp::SCHED_OP, 1)]
        );
        assert_eq!(seven.pv.subcalls.total(), 1);
        assert_eq!(
            windows[&0],
            Crossings {
                windows: 1,
                ..Crossings::default()
            }
        );
    }

    #[test]
    fn a_window_counts_its_own_cpu_only_and_two_may_be_open_on_two_cpus() {
        let trace = Trace::default()
            .window(0, |cpu| cpu.sched_op(BEGIN + 1).ptwr())
            .window(1, |cpu| cpu.ptwr().sched_op(BEGIN + 1).page_fault())
            .window(0, |cpu| cpu.sched_op(END + 1))
            .window(1, |cpu| cpu.sched_op(END + 1).ptwr());
        let windows = Windows::read(trace.bytes()).unwrap();
        assert_eq!((windows[&1].windows, windows[&1].pv.traps()), (2, 2));
    }

    #[test]
    fn markers_are_sched_op_calls_with_our_commands_only() {
        let trace = Trace::default().window(0, |cpu| {
            cpu.sched_op(BEGIN - 1)
                .sched_op(END + 0x1_0000)
                .record(0x20_200e, &[29 | 1 << 20, BEGIN])
                .record(0x20_100d, &[24 | 1 << 20, END])
                .hypercall(29)
        });
        assert!(Windows::read(trace.bytes()).unwrap().is_empty());
        let edges =
            Trace::default().window(0, |cpu| cpu.sched_op(BEGIN + 0xffff).sched_op(END + 0xffff));
        assert!(Windows::read(edges.bytes()).unwrap().contains_key(&0xffff));
    }

    #[test]
    fn switches_inside_a_window_are_counted() {
        let trace = Trace::default().window(0, |cpu| {
            cpu.sched_op(BEGIN)
                .runstate(0, 0, 0, 1)
                .runstate(1, 0, 1, 0)
                .runstate(1, 0, 0, 2)
                .runstate(0, 0, 1, 0)
                .sched_op(END)
                .runstate(1, 0, 1, 0)
        });
        assert_eq!(Windows::read(trace.bytes()).unwrap()[&0].switches, 2);
    }

    #[test]
    fn unpaired_markers_are_errors() {
        let stray = Trace::default().window(2, |cpu| cpu.ptwr().sched_op(END + 3));
        assert_eq!(
            error_of(&stray),
            "byte 48: end of window 3 on CPU 2, but it was not begun there"
        );

        let other = Trace::default().window(0, |cpu| cpu.sched_op(BEGIN + 1).sched_op(END + 2));
        assert_eq!(
            error_of(&other),
            "byte 32: end of window 2 on CPU 0, but it was not begun there"
        );

        let nested = Trace::default().window(0, |cpu| cpu.sched_op(BEGIN + 1).sched_op(BEGIN + 2));
        assert_eq!(
            error_of(&nested),
            "byte 32: begin of window 2 on CPU 0 inside window 1, begun at byte 12"
        );

        let open = Trace::default().window(1, |cpu| cpu.sched_op(BEGIN + 5).ptwr());
        assert_eq!(
            error_of(&open),
            "byte 12: window 5 begins on CPU 1 and never ends there"
        );
    }

    #[test]
    fn a_vcpu_that_moves_inside_its_window_is_an_error() {
        let trace = Trace::default()
            .window(0, |cpu| cpu.sched_op(BEGIN))
            .window(1, |cpu| cpu.sched_op(END));
        assert_eq!(
            error_of(&trace),
            "byte 44: end of window 0 on CPU 1, but it was not begun there"
        );
    }

    #[test]
    fn lost_records_inside_a_window_are_an_error_and_outside_not() {
        let inside = Trace::default().window(0, |cpu| {
            cpu.sched_op(BEGIN + 4)
                .lost(9, 0, 0)
                .ptwr()
                .sched_op(END + 4)
        });
        assert_eq!(
            error_of(&inside),
            "byte 32: 9 records lost inside window 4 on CPU 0"
        );

        let outside = Trace::default()
            .window(0, |cpu| {
                cpu.lost(9, 0, 0).sched_op(BEGIN + 4).sched_op(END + 4)
            })
            .window(1, |cpu| cpu.lost(9, 0, 0));
        assert_eq!(Windows::read(outside.bytes()).unwrap()[&4].lost, 0);
    }

    #[test]
    fn after_an_error_the_window_goes_on_and_keeps_what_was_lost() {
        let trace = Trace::default().window(0, |cpu| {
            cpu.sched_op(BEGIN + 4)
                .lost(9, 0, 0)
                .ptwr()
                .sched_op(END + 4)
        });
        let mut reader = Reader::new(trace.bytes());
        let mut windows = Windows::new();
        let mut errors = 0;
        while let Some(record) = reader.next_record().unwrap() {
            errors += u32::from(windows.observe(&record).is_err());
        }
        let four = windows.finish().unwrap()[&4];
        assert_eq!((errors, four.lost, four.pv.ptwr), (1, 9, 1));
    }
}
