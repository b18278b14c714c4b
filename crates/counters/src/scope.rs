//! Owners of counters.

use std::collections::BTreeMap;
use std::fmt;

use pagetoll_units::budget::in_tree;

/// Owner of a counter, as far as the file says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// All VMs together that the host has at the time: when a VM ends, what it counted is no longer in it.
    Host,
    /// A VM with all its vCPUs, or what belongs to no vCPU.
    Vm {
        /// Its name where the file has one: a process, `635`; a process and a descriptor, `635-11`; libvirt's name.
        vm: Option<String>,
    },
    /// A vCPU.
    Vcpu {
        /// Its VM.
        vm: Option<String>,
        /// A number, or QEMU's path: `/machine/unattached/device[0]`.
        vcpu: String,
    },
}

impl Scope {
    /// Memory of a key of a map of scopes to maps, and of its text.
    pub(super) fn memory(&self) -> usize {
        let text = match self {
            Self::Host => 0,
            Self::Vm { vm } => vm.as_deref().map_or(0, str::len),
            Self::Vcpu { vm, vcpu } => vm.as_deref().map_or(0, str::len) + vcpu.len(),
        };
        text + in_tree::<Self, BTreeMap<(), ()>>()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("all VMs"),
            Self::Vm { vm: Some(vm) } => write!(f, "VM {vm}"),
            Self::Vm { vm: None } => f.write_str("the VM"),
            Self::Vcpu { vm: Some(vm), vcpu } => write!(f, "VM {vm}, vCPU {vcpu}"),
            Self::Vcpu { vm: None, vcpu } => write!(f, "vCPU {vcpu}"),
        }
    }
}
