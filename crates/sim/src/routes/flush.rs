//! The flush route: vCPUs that flush each other under `flush_lock`, run in virtual time once for each sample.
//!
//! A flush costs the caller the time that it holds the lock and the time that it waits for it. Neither is a count times a
//! price: the wait comes out of the run ([`flush_area`](crate::contention::flush_lock)).

use pagetoll_bill::cost::{CostKey, Prices};
use pagetoll_bill::{Backend, Mechanism, Order, Route, Row, Toll};
use pagetoll_units::{Nanos, Pages};
use rayon::prelude::*;

use super::{BillingError, Request, Samples};
use crate::contention::flush_lock::lock_profile::LockProfile;
use crate::contention::flush_lock::{self, FlushCosts, FlushDemand, FlushSetup, WaitsWith};
use crate::timeline::Timeline;
use pagetoll_models::xen::cr4::FullFlush;

/// vCPUs of the machine that was published.
const VCPUS: u32 = 32;
/// What is asked of a table, whichever the mechanism.
const KEYS: [CostKey; 5] = [
    CostKey::FLUSH_HOLD_PGE_ON,
    CostKey::FLUSH_HOLD_PGE_OFF,
    CostKey::FLUSH_HANDLE_CR3,
    CostKey::FLUSH_COMPUTE,
    CostKey::FLUSH_HOLD_VARIATION,
];

/// All rows, and the lock profiles of the table's own values in Xen's format.
pub(crate) fn rows(request: &Request) -> Result<(Vec<Row>, Vec<String>), BillingError> {
    KEYS.into_iter()
        .try_for_each(|key| request.host.figure(key).map(drop))?;
    let mut rows = Vec::new();
    let mut profiles = Vec::new();
    for mechanism in mechanisms(&request.order) {
        rows.push(row(request, mechanism)?);
        let prices = request.host.prices();
        let profile = profile(&prices, setting(request, mechanism), request.samples.seed)?;
        profiles.push(told(mechanism, &profile));
    }
    Ok((rows, profiles))
}

fn mechanisms(order: &Order) -> impl Iterator<Item = &'static Mechanism> {
    let names = order.mechanisms.iter();
    names.filter_map(|name| Route::Flush.mechanism_on(Backend::Sim, name).ok())
}

/// One line: the profile as `xl debug-keys l` prints it, its line end aside.
fn told(mechanism: &Mechanism, profile: &LockProfile) -> String {
    let lines: Vec<_> = profile
        .to_string()
        .lines()
        .map(|l| l.trim().to_owned())
        .collect();
    format!("{}: {}", mechanism.name, lines.join(" "))
}

/// What is run, whatever it costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) flush: FullFlush,
    /// The mean hold without global pages.
    pub(crate) hold_pge_off: CostKey,
    pub(crate) flushes: u64,
    pub(crate) waits: WaitsWith,
}

fn setting(request: &Request, mechanism: &Mechanism) -> Setting {
    Setting {
        flush: kind_of(mechanism),
        hold_pge_off: CostKey::FLUSH_HOLD_PGE_OFF,
        flushes: request.order.pages.get(),
        waits: request.waits,
    }
}

/// What a full flush is with and without global pages.
fn kind_of(mechanism: &Mechanism) -> FullFlush {
    match mechanism.name {
        "global-pages" => FullFlush::Cr4Toggle,
        _ => FullFlush::Cr3Write,
    }
}

fn row(request: &Request, mechanism: &Mechanism) -> Result<Row, BillingError> {
    let Samples { count, seed } = request.samples;
    let drawn = (0..u64::from(count)).into_par_iter().map(|index| {
        let prices = request.samples.prices(&request.host, index);
        Ok(tolls(&profile(
            &prices,
            setting(request, mechanism),
            seed ^ index,
        )?))
    });
    let flushes: Pages = request.order.pages;
    let mut row = Row::new("flush-all", mechanism.name, mechanism.role, flushes);
    row.set_samples(drawn.collect::<Result<_, BillingError>>()?);
    Ok(row)
}

/// What a flush pays: holding the lock, and waiting for it.
fn tolls(profile: &LockProfile) -> Vec<Toll> {
    let toll = |name: &str, count_per_page, cost_each| Toll {
        name: name.to_owned(),
        count_per_page,
        cost_each,
    };
    vec![
        toll("hold", 1.0, profile.lock.mean()),
        toll("wait", profile.share_blocked(), profile.block.mean()),
    ]
}

/// Runs a setting with the prices of one machine.
pub(crate) fn profile(
    prices: &Prices<'_>,
    setting: Setting,
    seed: u64,
) -> Result<LockProfile, BillingError> {
    let (costs, setup) = run_of(prices, setting)?;
    Ok(flush_lock::run(costs, setup, seed)?)
}

/// Runs one mechanism with the table's own values, and tells who paid what and when.
pub(crate) fn timeline(request: &Request, mechanism: &str) -> Result<Timeline, BillingError> {
    let mechanism = Route::Flush.mechanism_on(Backend::Sim, mechanism)?;
    let (costs, setup) = run_of(&request.host.prices(), setting(request, mechanism))?;
    Ok(flush_lock::record(costs, setup, request.samples.seed)?)
}

/// What a setting is on one machine.
fn run_of(prices: &Prices<'_>, setting: Setting) -> Result<(FlushCosts, FlushSetup), BillingError> {
    let nanos = |key| prices.of(key).map(nanos);
    let costs = FlushCosts {
        hold_pge_on: nanos(CostKey::FLUSH_HOLD_PGE_ON)?,
        hold_pge_off: nanos(setting.hold_pge_off)?,
        handle_cr3: nanos(CostKey::FLUSH_HANDLE_CR3)?,
    };
    let setup = FlushSetup {
        vcpus: VCPUS,
        flushes: setting.flushes,
        flush: setting.flush,
        demand: FlushDemand {
            compute: nanos(CostKey::FLUSH_COMPUTE)?,
            hold_variation: prices.of(CostKey::FLUSH_HOLD_VARIATION)?,
        },
        waits: setting.waits,
    };
    Ok((costs, setup))
}

/// To the nearest nanosecond: tables hold times far below 2^53.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a table's figures are finite and not negative; the cast saturates"
)]
fn nanos(value: f64) -> Nanos {
    Nanos(value.round() as u64)
}
