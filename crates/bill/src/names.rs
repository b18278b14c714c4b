//! Plain enums whose variants have one name each: in orders, in bills, in JSON and on the command line.

#[cfg(feature = "clap")]
#[doc(hidden)]
pub use clap;
use thiserror::Error;

/// An unknown name of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown {what} '{name}'{}: expected one of {}", suggested(.name, .expected), .expected.join(", "))]
pub struct UnknownName {
    /// Kind of name that was expected, such as `route`.
    pub what: &'static str,
    /// The name as given.
    pub name: String,
    /// The known names.
    pub expected: Vec<&'static str>,
}

/// `(did you mean 'debian'?)` where one of the expected names is close.
fn suggested(name: &str, expected: &[&'static str]) -> String {
    closest(name, expected.iter().copied())
        .map_or_else(String::new, |near| format!(" (did you mean '{near}'?)"))
}

/// The name that a misspelt word most likely meant; `None` when none is close.
pub fn closest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(word, name), name));
    let near = scored.filter(|(score, _)| *score > 0.8);
    near.max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The bytes of [`kebab`]'s result.
#[doc(hidden)]
#[must_use]
pub const fn kebab_len(variant: &str) -> usize {
    let bytes = variant.as_bytes();
    let (mut length, mut index) = (bytes.len(), 1);
    while index < bytes.len() {
        length += bytes[index].is_ascii_uppercase() as usize;
        index += 1;
    }
    length
}

/// A variant's identifier in lower case, with a hyphen before each further capital, as serde has it.
#[doc(hidden)]
#[must_use]
pub const fn kebab<const N: usize>(variant: &str) -> [u8; N] {
    let bytes = variant.as_bytes();
    let (mut name, mut length, mut index) = ([b'-'; N], 0, 0);
    while index < bytes.len() {
        length += (index > 0 && bytes[index].is_ascii_uppercase()) as usize;
        name[length] = bytes[index].to_ascii_lowercase();
        length += 1;
        index += 1;
    }
    name
}

/// The name of a variant: the one that is stated, else its identifier in lower case with hyphens.
#[doc(hidden)]
#[macro_export]
macro_rules! name_of {
    ($Variant:ident = $name:literal) => {
        $name
    };
    ($Variant:ident) => {{
        const VARIANT: &str = stringify!($Variant);
        const BYTES: [u8; $crate::names::kebab_len(VARIANT)] = $crate::names::kebab(VARIANT);
        const NAME: Result<&str, std::str::Utf8Error> = std::str::from_utf8(&BYTES);
        match NAME {
            Ok(name) => name,
            Err(_) => VARIANT,
        }
    }};
}

/// The names as values of arguments.
#[cfg(feature = "clap")]
#[doc(hidden)]
#[macro_export]
macro_rules! value_enum {
    ($Enum:ident) => {
        impl $crate::names::clap::ValueEnum for $Enum {
            fn value_variants<'a>() -> &'a [Self] {
                Self::ALL
            }

            fn to_possible_value(&self) -> Option<$crate::names::clap::builder::PossibleValue> {
                let value = $crate::names::clap::builder::PossibleValue::new(self.name());
                Some(value.help(self.meaning().trim_end_matches('.')))
            }
        }
    };
}

/// Nothing: without the feature there are no arguments.
#[cfg(not(feature = "clap"))]
#[doc(hidden)]
#[macro_export]
macro_rules! value_enum {
    ($Enum:ident) => {};
}

/// Declares a plain enum with a name for each variant, and everything that follows from the names.
#[macro_export]
macro_rules! names {
    (
        $(#[$meta:meta])*
        pub enum $Enum:ident as $what:literal {
            $($(#[doc = $doc:literal])+ $Variant:ident $(= $name:literal)?,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $Enum {
            $($(#[doc = $doc])+ $(#[serde(rename = $name)])? $Variant,)+
        }

        impl $Enum {
            /// Every variant, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$Variant),+];

            /// Its meaning, in one line.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$Variant => concat!($($doc),+).trim_ascii(),)+
                }
            }

            /// Its name in orders, bills and JSON.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $crate::name_of!($Variant $(= $name)?),)+
                }
            }
        }

        $crate::value_enum!($Enum);

        impl std::fmt::Display for $Enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $Enum {
            type Err = $crate::names::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let mut all = Self::ALL.iter().copied();
                all.find(|one| one.name() == name).ok_or_else(|| $crate::names::UnknownName {
                    what: $what,
                    name: name.to_owned(),
                    expected: Self::ALL.iter().map(|one| one.name()).collect(),
                })
            }
        }
    };
}

/// [`names!`](crate::names!) for this crate's enums, which are part of the schema of a bill.
macro_rules! names_with_schema {
    ($($declaration:tt)*) => {
        $crate::names! {
            #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
            $($declaration)*
        }
    };
}

pub(crate) use names_with_schema as names;

#[cfg(test)]
mod tests {
    use crate::kinds::Backend;
    use crate::row::Operation;

    #[test]
    fn a_variant_is_found_by_its_name_and_serialises_to_it() {
        for operation in Operation::ALL {
            assert_eq!(operation.name().parse(), Ok(*operation));
            let json = serde_json::to_string(operation).unwrap();
            assert_eq!(json, format!("\"{operation}\""));
        }
    }

    #[test]
    fn a_misspelt_name_is_refused_with_the_closest() {
        let text = |word: &str| word.parse::<Backend>().unwrap_err().to_string();
        assert_eq!(
            text("lap"),
            "unknown backend 'lap' (did you mean 'lab'?): expected one of lab, live, sim"
        );
        assert_eq!(
            text("7"),
            "unknown backend '7': expected one of lab, live, sim"
        );
    }
}
