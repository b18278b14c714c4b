//! Bills of the demand route, on the tables that come along and on altered ones.

use std::collections::BTreeSet;

use pagetoll_bill::Route;
use pagetoll_bill::row::{TollKind, Verdict};
use pagetoll_cost::CostTable;

use super::*;
use crate::routes::Request as _;
use pagetoll_bill::Draft;

const TABLE: &str = include_str!("../../../../../costs/x86-256-core.toml");
const TABLE_1_4: &str = include_str!("../../../../../costs/x86-256-core-1-4.toml");

/// An order of both published mechanisms on a table of this text.
fn request(table: &str, samples: u32) -> Request {
    let mut spec = Spec::new(Route::Demand);
    spec.mechanisms = vec!["uffd".into(), "exit-on-missing".into()];
    spec.demand.vcpus = Some(vec![1, 2, 4, 8]);
    spec.sim.samples = Some(samples);
    let mut request = Request::new(&spec).unwrap();
    request.ordered.costs = CostTable::parse("test", table).unwrap();
    request
}

fn billed(request: &Request) -> Draft {
    request.clone().bill(&Stop::new()).unwrap()
}

#[test]
fn the_same_order_gives_the_same_bill_and_tolls_sum_to_the_cost() {
    let request = request(TABLE, 4);
    let draft = billed(&request);
    assert_eq!(billed(&request), draft);
    for row in &draft.rows {
        let figures = row.figures().unwrap();
        let cost = figures.cost_per_page;
        assert!((Toll::sum(&figures.tolls) - cost).abs() < 1e-6 * cost);
        let rate = f64::from(row.key.vcpus.unwrap()) * 1e9 / cost;
        assert!((rate / figures.rate.unwrap().pages_per_second - 1.0).abs() < 1e-9);
        assert!(row.pages > Pages(0) && figures.interval.is_some());
    }
}

/// Checks are those of the mechanism, over all samples, and each was seen to fail.
#[test]
fn every_check_passes_beside_a_broken_pager_that_fails_it() {
    let mut request = request(TABLE, 3);
    let mut spec = Spec::new(Route::Demand);
    (spec.demand.vcpus, spec.batches) = (Some(vec![1, 8]), Some(vec![1, 4]));
    request.ordered.order = Request::new(&spec).unwrap().ordered.order;
    let draft = billed(&request);
    // uffd on 2, 4 and 8 vCPUs by the best number of readers as well.
    assert_eq!(draft.rows.len(), 4 * (1 + 1 + 2 + 2 + 2) + 3 * 2);
    for row in &draft.rows {
        let properties = scenarios(&request)
            .into_iter()
            .find(|one| row.key.method == one.mechanism.into())
            .map(|one| Property::checked_on(one.mechanism));
        let names: Vec<_> = row.checks.iter().map(|check| check.name.as_str()).collect();
        let expected: Vec<_> = properties.unwrap().iter().map(|one| one.name()).collect();
        assert_eq!(names, expected, "{}", row.key);
        for check in &row.checks {
            assert_eq!(check.verdict, Verdict::Pass, "{} {}", row.key, check.name);
            assert!(check.control_failed > Some(0), "{} {}", row.key, check.name);
            assert!(check.tried >= 3 * row.pages.get() / u64::from(row.key.batch));
        }
    }
}

/// The kinds that renderings sum up, of each kind of thread.
#[test]
fn tolls_have_the_kinds_that_renderings_look_for() {
    let mut request = request(TABLE, 1);
    request.vcpus = vec![8];
    let draft = billed(&request);
    let uffd = draft.rows.iter().find(|row| row.key.readers.is_some());
    let names = uffd
        .unwrap()
        .tolls()
        .iter()
        .map(|toll| TollName::parse(&toll.name));
    let kinds: BTreeSet<_> = names.map(|name| (name.payer, name.kind)).collect();
    let all = |payer| TollKind::ALL.map(|kind| (payer, kind));
    let all: BTreeSet<_> = [all(Payer::Own), all(Payer::Reader)]
        .concat()
        .into_iter()
        .collect();
    assert_eq!(kinds, all);
}

#[test]
fn uffd_has_rows_of_the_best_number_of_readers_unless_it_is_ordered() {
    let rows = |request: &Request| {
        let draft = billed(request);
        let uffd = draft.rows.iter().filter(|row| row.key.readers.is_some());
        let uffd = uffd.map(|row| (row.key.vcpus.unwrap(), row.key.readers.unwrap()));
        let note = draft.notes.into_iter();
        let note = note.filter(|note| note.starts_with("readers of uffd: "));
        (uffd.collect::<Vec<_>>(), note.collect::<Vec<_>>())
    };
    let mut request = request(TABLE, 3);
    request.vcpus = vec![1, 16];
    let (keys, notes) = rows(&request);
    assert_eq!(keys, [(1, 1), (16, 16), (16, 1)]);
    assert!(notes[0].contains(": 1 at 16 vCPUs; "), "{notes:?}");
    request.readers = Some(8);
    assert_eq!(rows(&request), (vec![(1, 8), (16, 8)], Vec::new()));
    request.readers = None;
    request.sharing = Sharing::PerVcpu;
    assert_eq!(rows(&request), (vec![(1, 1), (16, 16)], Vec::new()));
    (request.sharing, request.vcpus) = (Sharing::One, vec![1]);
    assert_eq!(rows(&request), (vec![(1, 1)], Vec::new()));
}

