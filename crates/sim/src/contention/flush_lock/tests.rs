//! The lock profile against what was published, and against oracles.

use pagetoll_bill::row::error_of;
use pagetoll_engine::RunError;
use pagetoll_models::xen::FullFlush;
use pagetoll_timeline::folded::write_folded;
use pagetoll_timeline::perfetto::write_perfetto;
use pagetoll_units::{Mfn, Nanos, VirtualAddress};

use super::setup::Hold;
use super::shim::CpuMask;
use super::*;
use pagetoll_models::x86::{Flags, Pcid, Tlb, Translation};
use pagetoll_xentrace::lock_profile::Spent;

fn setup(flush: FullFlush, flushes: u64) -> FlushSetup {
    FlushSetup {
        vcpus: 32,
        flushes,
        flush,
        demand: FlushDemand::fitted(),
        waits: WaitsWith::InterruptsOn,
    }
}

fn profile(setup: FlushSetup, seed: u64) -> LockProfile {
    run(FlushCosts::amd_pv_shim_32(), setup, seed).unwrap()
}

fn within(modelled: f64, published: f64, tolerance: f64) {
    let error = modelled / published - 1.0;
    assert!(error.abs() < tolerance, "{modelled} instead of {published}");
}

/// Compares the model with a published profile, within the error that a prediction may have.
fn predicts(flush: FullFlush, (hold, share, block): (f64, f64, f64)) {
    let profile = profile(setup(flush, 60_000), 1);
    within(profile.lock.mean(), hold, 0.03);
    within(profile.share_blocked(), share, 0.25);
    within(profile.block.mean(), block, 0.25);
}

/// Only the mean holds are of this publication; the demand was fitted to another.
#[test]
fn what_was_published_is_predicted_with_and_without_global_pages() {
    let share_on = 1_658_716.0 / 1_841_883.0;
    predicts(FullFlush::Cr4Toggle, (746_588.0, share_on, 6_145_147.0));
    let share_off = 2_039_716.0 / 2_730_175.0;
    predicts(FullFlush::Cr3Write, (240_829.0, share_off, 1_453_029.0));
}

/// The sum of squared errors, as `validate` computes them, of the four results that the demand was fitted to.
fn squared_errors(demand: FlushDemand) -> f64 {
    let of = |hold, share: f64, block: f64| {
        let costs = FlushCosts {
            hold_pge_off: Nanos(hold),
            ..FlushCosts::amd_pv_shim_32()
        };
        let setup = FlushSetup {
            demand,
            ..setup(FullFlush::Cr3Write, 30_000)
        };
        let profile = run(costs, setup, 1).unwrap();
        error_of(profile.share_blocked(), share).powi(2)
            + error_of(profile.block.mean(), block).powi(2)
    };
    of(347_577, 0.90131, 2_702_251.0) + of(220_395, 0.88004, 1_502_539.0)
}

#[test]
fn demands_around_the_fitted_one_fit_worse() {
    let fitted = FlushDemand::fitted();
    let least = squared_errors(fitted);
    for (compute, variation) in [
        (6_500_000, 2.0),
        (10_500_000, 2.0),
        (8_500_000, 1.4),
        (8_500_000, 2.8),
    ] {
        let other = FlushDemand {
            compute: Nanos(compute),
            hold_variation: variation,
        };
        let errors = squared_errors(other);
        assert!(
            errors > 1.1 * least,
            "{other:?}: {errors}, not above {least}"
        );
    }
}

#[test]
fn runs_repeat_and_the_seed_decides() {
    let setup = setup(FullFlush::Cr4Toggle, 2000);
    assert_eq!(profile(setup, 7), profile(setup, 7));
    assert_ne!(profile(setup, 7), profile(setup, 8));
}

/// An oracle that can be worked out: two vCPUs that compute nothing and hold for the same time take turns.
#[test]
fn two_that_compute_nothing_take_turns() {
    let demand = FlushDemand {
        compute: Nanos(0),
        hold_variation: 0.0,
    };
    let turns = FlushSetup {
        vcpus: 2,
        demand,
        ..setup(FullFlush::Cr3Write, 1000)
    };
    let profile = profile(turns, 0);
    let hold = 240_829;
    assert_eq!(
        profile.lock,
        Spent {
            count: 1000,
            time: 1000 * hold
        }
    );
    // Who waits is interrupted, which does not make it wait any longer.
    assert_eq!(
        profile.block,
        Spent {
            count: 999,
            time: 999 * hold
        }
    );
}

/// Computing stops for as long as each flush is handled.
#[test]
fn those_that_compute_are_slowed_down_by_others() {
    let demand = FlushDemand {
        compute: Nanos(5_000_000),
        hold_variation: 0.0,
    };
    let slow = |flush| {
        let setup = FlushSetup {
            demand,
            ..setup(flush, 3000)
        };
        let (mut engine, _) = build(FlushCosts::amd_pv_shim_32(), setup, 3).unwrap();
        let end = engine.run().unwrap();
        let handle = engine
            .tolls()
            .iter()
            .find(|toll| toll.1 == "invalidate_interrupt")
            .unwrap()
            .0;
        let handled = engine.total(engine.interrupts_of(CoreId(0)), handle);
        (end.get(), handled.ticks.get())
    };
    let ((on, handled_on), (off, handled_off)) =
        (slow(FullFlush::Cr4Toggle), slow(FullFlush::Cr3Write));
    assert!(on > 2 * off, "{on} {off}");
    assert!(handled_on > 200 * handled_off, "{handled_on} {handled_off}");
}

