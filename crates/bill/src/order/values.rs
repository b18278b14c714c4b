//! Parsers of the values of options.

use std::str::FromStr;
use std::time::Duration;

/// A whole number. Its range is the backend's to check, which names it.
///
/// # Errors
/// Anything else, and a number too large for the type.
pub fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "expected a whole number from 1".to_owned())
}

/// Longest timeout: an hour.
const MOST_SECONDS: u64 = 3600;

/// Seconds, up to an hour.
///
/// # Errors
/// Anything else.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|n| (1..=MOST_SECONDS).contains(n));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("expected a whole number from 1 to {MOST_SECONDS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_text_is_refused_with_what_was_expected() {
        for text in ["", "1e99", "0x10", "-1", "4294967296"] {
            assert_eq!(
                number::<u32>(text),
                Err("expected a whole number from 1".into())
            );
        }
        assert_eq!(number::<u32>("513"), Ok(513));
        assert!(seconds("0").is_err() && seconds("3601").is_err());
    }
}
