//! Flushing other CPUs' TLBs under `flush_lock`, in virtual time: the system of the change "do not enable global pages
//! when virtualized on AMD hardware" (xen-devel, v4).
//!
//! Source: xen/arch/x86/smp.c of 4.17.7, `flush_area_mask` and `invalidate_interrupt`. The caller flushes itself; if
//! others are meant it takes the one `flush_lock`, writes the mask, sends INVALIDATE_TLB, and spins until every CPU has
//! flushed and taken itself out of the mask. Flushing by a hypercall to the hypervisor below
//! (`hypervisor_flush_tlb`) came after the published figures and is not here.
//!
//! **What the model is.** A closed system: each vCPU computes for a while, flushes all others, and so on. Waiting,
//! the share of acquisitions that wait, and the slowing down of those that compute come out of the mechanism: one
//! ticket lock, and interrupts that stop every vCPU that is not waiting. What goes in, and where it is from:
//!
//! | figure | kind | why |
//! |---|---|---|
//! | mean hold, PGE on and off | cited | 746,588 and 240,829 ns: the published averages, and all that is given of this publication |
//! | handling a flush by a CR3 write | assumed | a local flush, not trapped with nested paging; counts little |
//! | hold = sending + handling | assumed | sending 31 x2APIC interrupts traps alike in both settings, so what CR4.PGE adds to the hold is handling, and every target is stopped for as long |
//! | a hold's variation, compute time | fitted | to another publication on the same lock (below); the same for all settings |
//! | compute times are exponential | assumed | nothing but the mean is known, and it has little influence |
//!
//! The change says nothing of what its vCPUs did between flushes. A later one, "use APIC ALLBUT destination shorthand
//! when possible" (xen 5500d265a2a8, 2020), has two more profiles of `flush_lock`, of a PV shim with 32 vCPUs in x2APIC
//! mode as well, on a machine that is not named. With their own mean holds (347,577 and 220,395 ns, CR3 loaded) the
//! demand is the one with the least sum of squared errors, as `validate` computes them, of their four results. The four results of *this*
//! publication are predictions. Over two million flushes (`cargo run --release -p pagetoll-sim --example
//! flush_profile`; with `-- --fit`, the search):
//!
//! | | published | modelled | error |
//! |---|---|---|---|
//! | share blocked, no shorthand (fitted to) | 0.9013 | 0.9121 | +1.2 % |
//! | mean block, no shorthand (fitted to) | 2,702,251 ns | 3,280,482 ns | +21.4 % |
//! | share blocked, shorthand (fitted to) | 0.8800 | 0.6936 | -21.2 % |
//! | mean block, shorthand (fitted to) | 1,502,539 ns | 1,282,784 ns | -14.6 % |
//! | share blocked, PGE on | 0.9006 | 0.7405 | -17.8 % |
//! | mean block, PGE on | 6,145,148 ns | 5,805,856 ns | -5.5 % |
//! | share blocked, PGE off | 0.7471 | 0.7405 | -0.9 % |
//! | mean block, PGE off | 1,453,030 ns | 1,522,148 ns | +4.8 % |
//!
//! The mean block is met. The share is the same with PGE on and off, and it was not: those that compute are stopped while
//! others handle a flush, so a longer handling makes them ask later as well. The published shares hardly depend on the
//! hold (0.88 to 0.90 from 220 to 747 us, but for 0.75), which no demand of independent vCPUs gives: theirs came in bursts.
//!
//! Not here: vCPUs that leave the lock alone, flushes of fewer than all vCPUs (they are part of the variation), and
//! the time of the local flush before the lock is taken (it is part of computing).

mod setup;
mod shim;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use pagetoll_engine::{CoreId, Engine, Setup};

use self::shim::{FlushTolls, Shim};
use crate::contention::EngineError;
use crate::timeline::Timeline;
use pagetoll_xentrace::lock_profile::LockProfile;

pub use self::setup::{FlushCosts, FlushDemand, FlushError, FlushSetup, MOST_VCPUS, WaitsWith};

/// Runs vCPUs that flush each other and gives the profile of `flush_lock`. The same for the same arguments.
///
/// # Errors
///
/// Invalid costs or setup; a deadlock, with what each task waits for.
pub fn run(costs: FlushCosts, setup: FlushSetup, seed: u64) -> Result<LockProfile, FlushError> {
    let (mut engine, shim) = build(costs, setup, seed)?;
    engine.run().map_err(EngineError::Run)?;
    Ok(shim.profile.take())
}

/// Runs the same and gives what each vCPU paid and when.
///
/// # Errors
///
/// As [`run`].
pub fn record(costs: FlushCosts, setup: FlushSetup, seed: u64) -> Result<Timeline, FlushError> {
    let (mut engine, _) = build(costs, setup, seed)?;
    engine.run().map_err(EngineError::Run)?;
    Ok(Timeline::from_engine(&engine))
}

/// An engine with the vCPUs on it, and what they share.
fn build(
    costs: FlushCosts,
    setup: FlushSetup,
    seed: u64,
) -> Result<(Engine, Rc<Shim>), FlushError> {
    let vcpus = setup.vcpus;
    if !(2..=MOST_VCPUS).contains(&vcpus) {
        return Err(FlushError::VcpusOutOfRange(vcpus));
    }
    let variation = setup.demand.hold_variation;
    if variation != 0.0 && !(1.0..=10.0).contains(&variation) {
        return Err(FlushError::VariationOutOfRange(variation));
    }
    let hold = costs.split(setup.flush)?;
    let (names, tolls) = FlushTolls::register();
    let engine_setup = Setup {
        tasks: vcpus,
        cores: vcpus,
        seed,
        ..Setup::default()
    };
    let mut engine = Engine::new(&engine_setup, names).map_err(EngineError::Setup)?;
    let shim = Rc::new(Shim::new(&engine, tolls, setup, hold));
    for vcpu in 0..vcpus {
        let shim = Rc::clone(&shim);
        let vcpu_task = engine.spawn(&format!("vcpu {vcpu}"), CoreId(vcpu), async move |cx| {
            shim.work(&cx).await;
        });
        vcpu_task.map_err(EngineError::Spawn)?;
    }
    Ok((engine, shim))
}
