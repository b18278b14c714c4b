//! Real Xen and Linux kernels in QEMU, billed in exact instruction counts.
//!
//! [`Lab`] is the way in: it obtains images, builds what runs inside, boots, and turns what the guests report into
//! a draft of a bill.

mod backend;
mod bill;
pub mod checks;
mod clock;
mod conduct;
pub mod conformance;
mod dom0;
pub mod error;
mod files;
mod guest;
mod hypervisor;
pub mod inside;
mod kernels;
mod native;
mod profile;
pub mod request;
pub mod routes;
pub mod vm;

pub use backend::Lab;
pub use conduct::{Conduct, Counts, Start};
pub use error::LabError;
pub use guest::Guest;
pub use kernels::Builder;
