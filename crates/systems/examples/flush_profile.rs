//! The profiles of `flush_lock` that the model gives, beside the published ones.
//!
//! ```text
//! cargo run --release -p pagetoll-systems --example flush_profile [-- COMPUTE_US HOLD_VARIATION]
//! ```
//!
//! As many flushes as were published, by the demand that was fitted, or by another one.

use std::time::Instant;

use pagetoll_systems::xen::cr4::FullFlush;
use pagetoll_systems::xen::flush_area::{
    FlushCosts, FlushDemand, FlushError, FlushSetup, WaitsWith, run,
};
use pagetoll_systems::xen::lock_profile::LockProfile;
use pagetoll_units::Nanos;

/// Setting, kind of flush, and the published counts and nanoseconds.
const PUBLISHED: [(&str, FullFlush, &str); 2] = [
    (
        "PGE on",
        FullFlush::Cr4Toggle,
        "Global lock flush_lock: addr=ffff82d0804b01c0, lockval=1adb1adb, not locked
  lock:1841883(1375128998543), block:1658716(10193054890781)",
    ),
    (
        "PGE off",
        FullFlush::Cr3Write,
        "Global lock flush_lock: addr=ffff82d0804af1c0, lockval=a8bfa8bf, not locked
  lock:2730175(657505389886), block:2039716(2963768247738)",
    ),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut demand = FlushDemand::fitted_to_pge_on();
    if let [compute, variation] = &arguments[..] {
        demand.compute = Nanos(compute.parse::<u64>()? * 1000);
        demand.hold_variation = variation.parse()?;
    }
    for (setting, flush, text) in PUBLISHED {
        let [published] = &LockProfile::read(text)?[..] else {
            unreachable!("one lock is published");
        };
        let start = Instant::now();
        let modelled = profile(flush, demand, published.lock.count)?;
        println!(
            "{setting}, {:.1} s\n{modelled}",
            start.elapsed().as_secs_f64()
        );
        compare("mean hold, ns", published.lock.mean(), modelled.lock.mean());
        compare(
            "share blocked",
            published.share_blocked(),
            modelled.share_blocked(),
        );
        compare(
            "mean block, ns",
            published.block.mean(),
            modelled.block.mean(),
        );
    }
    Ok(())
}

fn profile(flush: FullFlush, demand: FlushDemand, flushes: u64) -> Result<LockProfile, FlushError> {
    let setup = FlushSetup {
        vcpus: 32,
        flushes,
        flush,
        demand,
        waits: WaitsWith::InterruptsOn,
    };
    run(FlushCosts::amd_pv_shim_32(), setup, 1)
}

fn compare(what: &str, published: f64, modelled: f64) {
    let error = (modelled / published - 1.0) * 100.0;
    println!("  {what:<15} published {published:>12.4} modelled {modelled:>12.4} {error:>+6.1} %");
}
