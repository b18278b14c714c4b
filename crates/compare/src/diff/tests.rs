use pagetoll_bill::route::{Demand, Pin, Unmap};
use pagetoll_bill::row::{Folio, Interval, Layout};
use pagetoll_bill::{
    Backend, Check, Crossings, Figures, HostLoad, Mechanism, Operation, System, Toll, Unavailable,
};
use pagetoll_units::Pages;
use proptest::prelude::*;

use super::*;
use crate::tests::{clear, sample};

fn unmap(folio: Folio, kernel: &str, cost: f64) -> Row {
    let key = RowKey {
        folio: Some(folio),
        kernel: Some(kernel.to_owned()),
        ..RowKey::new(Operation::Unmap, Pin::Kernel, System::Native)
    };
    Row::new(key, Pages(4), Figures::of_runs(vec![cost]))
}

fn bill(evidence: Evidence, rows: Vec<Row>) -> Bill {
    Bill {
        route: Route::Pin,
        evidence,
        rows,
        ..sample()
    }
}

fn of_unmap(row: Row) -> Bill {
    Bill {
        rows: vec![row],
        ..sample()
    }
}

fn verdicts(diff: &Diff) -> Vec<Verdict> {
    diff.changes.iter().map(|change| change.verdict).collect()
}

fn kinds(diff: &Diff, missing: MissingRows) -> Vec<Kind> {
    diff.failures(missing).map(|finding| finding.kind).collect()
}

#[test]
fn exact_counts_within_the_tolerance_are_the_same() {
    let folios = [Folio::Pages4k, Folio::Thp, Folio::Pages2m, Folio::Pages1g];
    let costs = |costs: [f64; 4]| {
        let rows = folios.into_iter().zip(costs);
        let rows = rows.map(|(folio, cost)| unmap(folio, "6.18", cost));
        bill(Evidence::Exact, rows.collect())
    };
    let (old, new) = (costs([100.0; 4]), costs([100.5, 100.6, 99.5, 99.4]));
    let diff = Diff::new(&old, &new, 0.005).unwrap();
    let expected = [
        Verdict::Same,
        Verdict::Regressed,
        Verdict::Same,
        Verdict::Improved,
    ];
    assert_eq!(verdicts(&diff), expected);
    assert_eq!(diff.with(Verdict::Regressed).count(), 1);
    assert_eq!(kinds(&diff, MissingRows::Refused), [Kind::Regressed]);
}

#[test]
fn two_kernels_are_compared_where_each_bill_has_one() {
    let old = bill(Evidence::Exact, vec![unmap(Folio::Pages2m, "6.18", 140.0)]);
    let new = bill(
        Evidence::Exact,
        vec![
            unmap(Folio::Pages2m, "7.2", 200.0),
            unmap(Folio::Pages1g, "7.2", 1.0),
        ],
    );
    let diff = Diff::new(&old, &new, 0.005).unwrap();
    assert_eq!(verdicts(&diff), [Verdict::Regressed]);
    assert_eq!(diff.unmatched[0].reason, "only in the new bill");
    let both = bill(
        Evidence::Exact,
        vec![
            unmap(Folio::Pages2m, "6.18", 1.0),
            unmap(Folio::Pages2m, "7.2", 2.0),
        ],
    );
    let diff = Diff::new(&both, &both, 0.005).unwrap();
    assert_eq!(verdicts(&diff), [Verdict::Same, Verdict::Same]);
}

#[test]
fn measured_costs_need_significance_and_more_than_noise() {
    let runs = |runs: &[f64]| {
        let mut row = unmap(Folio::Pages2m, "-", 0.0);
        row.result = Figures::of_runs(runs.to_vec());
        bill(Evidence::Measured, vec![row])
    };
    let verdict = |old: &[f64], new: &[f64]| {
        let diff = Diff::new(&runs(old), &runs(new), 0.005).unwrap();
        diff.changes[0].verdict
    };
    let steady = [10.0, 10.1, 9.9, 10.0];
    assert_eq!(
        verdict(&steady, &[12.0, 12.1, 11.9, 12.0]),
        Verdict::Regressed
    );
    assert_eq!(
        verdict(&[12.0, 12.1, 11.9, 12.0], &steady),
        Verdict::Improved
    );
    assert_eq!(verdict(&steady, &[10.0, 10.1, 9.9, 10.05]), Verdict::Same);
    assert_eq!(
        verdict(&[8.0, 12.0, 9.0, 11.0], &[9.0, 13.0, 10.0, 12.0]),
        Verdict::Same
    );
    assert_eq!(verdict(&[10.0; 3], &[20.0; 3]), Verdict::Undecided);
}

