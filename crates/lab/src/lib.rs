//! Real Xen and Linux kernels in QEMU, billed in exact instruction counts.
//!
//! This half of the crate runs child processes and obtains the kernel and Xen images;
//! it neither builds guests nor reads their consoles.

pub mod apt;
mod boot;
mod bzimage;
pub mod cache;
pub mod conformance;
mod console;
mod cores;
pub mod deb;
mod digest;
mod dom0;
pub mod error;
mod guest;
pub mod headers;
pub mod host;
mod initramfs;
pub mod kernel;
mod machine;
pub mod package;
pub mod process;
pub mod progress;
mod report;
pub mod stop;
pub mod tools;
pub mod unmap;
pub mod vmlinux;
pub mod xen;

pub use error::LabError;
pub use stop::Stop;
