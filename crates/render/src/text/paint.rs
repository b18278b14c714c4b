//! Verdicts in colour, for a terminal. What is a verdict follows from the cell that it is alone in: nothing else is coloured.

const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const RED: &str = "\u{1b}[31m";
const END: &str = "\u{1b}[0m";

/// The text of a document with its verdicts in colour (ECMA-48, 8.3.117).
#[must_use]
pub fn painted(text: &str) -> String {
    text.lines().map(|text| line(text) + "\n").collect()
}

/// Cells are apart by two spaces or more, words by one.
fn line(text: &str) -> String {
    let mut painted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c| c != ' ') {
        painted += &rest[..start];
        rest = &rest[start..];
        let end = rest.find("  ").unwrap_or(rest.len());
        painted += &cell(&rest[..end]);
        rest = &rest[end..];
    }
    painted + rest
}

fn cell(text: &str) -> String {
    match colour(text) {
        Some(colour) => format!("{colour}{text}{END}"),
        None => text.to_owned(),
    }
}

fn colour(cell: &str) -> Option<&'static str> {
    let begins = |words: &[&str]| words.iter().any(|word| cell.starts_with(word));
    match cell {
        "safe" | "pass" | "passes" | "improved" => Some(GREEN),
        "inconclusive" | "undecided" | "not checked" => Some(YELLOW),
        "fail" | "regressed" => Some(RED),
        _ if begins(&["FAILS: ", "FAILED: ", "fails: ", "loses "]) => Some(RED),
        _ if begins(&["passes: "]) => Some(GREEN),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_coloured_where_it_is_alone_in_its_cell() {
        let text = "  preserve-ad   after   safe\n  a safe way     pass  \nFAILS: pin on lab\n";
        assert_eq!(
            painted(text),
            "  preserve-ad   after   \u{1b}[32msafe\u{1b}[0m\n  a safe way     \u{1b}[32mpass\u{1b}[0m  \n\
             \u{1b}[31mFAILS: pin on lab\u{1b}[0m\n"
        );
    }

    #[test]
    fn nothing_else_is_changed() {
        let text = "  a  b\n\n   1.5\n";
        assert_eq!(painted(text), text);
    }
}