/// A bill whose runs are these, with crossings, on a host of which threads waited this share of their time for others.
fn measured_at(waited: f64, runs: &[f64], crossings: f64) -> Bill {
    let mut row = unmap(Folio::Pages2m, "-", 0.0);
    row.result = Figures::of_runs(runs.to_vec());
    row.figures_mut().unwrap().crossings = Some(Crossings {
        per_page: crossings,
        ..Crossings::default()
    });
    let mut bill = bill(Evidence::Measured, vec![row]);
    bill.provenance.inputs.host_load = Some(HostLoad {
        waited: Some(waited),
        ..HostLoad::default()
    });
    bill
}

#[test]
fn nothing_that_a_busy_host_measured_is_a_regression() {
    let (fast, slow) = ([10.0, 10.1, 9.9, 10.0], [20.0, 20.1, 19.9, 20.0]);
    let compared = |old: f64, new: f64| {
        let (old, new) = (measured_at(old, &fast, 1.0), measured_at(new, &slow, 2.0));
        let diff = Diff::new(&old, &new, 0.005).unwrap();
        (verdicts(&diff), kinds(&diff, MissingRows::Refused))
    };
    let regressed = (
        vec![Verdict::Regressed],
        vec![Kind::Regressed, Kind::MoreCrossings],
    );
    assert_eq!(compared(0.0, 0.01), regressed);
    let undecided = (vec![Verdict::Undecided], vec![]);
    assert_eq!(compared(0.4, 0.0), undecided);
    assert_eq!(compared(0.0, 0.4), undecided);
}

#[test]
fn measured_costs_whose_intervals_meet_are_the_same() {
    let drifting = [10.0, 10.5, 11.0, 11.5, 12.0];
    let verdict = |new: &[f64]| {
        let (old, new) = (measured_at(0.0, &drifting, 1.0), measured_at(0.0, new, 1.0));
        Diff::new(&old, &new, 0.005).unwrap().changes[0].verdict
    };
    // Every division of the runs says that these differ, and each could be another bill of the other's order.
    assert_eq!(verdict(&drifting.map(|run| run + 2.1)), Verdict::Same);
    assert_eq!(verdict(&drifting.map(|run| run + 8.0)), Verdict::Regressed);
}

#[test]
fn modelled_costs_differ_when_their_intervals_do_not_meet() {
    let modelled = |cost: f64, low: f64, high: f64| {
        let mut row = unmap(Folio::Pages2m, "-", cost);
        row.figures_mut().unwrap().interval = Some(Interval { low, high });
        bill(Evidence::Modelled, vec![row])
    };
    let verdict = |old: &Bill, new: &Bill| Diff::new(old, new, 0.005).unwrap().changes[0].verdict;
    let old = modelled(10.0, 8.0, 12.0);
    assert_eq!(verdict(&old, &modelled(13.0, 11.0, 15.0)), Verdict::Same);
    assert_eq!(
        verdict(&old, &modelled(15.0, 13.0, 17.0)),
        Verdict::Regressed
    );
    assert_eq!(verdict(&old, &modelled(5.0, 4.0, 6.0)), Verdict::Improved);
}

#[test]
fn the_toll_that_changed_most_comes_first() {
    let with = |cost, tolls: &[(&str, f64)]| {
        let mut row = unmap(Folio::Pages2m, "6.18", cost);
        let tolls = tolls.iter().map(|(name, cost)| Toll::once(*name, *cost));
        row.figures_mut().unwrap().tolls = tolls.collect();
        bill(Evidence::Exact, vec![row])
    };
    let old = with(140.0, &[("a", 100.0), ("b", 40.0)]);
    let new = with(200.0, &[("a", 95.0), ("c", 105.0)]);
    let diff = Diff::new(&old, &new, 0.0).unwrap();
    let names: Vec<_> = diff.changes[0]
        .tolls
        .iter()
        .map(|toll| toll.name.as_str())
        .collect();
    assert_eq!(names, ["c", "b", "a"]);
}

