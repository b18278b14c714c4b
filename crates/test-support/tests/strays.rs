//! A program of its own: [`strays`] waits for every child of its process.

use std::process::Command;
use std::time::Duration;

use pagetoll_test_support::{become_subreaper, strays};

#[test]
fn an_orphan_that_stays_is_named_and_killed() {
    become_subreaper();
    let orphan = Command::new("sh").args(["-c", "sleep 600 &"]).status();
    assert!(orphan.is_ok_and(|status| status.success()));
    let left = strays(Duration::from_millis(50));
    assert!(
        matches!(left.as_slice(), [orphan] if orphan.starts_with("process ")),
        "{left:?}"
    );
    assert_eq!(strays(Duration::from_millis(50)), [""; 0]);
}
