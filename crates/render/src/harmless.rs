//! Text that guests, traces, builds and saved files say, made safe for a terminal, a web page and a spreadsheet.

/// Text without the characters that a terminal obeys (C0 and C1), those that show nothing or no more than a space does, so
/// that two names look alike or a name reads backwards (Unicode UAX 9), and those that are none and end an XML document.
#[must_use]
pub fn harmless(text: &str) -> String {
    let safe = |c| match deceives(c) {
        true => char::REPLACEMENT_CHARACTER,
        false => c,
    };
    text.chars().map(safe).collect()
}

/// JSON of the same value, in which those characters are escaped: within strings alone, since JSON has none elsewhere.
pub(crate) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && deceives(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text += &format!("\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

fn deceives(c: char) -> bool {
    let is_blank = c != ' ' && c.is_whitespace();
    c.is_control() || is_blank || is_ignorable(c) || is_invisible(c) || is_noncharacter(c)
}

/// Default_Ignorable_Code_Point (Unicode 16.0, DerivedCoreProperties.txt): what is not drawn where it is not understood.
fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Characters that no property tells: the blank Braille pattern, anchors of annotations, joiners of hieroglyphs, the null notehead.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{2800}' | '\u{fff9}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1d159}'
    )
}

/// Noncharacter_Code_Point: U+FFFE and U+FFFF among them, which XML 1.0 does not allow (section 2.2).
fn is_noncharacter(c: char) -> bool {
    u32::from(c) & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}')
}

#[cfg(test)]
mod tests {
    use icu_properties::props::{DefaultIgnorableCodePoint, NoncharacterCodePoint};

    use super::*;

    #[test]
    fn control_direction_and_invisible_characters_are_replaced() {
        assert_eq!(
            harmless("a\u{1b}[2Jb\nc\u{9b}"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}"
        );
        assert_eq!(harmless("6.1\u{202e}x\u{2066}y"), "6.1\u{fffd}x\u{fffd}y");
        for c in ['\u{200b}', '\u{200f}', '\u{2069}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(harmless(&format!("x{c}y")), "x\u{fffd}y");
        }
        assert_eq!(harmless("µs, 6.1.192-2"), "µs, 6.1.192-2");
    }

    /// Every character; surrogates are none.
    fn all() -> impl Iterator<Item = char> {
        '\0'..=char::MAX
    }

    #[test]
    fn what_unicode_says_to_ignore_is_what_is_listed() {
        let ignorable = icu_properties::CodePointSetData::new::<DefaultIgnorableCodePoint>();
        let none = icu_properties::CodePointSetData::new::<NoncharacterCodePoint>();
        for c in all() {
            assert_eq!(is_ignorable(c), ignorable.contains(c), "{c:?}");
            assert_eq!(is_noncharacter(c), none.contains(c), "{c:?}");
        }
    }

    /// Char of XML 1.0, section 2.2.
    fn is_xml(c: char) -> bool {
        matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
    }

    #[test]
    fn every_character_that_is_left_is_one_of_xml_and_not_blank() {
        for c in all() {
            let text = harmless(&c.to_string());
            assert!(text.chars().all(is_xml), "{c:?}");
            assert!(text == " " || !text.trim().is_empty(), "{c:?}");
        }
        for c in "\u{fffe}\u{ffff}\u{115f}\u{1160}\u{3164}\u{ffa0}\u{2800}\u{a0}".chars() {
            assert_eq!(harmless(&format!("x{c}y")), "x\u{fffd}y");
        }
    }

    #[test]
    fn json_keeps_its_value_and_has_none_of_them() {
        let value = "a\u{1b}\u{9b}\u{7f}\u{202e}\u{200b}\u{e0041}\"\\\n";
        let json = escaped(&serde_json::to_string_pretty(&[value]).unwrap());
        assert!(
            !json.lines().any(|line| line.chars().any(deceives)),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [value]);
    }
}
