//! Limits of orders and hosts that routes share.

use std::ops::RangeInclusive;

use crate::LiveError;

/// A lack of the host, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The missing part.
    pub what: String,
    /// Remedy for the user.
    pub remedy: String,
}

/// A line of a bill and its measurements, or why it has none.
#[derive(Clone, Debug)]
pub struct LineRuns<L, M> {
    /// Settings of its runs.
    pub line: L,
    /// Measurements, or the reason why there are none.
    pub outcome: Result<M, Lacking>,
}

impl<L, M: Default> LineRuns<L, M> {
    /// A line without runs.
    pub fn new(line: L) -> Self {
        Self {
            line,
            outcome: Ok(M::default()),
        }
    }
}

/// Checks that a bill has at least one line with figures.
///
/// # Errors
/// Every line lacks something: the first one's lack.
pub fn require_any<'l>(
    lines: impl IntoIterator<Item = Option<&'l Lacking>>,
) -> Result<(), LiveError> {
    let lacking: Option<Vec<&Lacking>> = lines.into_iter().collect();
    match lacking.as_deref() {
        Some([Lacking { what, remedy }, ..]) => Err(LiveError::environment(what, remedy)),
        _ => Ok(()),
    }
}

/// Checks a number of an order.
///
/// # Errors
/// The option, its value, and the range.
pub fn check_range(option: &str, given: u32, range: RangeInclusive<u32>) -> Result<(), LiveError> {
    if range.contains(&given) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    let problem = format!("{option} {given}: expected {least} to {most}");
    Err(LiveError::BadOrder(problem))
}

/// Checks that blocks of pages can be aligned.
///
/// # Errors
/// The batch that is no power of two.
pub fn check_batches(batches: &[u32]) -> Result<(), LiveError> {
    match batches.iter().find(|batch| !batch.is_power_of_two()) {
        Some(batch) => Err(LiveError::BadOrder(format!(
            "--batch {batch}: expected a power of two, as blocks of pages are aligned"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_without_figures_says_what_its_first_line_lacks() {
        let lacking = Lacking {
            what: "no pages".into(),
            remedy: "reserve some".into(),
        };
        assert!(require_any([Some(&lacking), None]).is_ok());
        assert!(require_any([None]).is_ok());
        let error = require_any([Some(&lacking), Some(&lacking)]).unwrap_err();
        assert_eq!(error.to_string(), "no pages; reserve some");
    }
}
