//! The flush route: vCPUs that flush each other under `flush_lock`, run in virtual time once for each sample.
//!
//! A flush costs the caller the time that it holds the lock and the time that it waits for it. Neither is a count times a
//! price: the wait comes out of the run ([`flush_lock`]).

mod timeline;

use pagetoll_backend::Stop;
use pagetoll_bill::route::Flush;
use pagetoll_bill::spec::{Ipi, WhatIf};
use pagetoll_bill::{Operation, RowKey, Spec, System, Toll};
use pagetoll_cost::{CostError, CostKey, CostTable, Prices};
use pagetoll_models::xen::FullFlush;
use pagetoll_units::Nanos;
use rayon::prelude::*;

use self::timeline::TimelineFile;
use super::counted::ONE_BY_ONE;
use super::demand::Calibrations;
use super::{DEFAULT_SAMPLES, Model, Modelled, Ordered, Sampled, versions};
use crate::contention::flush_lock::{
    self, FlushCosts, FlushDemand, FlushSetup, MOST_VCPUS, WaitsWith,
};
use crate::error::{BillingError, RequestError};
use pagetoll_xentrace::lock_profile::LockProfile;

/// vCPUs of the machine that was published, on which a table's holds were measured.
const MEASURED_VCPUS: u32 = 32;
/// Accesses of the APIC's memory for an interrupt in xAPIC mode, where x2APIC takes one `wrmsr` (xen b1710040ca96).
const XAPIC_ACCESSES: f64 = 3.0;
/// CPUs of a cluster in x2APIC's logical mode.
const CLUSTER: u32 = 16;
/// Figures that every mechanism needs of a table.
const KEYS: [CostKey; 5] = [
    CostKey::FLUSH_HOLD_PGE_ON,
    CostKey::FLUSH_HOLD_PGE_OFF,
    CostKey::FLUSH_HANDLE_CR3,
    CostKey::FLUSH_COMPUTE,
    CostKey::FLUSH_HOLD_VARIATION,
];

pub(super) const MODEL: Model = Model {
    costs: "amd-pv-shim-32",
    request: |spec| Ok(Box::new(Request::new(spec)?)),
    figures: |_| None,
};

/// vCPUs that flush, and by which prices.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    ordered: Ordered,
    waits: WaitsWith,
    ipi: Option<Ipi>,
    /// Numbers of vCPUs that were ordered; none: those of the published machine.
    vcpus: Vec<u32>,
    timeline: Option<TimelineFile>,
}

impl Request {
    pub(crate) fn new(spec: &Spec) -> Result<Self, RequestError> {
        let ordered = Ordered::new(spec, &ONE_BY_ONE, DEFAULT_SAMPLES)?.in_nanoseconds()?;
        let file = spec.sim.timeline.as_deref();
        let vcpus = vcpus(spec.demand.vcpus.as_deref().unwrap_or_default())?;
        let timeline = file.map(|file| TimelineFile::new(file, &ordered.order, &vcpus));
        Ok(Self {
            waits: waits(spec)?,
            ipi: spec.sim.ipi,
            vcpus,
            timeline: timeline.transpose()?,
            ordered,
        })
    }
}

fn vcpus(said: &[u32]) -> Result<Vec<u32>, RequestError> {
    let mut vcpus = said.to_vec();
    vcpus.sort_unstable();
    vcpus.dedup();
    match vcpus
        .iter()
        .find(|count| !(2..=MOST_VCPUS).contains(*count))
    {
        Some(&given) => Err(RequestError::FlushingVcpus {
            given,
            most: MOST_VCPUS,
        }),
        None => Ok(vcpus),
    }
}

/// State of interrupts while a vCPU waits for `flush_lock`.
fn waits(spec: &Spec) -> Result<WaitsWith, RequestError> {
    match spec.sim.what_if {
        None => Ok(WaitsWith::InterruptsOn),
        Some(WhatIf::InterruptsOff) => Ok(WaitsWith::InterruptsOff),
        Some(
            given @ (WhatIf::NoWalks | WhatIf::MmUsersFree | WhatIf::FifoLines | WhatIf::MmCidLock),
        ) => Err(RequestError::WhatIf {
            given,
            route: spec.route,
            expected: "interrupts-off, or route demand",
        }),
    }
}

impl super::Request for Request {
    fn ordered(&mut self) -> &mut Ordered {
        &mut self.ordered
    }

    /// Runs it. Notes hold the lock profiles of the table's own values in Xen's format.
    ///
    /// # Errors
    /// The table lacks a figure; a deadlock of the simulated vCPUs; a timeline that cannot be written.
    fn run(&self, stop: &Stop) -> Result<Modelled, BillingError> {
        let Ordered { costs, samples, .. } = &self.ordered;
        check(costs)?;
        let mut notes = notes(self);
        let settings = settings(self);
        if let (Some(timeline), Some(&setting)) = (&self.timeline, settings.first()) {
            notes.extend(timeline.write(self, setting)?);
        }
        let mut rows = Vec::new();
        for setting in settings {
            rows.push(row(self, setting, stop)?);
            let profile = profile(&costs.prices(), setting, samples.seed)?;
            let name = key(self, setting);
            notes.push(format!("{name}: {}", profile.in_one_line()));
        }
        Ok(Modelled { rows, notes })
    }

    fn sampled(&self, _: &Calibrations, stop: &Stop) -> Result<Vec<Sampled>, BillingError> {
        check(&self.ordered.costs)?;
        let settings = settings(self).into_iter();
        settings.map(|setting| row(self, setting, stop)).collect()
    }
}

