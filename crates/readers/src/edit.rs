//! Changes to a valid file, by a script of arbitrary bytes: most of the file stays valid, so that readers get far.

mod bytes;
mod text;
mod value;

use arbitrary::Unstructured;

/// Structure of a file, hence what can be changed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Fields at offsets.
    Bytes,
    /// Words on lines.
    Text,
    /// Members of a JSON document.
    Json,
    /// Keys of a TOML document.
    Toml,
}

impl Shape {
    /// The shape of a file that is not known to be TOML.
    pub(crate) fn guess(file: &[u8]) -> Self {
        if serde_json::from_slice::<serde_json::Value>(file).is_ok() {
            return Self::Json;
        }
        match str::from_utf8(file) {
            Ok(_) => Self::Text,
            Err(_) => Self::Bytes,
        }
    }

    /// The file with the changes that a script says; a seed that is not of this shape is changed as bytes.
    pub(crate) fn edited(self, seed: &[u8], script: &[u8]) -> Vec<u8> {
        let mut script = Unstructured::new(script);
        let edited = match self {
            Self::Bytes => bytes::edited(seed, &mut script),
            Self::Text => text::edited(seed, &mut script),
            Self::Json => value::edited_json(seed, &mut script),
            Self::Toml => value::edited_toml(seed, &mut script),
        };
        edited.unwrap_or_else(|_short| seed.to_vec())
    }
}

/// Words that readers treat apart: bounds of integers, signs, markup, control and bidirectional characters.
const WORDS: [&str; 24] = [
    "",
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "4294967295",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-0.0",
    "1e-320",
    "NaN",
    "inf",
    "0x",
    "\u{1b}[2J",
    "\u{202e}",
    "=1+1",
    "@all",
    "a b",
    "..",
    "\0",
    "é",
    "9999999999999999999999",
];
