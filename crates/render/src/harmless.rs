//! Text of a saved file, made safe for a terminal, a web page and a spreadsheet.

/// Text without control characters, which a terminal would obey, and without the characters that reverse the
/// direction of what follows (Unicode UAX 9, explicit directional formatting), which make a line read otherwise than
/// it is.
#[must_use]
pub fn harmless(text: &str) -> String {
    let safe = |c: char| {
        let reverses = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reverses {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    text.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_replaced() {
        assert_eq!(harmless("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
        assert_eq!(harmless("6.1\u{202e}x\u{2066}y"), "6.1\u{fffd}x\u{fffd}y");
        assert_eq!(harmless("µs, 6.1.192-2"), "µs, 6.1.192-2");
    }
}
