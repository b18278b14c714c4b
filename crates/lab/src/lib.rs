//! Real Xen and Linux kernels in QEMU, billed in exact instruction counts.
//!
//! [`bill`] is the way in: it obtains images, builds what runs inside, boots, and turns what the guests report into
//! a bill.

mod bill;
pub mod checks;
mod clock;
pub mod conformance;
mod dom0;
pub mod error;
mod guest;
pub mod request;
pub mod routes;
pub mod vm;

pub use bill::bill;
pub use error::LabError;
pub use request::{Billed, DEFAULT_PAGES, LIMITS, Request};
pub use routes::ROUTES;

/// Reports a skipped test on the real stderr, past the capture of test output, where CI counts it.
#[cfg(test)]
fn skipped(reason: &dyn std::fmt::Display) {
    use std::io::Write;
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _unseen = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}
