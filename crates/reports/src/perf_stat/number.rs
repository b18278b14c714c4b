//! Numbers of perf as locales print them.

/// A whole number, whose groups of digits are separated by one sign: `1234`, `1,234`, `1.234`, `1 234`, `12,34,567`.
pub(super) fn whole(text: &str) -> Option<u64> {
    let mut separator = None;
    let mut digits = String::new();
    let mut group = 0;
    let mut groups = Vec::new();
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            group += 1;
            continue;
        }
        let is_separator = matches!(c, ',' | '.' | '\'' | '\u{2019}') || c.is_whitespace();
        if !is_separator || separator.is_some_and(|known| known != c) {
            return None;
        }
        separator = Some(c);
        groups.push(std::mem::take(&mut group));
    }
    groups.push(group);
    let (last, before) = groups.split_last()?;
    let (first, between) = before.split_first().unwrap_or((last, &[]));
    let sound = between.iter().all(|digits| matches!(digits, 2 | 3))
        && matches!(first, 1..=3)
        && *last == 3;
    (separator.is_none() || sound).then(|| digits.parse().ok())?
}

/// A number with decimals, whose sign is that of a locale: the last one that separates. `1,234.56`, `1.234,56`, `0,5`.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let at = text.rfind([',', '.', '\u{66b}']);
    let (whole_part, part) = match at {
        Some(at) => text.split_at_checked(at)?,
        None => (text, ""),
    };
    let part = part.trim_start_matches([',', '.', '\u{66b}']);
    if !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole_part = whole(whole_part)?;
    format!("{whole_part}.{part}0").parse().ok()
}

/// Seconds as `%.9f` prints them: never grouped.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.replace([',', '\u{66b}'], ".");
    let digits = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_three_digits() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1234567", Some(1_234_567)),
            ("1,234", Some(1234)),
            ("1.234.567", Some(1_234_567)),
            ("1 234 567", Some(1_234_567)),
            ("1\u{202f}234", Some(1234)),
            ("1\u{2019}234", Some(1234)),
            ("12,34,567", Some(1_234_567)),
            ("1,23", None),
            ("1,234.567", None),
            ("1234,567", None),
            (",234", None),
            ("", None),
            ("x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(whole(text), expected, "{text}");
        }
    }

    #[test]
    fn decimals_follow_the_last_sign() {
        for (text, expected) in [
            ("1,234.56", Some(1234.56)),
            ("1.234,56", Some(1234.56)),
            ("0.25", Some(0.25)),
            ("7", Some(7.0)),
            ("1.2x", None),
        ] {
            assert_eq!(decimal(text), expected, "{text}");
        }
        assert_eq!(seconds("10.001234567"), Some(10.001_234_567));
        assert_eq!(seconds("10,5"), Some(10.5));
        assert_eq!(seconds("x"), None);
        assert_eq!(seconds("-1"), None);
    }
}
