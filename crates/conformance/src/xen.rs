//! Cases of PV paging: what a script asks of Xen's hypercalls, and what a system answers.
//!
//! The scripts lie in `conformance/`; its README has the language. Nothing here runs one.

mod answer;
mod case;
mod names;
mod parse;

use crate::script;

pub use answer::{Answer, CaseAnswers, Frames, describe};
pub use case::{
    Batch, Case, Ext, ExtArgument, Flush, Native, Operation, Place, Step, Symbol, Target, Update,
    VaUpdate, Value,
};
pub use parse::parse;

script::suite!(
    Case,
    parse,
    "conformance/",
    "recorded-xen-4.17.txt",
    [
        "mmu_update",
        "preserve_ad",
        "upper_levels",
        "mmuext_op",
        "update_va_mapping",
        "native",
        "multicall"
    ]
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_whole_and_answered_for_every_step() {
        assert_whole(80);
        let cases = all().unwrap();
        assert!(cases.iter().all(|case| recorded(&case.name).is_some()));
        assert_eq!(recorded("no such case"), None);
    }
}
