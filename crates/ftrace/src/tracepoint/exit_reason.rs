//! One spelling for each reason of `kvm_exit`: that of the kernel's own tables (`VMX_EXIT_REASONS` and `SVM_EXIT_REASONS` of
//! `arch/x86/include/uapi/asm`, Linux 6.18).
//!
//! libtraceevent's plugin, which perf and trace-cmd print by, has a table of its own (`plugin_kvm.c`, 1.8): SVM's reasons
//! begin with `EXIT_`, some names differ, and what is newer than the table is `UNKNOWN (NUMBER)`.

use std::borrow::Cow;

use pagetoll_xentrace::exit_names;

/// VMX's names that changed; those in small letters are of 2.6.3x (`vmx_exit_reasons_str` of `arch/x86/kvm/vmx.c`). Left out are those that
/// SVM has too: `cpuid`, `invlpg`, `hypercall`, `wbinvd`, `task_switch`.
const RENAMED: [(&str, &str); 15] = [
    ("PENDING_INTERRUPT", "INTERRUPT_WINDOW"),
    ("exception", "EXCEPTION_NMI"),
    ("ext_irq", "EXTERNAL_INTERRUPT"),
    ("triple_fault", "TRIPLE_FAULT"),
    ("nmi_window", "NMI_WINDOW"),
    ("io_instruction", "IO_INSTRUCTION"),
    ("cr_access", "CR_ACCESS"),
    ("dr_access", "DR_ACCESS"),
    ("rdmsr", "MSR_READ"),
    ("wrmsr", "MSR_WRITE"),
    ("interrupt_window", "INTERRUPT_WINDOW"),
    ("halt", "HLT"),
    ("tpr_below_thres", "TPR_BELOW_THRESHOLD"),
    ("apic_access", "APIC_ACCESS"),
    ("ept_violation", "EPT_VIOLATION"),
];

/// SVM's names in the plugin, without `EXIT_`, that are not the kernel's in capitals.
const PLUGIN: [(&str, &str); 13] = [
    ("EXCP_BASE", "DE excp"),
    ("INTR", "interrupt"),
    ("IDTR_READ", "read_idtr"),
    ("GDTR_READ", "read_gdtr"),
    ("LDTR_READ", "read_ldtr"),
    ("TR_READ", "read_rt"),
    ("IDTR_WRITE", "write_idtr"),
    ("GDTR_WRITE", "write_gdtr"),
    ("LDTR_WRITE", "write_ldtr"),
    ("TR_WRITE", "write_rt"),
    ("IOIO", "io"),
    ("VMMCALL", "hypercall"),
    ("ERR", "invalid_guest_state"),
];

/// Numbers that the plugin does not know. Left out are those that VMX and SVM use for different reasons, 0x41 to 0x5f:
/// the text does not say which it is.
const UNKNOWN_TO_PLUGIN: [u32; 26] = [
    3,
    33,
    34,
    37,
    46,
    47,
    51,
    53,
    57,
    59,
    60,
    61,
    0x8d,
    0x8f,
    0x90,
    0x94,
    0x98,
    0xa2,
    0xa5,
    0xa6,
    0x401,
    0x402,
    0x403,
    0x8000_0001,
    0x8000_0002,
    0xffff_ffff,
];

/// The kernel's spelling of a reason that a text has.
pub(super) fn normal(printed: &str) -> Cow<'_, str> {
    let printed = printed.trim();
    let printed = printed.strip_suffix(" FAILED_VMENTRY").unwrap_or(printed);
    if let Some(number) = printed.strip_prefix("UNKNOWN (") {
        return unknown(number.trim_end_matches(')'));
    }
    if let Some(name) = printed.strip_prefix("EXIT_") {
        let name = listed(&PLUGIN, name).map_or_else(|| name.to_lowercase().into(), Cow::Borrowed);
        return name;
    }
    Cow::Borrowed(listed(&RENAMED, printed).unwrap_or(printed))
}

/// Cause of an exit on RISC-V, as its specification numbers it.
pub(super) fn of_riscv(scause: u64) -> String {
    format!("SCAUSE {scause:#x}")
}

