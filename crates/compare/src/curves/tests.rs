use pagetoll_bill::route::{Demand, Unmap};
use pagetoll_bill::row::Rate;
use pagetoll_bill::{Figures, Row, System};
use pagetoll_units::Pages;
use proptest::prelude::*;

use super::*;
use crate::diff::Verdict;
use crate::tests::{clear, sample};

fn on(kernel: &str, rows: Vec<Row>) -> NamedBill {
    let stack = [
        ("linux".to_owned(), kernel.to_owned()),
        ("cpu".to_owned(), "A".to_owned()),
    ];
    let bill = Bill {
        stack: stack.into(),
        rows,
        ..sample()
    };
    NamedBill {
        name: format!("{kernel}.json"),
        bill,
    }
}

fn emulate(cost: f64) -> Row {
    clear(Unmap::Emulate, cost)
}

fn values(curve: &Curve) -> Vec<(&str, f64)> {
    curve
        .points
        .iter()
        .map(|point| (point.at.name.as_str(), point.value))
        .collect()
}

#[test]
fn kernels_are_the_axis_of_bills_that_differ_in_them_and_steps_are_found() {
    let bills = [
        on("6.12.43", vec![emulate(100.4)]),
        on("6.1.192", vec![emulate(100.0)]),
        on("7.3.4", vec![emulate(144.0)]),
    ];
    let curves = Curves::new(&bills, None, 0.005).unwrap();
    assert_eq!((curves.axis, curves.charts.len()), (Axis::Kernel, 1));
    let curve = &curves.charts[0].curves[0];
    assert_eq!(
        values(curve),
        [("6.1.192", 100.0), ("6.12.43", 100.4), ("7.3.4", 144.0)]
    );
    let steps: Vec<_> = curves.steps().collect();
    assert_eq!(steps.len(), 1);
    assert_eq!(
        (steps[0].from.name.as_str(), steps[0].to.name.as_str()),
        ("6.12.43", "7.3.4")
    );
    assert_eq!(steps[0].change.verdict, Verdict::Regressed);
}

#[test]
fn a_bill_of_several_kernels_has_a_point_for_each() {
    let row = |kernel: &str, cost| {
        let mut row = emulate(cost);
        row.key.kernel = Some(kernel.to_owned());
        row
    };
    let mut both = on("", vec![row("debian:bookworm", 1.0), row("fix:none", 2.0)]).bill;
    both.stack.remove("linux");
    both.stack
        .insert("linux (debian:bookworm)".into(), "6.1.192".into());
    both.stack
        .insert("linux (fix:none)".into(), "6.18.15".into());
    let named = NamedBill {
        name: "both.json".into(),
        bill: both,
    };
    let curves = Curves::new(&[named], Some(Axis::Kernel), 0.005).unwrap();
    let curve = &curves.charts[0].curves[0];
    assert_eq!(values(curve), [("6.1.192", 1.0), ("6.18.15 fix:none", 2.0)]);
}

#[test]
fn the_same_order_on_the_same_kernel_is_told_apart_by_its_date() {
    let mut later = on("6.1", vec![emulate(2.0)]);
    later.bill.provenance.when = "2026-02-01T00:00:00Z".into();
    let bills = [later, on("6.1", vec![emulate(1.0)])];
    let curves = Curves::new(&bills, None, 0.005).unwrap();
    assert_eq!(curves.axis, Axis::Date);
    assert_eq!(curves.charts[0].curves[0].points[1].value, 2.0);
    let error = Curves::new(&bills, Some(Axis::Kernel), 0.005)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "6.1.json and 6.1.json have both a figure of clear emulate, xen-pv-dom0 at kernel 6.1; expected one, or --over another \
         of kernel, xen, vcpus, batch, pages, date"
    );
}

#[test]
fn other_machines_are_other_curves() {
    let mut other = on("7.3", vec![emulate(9.0)]);
    other.bill.stack.insert("cpu".into(), "B".into());
    let bills = [
        on("6.1", vec![emulate(1.0)]),
        on("6.12", vec![emulate(1.0)]),
        other,
    ];
    let curves = Curves::new(&bills, None, 0.005).unwrap();
    assert_eq!(curves.charts[0].curves.len(), 2);
    assert_eq!(curves.steps().count(), 0);
}

#[test]
fn bills_that_nothing_tells_apart_are_refused() {
    let bills = [on("6.1", vec![emulate(1.0)]), on("6.1", vec![emulate(1.0)])];
    assert_eq!(
        Curves::new(&bills, None, 0.005),
        Err(CurvesError::NothingDiffers)
    );
    let none = Curves::new(&bills, Some(Axis::Vcpus), 0.005);
    assert_eq!(none, Err(CurvesError::NoPlace(Axis::Vcpus)));
}

#[test]
fn rates_are_shown_where_every_point_has_one() {
    let row = |vcpus: u32| {
        let key = RowKey {
            vcpus: Some(vcpus),
            ..RowKey::new(Operation::PageIn, Demand::Exit, System::KvmGuest)
        };
        let mut figures = Figures::of_runs(vec![100.0]).unwrap();
        figures.rate = Some(Rate::of_cost(vcpus, 100.0));
        Row::new(key, Pages(4), Ok(figures))
    };
    let bill = |name: &str, rows| {
        let bill = Bill {
            route: Route::Demand,
            rows,
            ..sample()
        };
        NamedBill {
            name: name.into(),
            bill,
        }
    };
    let bills = [bill("a", vec![row(1), row(2)]), bill("b", vec![row(4)])];
    let curves = Curves::new(&bills, None, 0.005).unwrap();
    assert_eq!(curves.axis, Axis::Vcpus);
    assert_eq!(curves.charts[0].quantity, Quantity::Rate);
    assert_eq!(
        values(&curves.charts[0].curves[0]),
        [("1", 1e7), ("2", 2e7), ("4", 4e7)]
    );
    // More vCPUs are no step.
    assert_eq!(curves.steps().count(), 0);
}

proptest! {
    /// Against the naive reading: each figure of each bill is one point, and a step is where neighbours differ by more.
    #[test]
    fn every_figure_is_a_point_and_every_jump_a_step(costs in prop::collection::vec(1.0..1000.0_f64, 2..12)) {
        let bills: Vec<_> = costs
            .iter()
            .enumerate()
            .map(|(minor, cost)| on(&format!("6.{minor}"), vec![emulate(*cost)]))
            .collect();
        let curves = Curves::new(&bills, None, 0.01).unwrap();
        let points: Vec<f64> = curves.charts[0].curves[0].points.iter().map(|point| point.value).collect();
        prop_assert_eq!(&points, &costs);
        let jumps = costs.windows(2).filter(|pair| (pair[1] - pair[0]).abs() > pair[0] * 0.01);
        prop_assert_eq!(curves.steps().count(), jumps.count());
    }
}
