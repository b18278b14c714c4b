//! Functional models of x86, Xen and the kernel of its PV guests: they hold real tables and counts, and refuse what the
//! real systems refuse. No clock and no cost.
//!
//! [`x86`] is the processor's share: page-table entries, walks, TLBs. [`xen`] is what Xen 4.17 does with the tables of
//! its PV guests, [`linux`] what such a guest's kernel does. Each entry point counts what was crossed and done
//! ([`xen::Tolls`]); `pagetoll-sim` attaches costs to the counts. A Linux host is in `pagetoll-host-models`.

#![forbid(unsafe_code)]

pub mod conformance;
mod error;
pub mod linux;
mod words;
pub mod x86;
pub mod xen;

pub use error::Error;
