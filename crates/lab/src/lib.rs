//! Real Xen and Linux kernels in QEMU, billed in exact instruction counts.
//!
//! [`Lab`] is the way in: it obtains images, builds what runs inside, boots, and turns what the guests report into
//! a draft of a bill.

// A new route or mechanism does not compile here until it has an arm.
#![deny(clippy::wildcard_enum_match_arm)]

mod backend;
pub mod checks;
pub mod conformance;
mod dom0;
mod draft;
pub mod guest;
mod kernels;
mod kvm_host;
mod linux;
mod profile;
pub mod request;
pub mod routes;

pub use backend::Lab;
pub use kernels::Builder;
pub use pagetoll_lab_vm as vm;
pub use pagetoll_lab_vm::LabError;
pub use pagetoll_lab_vm::options::{BootOptions, Reuse};
