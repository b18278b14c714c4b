//! Reasons of `kvm_userspace_exit` that the tracepoint's own table (`kvm_trace_exit_reason` of `include/trace/events/kvm.h`,
//! Linux 6.18) lacks: both forms have their numbers.
//!
//! Source: `include/uapi/linux/kvm.h`, Linux 6.18.

/// Numbers from this one on.
const FIRST: u32 = 31;

const REASONS: [&str; 10] = [
    "KVM_EXIT_DIRTY_RING_FULL",
    "KVM_EXIT_AP_RESET_HOLD",
    "KVM_EXIT_X86_BUS_LOCK",
    "KVM_EXIT_XEN",
    "KVM_EXIT_RISCV_SBI",
    "KVM_EXIT_RISCV_CSR",
    "KVM_EXIT_NOTIFY",
    "KVM_EXIT_LOONGARCH_IOCSR",
    "KVM_EXIT_MEMORY_FAULT",
    "KVM_EXIT_TDX",
];

/// The name of a reason that is printed as its number, `0x27`; any other text stays.
pub(super) fn normal(printed: &str) -> &str {
    let digits = printed.strip_prefix("0x");
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let index = number.and_then(|number| usize::try_from(number.checked_sub(FIRST)?).ok());
    index
        .and_then(|index| REASONS.get(index))
        .unwrap_or(&printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_names_and_names_stay() {
        for (printed, expected) in [
            ("0x1f", "KVM_EXIT_DIRTY_RING_FULL"),
            ("0x27", "KVM_EXIT_MEMORY_FAULT"),
            ("0x28", "KVM_EXIT_TDX"),
            ("0x29", "0x29"),
            ("0x1", "0x1"),
            ("KVM_EXIT_IO", "KVM_EXIT_IO"),
            ("restart", "restart"),
        ] {
            assert_eq!(normal(printed), expected);
        }
    }
}
