use pagetoll_units::Pages;

use super::*;
use crate::bill::{Interval, Schema};
use crate::order::Order;
use crate::provenance::Provenance;
use crate::route::Role;

fn row(folio: &str, kernel: &str, cost: f64) -> Row {
    let mut row = Row::new("unmap", "kernel", Role::Observed, Pages(4));
    row.folio = Some(folio.to_owned());
    row.kernel = Some(kernel.to_owned());
    row.set_runs(vec![cost]);
    row
}

fn bill(evidence: Evidence, rows: Vec<Row>) -> Bill {
    Bill {
        schema: Schema::V1,
        route: Route::Pin,
        backend: Backend::Lab,
        backend_reason: String::new(),
        unit: Unit::Instructions,
        evidence,
        stack: std::collections::BTreeMap::new(),
        order: Order {
            pages: Pages(4),
            batches: vec![1],
            mechanisms: vec![],
            runs: 1,
        },
        rows,
        notes: vec![],
        provenance: Provenance::default(),
    }
}

fn verdicts(diff: &Diff) -> Vec<Verdict> {
    diff.changes.iter().map(|change| change.verdict).collect()
}

#[test]
fn exact_counts_within_the_tolerance_are_the_same() {
    let costs = |costs: [f64; 4]| {
        let rows = ["4K", "THP", "2M", "1G"].into_iter().zip(costs);
        bill(
            Evidence::Exact,
            rows.map(|(folio, cost)| row(folio, "6.18", cost)).collect(),
        )
    };
    let (old, new) = (costs([100.0; 4]), costs([100.5, 100.6, 99.5, 99.4]));
    let diff = Diff::of(&old, &new, 0.005).unwrap();
    let expected = [
        Verdict::Same,
        Verdict::Dearer,
        Verdict::Same,
        Verdict::Cheaper,
    ];
    assert_eq!(verdicts(&diff), expected);
    assert_eq!(diff.with(Verdict::Dearer).count(), 1);
}

#[test]
fn two_kernels_are_compared_where_each_bill_has_one() {
    let old = bill(Evidence::Exact, vec![row("2M", "6.18", 140.0)]);
    let new = bill(
        Evidence::Exact,
        vec![row("2M", "7.2", 200.0), row("1G", "7.2", 1.0)],
    );
    let diff = Diff::of(&old, &new, 0.005).unwrap();
    assert_eq!(verdicts(&diff), [Verdict::Dearer]);
    assert_eq!(diff.unmatched[0].reason, "only in the new bill");
    let both = bill(
        Evidence::Exact,
        vec![row("2M", "6.18", 1.0), row("2M", "7.2", 2.0)],
    );
    let diff = Diff::of(&both, &both, 0.005).unwrap();
    assert_eq!(verdicts(&diff), [Verdict::Same, Verdict::Same]);
}

#[test]
fn measured_costs_need_significance_and_more_than_noise() {
    let runs = |runs: &[f64]| {
        let mut row = row("2M", "-", 0.0);
        row.set_runs(runs.to_vec());
        bill(Evidence::Measured, vec![row])
    };
    let verdict = |old: &[f64], new: &[f64]| {
        let diff = Diff::of(&runs(old), &runs(new), 0.005).unwrap();
        diff.changes[0].verdict
    };
    let steady = [10.0, 10.1, 9.9, 10.0];
    assert_eq!(verdict(&steady, &[12.0, 12.1, 11.9, 12.0]), Verdict::Dearer);
    assert_eq!(
        verdict(&[12.0, 12.1, 11.9, 12.0], &steady),
        Verdict::Cheaper
    );
    assert_eq!(verdict(&steady, &[10.0, 10.1, 9.9, 10.05]), Verdict::Same);
    assert_eq!(
        verdict(&[8.0, 12.0, 9.0, 11.0], &[9.0, 13.0, 10.0, 12.0]),
        Verdict::Same
    );
    assert_eq!(verdict(&[10.0; 3], &[20.0; 3]), Verdict::Undecided);
}

#[test]
fn modelled_costs_differ_when_their_intervals_do_not_meet() {
    let modelled = |cost: f64, low: f64, high: f64| {
        let mut row = row("2M", "-", cost);
        row.interval = Some(Interval { low, high });
        bill(Evidence::Modelled, vec![row])
    };
    let verdict = |old: &Bill, new: &Bill| Diff::of(old, new, 0.005).unwrap().changes[0].verdict;
    let old = modelled(10.0, 8.0, 12.0);
    assert_eq!(verdict(&old, &modelled(13.0, 11.0, 15.0)), Verdict::Same);
    assert_eq!(verdict(&old, &modelled(15.0, 13.0, 17.0)), Verdict::Dearer);
    assert_eq!(verdict(&old, &modelled(5.0, 4.0, 6.0)), Verdict::Cheaper);
}

#[test]
fn the_toll_that_changed_most_comes_first() {
    let toll = |name: &str, cost_each| Toll {
        name: name.to_owned(),
        count_per_page: 1.0,
        cost_each,
    };
    let mut old = row("2M", "6.18", 140.0);
    old.tolls = vec![toll("a", 100.0), toll("b", 40.0)];
    let mut new = row("2M", "7.2", 200.0);
    new.tolls = vec![toll("a", 95.0), toll("c", 105.0)];
    let diff = Diff::of(
        &bill(Evidence::Exact, vec![old]),
        &bill(Evidence::Exact, vec![new]),
        0.0,
    );
    let names: Vec<_> = diff.unwrap().changes[0]
        .tolls
        .iter()
        .map(|toll| toll.name.clone())
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
    let error = Diff::of(&one, &of_unmap, 0.0).unwrap_err().to_string();
    assert_eq!(
        error,
        "bills of different routes: pin and unmap; expected two of one route"
    );
    let live = Bill {
        backend: Backend::Live,
        ..one.clone()
    };
    assert!(matches!(
        Diff::of(&one, &live, 0.0),
        Err(DiffError::Backends { .. })
    ));
    let of = |kernel| vec![row("2M", kernel, 1.0), row("1G", kernel, 1.0)];
    let two = bill(Evidence::Exact, [of("6.17"), of("6.18")].concat());
    let other = bill(Evidence::Exact, of("7.2"));
    assert!(matches!(
        Diff::of(&two, &other, 0.0),
        Err(DiffError::NothingInCommon)
    ));
}
