use pagetoll_units::Pages;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kinds::System;
use crate::provenance::HostLoad;
use crate::route::{Demand, Unmap};
use crate::row::{Figures, Operation, Toll};
use crate::tests::{clear, completed, draft};

fn with_checks(mechanism: Unmap, checks: Vec<Check>) -> Bill {
    completed(Draft {
        rows: vec![clear(mechanism, 100.0).with_checks(checks)],
        ..draft()
    })
}

fn edited(bill: &Bill, edit: impl FnOnce(&mut Value)) -> Result<Bill, String> {
    let mut json = serde_json::to_value(bill).unwrap();
    edit(&mut json["rows"][0]);
    serde_json::from_value(json).map_err(|error| error.to_string())
}

#[test]
fn a_control_may_lose_bits_but_not_return_wrong_frames() {
    let lost = Check::of_control("smp-lost-dirty", 10, 3);
    let wrong = Check::against_known("frame", 10, 1);
    let failed = |mechanism, check: &Check| {
        let bill = with_checks(mechanism, vec![check.clone()]);
        bill.checks_with(Verdict::Fail).count()
    };
    assert_eq!(failed(Unmap::Emulate, &lost), 1);
    assert_eq!(failed(Unmap::SetPte, &lost), 0);
    assert_eq!(failed(Unmap::SetPte, &wrong), 1);
}

#[test]
fn a_bill_is_read_as_it_was_written_and_its_rows_are_flat() {
    let bill = with_checks(
        Unmap::Emulate,
        vec![Check::against_control("smp-lost-dirty", 9, 0, 3)],
    );
    let json = serde_json::to_value(&bill).unwrap();
    let row = &json["rows"][0];
    assert_eq!(
        (
            &row["mechanism"],
            &row["role"],
            &row["cost_per_page"],
            &row["smp_safe"]
        ),
        (
            &json!("emulate"),
            &json!("before"),
            &json!(100.0),
            &json!(true)
        )
    );
    assert_eq!(serde_json::from_value::<Bill>(json).unwrap(), bill);
}

#[test]
fn what_follows_from_other_fields_must_follow() {
    let bill = with_checks(
        Unmap::Emulate,
        vec![Check::against_control("smp-lost-dirty", 9, 0, 3)],
    );
    let unsafe_now = edited(&bill, |row| row["smp_safe"] = json!(false)).unwrap_err();
    assert_eq!(
        unsafe_now,
        "row clear emulate, xen-pv-dom0: smp_safe is false; expected true, which follows from the row's checks"
    );
    let role = edited(&bill, |row| row["role"] = json!("after")).unwrap_err();
    assert!(role.contains("role is after; expected before"), "{role}");
    let lost = edited(&bill, |row| row["checks"][0]["failed"] = json!(5000)).unwrap_err();
    assert!(lost.contains("check smp-lost-dirty says pass"), "{lost}");
}

#[test]
fn a_row_has_a_cost_or_a_reason() {
    let bill = with_checks(Unmap::Emulate, vec![]);
    let neither = edited(&bill, |row| row["cost_per_page"] = Value::Null).unwrap_err();
    assert!(neither.contains("neither a cost nor a reason"), "{neither}");
    let both = edited(&bill, |row| row["unavailable"] = json!("x")).unwrap_err();
    assert!(both.contains("both a cost and a reason"), "{both}");
    let unknown = edited(&bill, |row| row["mechanism"] = json!("emulat")).unwrap_err();
    assert!(
        unknown.contains("unknown mechanism 'emulat' (did you mean 'emulate'?)"),
        "{unknown}"
    );
}

#[test]
fn a_figure_that_nothing_costs_is_refused_by_its_field() {
    let bill = with_checks(Unmap::Emulate, vec![]);
    let costs = |cost: f64| edited(&bill, |row| row["cost_per_page"] = json!(cost));
    assert_eq!(
        costs(1.7e308).unwrap_err(),
        "rows[0].cost_per_page is 1.7e308; expected 0, or a magnitude of 1e-100 to 1e30"
    );
    assert!(costs(1e-300).is_err());
    let toll = json!([{"name": "a", "count_per_page": 1.0, "cost_each": -1e31}]);
    let toll = edited(&bill, |row| row["tolls"] = toll).unwrap_err();
    assert!(
        toll.starts_with("rows[0].tolls[0].cost_each is -1e31"),
        "{toll}"
    );
    for fine in [0.0, -7.5, 1e30] {
        assert!(costs(fine).is_ok());
    }
}

