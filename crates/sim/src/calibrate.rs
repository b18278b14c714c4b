//! Figures of a cost table from bills of a Xen PV guest, as the lab counted it or as a host timed itself.
//!
//! Only the smallest and the largest batch of each mechanism are read, so that everything between them is left for
//! predictions to be held against. What a call costs is the difference between the two over the difference in calls.

use pagetoll_bill::{Backend, Bill, Row, System, Unit};
use pagetoll_cost::Derived;

use crate::routes::{self, derived::Rows};

/// The figures that a bill holds; empty for one that is neither of the lab nor of a Xen PV guest by itself.
#[must_use]
pub fn figures(bill: &Bill) -> Vec<Derived> {
    match bill.backend {
        Backend::Lab if bill.unit == Unit::Instructions => {
            let systems = [System::XenPvDom0, System::XenPv32Dom0];
            systems.map(|system| figures_of(bill, system)).concat()
        }
        Backend::Live if bill.unit == Unit::Nanoseconds => timed(bill),
        Backend::Lab | Backend::Live | Backend::Sim => Vec::new(),
    }
}

fn figures_of(bill: &Bill, system: System) -> Vec<Derived> {
    let rows = Rows { bill, system };
    let model = routes::model(bill.route).ok();
    let figures = model.and_then(|model| (model.figures)(rows));
    figures.unwrap_or_default()
}

/// Times vary: a figure is that of the means, between the least and the most that single runs give.
fn timed(bill: &Bill) -> Vec<Derived> {
    let is_control = bill
        .rows
        .iter()
        .any(|row| row.key.system == System::XenPvDom0);
    let system = match is_control {
        true => System::XenPvDom0,
        false => System::XenPvDomU,
    };
    let runs = bill
        .rows
        .iter()
        .filter_map(Row::figures)
        .map(|figures| figures.runs.len());
    let of_runs: Vec<_> = (0..runs.min().unwrap_or(0))
        .map(|run| figures_of(&single_run(bill, run), system))
        .collect();
    let among = |figure: Derived| {
        let same = of_runs
            .iter()
            .flatten()
            .filter(|of_run| of_run.key == figure.key);
        let values: Vec<f64> = same.map(|of_run| of_run.value).collect();
        Derived {
            low: values.iter().copied().fold(figure.value, f64::min),
            high: values.iter().copied().fold(figure.value, f64::max),
            ..figure
        }
    };
    figures_of(bill, system).into_iter().map(among).collect()
}

/// The bill of one of its runs alone.
fn single_run(bill: &Bill, run: usize) -> Bill {
    let mut bill = bill.clone();
    for figures in bill
        .rows
        .iter_mut()
        .filter_map(|row| row.result.as_mut().ok())
    {
        if let Some(cost) = figures.runs.get(run) {
            figures.cost_per_page = *cost;
        }
    }
    bill
}
