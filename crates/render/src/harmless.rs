//! The bill's words as JSON spells them, so that every format and every message spells them alike.

use serde::Serialize;

/// The word for a value of one of the bill's plain enums, such as `xen-pv-dom0`.
pub(crate) fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::from("?"),
    }
}

/// Text without control characters, which a saved file could hold and a terminal would obey.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::{Backend, Role, System};

    use super::*;

    #[test]
    fn words_are_those_of_the_json_form() {
        assert_eq!(word(System::XenPvDom0), "xen-pv-dom0");
        assert_eq!(word(Role::Before), "before");
        assert_eq!(word(Backend::Lab), "lab");
        assert_eq!(word(7), "?");
    }

    #[test]
    fn a_terminal_is_not_commanded() {
        assert_eq!(harmless("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
    }
}
