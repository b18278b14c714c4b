//! Which checks say something of the row that they stand in.

use pagetoll_bill::{Bill, Check, Row};

/// Whether this is a race that a negative control was entered in: it says something of the other rows only.
pub(crate) fn is_of_control(bill: &Bill, row: &Row, check: &Check) -> bool {
    let known = bill.route.mechanism(&row.mechanism);
    check.is_race() && !known.is_ok_and(|mechanism| mechanism.smp_safe)
}
