//! Where a bill was made, in what it is counted, and how far it can be trusted.

use serde::{Deserialize, Serialize};

use crate::names::names;

/// The version of the JSON form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Schema {
    /// Gains fields, never loses or changes one.
    #[default]
    #[serde(rename = "pagetoll.bill/1")]
    V1,
}

names! {
    /// Where a route is run.
    pub enum Backend as "backend" {
        /// Real Xen and Linux in QEMU.
        Lab,
        /// This host's KVM, userfaultfd, VFIO.
        Live,
        /// The simulator.
        Sim,
    }
}

names! {
    /// What costs are counted in.
    pub enum Unit as "unit" {
        /// Guest and hypervisor instructions.
        Instructions,
        /// Wall or CPU time, as the bill's notes say.
        Nanoseconds,
    }
}

names! {
    /// How far a figure can be trusted.
    pub enum Evidence as "evidence" {
        /// Counted; the same run gives the same figure.
        Exact,
        /// Measured, with the interval of other bills.
        Measured,
        /// Computed from a model and a cost table.
        Modelled,
    }
}

names! {
    /// The system that a row was billed on.
    pub enum System as "system" {
        /// Linux as the PV control domain of Xen.
        XenPvDom0,
        /// Linux as a PV guest of Xen without control.
        XenPvDomU = "xen-pv-domu",
        /// A 32-bit PV control domain of Xen with PAE: pagetoll's own kernel, without user space.
        XenPv32Dom0,
        /// The same kernel without a hypervisor.
        Native,
        /// A guest of KVM.
        KvmGuest,
    }
}

names! {
    /// The processor of a machine in the lab.
    pub enum Arch as "--arch" {
        /// AMD's and Intel's
        X86_64 = "x86-64",
        /// ARM's, 64 bits
        Arm64,
    }
}

impl Arch {
    /// The one of a machine's name, as `uname -m` has it.
    #[must_use]
    pub fn of_machine(machine: &str) -> Option<Self> {
        match machine {
            "x86_64" => Some(Self::X86_64),
            "aarch64" => Some(Self::Arm64),
            _ => None,
        }
    }
}

impl Default for Arch {
    /// The one that bills which do not say are of.
    fn default() -> Self {
        Self::ALL[0]
    }
}

names! {
    /// What a mechanism is to its route.
    pub enum Role as "role" {
        /// What the fix replaces.
        Before,
        /// The fix.
        After,
        /// Another way; it need not be safe.
        Alternative,
        /// The kernel's own path, whatever it does.
        Observed,
        /// A cost that other rows are itemised or compared with.
        Baseline,
    }
}

/// Whether a backend can bill a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Support {
    /// The backend bills the route here.
    Yes,
    /// It cannot, and why.
    No(String),
}
