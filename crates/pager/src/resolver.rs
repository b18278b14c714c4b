//! From a vCPU that came back with `EFAULT` to the missing page that it wanted: an exit on missing pages for kernels
//! that have none.
//!
//! A kernel that fills in `KVM_EXIT_MEMORY_FAULT` says which page it was. Where it does not, the page is looked for in
//! the vCPU's state, by what the processor's module has for that: on x86-64 the instruction is decoded, on arm64
//! there is nothing, and only what was reported is found.

use kvm_bindings::{KVM_EXIT_MEMORY_FAULT, kvm_run};
use vm_memory::GuestAddress;

use super::guest_pages::{GuestPages, PageState};
use super::processor::Decoding;

/// Access of a vCPU to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The guest reads or fetches.
    Read,
    /// To write it, or to read and write it.
    Write,
    /// To fetch an instruction from it.
    Execute,
}

/// Origin of the address of a missing page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// KVM reported it (`KVM_EXIT_MEMORY_FAULT`).
    Report,
    /// It holds the instruction at RIP.
    Code,
    /// The instruction at RIP uses it.
    Operand,
    /// It is a page of the guest's page tables.
    PageTable,
    /// An interrupt or exception needs it: a descriptor table, the task state, or a stack.
    Delivery,
}

/// The page of a fault that the host has to resolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingPage {
    /// An address in it.
    pub address: GuestAddress,
    /// The access that needs it.
    pub access: Access,
    /// Origin of the address.
    pub origin: Origin,
}

/// Finds missing pages. One for each thread; it keeps the decoder's buffers.
#[derive(Debug)]
pub struct ExitResolver {
    pub(super) decoding: Decoding,
}

impl ExitResolver {
    /// A resolver without state of earlier faults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            decoding: Decoding::new(),
        }
    }

    /// The page that the vCPU wanted when `KVM_RUN` failed with `EFAULT`; `None` when nothing is missing (any more).
    ///
    /// On x86-64 `run` has to hold the synced registers: `kvm_valid_regs` with `KVM_SYNC_X86_REGS |
    /// KVM_SYNC_X86_SREGS` (`KVM_CAP_SYNC_REGS`). Without that capability, use `ExitResolver::missing_page`. On arm64
    /// it is also `None` where KVM reported nothing.
    pub fn missing_page_of_run(
        &mut self,
        run: &kvm_run,
        memory: &impl GuestPages,
    ) -> Option<MissingPage> {
        // A kernel before 6.9 may leave the reason of an earlier exit behind; then that page is there by now.
        let reported =
            reported(run).filter(|page| memory.state(page.address) == PageState::Missing);
        reported.or_else(|| self.decoding.missing_page_of_run(run, memory))
    }
}

impl Default for ExitResolver {
    fn default() -> Self {
        Self::new()
    }
}

/// KVM's report of the fault.
pub(super) fn reported(run: &kvm_run) -> Option<MissingPage> {
    const WRITE: u64 = 1 << 1;
    const EXECUTE: u64 = 1 << 2;
    if run.exit_reason != KVM_EXIT_MEMORY_FAULT {
        return None;
    }
    let fault = super::kvm_union::memory_fault(run);
    // KVM_MEMORY_EXIT_FLAG_READ, _WRITE and _EXEC of the series for KVM_CAP_EXIT_ON_MISSING (v7); kernels that do not have them set none.
    let access = match fault.flags {
        flags if flags & EXECUTE != 0 => Access::Execute,
        flags if flags & WRITE != 0 => Access::Write,
        _ => Access::Read,
    };
    Some(MissingPage {
        address: GuestAddress(fault.gpa),
        access,
        origin: Origin::Report,
    })
}
