//! Cases of demand paging: what a script asks of KVM's memslots and of userfaultfd, and what a system answers.
//!
//! The scripts lie in `conformance/kvm/`; its README has the language. Nothing here runs one.

mod answer;
mod case;
mod line;
mod parse;
mod place;

use crate::script;

pub use answer::{Answer, Outcome, PageContent, StepAnswer, Waiting, describe};
pub use case::{
    Actor, Binding, Call, Case, Content, GUEST_BYTES, GUEST_SLOT, Kind, Memory, Memslot,
    MemslotCall, Need, O_NONBLOCK, PageCall, Step, Touch, UFFD_USER_MODE_ONLY, UserfaultfdCall,
    Version, label,
};
pub use parse::parse;
pub use place::Place;

script::suite!(
    Case,
    parse,
    "conformance/kvm/",
    "recorded-linux.txt",
    [
        "api",
        "register",
        "queues",
        "fill",
        "minor",
        "writeprotect",
        "memslot",
        "stage2"
    ]
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_whole_and_answered_for_every_step() {
        assert_whole(60);
        let cases = all().unwrap();
        for case in cases {
            let is_recorded = recorded(&case.name).is_some();
            assert_eq!(is_recorded, !case.is_beyond_record(), "{}", case.name);
        }
    }
}
