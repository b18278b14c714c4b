//! Debian packages, as bills name them.

pub use pagetoll_bill::Package;
