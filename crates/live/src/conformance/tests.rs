//! Every case on this host and on the recorded answers. What this host cannot answer is told as skipped.

use std::sync::atomic::AtomicBool;

use pagetoll_conformance::kvm::{all, describe, recorded};

use super::*;

#[test]
fn this_host_answers_as_was_recorded() {
    let cases = all().unwrap();
    let ran = match run(&cases, &AtomicBool::new(false)) {
        Ok(ran) => ran,
        Err(LiveError::Environment { what, remedy }) => {
            eprintln!("skipped: {what}; {remedy}");
            return;
        }
        Err(other) => panic!("{other}"),
    };
    for (case, outcome) in cases.iter().zip(&ran.outcomes) {
        match (outcome, recorded(&case.name)) {
            (Outcome::Skipped(why), _) => eprintln!("skipped {}: {why}", case.name),
            (Outcome::Answered(_), None) => eprintln!("skipped {}: not recorded", case.name),
            (Outcome::Answered(answered), Some(recorded)) => {
                assert_eq!(describe(case, answered), recorded, "{}", case.name);
            }
        }
    }
}