#[test]
fn calibration_points_are_no_predictions_and_the_law_stands_beside_two_of_them() {
    let draft = billed(&request(TABLE_1_4, 1));
    let fitted = |row: &&Row| row.published.is_some_and(|p| p.fitted);
    let fitted: Vec<_> = draft
        .rows
        .iter()
        .filter(fitted)
        .map(|row| row.key.vcpus)
        .collect();
    assert_eq!(fitted, [Some(1), Some(4), Some(1), Some(4)]);
    let with_law = |row: &Row| row.published.and_then(|p| p.scalability).is_some();
    let as_published = |row: &Row| {
        row.key
            .readers
            .is_none_or(|_| row.key.readers == row.key.vcpus)
    };
    let mut rows = draft.rows.iter();
    assert!(rows.all(|row| with_law(row) == as_published(row)));
    let left_out = draft
        .notes
        .iter()
        .filter(|note| note.contains("calibration points left out"));
    assert_eq!(left_out.count(), 2);
    let alone = billed(&request(TABLE, 1));
    assert!(!alone.rows.iter().any(with_law));
}

#[test]
fn a_calibration_point_that_no_machine_meets_is_an_error() {
    let table = TABLE.replace(
        "[figure.\"demand.page.uffd.1\"]",
        "[figure.\"demand.page.uffd.4\"]",
    );
    let at = table.find("[figure.\"demand.page.uffd.4\"]").unwrap();
    let (before, after) = table.split_at(at);
    let figure = after
        .lines()
        .map(|line| match line.split_once(" = ") {
            Some(("value" | "low" | "high", _)) => {
                format!("{} = 1.0", line.split(' ').next().unwrap())
            }
            _ => line.to_owned(),
        })
        .collect::<Vec<_>>();
    let impossible = format!("{before}{}\n", figure.join("\n"));
    let refused = request(&impossible, 2)
        .bill(&Stop::new())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("demand.page.uffd.4: the model cannot meet it on 2 of 2 machines"),
        "{refused}"
    );
    let met = billed(&request(TABLE, 2));
    assert!(!met.notes.iter().any(|note| note.starts_with("warning: ")));
}

/// 16 vCPUs have a line from other caches, 256 from their neighbours: lines of one speed meet one rate or the other.
#[test]
fn rates_of_lines_that_are_always_contended_are_met() {
    let (uncalibrated, _) = TABLE
        .split_once("[figure.\"demand.page.exit-on-missing.1\"]")
        .unwrap();
    let known = [(16, 1_595_000.0), (256, 4_012_000.0)].map(|(vcpus, rate)| {
        let cost = f64::from(vcpus) * 1e9 / rate;
        format!(
            "[figure.\"demand.page.exit-on-missing.{vcpus}\"]\nvalue = {cost}\nlow = {cost}\nhigh = {cost}\n\
             kind = \"fitted\"\nfitted-to = [\"demand.exit-on-missing.{vcpus}\"]\nsource = \"the published rate\"\n"
        )
    });
    let mut request = request(&format!("{uncalibrated}{}", known.concat()), 6);
    let mut spec = Spec::new(Route::Demand);
    spec.mechanisms = vec!["exit-on-missing".into()];
    request.ordered.order = Request::new(&spec).unwrap().ordered.order;
    request.vcpus = vec![1];
    let draft = billed(&request);
    let left_out = draft
        .notes
        .iter()
        .find(|note| note.contains("cannot be met"));
    assert_eq!(left_out, None);
}

#[test]
fn a_row_that_the_table_states_is_no_prediction_whatever_it_was_fitted_to() {
    let fitted = TABLE.replace(
        "fitted-to = [\"demand.uffd.1\"]",
        "fitted-to = [\"demand.uffd.8\"]",
    );
    let draft = billed(&request(&fitted, 1));
    let uffd = draft
        .rows
        .iter()
        .filter(|row| row.key.method == Mechanism::Uffd.into());
    let fitted = uffd.filter_map(|row| Some(row.published?.fitted));
    assert_eq!(fitted.collect::<Vec<_>>(), [true, false, false, true]);
}

#[test]
fn a_table_of_another_machine_is_not_compared() {
    let end = TABLE.find("\n[figure.\"demand.page.").unwrap();
    let draft = billed(&request(&TABLE[..end], 1));
    assert!(draft.rows.iter().all(|row| row.published.is_none()));
}

#[test]
fn sensitivity_names_figures_for_every_row() {
    let mut request = request(TABLE, 1);
    request.vcpus = vec![2];
    request.sensitivity = Wanted::Yes;
    let draft = billed(&request);
    let named = draft
        .notes
        .iter()
        .filter(|note| note.starts_with("sensitivity of"));
    let named: Vec<_> = named.collect();
    assert_eq!(named.len(), 3);
    assert!(
        named.iter().all(|note| note.matches(" .. ").count() > 1),
        "{named:?}"
    );
}
