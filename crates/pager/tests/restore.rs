//! The example runs, and finds every page right.

#[path = "../examples/restore.rs"]
mod restore;

use pagetoll_pager::{Delivery, Userfaultfd};
use pagetoll_test_support::skip;

#[test]
fn the_example_restores_memory_from_a_file() {
    if let Err(error) = Userfaultfd::new(Delivery::Message) {
        skip!("userfaultfd: {error}");
    }
    restore::main().unwrap();
}
