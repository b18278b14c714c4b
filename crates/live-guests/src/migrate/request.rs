//! The order of a bill of migrations on this host.

use pagetoll_bill::spec::Spec;
use pagetoll_bill::{Backend, Limits};
use pagetoll_units::Pages;

use super::workload::{BURST, Workload};
use crate::restore::touches::{Choice, Order};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::limits::check_range;

/// Pages are those of the guest: 64 MiB.
const LIMITS: Limits = Limits::pages(16_384, 1 << 20).runs(5, 100);
/// Share of the guest that it writes again and again, where the order does not say.
const SET: u64 = 8;
/// MiB a second.
const BANDWIDTH: u32 = 256;
const MOST_BANDWIDTH: u32 = 1 << 20;
/// Pages a second.
const DIRTY_RATE: u32 = 16_384;
const MOST_DIRTY_RATE: u32 = 10_000_000;
/// Milliseconds.
const DOWNTIME_LIMIT: u32 = 4;
const MOST_DOWNTIME_LIMIT: u32 = 60_000;

/// A validated order.
#[derive(Clone, Debug)]
pub struct Request {
    /// Mechanisms, runs, and the pages of the guest.
    pub(super) order: pagetoll_bill::Order,
    pub(super) workload: Workload,
    /// MiB a second.
    pub(super) bandwidth: u32,
    /// Pages a second that the guest writes.
    pub(super) dirty_rate: u32,
    /// Milliseconds in which what is left may be sent.
    pub(super) downtime_limit: u32,
    pub(super) seed: u64,
}

impl Request {
    /// The order with its defaults resolved.
    ///
    /// # Errors
    /// A number is out of range.
    pub fn new(spec: &Spec) -> Result<Self, LiveError> {
        let order = spec.order(Backend::Live, &LIMITS)?;
        let pages = order.pages.get();
        let number = |option, given: Option<u32>, default, range| {
            let number = given.unwrap_or(default);
            check_range(option, number, range).map(|()| number)
        };
        let migrate = &spec.migrate;
        let dirty_rate = number(
            "--dirty-rate",
            migrate.dirty_rate,
            DIRTY_RATE,
            0..=MOST_DIRTY_RATE,
        )?;
        let choice = Choice {
            seed: spec.seed.unwrap_or(1),
            pages,
        };
        Ok(Self {
            workload: Workload {
                set: match dirty_rate {
                    0 => Vec::new(),
                    _ => choice.set(&Order::Random, set(spec, pages)?),
                },
                interval: BURST as u64 * 1_000_000_000 / u64::from(dirty_rate.max(1)),
            },
            bandwidth: number(
                "--bandwidth",
                migrate.bandwidth,
                BANDWIDTH,
                1..=MOST_BANDWIDTH,
            )?,
            dirty_rate,
            downtime_limit: number(
                "--downtime-limit",
                migrate.downtime_limit,
                DOWNTIME_LIMIT,
                1..=MOST_DOWNTIME_LIMIT,
            )?,
            seed: choice.seed,
            order,
        })
    }
}

/// Pages of the working set.
fn set(spec: &Spec, pages: u64) -> Result<u64, LiveError> {
    match spec.restore.set {
        None => Ok(pages.div_ceil(SET)),
        Some(Pages(set)) if (1..=pages).contains(&set) => Ok(set),
        Some(set) => Err(LiveError::BadOrder(format!(
            "--set {set}: expected 1 to {pages}, the pages of the guest"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::Route;
    use pagetoll_bill::spec::MigrateSpec;

    use super::*;

    #[test]
    fn a_guest_writes_an_eighth_of_its_pages_at_its_rate() {
        let request = Request::new(&Spec::new(Route::Migrate)).unwrap();
        assert_eq!(request.workload.set.len(), 2048);
        assert_eq!(request.workload.interval, 488_281);
        let idle = Spec {
            migrate: MigrateSpec {
                dirty_rate: Some(0),
                ..MigrateSpec::default()
            },
            ..Spec::new(Route::Migrate)
        };
        assert!(Request::new(&idle).unwrap().workload.set.is_empty());
    }

    #[test]
    fn numbers_out_of_range_are_refused_with_their_range() {
        let refused = |migrate| {
            let spec = Spec {
                migrate,
                ..Spec::new(Route::Migrate)
            };
            Request::new(&spec).unwrap_err().to_string()
        };
        let none = MigrateSpec::default;
        let error = refused(MigrateSpec {
            bandwidth: Some(0),
            ..none()
        });
        assert_eq!(error, "--bandwidth 0: expected 1 to 1048576");
        let error = refused(MigrateSpec {
            downtime_limit: Some(0),
            ..none()
        });
        assert_eq!(error, "--downtime-limit 0: expected 1 to 60000");
    }
}