/// Reason of an exit on LoongArch: a name, or the code of an exception.
pub(super) fn of_loongarch(printed: &str) -> Cow<'_, str> {
    match printed.starts_with("0x") {
        true => format!("exception code {printed}").into(),
        false => printed.into(),
    }
}

/// Name of a number of `exit_reason`. The upper half of VMX's is flags.
pub(super) fn of_number(value: u64, is_vmx: bool) -> Cow<'static, str> {
    let low = if is_vmx { value & 0xffff } else { value };
    let name = u32::try_from(low).ok().and_then(|low| match is_vmx {
        true => exit_names::vmx(low).map(Cow::Borrowed),
        false => exit_names::svm(low),
    });
    name.unwrap_or_else(|| number(value).into())
}

/// A reason that no table has.
pub(super) fn number(number: u64) -> String {
    format!("{number:#x}")
}

/// Name of a number that trace-cmd's plugin prints, by the first of two processors' tables that has it.
fn unknown(printed: &str) -> Cow<'static, str> {
    let Ok(value) = printed.parse() else {
        return Cow::Owned(printed.to_owned());
    };
    let known = UNKNOWN_TO_PLUGIN
        .into_iter()
        .find(|known| u64::from(*known) == value);
    let name = known.and_then(|known| {
        let of_vmx = exit_names::vmx(known).map(Cow::Borrowed);
        of_vmx.or_else(|| exit_names::svm(known))
    });
    name.unwrap_or_else(|| number(value).into())
}

fn listed(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let (_, normal) = table.iter().find(|(other, _)| *other == name)?;
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plugin_does_not_know_has_a_name() {
        for (number, name) in [
            (3_u64, "INIT_SIGNAL"),
            (33_u64, "INVALID_STATE"),
            (34_u64, "MSR_LOAD_FAIL"),
            (37_u64, "MONITOR_TRAP_FLAG"),
            (46_u64, "GDTR_IDTR"),
            (47_u64, "LDTR_TR"),
            (51_u64, "RDTSCP"),
            (53_u64, "INVVPID"),
            (57_u64, "RDRAND"),
            (59_u64, "VMFUNC"),
            (60_u64, "ENCLS"),
            (61_u64, "RDSEED"),
            (0x8d_u64, "xsetbv"),
            (0x8f_u64, "write_efer_trap"),
            (0x90_u64, "write_cr0_trap"),
            (0x94_u64, "write_cr4_trap"),
            (0x98_u64, "write_cr8_trap"),
            (0xa2_u64, "invpcid"),
            (0xa5_u64, "buslock"),
            (0xa6_u64, "idle-halt"),
            (0x401_u64, "avic_incomplete_ipi"),
            (0x402_u64, "avic_unaccelerated_access"),
            (0x403_u64, "vmgexit"),
            (0x8000_0001_u64, "vmgexit_mmio_read"),
            (0x8000_0002_u64, "vmgexit_mmio_write"),
            (0xffff_ffff_u64, "invalid_guest_state"),
        ] {
            assert_eq!(normal(&format!("UNKNOWN ({number})")), name);
        }
    }

    #[test]
    fn the_plugins_spelling_becomes_the_kernels() {
        for (printed, expected) in [
            ("EPT_VIOLATION", "EPT_VIOLATION"),
            ("EPT_VIOLATION FAILED_VMENTRY", "EPT_VIOLATION"),
            ("PENDING_INTERRUPT", "INTERRUPT_WINDOW"),
            ("EXIT_NPF", "npf"),
            ("npf", "npf"),
            ("EXIT_IOIO", "io"),
            ("EXIT_VMMCALL", "hypercall"),
            ("EXIT_CR0_SEL_WRITE", "cr0_sel_write"),
            ("PF excp", "PF excp"),
            ("apic_access", "APIC_ACCESS"),
            ("wrmsr", "MSR_WRITE"),
            ("hypercall", "hypercall"),
            ("UNKNOWN (141)", "xsetbv"),
            ("UNKNOWN (75)", "0x4b"),
            ("UNKNOWN (x)", "x"),
            ("0x4b", "0x4b"),
        ] {
            assert_eq!(normal(printed), expected, "{printed}");
        }
    }
}
