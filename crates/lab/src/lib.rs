//! Real Xen and Linux kernels in QEMU, billed in exact instruction counts.
//!
//! [`bill`] is the way in: it obtains images, builds what runs inside, boots, and turns what the guests report into
//! a bill. Everything below it can be read on its own: each module says what it does and what it does not do.

pub mod apt;
mod bill;
mod boot;
mod bzimage;
pub mod cache;
pub mod checks;
mod clock;
mod collect;
pub mod conformance;
mod console;
pub mod cores;
mod counter;
pub mod deb;
pub mod demand;
pub mod digest;
mod dom0;
pub mod error;
mod fault;
mod findings;
mod flush;
mod guest;
pub mod headers;
pub mod host;
mod initramfs;
mod irq;
pub mod kernel;
mod machine;
pub mod make;
mod materials;
mod modules;
pub mod pin;
mod plan;
pub mod process;
pub mod progress;
mod pv32;
mod repeated;
mod report;
pub mod request;
mod rows;
pub mod stop;
mod switch;
pub mod tools;
mod travel;
mod unmap;
pub mod vmlinux;
pub mod xen;

pub use bill::bill;
pub use error::LabError;
pub use request::{Billed, DEFAULT_PAGES, LIMITS, Request, Surroundings};
pub use stop::Stop;
pub use travel::ROUTES;

/// Says that a test proves nothing here. Goes around the capture of test output: what was not tried must be seen.
#[cfg(test)]
fn skipped(reason: &dyn std::fmt::Display) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _unseen = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}
