//! One QEMU: its command line, its console, its end, and what it counts.

pub(crate) mod boot;
pub(crate) mod console;
pub mod cores;
pub(crate) mod counter;
pub(crate) mod machine;
