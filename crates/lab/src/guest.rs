//! What runs inside: programs and modules of ours, their orders, and their reports.

pub(crate) mod build;
pub(crate) mod initramfs;
pub(crate) mod report;
