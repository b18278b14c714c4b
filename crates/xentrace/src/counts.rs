//! Counts of each kind of PV event.

use super::{HypercallOp, PvEvent};

/// Xen's `NR_hypercalls` (`xen/arch/x86/include/asm/config.h`): every number below it may be handled.
const OPS: usize = 64;

/// Counts of hypercalls, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpCounts {
    by_op: [u64; OPS],
    /// Numbers from 64 on: no Xen handles them, so they share one count.
    beyond: u64,
}

impl Default for OpCounts {
    fn default() -> Self {
        Self {
            by_op: [0; OPS],
            beyond: 0,
        }
    }
}

impl OpCounts {
    /// Count of `op`; all numbers from 64 on are counted together.
    #[must_use]
    pub fn get(&self, op: HypercallOp) -> u64 {
        self.by_op
            .get(op.0 as usize)
            .copied()
            .unwrap_or(self.beyond)
    }

    /// Number of all hypercalls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_op.iter().sum::<u64>() + self.beyond
    }

    /// The hypercalls that were made and how often, by number. Those from 64 on, which Xen
    /// refuses, come last as number 64.
    pub fn iter(&self) -> impl Iterator<Item = (HypercallOp, u64)> + '_ {
        let counts = self.by_op.iter().chain([&self.beyond]);
        (0..)
            .map(HypercallOp)
            .zip(counts.copied())
            .filter(|(_, count)| *count > 0)
    }

    pub(super) fn record(&mut self, op: HypercallOp) {
        match self.by_op.get_mut(op.0 as usize) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.by_op.iter_mut().zip(&other.by_op) {
            *count += more;
        }
        self.beyond += other.beyond;
    }
}

/// Counts of PV records, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PvCounts {
    /// Hypercalls by number; continuations of preempted ones are counted again.
    pub hypercalls: OpCounts,
    /// Number of these that were continuations, as far as the trace distinguishes them: see
    /// [`is_continuation`](super::Hypercall::is_continuation).
    pub continuations: u64,
    /// Hypercalls inside `multicall`s. xenalyze adds these to the former; we keep them apart.
    pub subcalls: OpCounts,
    /// Exceptions other than page faults, passed on to the guest.
    pub trap: u64,
    /// Page faults passed on to the guest.
    pub page_fault: u64,
    /// Emulations of `cpuid` with the forced-emulation prefix.
    pub forced_invalid_op: u64,
    /// Privileged instructions emulated.
    pub emulate_privop: u64,
    /// Segment wraps emulated.
    pub emulate_4gb: u64,
    /// Restorations of the FPU state.
    pub math_state_restore: u64,
    /// Page faults resolved in shadow tables.
    pub paging_fixup: u64,
    /// Faults on the guest's GDT or LDT resolved.
    pub gdt_ldt_mapping_fault: u64,
    /// Page-table writes emulated, of 64-bit and of PAE guests.
    pub ptwr: u64,
    /// Records of the PV class that this crate does not know.
    pub unknown: u64,
}

impl PvCounts {
    /// Entries into Xen by exception: every kind but hypercalls, subcalls and unknown ones.
    ///
    /// An exception leaves one of these records at most, but for an emulated privileged
    /// instruction that faults itself: what was passed on to the guest, and then `emulate_privop`
    /// (`pv_emulate_privileged_op` of `xen/arch/x86/pv/emul-priv-op.c`, Xen 4.17).
    #[must_use]
    pub const fn traps(&self) -> u64 {
        self.trap
            + self.page_fault
            + self.forced_invalid_op
            + self.emulate_privop
            + self.emulate_4gb
            + self.math_state_restore
            + self.paging_fixup
            + self.gdt_ldt_mapping_fault
            + self.ptwr
    }

    /// Adds one event to the counts of its kind.
    #[inline(always)]
    pub fn record(&mut self, event: &PvEvent<'_>) {
        match event {
            PvEvent::Hypercall(call) => {
                self.hypercalls.record(call.op);
                self.continuations += u64::from(call.is_continuation());
            }
            PvEvent::HypercallV1 { op, .. } => self.hypercalls.record(*op),
            PvEvent::Subcall(call) => self.subcalls.record(call.op),
            PvEvent::Trap { .. } => self.trap += 1,
            PvEvent::PageFault { .. } => self.page_fault += 1,
            PvEvent::ForcedInvalidOp { .. } => self.forced_invalid_op += 1,
            PvEvent::EmulatePrivop { .. } => self.emulate_privop += 1,
            PvEvent::Emulate4gb { .. } => self.emulate_4gb += 1,
            PvEvent::MathStateRestore => self.math_state_restore += 1,
            PvEvent::PagingFixup { .. } => self.paging_fixup += 1,
            PvEvent::GdtLdtMappingFault { .. } => self.gdt_ldt_mapping_fault += 1,
            PvEvent::PtwrEmulation { .. } => self.ptwr += 1,
            PvEvent::Unknown { .. } => self.unknown += 1,
        }
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.hypercalls.add(&other.hypercalls);
        self.continuations += other.continuations;
        self.subcalls.add(&other.subcalls);
        self.trap += other.trap;
        self.page_fault += other.page_fault;
        self.forced_invalid_op += other.forced_invalid_op;
        self.emulate_privop += other.emulate_privop;
        self.emulate_4gb += other.emulate_4gb;
        self.math_state_restore += other.math_state_restore;
        self.paging_fixup += other.paging_fixup;
        self.gdt_ldt_mapping_fault += other.gdt_ldt_mapping_fault;
        self.ptwr += other.ptwr;
        self.unknown += other.unknown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_are_listed_by_number_and_those_beyond_64_together() {
        let mut counts = OpCounts::default();
        for op in [29, 1, 64, 0xf_ffff, 1] {
            counts.record(HypercallOp(op));
        }
        let listed: Vec<_> = counts.iter().collect();
        let expected = [(1, 2), (29, 1), (64, 2)].map(|(op, count)| (HypercallOp(op), count));
        assert_eq!(listed, expected);
        assert_eq!(counts.total(), 5);
        assert_eq!(counts.get(HypercallOp(0xf_ffff)), 2);
    }

    #[test]
    fn adding_counts_doubles_every_field() {
        let event = PvEvent::PtwrEmulation {
            pte: 0,
            addr: 0,
            rip: 0,
        };
        let mut counts = PvCounts::default();
        counts.record(&event);
        counts.record(&PvEvent::MathStateRestore);
        counts.record(&PvEvent::HypercallV1 {
            rip: 0,
            op: HypercallOp::IRET,
        });
        let once = counts;
        counts.add(&once);
        assert_eq!((counts.ptwr, counts.math_state_restore), (2, 2));
        assert_eq!(counts.hypercalls.get(HypercallOp::IRET), 2);
        assert_eq!(counts.traps(), 4);
    }
}
