//! Cases of demand paging: what a script asks of KVM's memslots and of userfaultfd, and what a system answers.
//!
//! The scripts lie in `conformance/kvm/`; its README has the language. Nothing here runs one.

mod answer;
mod case;
mod line;
mod parse;
mod place;

use crate::{ScriptError, script};

pub use answer::{Answer, Answered, Shown, Waiting, describe};
pub use case::{
    Actor, Call, Case, Content, GUEST_BYTES, GUEST_SLOT, Kind, Memory, MemslotCall, Need,
    O_NONBLOCK, PageCall, Step, Touch, UFFD_USER_MODE_ONLY, UserfaultfdCall, label,
};
pub use parse::parse;
pub use place::Place;

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../conformance/kvm/", $name, ".script")))),*]
    };
}

const SCRIPTS: [(&str, &str); 8] = scripts![
    "api",
    "register",
    "queues",
    "fill",
    "minor",
    "writeprotect",
    "memslot",
    "stage2",
];

const RECORDED: &str = include_str!("../../../conformance/kvm/recorded-linux.txt");

/// All cases, in the scripts' order.
///
/// # Errors
/// A script that is damaged.
pub fn all() -> Result<Vec<Case>, ScriptError> {
    script::cases(&SCRIPTS, parse)
}

/// What a real kernel answered to a case when it was last recorded, a line for each step.
#[must_use]
pub fn recorded(case: &str) -> Option<Vec<String>> {
    script::recorded(RECORDED, case)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_scripts_are_whole_and_no_name_occurs_twice() {
        let cases = all().unwrap();
        let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.len() >= 60, "{}", cases.len());
        for case in &cases {
            assert!(
                !case.about.is_empty() && !case.steps.is_empty(),
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn what_was_recorded_has_an_answer_for_every_step() {
        for case in all().unwrap() {
            if let Some(answers) = recorded(&case.name) {
                assert_eq!(answers.len(), case.steps.len(), "{}", case.name);
            }
        }
    }
}