#[test]
fn the_same_line_twice_is_refused() {
    let bill = completed(draft());
    let mut json = serde_json::to_value(&bill).unwrap();
    let row = json["rows"][0].clone();
    json["rows"].as_array_mut().unwrap().push(row);
    let error = serde_json::from_value::<Bill>(json)
        .unwrap_err()
        .to_string();
    assert!(error.contains("duplicate row"), "{error}");
}

#[test]
#[should_panic(expected = "two rows of one line")]
fn a_backend_that_makes_the_same_line_twice_is_stopped() {
    let rows = vec![clear(Unmap::Emulate, 1.0), clear(Unmap::Emulate, 2.0)];
    completed(Draft { rows, ..draft() });
}

#[test]
fn tolls_are_those_of_the_figures() {
    let figures = Figures::of_tolls(vec![Toll::once("a", 1.0), Toll::new("b", 2.0, 3.0)]);
    assert_eq!(figures.cost_per_page, 7.0);
}

#[test]
fn mechanisms_do_the_same_work_with_batches_and_readers_of_their_own() {
    let uffd = RowKey {
        vcpus: Some(8),
        readers: Some(2),
        ..RowKey::new(Operation::PageIn, Demand::Uffd, System::KvmGuest)
    };
    let exit = RowKey {
        method: Demand::Exit.into(),
        readers: None,
        ..uffd.clone().at_batch(16)
    };
    assert!(exit.does_the_work_of(&uffd) && uffd.does_the_work_of(&exit));
    let fewer = RowKey {
        vcpus: Some(1),
        ..exit
    };
    assert!(!fewer.does_the_work_of(&uffd));
}

/// A row of two vCPUs with these runs.
fn rated(runs: &[f64]) -> Row {
    let key = RowKey {
        vcpus: Some(2),
        ..RowKey::new(Operation::PageIn, Demand::Uffd, System::KvmGuest)
    };
    let figures = Figures::of_runs(runs.to_vec()).map(|figures| figures.with_rate(2));
    Row::new(key, Pages(4), figures)
}

fn rated_draft(runs: &[f64]) -> Draft {
    let mut draft = Draft {
        route: Route::Demand,
        rows: vec![rated(runs)],
        ..draft()
    };
    draft.order.mechanisms = vec![Demand::Uffd.into()];
    draft
}

fn rated_bill(runs: &[f64]) -> Bill {
    completed(rated_draft(runs))
}

proptest! {
    #[test]
    fn no_row_has_two_figures_that_disagree(runs in prop::collection::vec(1e-3..1e9f64, 1..12)) {
        let bill = rated_bill(&runs);
        let read: Bill = serde_json::from_value(serde_json::to_value(&bill).unwrap()).unwrap();
        let figures = read.rows[0].figures().unwrap();
        let rate = figures.rate.unwrap().pages_per_second;
        prop_assert!((rate * figures.cost_per_page / 2e9 - 1.0).abs() < 1e-12);
        prop_assert_eq!(Some(figures.cost_per_page), crate::row::median(&runs));
    }
}

#[test]
fn a_rate_that_is_not_that_of_the_cost_is_refused_but_in_bills_that_have_deviations() {
    let bill = rated_bill(&[10.0, 20.0, 30.0]);
    let refused = edited(&bill, |row| row["pages_per_second"] = json!(7e7));
    let error = refused.unwrap_err();
    assert!(
        error.contains("pages_per_second is 70000000; expected 100000000"),
        "{error}"
    );
    let of_means = edited(&bill, |row| {
        row["pages_per_second"] = json!(7e7);
        row["pages_per_second_stddev"] = json!(1e6);
        row["stddev"] = json!(10.0);
    });
    assert!(of_means.is_ok());
}

#[test]
fn intervals_of_a_busy_host_are_wider_than_their_runs() {
    let at = |waited| {
        let load = HostLoad {
            load_average: 0.0,
            others: 0.9,
            steal: 0.0,
            waited: Some(waited),
        };
        let mut draft = rated_draft(&[10.0, 11.0, 12.0, 13.0, 14.0]);
        draft.inputs.host_load = Some(load);
        let bill = completed(draft);
        bill.rows[0]
            .figures()
            .and_then(|figures| figures.interval)
            .unwrap()
    };
    let (idle, busy) = (at(0.0), at(0.5));
    assert!(busy.low < 0.95 * idle.low, "{idle:?} {busy:?}");
    assert!(busy.high > 1.05 * idle.high, "{idle:?} {busy:?}");
}
