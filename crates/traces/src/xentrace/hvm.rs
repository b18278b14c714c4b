//! The exits of HVM guests: why the processor left one, and when it went back.
//!
//! Names are those of Linux's tables, as in what perf and ftrace print of KVM (`VMX_EXIT_REASONS`, `SVM_EXIT_REASONS` of
//! `arch/x86/include/uapi/asm`, Linux 6.18), so that rows of both read alike.
//!
//! Sources: the `TRC_HVM_ENTRYEXIT` list of `xen/include/public/trace.h`; the payloads, `hvm_vmexit_process` of
//! `tools/xentrace/xenalyze.c`; Xen 4.17.

use std::borrow::Cow;

use super::record::join;
use super::{EventId, Record, XentraceError};

/// Why a guest was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitReason {
    /// Intel's, by number.
    Vmx(u32),
    /// AMD's, by number.
    Svm(u32),
}

/// A record of an HVM guest's way out or in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HvmEvent {
    /// The guest was left.
    Exit {
        /// Why.
        reason: ExitReason,
        /// Where it was.
        rip: u64,
    },
    /// It was entered again.
    Entry,
}

impl HvmEvent {
    /// Decodes a record, or `None` when it is neither.
    ///
    /// # Errors
    ///
    /// [`XentraceError::ShortPayload`].
    pub fn decode(record: &Record<'_>) -> Result<Option<Self>, XentraceError> {
        let reason = match record.event.0 & !EventId::FLAG_64 {
            0x8_1001 => return Ok(Some(Self::Entry)),
            0x8_1002 => ExitReason::Vmx,
            0x8_1003 => ExitReason::Svm,
            _ => return Ok(None),
        };
        let (number, rip) = match record.event.0 & EventId::FLAG_64 {
            0 => {
                let [number, rip] = record.payload()?;
                (number, rip.into())
            }
            _ => {
                let [number, rip, rip_hi] = record.payload()?;
                (number, join(rip, rip_hi))
            }
        };
        let reason = reason(number);
        Ok(Some(Self::Exit { reason, rip }))
    }
}

impl ExitReason {
    /// Its name, or its number where it has none.
    #[must_use]
    pub fn name(self) -> Cow<'static, str> {
        let (number, named) = match self {
            Self::Vmx(number) => (number, named(&VMX, number).map(Cow::Borrowed)),
            Self::Svm(number) => (number, svm(number)),
        };
        named.unwrap_or_else(|| format!("exit reason {number:#x}").into())
    }
}

