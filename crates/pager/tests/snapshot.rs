//! The example runs, and finds every page right.

#[path = "../examples/snapshot.rs"]
mod snapshot;

use pagetoll_pager::{Delivery, Userfaultfd};
use pagetoll_test_support::skip;

#[test]
fn the_example_restores_two_guests_from_a_snapshot() {
    if let Err(error) = Userfaultfd::new(Delivery::Message) {
        skip!("userfaultfd: {error}");
    }
    snapshot::main().unwrap();
}
