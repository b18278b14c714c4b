//! Whole guests on this host, billed: restored from an image, tracked while they write, their memory given back, migrated.

#![deny(unsafe_code)]

pub mod dirty;
pub mod discard;
pub mod migrate;
pub mod restore;

pub use migrate::migrate_destination;
pub use restore::restore_clone;
