//! Plan of a migration: what is sent when, and to which kind of destination. Pure.

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::Migrate;
use pagetoll_bill::route::live::Dirty;

use super::messages::{DestinationOrder, Missing};
use super::pace::nanos_per_page;
use super::request::Request;
use super::workload::Workload;
use pagetoll_live_host::vcpus::content::Content;

/// Rounds of precopy after which the guest is stopped, whatever is left.
pub(super) const MOST_ROUNDS: u32 = 30;
/// Pages that are fetched one by one where the guest writes nothing.
const SINGLES: u64 = 128;
/// Tracker of the one round of a hybrid.
const OF_HYBRIDS: Dirty = Dirty::ManualProtect;

/// A migration that is about to be.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) order: DestinationOrder,
    pub(super) content: Content,
    /// Tracker of the pages that are written meanwhile; `None` where the guest is stopped at once.
    pub(super) tracker: Option<Dirty>,
    pub(super) most_rounds: u32,
    /// Pages that may be left when the guest is stopped.
    pub(super) limit: u64,
    /// MiB a second.
    pub(super) bandwidth: u32,
    /// A page of which one word is sent with one bit changed: a negative control.
    pub(super) changed: Option<u64>,
}

/// Tracker of a mechanism, and the delivery of the pages that are missing in the end.
pub(super) const fn parts(mechanism: Migrate) -> (Option<Dirty>, Option<Missing>) {
    match mechanism {
        Migrate::StopCopy => (None, None),
        Migrate::PrecopyBitmap => (Some(Dirty::Bitmap), None),
        Migrate::PrecopyManualProtect => (Some(Dirty::ManualProtect), None),
        Migrate::PrecopyInitiallySet => (Some(Dirty::InitiallySet), None),
        Migrate::PrecopyRing => (Some(Dirty::Ring), None),
        Migrate::PrecopyUffdWp => (Some(Dirty::UffdWp), None),
        Migrate::PrecopyWpAsync => (Some(Dirty::WpAsync), None),
        Migrate::PostcopyUffd => (None, Some(Missing::Uffd)),
        Migrate::PostcopyExit => (None, Some(Missing::Exit)),
        Migrate::HybridUffd => (Some(OF_HYBRIDS), Some(Missing::Uffd)),
        Migrate::HybridExit => (Some(OF_HYBRIDS), Some(Missing::Exit)),
    }
}

impl Plan {
    /// The plan of a mechanism; each run has words of its own.
    pub(super) fn new(request: &Request, mechanism: Migrate, run: u64) -> Self {
        let (tracker, missing) = parts(mechanism);
        let content = Content::new_words((run + 1) << 48 | request.seed);
        let limit = f64::from(request.downtime_limit) * 1e6 / nanos_per_page(request.bandwidth);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number of pages"
        )]
        let limit = limit as u64;
        Self {
            order: DestinationOrder {
                mechanism: mechanism.properties().name.to_owned(),
                pages: request.order.pages.get(),
                words: (content.first, content.step),
                workload: request.workload.clone(),
                missing,
                singles: 0,
            },
            content,
            tracker,
            most_rounds: match missing {
                Some(_) => 1,
                None => MOST_ROUNDS,
            },
            limit,
            bandwidth: request.bandwidth,
            changed: None,
        }
    }

    /// The plan with a guest that writes nothing, which shows what the connection and the switch cost by themselves. All of its
    /// memory is fetched where any is.
    pub(super) fn of_idle_guest(self) -> Self {
        Self {
            tracker: match self.order.missing {
                Some(_) => None,
                None => self.tracker,
            },
            order: DestinationOrder {
                workload: Workload {
                    set: Vec::new(),
                    ..self.order.workload
                },
                singles: SINGLES,
                ..self.order
            },
            ..self
        }
    }
}