/// Tells for each vCPU whether its TLB still has a translation after vCPU 3 has flushed those in `mask`.
fn known_after(mask: CpuMask) -> Vec<bool> {
    let here = VirtualAddress(0x1000);
    let (names, tolls) = FlushTolls::register();
    let mut engine = Engine::new(&Setup::default(), names).unwrap();
    let hold = Hold {
        sending: Nanos(10),
        handling: Nanos(5),
    };
    let shim = Rc::new(Shim::new(
        &engine,
        tolls,
        setup(FullFlush::Cr4Toggle, 1),
        hold,
    ));
    let (mfn, flags) = (Mfn(5), Flags::PRESENT | Flags::GLOBAL);
    for tlb in &mut *shim.tlbs.borrow_mut() {
        tlb.fill(Pcid(0), here, Translation { mfn, flags });
    }
    let task = Rc::clone(&shim);
    let body = async move |cx| task.flush_area_mask(&cx, mask).await;
    engine.spawn("vcpu 3", CoreId(3), body).unwrap();
    engine.run().unwrap();
    let tlbs = shim.tlbs.borrow();
    let knows = |tlb: &Tlb| tlb.look_up(Pcid(0), here).is_some();
    tlbs.iter().map(knows).collect()
}

#[test]
fn those_in_the_mask_forget_and_others_do_not() {
    assert_eq!(known_after(CpuMask::first(32)), [false; 32]);
    let some = known_after(CpuMask(0b1_0010));
    let known: Vec<_> = some.iter().map(|&known| u8::from(known)).collect();
    assert_eq!(known[..6], [1, 0, 1, 1, 0, 1]);
    assert_eq!(known[6..], [1; 26]);
}

#[test]
fn waiting_with_interrupts_off_is_a_deadlock_that_names_who_waits_for_whom() {
    let off = FlushSetup {
        waits: WaitsWith::InterruptsOff,
        ..setup(FullFlush::Cr4Toggle, 1000)
    };
    let error = run(FlushCosts::amd_pv_shim_32(), off, 1).unwrap_err();
    assert!(matches!(
        error,
        FlushError::Engine(EngineError::Run(RunError::Deadlock(_)))
    ));
    let text = error.to_string();
    assert!(
        text.contains("waits for ticket lock `flush_lock`, held by vcpu"),
        "{text}"
    );
    assert!(
        text.contains("waits for acknowledgements of interrupt `INVALIDATE_TLB`, held by vcpu"),
        "{text}"
    );
    assert!(text.contains("cycle: vcpu"), "{text}");
}

/// The records of a run form valid spans: no vCPU pays for two things at once.
#[test]
fn records_become_a_trace() {
    let setup = setup(FullFlush::Cr4Toggle, 200);
    let timeline = record(FlushCosts::amd_pv_shim_32(), setup, 1).unwrap();
    let (legend, spans) = (timeline.legend().unwrap(), timeline.spans.iter().copied());
    write_perfetto(Vec::new(), "flush", &legend, spans.clone()).unwrap();
    let mut folded = Vec::new();
    write_folded(&mut folded, &legend, spans).unwrap();
    let folded = String::from_utf8(folded).unwrap();
    for stack in ["vcpu 0;flush_lock ", "core 31;invalidate_interrupt "] {
        assert!(
            folded.lines().any(|line| line.starts_with(stack)),
            "{folded}"
        );
    }
    assert_eq!(timeline.overwritten, 0);
}

#[test]
fn senseless_figures_are_refused() {
    let sound = (
        FlushCosts::amd_pv_shim_32(),
        setup(FullFlush::Cr4Toggle, 10),
    );
    let message = |costs, setup| run(costs, setup, 0).unwrap_err().to_string();
    let one = FlushSetup {
        vcpus: 1,
        ..sound.1
    };
    assert_eq!(message(sound.0, one), "1 vCPUs: expected 2 to 64");
    let short = FlushCosts {
        hold_pge_on: Nanos(100),
        ..sound.0
    };
    assert!(message(short, sound.1).starts_with("a mean hold of 100 ns is shorter than"));
    let invpcid = FlushSetup {
        flush: FullFlush::Invpcid,
        ..sound.1
    };
    assert!(message(sound.0, invpcid).contains("INVPCID"));
    let demand = FlushDemand {
        hold_variation: 0.5,
        ..sound.1.demand
    };
    let vary = FlushSetup { demand, ..sound.1 };
    assert_eq!(
        message(sound.0, vary),
        "flush.hold-variation: 0.5; expected 0, or 1 to 10"
    );
}