#[test]
fn bills_that_say_nothing_about_one_another_are_refused() {
    let one = bill(Evidence::Exact, vec![]);
    let of_unmap = Bill {
        route: Route::Unmap,
        ..one.clone()
    };
    let error = Diff::new(&one, &of_unmap, 0.0).unwrap_err().to_string();
    assert_eq!(
        error,
        "bills of different routes: pin and unmap; expected two of one route"
    );
    let live = Bill {
        backend: Backend::Live,
        ..one.clone()
    };
    assert!(matches!(
        Diff::new(&one, &live, 0.0),
        Err(DiffError::Backends { .. })
    ));
    let of = |kernel| {
        vec![
            unmap(Folio::Pages2m, kernel, 1.0),
            unmap(Folio::Pages1g, kernel, 1.0),
        ]
    };
    let two = bill(Evidence::Exact, [of("6.17"), of("6.18")].concat());
    let other = bill(Evidence::Exact, of("7.2"));
    assert!(matches!(
        Diff::new(&two, &other, 0.0),
        Err(DiffError::NothingInCommon)
    ));
}

#[test]
fn other_orders_and_other_guests_are_refused_by_name() {
    let one = bill(Evidence::Exact, vec![unmap(Folio::Pages2m, "6.18", 1.0)]);
    let mut more = one.clone();
    more.order.pages = Pages(8);
    let error = Diff::new(&one, &more, 0.0).unwrap_err().to_string();
    assert!(error.contains("--pages"), "{error}");
    let ram = |size: &str| {
        let mut bill = one.clone();
        bill.stack.insert("guest-ram".into(), size.into());
        bill
    };
    let error = Diff::new(&ram("900 MiB"), &ram("640 MiB"), 0.0)
        .unwrap_err()
        .to_string();
    assert!(error.contains("guest-ram 900 MiB and 640 MiB"), "{error}");
}

#[test]
fn a_run_in_many_pages_moves_no_cost() {
    let layout = |runs, folios| Layout {
        runs,
        folios,
        largest_folio: 512,
    };
    let pages = Pages(1 << 16);
    assert!(layout(1, 128).costs_like(layout(3, 128), pages));
    assert!(!layout(1, 128).costs_like(layout(4, 128), pages));
    assert!(!layout(1, 128).costs_like(layout(1, 127), pages));
    assert!(!layout(1, 128).costs_like(layout(2, 128), Pages(4096)));
}

#[test]
fn rows_on_another_layout_are_not_compared_and_fail_the_gate() {
    let on = |runs| {
        let mut row = unmap(Folio::Pages4k, "6.18", 100.0);
        row.layout = Some(Layout {
            runs,
            folios: 9,
            largest_folio: 1,
        });
        bill(
            Evidence::Exact,
            vec![row, unmap(Folio::Pages2m, "6.18", 1.0)],
        )
    };
    let diff = Diff::new(&on(2077), &on(64), 0.005).unwrap();
    assert_eq!(verdicts(&diff), [Verdict::Same]);
    assert_eq!(kinds(&diff, MissingRows::Allowed), [Kind::Layout]);
}

#[test]
fn a_lost_bit_and_a_check_that_no_longer_passes_fail_the_gate() {
    let raced = |failed, controls| {
        let check = Check::against_control("smp-lost-dirty", 50_000, failed, controls);
        of_unmap(clear(Unmap::PreserveAd, 500.0).with_checks(vec![check]))
    };
    let found = |new: &Bill| {
        kinds(
            &Diff::new(&raced(0, 700), new, 0.005).unwrap(),
            MissingRows::Allowed,
        )
    };
    assert_eq!(found(&raced(0, 900)), []);
    assert_eq!(found(&raced(5000, 700)), [Kind::CheckFailed]);
    assert_eq!(found(&raced(0, 0)), [Kind::CheckLost]);
    assert_eq!(
        found(&of_unmap(clear(Unmap::PreserveAd, 500.0))),
        [Kind::CheckLost]
    );
}

#[test]
fn a_control_that_loses_bits_is_no_finding() {
    let check = Check::of_control("smp-lost-dirty", 50_000, 700);
    let bill = of_unmap(clear(Unmap::SetPte, 1000.0).with_checks(vec![check]));
    assert_eq!(Diff::new(&bill, &bill, 0.005).unwrap().findings, []);
}

