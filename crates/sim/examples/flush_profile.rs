//! The profiles of `flush_lock` that the model gives, beside the published ones, and the search for its demand.
//!
//! ```text
//! cargo run --release -p pagetoll-sim --example flush_profile [-- COMPUTE_US HOLD_VARIATION]
//! cargo run --release -p pagetoll-sim --example flush_profile -- --fit
//! ```
//!
//! Two million flushes by the demand that was fitted, or by another one. `--fit` prints the sum of squared errors, as
//! `pagetoll validate` computes them, of the four figures that the demand is fitted to, over a grid of demands.

use pagetoll_bill::row::error_of;
use pagetoll_models::xen::FullFlush;
use pagetoll_sim::contention::flush_lock::{
    FlushCosts, FlushDemand, FlushError, FlushSetup, WaitsWith, run,
};
use pagetoll_units::Nanos;
use pagetoll_xentrace::lock_profile::LockProfile;

/// Flushes of a run.
const FLUSHES: u64 = 2_000_000;
/// Flushes of a run of the search.
const FIT_FLUSHES: u64 = 400_000;

/// A published profile and what the model is given of it.
struct Published {
    setting: &'static str,
    flush: FullFlush,
    costs: FlushCosts,
    text: &'static str,
}

/// Figures that the demand is fitted to.
const FITTED_TO: [Published; 2] = [
    Published {
        setting: "without shorthand (fitted to)",
        flush: FullFlush::Cr3Write,
        costs: with_hold(347_577),
        text: "Global lock flush_lock: addr=ffff82d0804b21c0, lockval=f602f602, not locked
  lock:228455938(79406065573135), block:205908580(556416605761539)",
    },
    Published {
        setting: "with shorthand (fitted to)",
        flush: FullFlush::Cr3Write,
        costs: with_hold(220_395),
        text: "Global lock flush_lock: addr=ffff82d0804b41c0, lockval=d9c4d9bc, cpu=12
  lock:1890775(416719148054), block:1663958(2500161282949)",
    },
];

/// Figures that are predicted.
const PREDICTED: [Published; 2] = [
    Published {
        setting: "PGE on",
        flush: FullFlush::Cr4Toggle,
        costs: FlushCosts::amd_pv_shim_32(),
        text: "Global lock flush_lock: addr=ffff82d0804b01c0, lockval=1adb1adb, not locked
  lock:1841883(1375128998543), block:1658716(10193054890781)",
    },
    Published {
        setting: "PGE off",
        flush: FullFlush::Cr3Write,
        costs: FlushCosts::amd_pv_shim_32(),
        text: "Global lock flush_lock: addr=ffff82d0804af1c0, lockval=a8bfa8bf, not locked
  lock:2730175(657505389886), block:2039716(2963768247738)",
    },
];

/// A mean hold without global pages.
const fn with_hold(hold: u64) -> FlushCosts {
    FlushCosts {
        hold_pge_off: Nanos(hold),
        ..FlushCosts::amd_pv_shim_32()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut demand = FlushDemand::fitted();
    match &arguments[..] {
        [fit] if fit == "--fit" => return search(),
        [compute, variation] => {
            demand.compute = Nanos(compute.parse::<u64>()? * 1000);
            demand.hold_variation = variation.parse()?;
        }
        _ => {}
    }
    for published in FITTED_TO.iter().chain(&PREDICTED) {
        let (was, is) = both(published, demand, FLUSHES)?;
        println!("{}\n{is}", published.setting);
        compare("mean hold, ns", was.lock.mean(), is.lock.mean());
        compare("share blocked", was.share_blocked(), is.share_blocked());
        compare("mean block, ns", was.block.mean(), is.block.mean());
    }
    Ok(())
}

fn search() -> Result<(), Box<dyn std::error::Error>> {
    println!("compute, us   variation   squared errors");
    for compute in (6_500..=10_500).step_by(500) {
        for variation in [1.5, 1.6, 1.7, 1.8, 1.9, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5] {
            let demand = FlushDemand {
                compute: Nanos(compute * 1000),
                hold_variation: variation,
            };
            println!(
                "{compute:11} {variation:11} {:16.4}",
                squared_errors(demand)?
            );
        }
    }
    Ok(())
}

fn squared_errors(demand: FlushDemand) -> Result<f64, Box<dyn std::error::Error>> {
    let mut sum = 0.0;
    for published in &FITTED_TO {
        let (was, is) = both(published, demand, FIT_FLUSHES)?;
        sum += error_of(is.share_blocked(), was.share_blocked()).powi(2);
        sum += error_of(is.block.mean(), was.block.mean()).powi(2);
    }
    Ok(sum)
}

/// Prints the published figures beside those of the model.
fn both(
    published: &Published,
    demand: FlushDemand,
    flushes: u64,
) -> Result<(LockProfile, LockProfile), Box<dyn std::error::Error>> {
    let was = LockProfile::read(published.text)?.remove(0);
    Ok((was, profile(published, demand, flushes)?))
}

fn profile(
    published: &Published,
    demand: FlushDemand,
    flushes: u64,
) -> Result<LockProfile, FlushError> {
    let setup = FlushSetup {
        vcpus: 32,
        flushes,
        flush: published.flush,
        demand,
        waits: WaitsWith::InterruptsOn,
    };
    run(published.costs, setup, 1)
}

fn compare(what: &str, published: f64, modelled: f64) {
    let error = (modelled / published - 1.0) * 100.0;
    println!("  {what:<15} published {published:>12.4} modelled {modelled:>12.4} {error:>+6.1} %");
}
