//! Cases of mapping memory for DMA: what a script asks of VFIO type1, and what a system answers.
//!
//! The scripts lie in `conformance/vfio/`; its README has the language. Nothing here runs one.

mod case;
mod parse;

use crate::{ScriptError, script};

pub use case::{Answer, Answered, Call, Case, DmaFlags, Memory, SENTINEL, Shape, Step, describe};
pub use parse::parse;

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../conformance/vfio/", $name, ".script")))),*]
    };
}

const SCRIPTS: [(&str, &str); 5] = scripts!["map", "access", "unmap", "limit", "folio"];

const RECORDED: &str = include_str!("../../../conformance/vfio/recorded-linux.txt");

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
        assert!(cases.len() >= 40, "{}", cases.len());
        assert!(cases.iter().all(|case| !case.steps.is_empty()));
    }
}
