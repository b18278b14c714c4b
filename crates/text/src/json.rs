//! Parts of a JSON document, each handed over where it is, without a tree of the whole: a value of two bytes would take a
//! hundred in one.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::position::Stop;

/// The problem without the line, which counts from where the part begins.
#[must_use]
pub fn json_problem(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let problem = said.split(" at line ").next().unwrap_or(&said);
    format!("{problem} at column {}", error.column())
}

/// True if the text ends inside a value. serde_json says of a sign alone that it is no number.
#[must_use]
pub fn is_cut(text: &[u8], error: &serde_json::Error) -> bool {
    error.is_eof() || text.ends_with(b"-") && error.to_string().starts_with("invalid number")
}

/// Declares a structure of members of an object, each as its text; `None` where the object lacks it.
#[macro_export]
macro_rules! members {
    ($(#[$meta:meta])* $Name:ident { $($(#[$attribute:meta])* $member:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Default, serde::Deserialize)]
        struct $Name<'a> {
            $(
                $(#[$attribute])*
                #[serde(borrow)]
                $member: Option<&'a RawValue>,
            )+
        }
    };
}

pub use crate::members;

/// The members of an object that a structure has; what is no object has none.
#[must_use]
pub fn object<'a, T: Default + Deserialize<'a>>(value: &'a RawValue) -> T {
    let text = Some(value.get()).filter(|text| text.starts_with('{'));
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// A text, if the value is one.
#[must_use]
pub fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

/// Text of a value; a missing one is `null`.
#[must_use]
pub fn shown(value: Option<&RawValue>) -> &str {
    value.map_or("null", RawValue::get)
}

/// The parts of a value.
pub enum Part<'de> {
    /// An element of a list.
    Element(&'de RawValue),
    /// A member of an object.
    Member(String, &'de RawValue),
}

/// Hands the parts of a value over, if it has any, until one stops.
pub struct Parts<'a, F> {
    /// Takes a part.
    pub each: F,
    /// Reason of the last part to stop: then the value's own error says nothing.
    pub stopped: &'a mut Option<Stop>,
}

impl<F> Parts<'_, F> {
    fn checked<E: Error>(&mut self, part: Result<(), Stop>) -> Result<(), E> {
        part.map_err(|stop| {
            *self.stopped = Some(stop);
            E::custom("stopped")
        })
    }
}

/// Hands the parts of a value over.
pub fn parts<'de>(
    value: &'de RawValue,
    each: impl FnMut(Part<'de>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut stopped = None;
    let parts = Parts {
        each,
        stopped: &mut stopped,
    };
    let mut json = serde_json::Deserializer::from_str(value.get());
    // Its syntax was checked when it was found.
    let _read = parts.deserialize(&mut json);
    stopped.map_or(Ok(()), Err)
}

impl<'de, F: FnMut(Part<'de>) -> Result<(), Stop>> DeserializeSeed<'de> for Parts<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Part<'de>) -> Result<(), Stop>> Visitor<'de> for Parts<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            let part = (self.each)(Part::Element(element));
            self.checked(part)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some((name, value)) = members.next_entry()? {
            let part = (self.each)(Part::Member(name, value));
            self.checked(part)?;
        }
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// An object, whose value of one name is handed over in parts; what else it has is passed over.
pub struct Within<'a, F> {
    /// Name of the value.
    pub name: &'static str,
    /// The object, as an error calls it.
    pub expected: &'static str,
    /// Takes the parts of the value.
    pub parts: Parts<'a, F>,
}

impl<'de, F: FnMut(Part<'de>) -> Result<(), Stop>> DeserializeSeed<'de> for Within<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Part<'de>) -> Result<(), Stop>> Visitor<'de> for Within<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Parts { mut each, stopped } = self.parts;
        while let Some(name) = members.next_key::<String>()? {
            if name == self.name {
                members.next_value_seed(Parts {
                    each: &mut each,
                    stopped: &mut *stopped,
                })?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}
