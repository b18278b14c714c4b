//! What is to be billed, on what, and where the work happens.

use std::path::PathBuf;
use std::time::Duration;

use pagetoll_bill::{Bill, Limits, Order, Route};
use pagetoll_units::Pages;

use crate::dom0::materials::Sources;
use crate::vm::machine::{Firmware, Machine, Mode, XenOptions};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::XenSource;

/// What the lab can take: 1 GiB of pages (a bill of some minutes), the entries of one table, and more runs than anybody
/// waits for.
pub const LIMITS: Limits = Limits {
    pages: Pages(1 << 18),
    batch: 512,
    runs: 100,
};

/// Pages, or repetitions, of an order that does not say: 64 MiB, enough for 32 page tables.
pub const DEFAULT_PAGES: Pages = Pages(16_384);

/// How long a guest with that many pages may report nothing: a minute for what does not depend on them, and half a
/// millisecond for each, four times what the dearest step takes on a busy machine.
#[must_use]
pub fn silence(pages: Pages) -> Duration {
    Duration::from_secs(60) + Duration::from_micros(500 * pages.get())
}

/// What is to be billed, and on what.
#[derive(Clone, Debug)]
pub struct Request {
    /// The route.
    pub route: Route,
    /// Pages, batches, mechanisms, runs.
    pub order: Order,
    /// The kernel, under Xen and without it.
    pub kernel: KernelSource,
    /// The hypervisor.
    pub xen: XenSource,
    /// Whether package look-ups that were made before will do.
    pub freshness: Freshness,
    /// Where consoles and traces are kept; `None` keeps them only when something fails.
    pub keep_logs: Option<PathBuf>,
    /// A guest that reports nothing for so long is given up.
    pub silence: Duration,
    /// The command line, for the bill's provenance.
    pub command: String,
}

impl Request {
    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources {
            kernel: &self.kernel,
            xen: &self.xen,
            freshness: self.freshness,
        }
    }
}

/// A bill, and where the time went.
#[derive(Debug)]
pub struct Billed {
    /// The bill; whoever saves it knows the time and sets `provenance.when`.
    pub bill: Bill,
    /// Wall time of each phase, in the order in which they ended; boots overlap.
    pub timings: Vec<(String, Duration)>,
}

/// Memory that the default order's guests take when two run side by side, in MiB.
#[must_use]
pub fn default_memory_mib() -> u64 {
    let pages_mib = pages_mib(DEFAULT_PAGES);
    let of = |firmware| {
        Machine {
            mode: Mode::Counting,
            firmware,
            pages_mib,
            xen: XenOptions::Default,
        }
        .memory_mib()
    };
    of(Firmware::Xen) + of(Firmware::Linux)
}

/// Guest memory for the pages, and a sixteenth more for page tables and the kernel's own accounts of them.
pub(crate) fn pages_mib(pages: Pages) -> u64 {
    let mib = pages.get() / 256;
    mib + mib / 16
}
