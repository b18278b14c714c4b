//! A minimal VMM: a machine by KVM, its memory, and a guest without a kernel whose programs touch that memory.
//!
//! A [`Machine`] is a VM over a [`Backing`], the memory of one kind that its guest has. [`guest`] lays that memory out and
//! starts one of the [`Program`](guest::Program)s on a vCPU; [`arch`] is the processor's share of both. `KVM_RUN` returns
//! for an [`ExitReason`], or because a [`Kicker`] interrupts it.
//!
//! Not here: pages that are missing and what resolves their faults (`crates/pager`), bills, interrupts, devices.
//! `unsafe` is confined to the modules that hand memory to KVM, signal threads or read code as bytes.

#![deny(unsafe_code)]

pub mod arch;
mod backing;
mod dirty_log;
mod discard;
mod error;
mod exit;
pub mod guest;
mod kick;
mod kvm;
mod machine;
mod pre_fault;
mod statistics;

pub use backing::{Backing, MemoryKind, Placed, Preparation, reserve};
pub use dirty_log::{DirtyLog, DirtyRing, Extensions, Logging, is_ring_full};
pub use discard::Discard;
pub use error::Error;
pub use exit::ExitReason;
pub use kick::{Enlistment, Kicker};
pub use kvm::{DEVICE, Vm, open_kvm};
pub use machine::{Machine, Slots};
pub use pre_fault::{PRE_FAULT, pre_fault};
pub use statistics::Statistics;
