//! Functions that a row executed, and events that make instructions slow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::names::names;

names! {
    /// Whose code a function is.
    pub enum Part as "part" {
        /// Xen.
        Hypervisor,
        /// The guest's kernel and its modules.
        Kernel,
        /// pagetoll's own module in that kernel.
        Probe,
        /// The program that was billed.
        UserSpace,
    }
}

/// Instructions by stack: functions from the outermost on.
pub type Stacks = BTreeMap<Vec<String>, u64>;

/// Cost of one page, itemised by executed function. Instructions are counted, not timed: no figure of it is a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Profile {
    /// Instructions that are slower than others.
    pub per_page: Events,
    /// Functions, the most expensive first; those that took less than a thousandth of the row are one for each part.
    pub functions: Vec<Function>,
    /// Calls: each function before those that it called, the most expensive first; without those that took less than a
    /// 250th of the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// Ways into the kernel, the most expensive first: each with all that it executed; absent on routes other than `count`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<Entry>,
}

/// Cost of one page below one way into the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    /// Name of the system call; `page fault`, `interrupt`, `user space`, or `(others)` of what is below none.
    pub name: String,
    /// Cost in the bill's unit.
    pub cost_per_page: f64,
}

/// Cost of one page in a function, called from the one above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Call {
    /// Its name; `(unknown)` where no symbol is known.
    pub name: String,
    /// Part of the system that it belongs to.
    pub part: Part,
    /// Number of functions that it was called through: 0 of the outermost. At most one more than that of the call before.
    pub depth: u32,
    /// Cost in the bill's unit, with all that it called.
    pub cost_per_page: f64,
}

/// Events for each page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Events {
    /// Exceptions and interrupts.
    pub exceptions: f64,
    /// System calls and hypercalls.
    pub calls: f64,
    /// Writes of CR3.
    pub cr3_writes: f64,
    /// Writes of CR4.
    pub cr4_writes: f64,
    /// INVLPG.
    pub invlpg: f64,
    /// INVPCID.
    pub invpcid: f64,
    /// Instructions that serialise, those above among them: Intel SDM 3A 8.3.
    pub serialising: f64,
    /// Instructions that lock what they access, on arm64 those that write it atomically; absent in bills that were made before
    /// this was counted. Linux replaces LOCK prefixes by DS in a kernel that runs on one CPU: these count too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<f64>,
    /// Reads and writes of memory.
    pub memory_accesses: f64,
    /// Iterations of REP instructions after the first of each. A CPU does many at a time; QEMU counts each as an instruction.
    pub rep_iterations: f64,
    /// Instructions of interrupts, which are part of the cost; absent on routes other than `count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_interrupts: Option<f64>,
}

/// Cost of one page in a function, without those that it called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Function {
    /// Its name; `(others)` of all that took little, `(unknown)` where no symbol is known.
    pub name: String,
    /// Part of the system that it belongs to.
    pub part: Part,
    /// Cost in the bill's unit.
    pub cost_per_page: f64,
    /// Iterations of REP instructions among them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rep_iterations: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Profile {
    /// Cost of one page in all functions.
    #[must_use]
    pub fn cost_per_page(&self) -> f64 {
        self.functions
            .iter()
            .map(|function| function.cost_per_page)
            .sum()
    }

    /// Cost of one page in a part of the system.
    #[must_use]
    pub fn cost_of(&self, part: Part) -> f64 {
        let of_part = |function: &&Function| function.part == part;
        let functions = self.functions.iter().filter(of_part);
        functions.map(|function| function.cost_per_page).sum()
    }
}
