//! The vCPUs of a run: their threads, ways into the guest, CPUs, and the content that they must find.

pub(crate) mod content;
pub(crate) mod crew;
pub(crate) mod entry;
pub(crate) mod place;
pub(crate) mod readers;
pub(crate) mod warm;
