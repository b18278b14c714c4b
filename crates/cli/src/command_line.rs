//! How the program was called, to be pasted into a shell.

use std::ffi::OsString;

/// The command line, quoted. The path of the program itself says nothing, so it is left out.
pub(crate) fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let given = arguments.skip(1);
    let words = given.map(|argument| argument.to_string_lossy().into_owned());
    let words: Vec<_> = ["pagetoll".to_owned()].into_iter().chain(words).collect();
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted() {
        let words = ["target/pagetoll", "bill", "--kernel", "my kernel's", ""];
        let line = command_line(words.into_iter().map(OsString::from));
        let expected = ["pagetoll", "bill", "--kernel", "my kernel's", ""];
        assert_eq!(shlex::split(&line).unwrap(), expected);
    }
}
