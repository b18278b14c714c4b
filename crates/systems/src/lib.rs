//! Simulated systems that hold real tables and counts, and refuse what the real ones refuse.
//!
//! [`x86`] is the processor's share: page-table entries, walks, TLBs. [`xen`] is what Xen 4.17 does with the tables of
//! its PV guests, [`linux`] what such a guest's kernel does; [`vfio`] pins memory for DMA as Linux does. They have no clock and no cost: each entry point says what
//! was crossed and done ([`xen::Tolls`]), and whoever bills attaches costs to that. Only what vCPUs wait for each other
//! needs virtual time, which `pagetoll-engine` gives: [`xen::flush_area`].

#![forbid(unsafe_code)]

pub mod billing;
pub mod conformance;
mod error;
pub mod linux;
pub mod search;
pub mod timeline;
pub mod vfio;
mod words;
pub mod x86;
pub mod xen;

pub use error::Error;