#[test]
fn more_crossings_fail_the_gate_at_the_same_cost() {
    let crossing = |per_page| {
        let mut row = clear(Unmap::PreserveAd, 500.0);
        row.figures_mut().unwrap().crossings = Some(Crossings {
            per_page,
            by_kind: [("mmu_update".to_owned(), per_page)].into(),
        });
        of_unmap(row)
    };
    let found = |new| {
        kinds(
            &Diff::new(&crossing(0.0312), &crossing(new), 0.005).unwrap(),
            MissingRows::Allowed,
        )
    };
    assert_eq!(found(0.0312), []);
    assert_eq!(found(0.01), []);
    assert_eq!(found(1.0), [Kind::MoreCrossings]);
}

#[test]
fn missing_rows_and_figures_fail_unless_they_are_allowed() {
    let both = Bill {
        rows: vec![clear(Unmap::Emulate, 1.0), clear(Unmap::PreserveAd, 1.0)],
        ..sample()
    };
    let fewer = of_unmap(clear(Unmap::Emulate, 1.0));
    let diff = Diff::new(&both, &fewer, 0.005).unwrap();
    assert_eq!(kinds(&diff, MissingRows::Refused), [Kind::RowMissing]);
    assert_eq!(kinds(&diff, MissingRows::Allowed), []);
    let mut without = both.clone();
    without.rows[1].result = Err(Unavailable("no headers".into()));
    let diff = Diff::new(&both, &without, 0.005).unwrap();
    assert_eq!(kinds(&diff, MissingRows::Refused), [Kind::FiguresMissing]);
    // The other way round nothing is lost.
    assert_eq!(
        kinds(
            &Diff::new(&without, &both, 0.005).unwrap(),
            MissingRows::Refused
        ),
        []
    );
}

fn any_key() -> impl Strategy<Value = RowKey> {
    let mechanisms: Vec<Mechanism> = Route::Demand.mechanisms().collect();
    let number = || prop::option::of(1..4u32);
    let method = prop::sample::select(mechanisms);
    let ring = prop::option::of(prop::sample::select(vec![0u8, 3]));
    let folio = prop::option::of(prop::sample::select(Folio::ALL));
    let kernel = prop::option::of(prop::sample::select(vec!["a", "b"]));
    (method, 1..4u32, number(), number(), ring, folio, kernel).prop_map(
        |(method, batch, vcpus, readers, ring, folio, kernel)| RowKey {
            batch,
            vcpus,
            readers,
            ring,
            folio,
            kernel: kernel.map(str::to_owned),
            ..RowKey::new(Operation::PageIn, method, System::KvmGuest)
        },
    )
}

proptest! {
    /// Whatever axes the rows of a bill differ in, compared with itself nothing changed and nothing is missing.
    #[test]
    fn a_bill_compared_with_itself_has_no_finding(
        keys in prop::collection::hash_set(any_key(), 1..20),
        costs in prop::collection::vec(0.1..1e6f64, 20),
    ) {
        let rows = keys.into_iter().zip(costs);
        let rows = rows.map(|(key, cost)| Row::new(key, Pages(4), Figures::of_runs(vec![cost])));
        let bill = Bill { route: Route::Demand, rows: rows.collect(), ..sample() };
        let diff = Diff::new(&bill, &bill, 0.0).unwrap();
        prop_assert!(diff.findings.is_empty() && diff.unmatched.is_empty());
        prop_assert_eq!(diff.with(Verdict::Same).count(), bill.rows.len());
    }
}

#[test]
fn demand_rows_of_several_vcpus_are_lines_of_their_own() {
    let on = |vcpus, cost| {
        let key = RowKey {
            vcpus: Some(vcpus),
            ..RowKey::new(Operation::PageIn, Demand::Uffd, System::KvmGuest)
        };
        Row::new(key, Pages(4), Figures::of_runs(vec![cost]))
    };
    let bill = Bill {
        route: Route::Demand,
        rows: vec![on(1, 10.0), on(2, 30.0), on(8, 200.0)],
        ..sample()
    };
    assert_eq!(
        Diff::new(&bill, &bill, 0.005)
            .unwrap()
            .with(Verdict::Same)
            .count(),
        3
    );
}
