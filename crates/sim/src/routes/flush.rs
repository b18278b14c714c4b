//! The flush route: vCPUs that flush each other under `flush_lock`, run in virtual time once for each sample.
//!
//! A flush costs the caller the time that it holds the lock and the time that it waits for it. Neither is a count times a
//! price: the wait comes out of the run ([`flush_lock`]).

mod timeline;

use pagetoll_backend::Stop;
use pagetoll_bill::route::Flush;
use pagetoll_bill::spec::WhatIf;
use pagetoll_bill::{Draft, Figures, Operation, RouteMechanism, Row, RowKey, Spec, System, Toll};
use pagetoll_cost::{CostKey, Prices};
use pagetoll_models::xen::FullFlush;
use pagetoll_units::Nanos;
use rayon::prelude::*;

use self::timeline::TimelineFile;
use super::counted::ONE_BY_ONE;
use super::{DEFAULT_SAMPLES, Ordered, versions};
use crate::contention::flush_lock::{self, FlushCosts, FlushDemand, FlushSetup, WaitsWith};
use crate::error::{BillingError, RequestError};
use pagetoll_xentrace::lock_profile::LockProfile;

/// vCPUs of the machine that was published.
const VCPUS: u32 = 32;
/// Figures that every mechanism needs of a table.
const KEYS: [CostKey; 5] = [
    CostKey::FLUSH_HOLD_PGE_ON,
    CostKey::FLUSH_HOLD_PGE_OFF,
    CostKey::FLUSH_HANDLE_CR3,
    CostKey::FLUSH_COMPUTE,
    CostKey::FLUSH_HOLD_VARIATION,
];

/// vCPUs that flush, and by which prices.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    ordered: Ordered,
    waits: WaitsWith,
    timeline: Option<TimelineFile>,
}

impl Request {
    pub(crate) fn new(spec: &Spec) -> Result<Self, RequestError> {
        let ordered = Ordered::new(spec, &ONE_BY_ONE, DEFAULT_SAMPLES)?;
        let file = spec.sim.timeline.as_deref();
        let timeline = file.map(|file| TimelineFile::new(file, &ordered.order));
        Ok(Self {
            waits: waits(spec)?,
            timeline: timeline.transpose()?,
            ordered,
        })
    }
}

/// State of interrupts while a vCPU waits for `flush_lock`.
fn waits(spec: &Spec) -> Result<WaitsWith, RequestError> {
    match spec.sim.what_if {
        None => Ok(WaitsWith::InterruptsOn),
        Some(WhatIf::InterruptsOff) => Ok(WaitsWith::InterruptsOff),
        Some(given @ (WhatIf::NoWalks | WhatIf::MmUsersFree | WhatIf::FifoLines)) => {
            Err(RequestError::WhatIf {
                given,
                route: spec.route,
                expected: "interrupts-off, or route demand",
            })
        }
    }
}

/// Bills the route. Notes hold the lock profiles of the table's own values in Xen's format.
///
/// # Errors
/// The table lacks a figure; a deadlock of the simulated vCPUs; a timeline that cannot be written.
pub(crate) fn bill(request: &Request, stop: &Stop) -> Result<Draft, BillingError> {
    let Ordered { costs, samples, .. } = &request.ordered;
    KEYS.into_iter()
        .try_for_each(|key| costs.figure(key).map(drop))?;
    let mut notes = vec![
        request.ordered.spread(),
        format!(
            "modelled in virtual time: {VCPUS} vCPUs that flush each other under flush_lock; no crossing is counted, \
         nothing is checked"
        ),
    ];
    notes.extend(versions::warnings(costs));
    if request.waits == WaitsWith::InterruptsOff {
        notes.push(format!("what if: {}", WhatIf::InterruptsOff));
    }
    if let Some(timeline) = &request.timeline {
        notes.extend(timeline.write(request)?);
    }
    let mut rows = Vec::new();
    for mechanism in request.ordered.order.of() {
        rows.push(row(request, mechanism, stop)?);
        let profile = profile(&costs.prices(), setting(request, mechanism), samples.seed)?;
        let name = mechanism.properties().name;
        notes.push(format!("{name}: {}", profile.in_one_line()));
    }
    Ok(request.ordered.draft(rows, notes))
}

/// Flushes of a run, without their costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) flush: FullFlush,
    /// The mean hold without global pages.
    pub(crate) hold_pge_off: CostKey,
    pub(crate) flushes: u64,
    pub(crate) waits: WaitsWith,
}

fn setting(request: &Request, mechanism: Flush) -> Setting {
    Setting {
        flush: model(mechanism),
        hold_pge_off: CostKey::FLUSH_HOLD_PGE_OFF,
        flushes: request.ordered.order.pages.get(),
        waits: request.waits,
    }
}

/// Form of a full flush with and without global pages.
const fn model(mechanism: Flush) -> FullFlush {
    match mechanism {
        Flush::GlobalPages => FullFlush::Cr4Toggle,
        Flush::NoGlobalPages => FullFlush::Cr3Write,
    }
}

fn row(request: &Request, mechanism: Flush, stop: &Stop) -> Result<Row, BillingError> {
    let Ordered {
        order,
        costs,
        samples,
        ..
    } = &request.ordered;
    let indices = (0..u64::from(samples.count)).into_par_iter();
    let drawn = indices.map(|index| {
        stop.check()?;
        let prices = samples.prices(costs, index);
        let setting = setting(request, mechanism);
        Ok(tolls(&profile(&prices, setting, samples.seed ^ index)?))
    });
    let drawn = drawn.collect::<Result<_, BillingError>>()?;
    let key = RowKey::new(Operation::FlushAll, mechanism, System::XenPvDom0);
    Ok(Row::new(key, order.pages, Figures::of_samples(drawn)))
}

/// Tolls of a flush: holding the lock, and waiting for it.
fn tolls(profile: &LockProfile) -> Vec<Toll> {
    vec![
        Toll::once("hold", profile.lock.mean()),
        Toll::new("wait", profile.share_blocked(), profile.block.mean()),
    ]
}

/// Runs a setting with the prices of one machine.
pub(crate) fn profile(
    prices: &Prices<'_>,
    setting: Setting,
    seed: u64,
) -> Result<LockProfile, BillingError> {
    let costs = costs(prices, setting)?;
    Ok(flush_lock::run(costs, setup(prices, setting)?, seed)?)
}

fn costs(prices: &Prices<'_>, setting: Setting) -> Result<FlushCosts, BillingError> {
    let nanos = |key| prices.price(key).map(nanos);
    Ok(FlushCosts {
        hold_pge_on: nanos(CostKey::FLUSH_HOLD_PGE_ON)?,
        hold_pge_off: nanos(setting.hold_pge_off)?,
        handle_cr3: nanos(CostKey::FLUSH_HANDLE_CR3)?,
    })
}

fn setup(prices: &Prices<'_>, setting: Setting) -> Result<FlushSetup, BillingError> {
    Ok(FlushSetup {
        vcpus: VCPUS,
        flushes: setting.flushes,
        flush: setting.flush,
        demand: FlushDemand {
            compute: nanos(prices.price(CostKey::FLUSH_COMPUTE)?),
            hold_variation: prices.price(CostKey::FLUSH_HOLD_VARIATION)?,
        },
        waits: setting.waits,
    })
}

/// Rounds to the nearest nanosecond: tables hold times far below 2^53.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a table's figures are finite and not negative; the cast saturates"
)]
fn nanos(value: f64) -> Nanos {
    Nanos(value.round() as u64)
}
