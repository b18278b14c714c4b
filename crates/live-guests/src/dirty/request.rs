//! The order of a bill of dirty tracking on this host.

use pagetoll_bill::row::Folio;
use pagetoll_bill::spec::{Ring, Spec};
use pagetoll_bill::{Backend, Limits};

use pagetoll_live_host::LiveError;

/// Pages are those that the guest writes: 32 MiB.
const LIMITS: Limits = Limits::pages(8192, 1 << 20).runs(3, 100);
/// Pages of a huge page.
const HUGE: u64 = 512;
/// Shapes of memory that can be tracked, in the order of the rows.
const FOLIOS: [Folio; 3] = [Folio::Pages4k, Folio::Thp, Folio::Pages2m];

/// A validated order.
#[derive(Clone, Debug)]
pub struct Request {
    /// Mechanisms, runs, and the pages of the guest.
    pub(super) order: pagetoll_bill::Order,
    pub(super) folios: Vec<Folio>,
    pub(super) seed: u64,
    pub(super) ring: Ring,
}

impl Request {
    /// The order with its defaults resolved.
    ///
    /// # Errors
    /// A number is out of range, pages are no whole huge pages, or memory of a shape that is not tracked.
    pub fn new(spec: &Spec) -> Result<Self, LiveError> {
        let order = spec.order(Backend::Live, &LIMITS)?;
        let pages = order.pages.get();
        if !pages.is_multiple_of(HUGE) {
            return Err(LiveError::BadOrder(format!(
                "--pages {pages}: expected a multiple of {HUGE}, as memory of every shape is whole huge pages"
            )));
        }
        if let Some(other) = spec.folios.iter().find(|folio| !FOLIOS.contains(folio)) {
            return Err(LiveError::BadOrder(format!(
                "--folio {other}: expected 4K, THP or 2M on route dirty"
            )));
        }
        let is_ordered = |folio: &Folio| spec.folios.is_empty() || spec.folios.contains(folio);
        Ok(Self {
            order,
            folios: FOLIOS.into_iter().filter(is_ordered).collect(),
            seed: spec.seed.unwrap_or(1),
            ring: spec.demand.ring.unwrap_or(Ring::Three),
        })
    }
}
