//! The command line of this run, to be pasted into a shell.

use std::ffi::OsString;

/// The command line, quoted where a shell would read a word otherwise. The path of the program itself says nothing, so it is
/// left out.
pub(crate) fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let given = arguments.skip(1);
    let words = given.map(|argument| argument.to_string_lossy().into_owned());
    let words = ["pagetoll".to_owned()].into_iter().chain(words);
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// Commas separate the values of an option and mean something to a shell between braces alone, which are quoted.
fn quoted(word: String) -> String {
    let parts = word.split(',');
    let is_plain = |part: &str| shlex::try_quote(part).is_ok_and(|quoted| quoted == part);
    if word.contains(',') && parts.filter(|part| !part.is_empty()).all(is_plain) {
        return word;
    }
    shlex::try_quote(&word).map_or_else(|_| word.clone(), |quoted| quoted.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        command_line(words.iter().map(OsString::from))
    }

    #[test]
    fn a_command_line_can_be_pasted() {
        let words = [
            "target/pagetoll",
            "bill",
            "--kernel",
            "my kernel's",
            "",
            ",",
            "a,$(b)",
        ];
        let expected = [&["pagetoll"], &words[1..]].concat();
        assert_eq!(shlex::split(&line(&words)).unwrap(), expected);
    }

    #[test]
    fn a_list_is_not_quoted() {
        let words = ["pagetoll", "bill", "--batch", "1,16,64"];
        assert_eq!(line(&words), "pagetoll bill --batch 1,16,64");
    }
}
