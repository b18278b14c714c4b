//! `pagetoll search`, end to end.

use assert_cmd::Command;

#[test]
fn every_mechanism_has_its_verdict_and_the_losing_orders_are_printed() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagetoll"));
    let assert = command.arg("search").assert().success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
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
