//! Rates over the number of vCPUs, as `report --over vcpus` draws them.

use std::collections::HashSet;

use pagetoll_bill::{Bill, Row, RowKey};
use pagetoll_compare::curves::{Axis, Curves, NamedBill};

use super::rows;
use crate::curves::plots;
use crate::document::Section;
use crate::unique::unique;

/// Plots of a bill whose rates are those of several numbers of vCPUs.
pub(super) fn sections(bill: &Bill) -> Vec<Section> {
    let own = bill.rows.iter().filter(|row| rows::is_own(row));
    let rated = own.filter(|row| rows::pages_per_second(row).is_some_and(|rate| rate > 0.0));
    let mut rated: Vec<Row> = rated.cloned().collect();
    if unique(rated.iter().map(|row| row.key.vcpus)).len() < 2 {
        return Vec::new();
    }
    // One number of readers at each number of vCPUs makes one curve, whichever it is.
    let without_readers = |row: &Row| RowKey {
        readers: None,
        ..row.key.clone()
    };
    let keys: HashSet<RowKey> = rated.iter().map(without_readers).collect();
    if keys.len() == rated.len() {
        for row in &mut rated {
            row.key.readers = None;
        }
    }
    let named = NamedBill {
        name: String::new(),
        bill: rows::with_rows(bill, rated),
    };
    let curves = Curves::new(&[named], Some(Axis::Vcpus), 0.0);
    curves.map_or_else(|_| Vec::new(), |curves| plots(&curves))
}
