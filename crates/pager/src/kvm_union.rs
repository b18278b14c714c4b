//! The parts of `struct kvm_run` that are unions in C.

#![allow(
    unsafe_code,
    reason = "kvm_run is shared with the kernel, and has unions"
)]

use kvm_bindings::{kvm_run, kvm_run__bindgen_ty_1__bindgen_ty_27};

/// KVM's report of a fault; valid only with exit reason `KVM_EXIT_MEMORY_FAULT`.
pub(super) const fn memory_fault(run: &kvm_run) -> kvm_run__bindgen_ty_1__bindgen_ty_27 {
    // SAFETY: every member of the union is plain integers within its size, so that any bytes are a value.
    unsafe { run.__bindgen_anon_1.memory_fault }
}
