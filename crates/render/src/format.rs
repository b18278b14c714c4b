//! The registry of formats: a new one is a line here and an arm of `subject::write`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use pagetoll_bill::names::UnknownName;
use thiserror::Error;

/// Kinds of output; each format has some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bill, fresh or saved.
    Bill,
    /// The comparison of two bills.
    Diff,
    /// Several bills over an axis.
    Curves,
    /// Any other list: routes, fixes, conformance cases.
    List,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bill => "a bill",
            Self::Diff => "a diff",
            Self::Curves => "a curve",
            Self::List => "a list",
        })
    }
}

/// A line of the registry.
struct Entry {
    name: &'static str,
    /// The end of file names, without the dot.
    extension: &'static str,
    kinds: &'static [Kind],
}

macro_rules! formats {
    ($(#[doc = $doc:literal] $Variant:ident = $name:literal, $extension:literal, $kinds:expr;)+) => {
        /// A form in which results are written.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Format {
            $(#[doc = $doc] $Variant,)+
        }

        impl Format {
            /// All formats, in the order in which they are listed.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Variant),+];

            const fn entry(self) -> Entry {
                match self {
                    $(Self::$Variant => Entry { name: $name, extension: $extension, kinds: $kinds },)+
                }
            }
        }
    };
}

const EVERY_KIND: &[Kind] = &[Kind::Bill, Kind::Diff, Kind::Curves, Kind::List];

formats! {
    /// Tables for a terminal.
    Text = "text", "txt", EVERY_KIND;
    /// Everything that is known; bills are read back from it.
    Json = "json", "json", EVERY_KIND;
    /// One line for each row, for spreadsheets.
    Csv = "csv", "csv", &[Kind::Bill];
    /// GitHub Flavored Markdown.
    Md = "md", "md", EVERY_KIND;
    /// A page for a browser, in one file.
    Html = "html", "html", EVERY_KIND;
    /// A page's bars and curves alone, for other documents.
    Svg = "svg", "svg", &[Kind::Bill, Kind::Curves];
}

impl Format {
    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// The extension of its files, without the dot.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        self.entry().extension
    }

    /// True where results of that kind can be written in it.
    #[must_use]
    pub fn writes(self, kind: Kind) -> bool {
        self.entry().kinds.contains(&kind)
    }

    /// The formats of a kind of result.
    pub fn for_kind(kind: Kind) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |format| format.writes(kind))
    }

    /// The format of a file's extension; `None` for a name without an extension.
    ///
    /// # Errors
    /// The extension is that of no format.
    pub fn from_path(path: &Path) -> Result<Option<Self>, UnknownExtension> {
        let Some(extension) = path.extension() else {
            return Ok(None);
        };
        let mut all = Self::ALL.into_iter();
        let known = all.find(|format| extension == format.extension());
        known.map(Some).ok_or_else(|| UnknownExtension {
            extension: extension.to_string_lossy().into_owned(),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.name() == name)
            .ok_or_else(|| UnknownName {
                what: "format",
                name: name.to_owned(),
                expected: Self::ALL.map(Self::name).to_vec(),
            })
    }
}

/// A file's extension that is none of a format.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "unknown extension '.{extension}': expected one of {}, or --format",
    extensions()
)]
pub struct UnknownExtension {
    /// Extension of the file name, without the dot.
    pub extension: String,
}

fn extensions() -> String {
    Format::ALL
        .map(|format| format!(".{}", format.extension()))
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_found_by_name_and_by_extension() {
        for format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
            let path = Path::new("bill").with_extension(format.extension());
            assert_eq!(Format::from_path(&path), Ok(Some(format)));
        }
        assert!("png".parse::<Format>().is_err());
    }

    #[test]
    fn an_unknown_extension_is_refused_and_none_is_none() {
        assert_eq!(Format::from_path(Path::new("/tmp/new.d/bill")), Ok(None));
        let error = Format::from_path(Path::new("a.png"))
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "unknown extension '.png': expected one of .txt, .json, .csv, .md, .html, .svg, or --format"
        );
    }

    #[test]
    fn only_bills_have_rows_of_scalars() {
        let names = |kind| Format::for_kind(kind).map(Format::name).collect::<Vec<_>>();
        assert_eq!(
            names(Kind::Bill),
            ["text", "json", "csv", "md", "html", "svg"]
        );
        assert_eq!(names(Kind::Diff), ["text", "json", "md", "html"]);
        assert_eq!(names(Kind::Curves), ["text", "json", "md", "html", "svg"]);
        assert_eq!(names(Kind::List), ["text", "json", "md", "html"]);
    }
}