/// Refuses a table that lacks a figure.
fn check(costs: &CostTable) -> Result<(), CostError> {
    KEYS.into_iter()
        .try_for_each(|key| costs.figure(key).map(drop))
}

fn notes(request: &Request) -> Vec<String> {
    let mut notes = vec![
        request.ordered.spread(),
        format!(
            "modelled in virtual time: vCPUs ({}) that flush each other under flush_lock; no crossing is counted, \
         nothing is checked",
            vcpus_of(request)
                .map(|count| count.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        ),
    ];
    notes.extend(versions::warnings(&request.ordered.costs));
    if request.waits == WaitsWith::InterruptsOff {
        notes.push(format!("what if: {}", WhatIf::InterruptsOff));
    }
    notes
}

/// Flushes of a run, without their costs.
#[derive(Clone, Copy, Debug)]
struct Setting {
    mechanism: Flush,
    vcpus: u32,
    ipi: Option<Ipi>,
    flushes: u64,
    waits: WaitsWith,
}

/// The settings of an order, one for each row.
fn settings(request: &Request) -> Vec<Setting> {
    let order = &request.ordered.order;
    let of = |mechanism: Flush| {
        vcpus_of(request).map(move |vcpus| Setting {
            mechanism,
            vcpus,
            ipi: request.ipi,
            flushes: order.pages.get(),
            waits: request.waits,
        })
    };
    order.of().into_iter().flat_map(of).collect()
}

fn vcpus_of(request: &Request) -> impl Iterator<Item = u32> {
    let default = request.vcpus.is_empty().then_some(MEASURED_VCPUS);
    request.vcpus.iter().copied().chain(default)
}

impl Setting {
    /// The mean hold without global pages, on [`MEASURED_VCPUS`] vCPUs.
    const fn hold_pge_off(self) -> CostKey {
        match self.ipi {
            None | Some(Ipi::Xapic) => CostKey::FLUSH_HOLD_PGE_OFF,
            Some(Ipi::Unicast | Ipi::Cluster) => CostKey::FLUSH_HOLD_NO_SHORTHAND,
            Some(Ipi::Shorthand) => CostKey::FLUSH_HOLD_SHORTHAND,
        }
    }

    /// Writes of the ICR for a flush, over those of the measured hold. Each is taken to cost the same.
    fn sent(self) -> f64 {
        let measured = f64::from(MEASURED_VCPUS - 1);
        match self.ipi {
            None | Some(Ipi::Unicast) => f64::from(self.vcpus - 1) / measured,
            Some(Ipi::Xapic) => XAPIC_ACCESSES * f64::from(self.vcpus - 1) / measured,
            Some(Ipi::Cluster) => f64::from(self.vcpus.div_ceil(CLUSTER)) / measured,
            Some(Ipi::Shorthand) => 1.0,
        }
    }
}

/// Form of a full flush with and without global pages.
const fn model(mechanism: Flush) -> FullFlush {
    match mechanism {
        Flush::GlobalPages => FullFlush::Cr4Toggle,
        Flush::NoGlobalPages => FullFlush::Cr3Write,
    }
}

fn row(request: &Request, setting: Setting, stop: &Stop) -> Result<Sampled, BillingError> {
    let ordered = &request.ordered;
    let indices = (0..ordered.count()).into_par_iter();
    let drawn = indices.map(|index| {
        stop.check()?;
        let profile = profile(&ordered.prices(index), setting, ordered.seed(index))?;
        Ok(tolls(&profile))
    });
    let drawn = drawn.collect::<Result<_, BillingError>>()?;
    Ok(Sampled::new(
        key(request, setting),
        ordered.order.pages,
        drawn,
    ))
}

fn key(request: &Request, setting: Setting) -> RowKey {
    RowKey {
        vcpus: (!request.vcpus.is_empty()).then_some(setting.vcpus),
        ..RowKey::new(Operation::FlushAll, setting.mechanism, System::XenPvDom0)
    }
}

/// Tolls of a flush: holding the lock, and waiting for it.
fn tolls(profile: &LockProfile) -> Vec<Toll> {
    vec![
        Toll::once("hold", profile.lock.mean()),
        Toll::new("wait", profile.share_blocked(), profile.block.mean()),
    ]
}

/// Runs a setting with the prices of one machine.
fn profile(prices: &Prices<'_>, setting: Setting, seed: u64) -> Result<LockProfile, BillingError> {
    let costs = costs(prices, setting)?;
    Ok(flush_lock::run(costs, setup(prices, setting)?, seed)?)
}

fn costs(prices: &Prices<'_>, setting: Setting) -> Result<FlushCosts, BillingError> {
    let handle = prices.price(CostKey::FLUSH_HANDLE_CR3)?;
    let measured = prices.price(setting.hold_pge_off())?;
    let off = handle + (measured - handle) * setting.sent();
    // Global pages add to what each target does, however many are sent for.
    let on = prices.price(CostKey::FLUSH_HOLD_PGE_ON)? + off - measured;
    Ok(FlushCosts {
        hold_pge_on: nanos(on),
        hold_pge_off: nanos(off),
        handle_cr3: nanos(handle),
    })
}

fn setup(prices: &Prices<'_>, setting: Setting) -> Result<FlushSetup, BillingError> {
    Ok(FlushSetup {
        vcpus: setting.vcpus,
        flushes: setting.flushes,
        flush: model(setting.mechanism),
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
