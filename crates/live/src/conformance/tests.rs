//! Every case on this host, against the recorded answers. What this host cannot answer is skipped.

use pagetoll_conformance::kvm::{all, describe, recorded};
use pagetoll_test_support::{skip, skipped_test};

use super::*;

#[test]
fn this_host_answers_as_was_recorded() {
    let cases = all().unwrap();
    let ran = match run(&cases, &Stop::new()) {
        Ok(ran) => ran,
        Err(LiveError::Environment { what, remedy }) => skip!("{what}; {remedy}"),
        Err(other) => panic!("{other}"),
    };
    for (case, outcome) in cases.iter().zip(&ran.outcomes) {
        match (outcome, recorded(&case.name)) {
            (Outcome::Skipped(why), _) => skipped_test(&case.name, why),
            (Outcome::Answers(_), None) => {
                assert!(case.is_beyond_record(), "{}: no record", case.name);
                skipped_test(&case.name, "the recorded kernel lacks what the case needs");
            }
            (Outcome::Answers(answered), Some(recorded)) => {
                assert_eq!(describe(case, answered), recorded, "{}", case.name);
            }
        }
    }
}
