//! Text that guests, traces, builds and saved files say, made safe for a terminal, a web page and a spreadsheet.

/// Text without the characters that a terminal obeys (C0 and C1) and those that show nothing but change how the rest
/// reads: they reverse its direction (Unicode UAX 9), or make two names that look alike (category Cf, zero width).
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
    let shows_nothing = matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || shows_nothing
}

#[cfg(test)]
mod tests {
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
