//! Cases of mapping memory for DMA: what a script asks of VFIO type1, and what a system answers.
//!
//! The scripts lie in `conformance/vfio/`; its README has the language. Nothing here runs one.

mod case;
mod parse;

use crate::script;

pub use case::{
    Answer, Answers, Call, Case, DmaFlags, MapDma, Memory, SENTINEL, Shape, Step, UnmapDma,
    describe,
};
pub use parse::parse;

script::suite!(
    Case,
    parse,
    "conformance/vfio/",
    "recorded-linux.txt",
    ["map", "access", "unmap", "limit", "folio"]
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_whole_and_answered_for_every_step() {
        assert_whole(40);
    }
}
