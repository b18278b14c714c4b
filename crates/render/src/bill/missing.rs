//! Rows without figures, and why.

use pagetoll_bill::row::RowKey;
use pagetoll_bill::{Bill, Route};

use crate::document::Section;
use crate::subset;
use crate::unique::unique;

/// One line for each reason.
pub(super) fn section(bill: &Bill) -> Section {
    // Its calls are listed by backing.
    let is_elsewhere = bill.route == Route::Discard;
    let missing = bill.rows.iter().filter(|_| !is_elsewhere);
    let missing: Vec<(&RowKey, &str)> = missing
        .filter_map(|row| Some((&row.key, row.why_unavailable()?)))
        .collect();
    let all: Vec<&RowKey> = bill.rows.iter().map(|row| &row.key).collect();
    let line = |reason: &str| {
        let rows = missing.iter().filter(|(_, other)| *other == reason);
        let keys: Vec<&RowKey> = rows.map(|(key, _)| *key).collect();
        let named = subset::named(&all, &keys);
        format!("{named}: {reason}")
    };
    let reasons = unique(missing.iter().map(|(_, reason)| *reason));
    Section::list(
        "Rows without figures",
        reasons.into_iter().map(line).collect(),
    )
}
