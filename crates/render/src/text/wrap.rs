//! Breaks text into lines.

/// Replaces a space at which no line is broken. Text is harmless before it is wrapped, so it has no such character.
const GLUE: char = '\0';

/// Lines of at most `width` characters, broken between words, and within words that are longer. At least one line.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in words(text).flat_map(|word| pieces(&word, width.max(1))) {
        let last = lines.last_mut().filter(|line| {
            line.is_empty() || line.chars().count() + 1 + word.chars().count() <= width
        });
        match last {
            Some(line) if line.is_empty() => *line = word,
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word),
        }
    }
    lines
}

/// Words; a percent sign belongs to its number.
fn words(text: &str) -> impl Iterator<Item = String> {
    let glued = text.replace(" %", &format!("{GLUE}%"));
    let words: Vec<_> = glued
        .split(' ')
        .map(|word| word.replace(GLUE, " "))
        .collect();
    words.into_iter()
}

fn pieces(word: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    letters
        .chunks(width)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// The characters of the longest word.
pub(super) fn longest_word(text: &str) -> usize {
    let lengths = words(text).map(|word| word.chars().count());
    lengths.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_stay_whole_where_they_fit() {
        assert_eq!(
            wrap("loses D: 72 of 115959", 9),
            ["loses D:", "72 of", "115959"]
        );
        assert_eq!(wrap("a 1234567", 4), ["a", "1234", "567"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("touch 66.0 %, rest", 11), ["touch", "66.0 %,", "rest"]);
        assert_eq!(longest_word("loses D: 72 of 115959"), 6);
    }

    proptest! {
        /// No line is too wide, and no letter is lost.
        #[test]
        fn lines_fit_and_keep_every_letter(text in "[a-z ]{0,80}", width in 1..20usize) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width));
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