fn named(names: &[(u32, &'static str)], number: u32) -> Option<&'static str> {
    let mut names = names.iter();
    names.find(|(one, _)| *one == number).map(|(_, name)| *name)
}

/// The first 0x60 are registers and exceptions, by their own number.
fn svm(number: u32) -> Option<Cow<'static, str>> {
    let which = number & 0xf;
    Some(match number {
        0x00..=0x0f => format!("read_cr{which}").into(),
        0x10..=0x1f => format!("write_cr{which}").into(),
        0x20..=0x2f => format!("read_dr{which}").into(),
        0x30..=0x3f => format!("write_dr{which}").into(),
        0x40..=0x5f => format!("exception {}", number - 0x40).into(),
        _ => named(&SVM, number)?.into(),
    })
}

const VMX: [(u32, &str); 65] = [
    (0, "EXCEPTION_NMI"),
    (1, "EXTERNAL_INTERRUPT"),
    (2, "TRIPLE_FAULT"),
    (3, "INIT_SIGNAL"),
    (4, "SIPI_SIGNAL"),
    (7, "INTERRUPT_WINDOW"),
    (8, "NMI_WINDOW"),
    (9, "TASK_SWITCH"),
    (10, "CPUID"),
    (12, "HLT"),
    (13, "INVD"),
    (14, "INVLPG"),
    (15, "RDPMC"),
    (16, "RDTSC"),
    (18, "VMCALL"),
    (19, "VMCLEAR"),
    (20, "VMLAUNCH"),
    (21, "VMPTRLD"),
    (22, "VMPTRST"),
    (23, "VMREAD"),
    (24, "VMRESUME"),
    (25, "VMWRITE"),
    (26, "VMOFF"),
    (27, "VMON"),
    (28, "CR_ACCESS"),
    (29, "DR_ACCESS"),
    (30, "IO_INSTRUCTION"),
    (31, "MSR_READ"),
    (32, "MSR_WRITE"),
    (33, "INVALID_STATE"),
    (34, "MSR_LOAD_FAIL"),
    (36, "MWAIT_INSTRUCTION"),
    (37, "MONITOR_TRAP_FLAG"),
    (39, "MONITOR_INSTRUCTION"),
    (40, "PAUSE_INSTRUCTION"),
    (41, "MCE_DURING_VMENTRY"),
    (43, "TPR_BELOW_THRESHOLD"),
    (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"),
    (46, "GDTR_IDTR"),
    (47, "LDTR_TR"),
    (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"),
    (50, "INVEPT"),
    (51, "RDTSCP"),
    (52, "PREEMPTION_TIMER"),
    (53, "INVVPID"),
    (54, "WBINVD"),
    (55, "XSETBV"),
    (56, "APIC_WRITE"),
    (57, "RDRAND"),
    (58, "INVPCID"),
    (59, "VMFUNC"),
    (60, "ENCLS"),
    (61, "RDSEED"),
    (62, "PML_FULL"),
    (63, "XSAVES"),
    (64, "XRSTORS"),
    (67, "UMWAIT"),
    (68, "TPAUSE"),
    (74, "BUS_LOCK"),
    (75, "NOTIFY"),
    (76, "SEAMCALL"),
    (77, "TDCALL"),
    (84, "MSR_READ_IMM"),
];

const SVM: [(u32, &str); 49] = [
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x62, "smi"),
    (0x63, "init"),
    (0x64, "vintr"),
    (0x65, "cr0_sel_write"),
    (0x66, "read_idtr"),
    (0x67, "read_gdtr"),
    (0x68, "read_ldtr"),
    (0x69, "read_rt"),
    (0x6a, "write_idtr"),
    (0x6b, "write_gdtr"),
    (0x6c, "write_ldtr"),
    (0x6d, "write_rt"),
    (0x6e, "rdtsc"),
    (0x6f, "rdpmc"),
    (0x70, "pushf"),
    (0x71, "popf"),
    (0x72, "cpuid"),
    (0x73, "rsm"),
    (0x74, "iret"),
    (0x75, "swint"),
    (0x76, "invd"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x79, "invlpg"),
    (0x7a, "invlpga"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x7d, "task_switch"),
    (0x7e, "ferr_freeze"),
    (0x7f, "shutdown"),
    (0x80, "vmrun"),
    (0x81, "hypercall"),
    (0x82, "vmload"),
    (0x83, "vmsave"),
    (0x84, "stgi"),
    (0x85, "clgi"),
    (0x86, "skinit"),
    (0x87, "rdtscp"),
    (0x88, "icebp"),
    (0x89, "wbinvd"),
    (0x8a, "monitor"),
    (0x8b, "mwait"),
    (0x8d, "xsetbv"),
    (0x8f, "write_efer_trap"),
    (0xa2, "invpcid"),
    (0xa5, "buslock"),
    (0x400, "npf"),
];

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::super::synthetic::Trace;
    use super::*;

    fn decoded(event: u32, words: &[u32]) -> Option<HvmEvent> {
        let trace = Trace::default().window(0, |cpu| cpu.record(event, words));
        let mut reader = Reader::new(trace.bytes());
        HvmEvent::decode(&reader.next_record().unwrap().unwrap()).unwrap()
    }

    #[test]
    fn exits_of_both_processors_and_widths_are_decoded() {
        let exit = |reason, rip| Some(HvmEvent::Exit { reason, rip });
        assert_eq!(decoded(0x8_1002, &[48, 5]), exit(ExitReason::Vmx(48), 5));
        let wide = exit(ExitReason::Svm(0x400), 0x1_0000_0005);
        assert_eq!(decoded(0x8_1103, &[0x400, 5, 1]), wide);
        assert_eq!(decoded(0x8_1001, &[]), Some(HvmEvent::Entry));
        assert_eq!(decoded(0x8_2001, &[]), None);
    }

    #[test]
    fn reasons_are_named_as_linux_names_them() {
        let names = [
            (ExitReason::Vmx(48), "EPT_VIOLATION"),
            (ExitReason::Vmx(5), "exit reason 0x5"),
            (ExitReason::Svm(0x14), "write_cr4"),
            (ExitReason::Svm(0x4e), "exception 14"),
            (ExitReason::Svm(0x400), "npf"),
            (ExitReason::Svm(0x999), "exit reason 0x999"),
        ];
        for (reason, name) in names {
            assert_eq!(reason.name(), name);
        }
        assert!(VMX.is_sorted() && SVM.is_sorted());
    }
}
