//! Hypercall numbers and their names.
//!
//! Source: the `__HYPERVISOR_*` list of `xen/include/public/xen.h` and, for number 48,
//! `arch-x86/xen-mca.h`, Xen 4.17.

use std::fmt;

/// A hypercall number: what a guest asks of Xen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HypercallOp(pub u32);

/// `__HYPERVISOR_*`, by number; empty where Xen 4.17 has none.
const NAMES: [&str; 56] = [
    "set_trap_table",
    "mmu_update",
    "set_gdt",
    "stack_switch",
    "set_callbacks",
    "fpu_taskswitch",
    "sched_op_compat",
    "platform_op",
    "set_debugreg",
    "get_debugreg",
    "update_descriptor",
    "",
    "memory_op",
    "multicall",
    "update_va_mapping",
    "set_timer_op",
    "event_channel_op_compat",
    "xen_version",
    "console_io",
    "physdev_op_compat",
    "grant_table_op",
    "vm_assist",
    "update_va_mapping_otherdomain",
    "iret",
    "vcpu_op",
    "set_segment_base",
    "mmuext_op",
    "xsm_op",
    "nmi_op",
    "sched_op",
    "callback_op",
    "xenoprof_op",
    "event_channel_op",
    "physdev_op",
    "hvm_op",
    "sysctl",
    "domctl",
    "kexec_op",
    "tmem_op",
    "argo_op",
    "xenpmu_op",
    "dm_op",
    "hypfs_op",
    "",
    "",
    "",
    "",
    "",
    "mca",
    "arch_1",
    "arch_2",
    "arch_3",
    "arch_4",
    "arch_5",
    "arch_6",
    "arch_7",
];

impl HypercallOp {
    /// Writes an array of page-table entries.
    pub const MMU_UPDATE: Self = Self(1);
    /// Sets the kernel stack for the next task.
    pub const STACK_SWITCH: Self = Self(3);
    /// Sets or clears `CR0.TS`.
    pub const FPU_TASKSWITCH: Self = Self(5);
    /// Writes one GDT or LDT entry.
    pub const UPDATE_DESCRIPTOR: Self = Self(10);
    /// Runs an array of other hypercalls.
    pub const MULTICALL: Self = Self(13);
    /// Writes the page-table entry that maps one address of the current address space.
    pub const UPDATE_VA_MAPPING: Self = Self(14);
    /// Asks for version and features.
    pub const XEN_VERSION: Self = Self(17);
    /// Maps, unmaps and copies granted pages.
    pub const GRANT_TABLE_OP: Self = Self(20);
    /// `update_va_mapping` for the address space of another domain.
    pub const UPDATE_VA_MAPPING_OTHERDOMAIN: Self = Self(22);
    /// Returns from an exception.
    pub const IRET: Self = Self(23);
    /// Controls a vcpu of the same domain.
    pub const VCPU_OP: Self = Self(24);
    /// Pins tables, switches address spaces, flushes TLBs.
    pub const MMUEXT_OP: Self = Self(26);
    /// Yields, blocks, shuts down. pagetoll's [`Marker`](super::Marker)s are of this hypercall.
    pub const SCHED_OP: Self = Self(29);
    /// Sends and binds event channels.
    pub const EVENT_CHANNEL_OP: Self = Self(32);

    /// Xen's name for it, without `__HYPERVISOR_`; `None` where Xen 4.17 has no such hypercall.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let name = NAMES.get(usize::try_from(self.0).ok()?)?;
        (!name.is_empty()).then_some(*name)
    }
}

impl fmt::Display for HypercallOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("hypercall {}", self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        let named = [
            (HypercallOp::MMU_UPDATE, "mmu_update"),
            (HypercallOp::STACK_SWITCH, "stack_switch"),
            (HypercallOp::FPU_TASKSWITCH, "fpu_taskswitch"),
            (HypercallOp::UPDATE_DESCRIPTOR, "update_descriptor"),
            (HypercallOp::MULTICALL, "multicall"),
            (HypercallOp::UPDATE_VA_MAPPING, "update_va_mapping"),
            (HypercallOp::XEN_VERSION, "xen_version"),
            (HypercallOp::GRANT_TABLE_OP, "grant_table_op"),
            (
                HypercallOp::UPDATE_VA_MAPPING_OTHERDOMAIN,
                "update_va_mapping_otherdomain",
            ),
            (HypercallOp::IRET, "iret"),
            (HypercallOp::VCPU_OP, "vcpu_op"),
            (HypercallOp::MMUEXT_OP, "mmuext_op"),
            (HypercallOp::SCHED_OP, "sched_op"),
            (HypercallOp::EVENT_CHANNEL_OP, "event_channel_op"),
            (HypercallOp(42), "hypfs_op"),
            (HypercallOp(48), "mca"),
        ];
        for (op, name) in named {
            assert_eq!(op.to_string(), name);
        }
        assert_eq!(HypercallOp(11).name(), None);
        assert_eq!(HypercallOp(11).to_string(), "hypercall 11");
        assert_eq!(HypercallOp(1 << 19).name(), None);
    }
}
