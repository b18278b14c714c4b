//! Entries of a vcpu into Xen, by instruction and by page table.

use super::{Hypercall, HypercallOp, PvCounts, PvEvent, Tally};

/// Bits of an address within a page table.
const IN_TABLE: u64 = 0xfff;

/// Counts of a vcpu's PV events, with the instructions of its traps.
pub trait Keep: Clone + Default {
    /// Takes in one event.
    fn record(&mut self, event: &PvEvent<'_>);
    /// Adds what another one took in.
    fn add(&mut self, other: &Self);
}

impl Keep for PvCounts {
    fn record(&mut self, event: &PvEvent<'_>) {
        PvCounts::record(self, event);
    }

    fn add(&mut self, other: &Self) {
        PvCounts::add(self, other);
    }
}

/// A kind of trap whose instruction is in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrapKind {
    /// A write to a read-only page table, emulated.
    Ptwr,
    /// A page fault that was passed on to the guest.
    PageFault,
    /// An emulated privileged instruction.
    Privop,
    /// Any other exception.
    Other,
}

impl TrapKind {
    /// Every kind, in order.
    pub const ALL: [Self; 4] = [Self::Ptwr, Self::PageFault, Self::Privop, Self::Other];

    /// xenalyze's name of it, where it has one.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ptwr => "ptwr",
            Self::PageFault => "page_fault",
            Self::Privop => "emulate_privop",
            Self::Other => "other traps",
        }
    }
}

/// Counts, and where the traps came from.
#[derive(Clone, Debug, Default)]
pub struct PvDetail {
    /// Each kind of event.
    pub counts: PvCounts,
    /// Page-table entries that the guest had Xen change: by writing to them, one at a time, by `update_va_mapping`, and
    /// by `mmu_update`, whose requests count once though Xen may be interrupted in them. A request need not be about an
    /// entry (`MMU_MACHPHYS_UPDATE`); a trace does not say what it is.
    pub entries: u64,
    /// Instructions by kind of trap, as [`TrapKind::ALL`].
    instructions: [Tally; TrapKind::ALL.len()],
    /// Addresses of the page tables that were written to.
    pub tables: Tally,
}

impl PvDetail {
    /// The instructions that trapped so.
    #[must_use]
    pub const fn instructions(&self, kind: TrapKind) -> &Tally {
        &self.instructions[kind as usize]
    }

    fn trap(&mut self, kind: TrapKind, rip: u64) {
        self.instructions[kind as usize].record(rip);
    }
}

impl Keep for PvDetail {
    #[inline(always)]
    fn record(&mut self, event: &PvEvent<'_>) {
        self.counts.record(event);
        match *event {
            PvEvent::Hypercall(call) | PvEvent::Subcall(call) => {
                self.entries = self.entries.saturating_add(entries(&call));
            }
            PvEvent::PtwrEmulation { rip, addr, .. } => {
                self.entries += 1;
                self.trap(TrapKind::Ptwr, rip);
                self.tables.record(addr & !IN_TABLE);
            }
            PvEvent::PageFault { rip, .. } => self.trap(TrapKind::PageFault, rip),
            PvEvent::EmulatePrivop { rip } => self.trap(TrapKind::Privop, rip),
            PvEvent::Trap { rip, .. }
            | PvEvent::ForcedInvalidOp { rip }
            | PvEvent::Emulate4gb { rip }
            | PvEvent::PagingFixup { rip, .. }
            | PvEvent::GdtLdtMappingFault { rip, .. } => self.trap(TrapKind::Other, rip),
            PvEvent::HypercallV1 { .. } | PvEvent::MathStateRestore | PvEvent::Unknown { .. } => {}
        }
    }

    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.entries = self.entries.saturating_add(other.entries);
        self.tables.add(&other.tables);
        for (mine, theirs) in self.instructions.iter_mut().zip(&other.instructions) {
            mine.add(theirs);
        }
    }
}

/// Number of page-table entries that a hypercall changes.
#[inline]
fn entries(call: &Hypercall<'_>) -> u64 {
    match call.op {
        HypercallOp::MMU_UPDATE if !call.is_continuation() => call.count().unwrap_or(0),
        HypercallOp::UPDATE_VA_MAPPING | HypercallOp::UPDATE_VA_MAPPING_OTHERDOMAIN => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Summary;
    use super::super::synthetic::Trace;
    use super::*;

    /// A 32-bit count follows as argument 1.
    const MMU_UPDATE_WITH_COUNT: u32 = 1 | 1 << 22;

    fn detail(trace: &Trace) -> PvDetail {
        Summary::<PvDetail>::read(trace.bytes()).unwrap().total()
    }

    #[test]
    fn traps_are_kept_by_instruction_and_table() {
        let trace = Trace::default().window(0, |cpu| {
            let ptwr = |addr: u32| [1, 0, addr, 0xffff_8880, 0x8100_0040, 0xffff_ffff];
            cpu.record(0x20_110b, &ptwr(0x1008))
                .record(0x20_110b, &ptwr(0x1010))
                .record(0x20_110b, &ptwr(0x2000))
                .page_fault()
        });
        let detail = detail(&trace);
        let ptwr = detail.instructions(TrapKind::Ptwr).sorted();
        assert_eq!(ptwr, [(0xffff_ffff_8100_0040, 3)].into());
        assert_eq!(detail.instructions(TrapKind::PageFault).distinct(), 1);
        let tables = detail.tables.sorted();
        assert_eq!(
            tables,
            [(0xffff_8880_0000_1000, 2), (0xffff_8880_0000_2000, 1)].into()
        );
        assert_eq!((detail.entries, detail.counts.ptwr), (3, 3));
    }

    #[test]
    fn every_way_of_changing_an_entry_is_one_and_a_continuation_none() {
        let trace = Trace::default().window(0, |cpu| {
            cpu.ptwr()
                .record(0x20_100d, &[MMU_UPDATE_WITH_COUNT, 32])
                .record(0x20_100d, &[MMU_UPDATE_WITH_COUNT, 20 | 0x8000_0000])
                .record(0x20_200e, &[MMU_UPDATE_WITH_COUNT, 4])
                .subcall(14)
                .hypercall(14)
                .hypercall(17)
        });
        assert_eq!(detail(&trace).entries, 1 + 32 + 4 + 1 + 1);
    }
}
