//! `pagetoll search`, end to end.

use crate::{pagetoll, text};

#[test]
fn every_mechanism_has_its_verdict_and_the_losing_orders_are_printed() {
    let assert = pagetoll(&["search"]).assert().success();
    let text = text(&assert.get_output().stdout);
    for safe in ["emulate", "preserve-ad", "cmpxchg8b", "xchg"] {
        let of_row = |line: &&str| line.trim_start().starts_with(&format!("{safe} "));
        let row = text.lines().find(of_row).unwrap();
        assert!(row.ends_with("safe"), "{row}");
    }
    for control in ["set-pte", "lazy", "mmu-update"] {
        assert!(
            text.contains(&format!("{control} loses a D bit, in the fewest steps")),
            "{text}"
        );
    }
}
