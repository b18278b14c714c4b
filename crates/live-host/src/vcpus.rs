//! The vCPUs of a run: their threads, ways into the guest, CPUs, and the content that they must find.

pub mod content;
pub mod crew;
pub mod entry;
pub mod place;
pub mod readers;
pub mod warm;
