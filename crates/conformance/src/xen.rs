//! The scripts that come with pagetoll, and what a real Xen answered to them.

use crate::case::Case;
use crate::parse::{ScriptError, parse};
use crate::script;

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../conformance/", $name)))),*]
    };
}

const SCRIPTS: &[(&str, &str)] = scripts![
    "mmu_update.script",
    "preserve_ad.script",
    "upper_levels.script",
    "mmuext_op.script",
    "update_va_mapping.script",
    "native.script",
    "multicall.script",
];

const RECORDED: &str = include_str!("../../../conformance/recorded-xen-4.17.txt");

/// All cases.
///
/// # Errors
/// A script that cannot be read, which a test of this crate rules out.
pub fn all() -> Result<Vec<Case>, ScriptError> {
    script::cases(SCRIPTS, parse)
}

/// What the real Xen answered to a case when it was last recorded, a line for each step.
#[must_use]
pub fn recorded(case: &str) -> Option<Vec<String>> {
    script::recorded(RECORDED, case)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_script_is_read_and_every_name_is_its_own() {
        let cases = all().unwrap();
        let names: BTreeSet<_> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        assert!(cases.len() >= 80, "only {} cases", cases.len());
        for case in &cases {
            assert!(
                !case.about.is_empty() && !case.steps.is_empty(),
                "{}",
                case.name
            );
        }
    }

    #[test]
    fn every_case_has_an_answer_for_every_step() {
        for case in all().unwrap() {
            let recorded = recorded(&case.name).map(|answers| answers.len());
            assert_eq!(recorded, Some(case.steps.len()), "{}", case.name);
        }
        assert_eq!(recorded("no such case"), None);
    }
}
