//! Readers of bills, cost tables and published figures.

use pagetoll_bill::{Bill, from_json};
use pagetoll_compare::diff::{Diff, MissingRows};
use pagetoll_cost::published::PublishedFigure;
use pagetoll_cost::{CostKey, CostTable};
use pagetoll_render::{self as render, Format, Kind, Width};

/// Widths that a terminal has, and none that it has.
const WIDTHS: [Width; 3] = [Width::Unlimited, Width::Columns(80), Width::Columns(1)];

/// Written in every format; and read again, it is the same bill.
pub(crate) fn bill(file: &[u8]) {
    let Ok(bill) = from_json::<Bill>(file) else {
        return;
    };
    for format in Format::for_kind(Kind::Bill) {
        for width in WIDTHS {
            let _written = render::bill(&bill, format, width);
        }
    }
    let written = serde_json::to_vec(&bill).map(|json| serde_json::from_slice::<Bill>(&json));
    assert!(
        matches!(written, Ok(Ok(again)) if again == bill),
        "a bill that was read is another one once written"
    );
}

/// The file is an array of two bills.
pub(crate) fn diff(file: &[u8]) {
    let Ok([old, new]) = from_json::<[Bill; 2]>(file) else {
        return;
    };
    let Ok(diff) = Diff::new(&old, &new, 0.01) else {
        return;
    };
    for format in Format::for_kind(Kind::Diff) {
        for missing in [MissingRows::Refused, MissingRows::Allowed] {
            let _written = render::diff(&old, &new, &diff, missing, format, Width::Columns(80));
        }
    }
}

pub(crate) fn cost_table(file: &[u8]) {
    let Ok(table) = CostTable::parse("table", &String::from_utf8_lossy(file)) else {
        return;
    };
    let _topology = table.topology();
    for prices in [table.prices(), table.sample(1, 1)] {
        for key in CostKey::all() {
            let _price = prices.price(key);
        }
    }
}

pub(crate) fn published(file: &[u8]) {
    let _list = PublishedFigure::list("list.toml", &String::from_utf8_lossy(file));
}
