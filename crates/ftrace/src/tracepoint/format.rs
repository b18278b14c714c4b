//! The layout of a tracepoint, as its `format` file in tracefs describes it; perf.data has a copy of that file.
//!
//! Source: `kernel/trace/trace_events.c`, `f_show`.

use super::symbols::{self, Symbols};
use super::{Known, Missing, Names, Payload, RawRecord};

/// A tracepoint of the machine that recorded.
#[derive(Debug)]
pub struct Tracepoint {
    /// System and name, such as `kvm:kvm_exit`.
    pub name: String,
    /// The number that its records have as `common_type`.
    pub id: u64,
    /// The layout of its records, where they have a [`Payload`].
    pub layout: Option<Box<Layout>>,
}

impl Tracepoint {
    /// Reads a `format` file of a system such as `kvm`; nothing if it lacks its name or number.
    #[must_use]
    pub fn read(system: &str, format: &str) -> Option<Self> {
        let format = Format::read(format)?;
        Some(Self {
            name: format!("{system}:{}", format.name),
            id: format.id,
            layout: Known::named(Some(system), &format.name)
                .map(|known| Box::new(Layout { known, format })),
        })
    }
}

/// The layout of the records of a tracepoint that has a [`Payload`].
#[derive(Debug)]
pub struct Layout {
    known: Known,
    format: Format,
}

impl Layout {
    /// Reads a record of the trace buffer, little-endian.
    ///
    /// # Errors
    /// The first field that the record lacks.
    pub fn payload(&self, record: &[u8], names: &mut Names) -> Result<Payload, Missing> {
        let record = RawRecord {
            format: &self.format,
            bytes: record,
        };
        self.known.payload(record, names)
    }
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Box<str>,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) signed: bool,
}

/// A tracepoint's layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) fields: Vec<Field>,
    /// Format and arguments of printf, in C.
    pub(crate) print: String,
    /// The tables of names in `print`.
    pub(crate) symbols: Vec<Symbols>,
}

impl Format {
    /// Reads a `format` file; nothing if it lacks its name or number.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut format = Self::default();
        let (mut name, mut id) = (None, None);
        for line in text.lines() {
            if let Some(value) = line.strip_prefix("name: ") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = line.strip_prefix("ID: ") {
                id = value.trim().parse().ok();
            } else if let Some(value) = line.strip_prefix("print fmt: ") {
                value.clone_into(&mut format.print);
            } else {
                format.fields.extend(field(line.trim()));
            }
        }
        format.symbols = symbols::all(&format.print);
        (format.name, format.id) = (name?, id?);
        Some(format)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| &*field.name == name)
    }
}

/// `field:unsigned long args[6]; offset:16; size:48; signed:0;`, with tabs.
fn field(line: &str) -> Option<Field> {
    let mut parts = line.strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next()?;
    let bare = declaration.split('[').next()?;
    let name = bare.rsplit([' ', '*']).next()?.into();
    let mut value = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (value("offset:")?, value("size:")?);
    let signed = value("signed:") == Some(1);
    Some(Field {
        name,
        offset,
        size,
        signed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: xen_mc_entry\nID: 77\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\
        \tfield:u64 * sptep;\toffset:64;\tsize:8;\tsigned:0;\n\
        \tfield:int errno;\toffset:72;\tsize:4;\tsigned:1;\n\n\
        print fmt: \"op %u\", REC->op\n";

    #[test]
    fn arrays_pointers_and_signs_are_understood() {
        let format = Format::read(FORMAT).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("xen_mc_entry", 77));
        let layout = |name| {
            let field = format.field(name).unwrap();
            (field.offset, field.size, field.signed)
        };
        assert_eq!(layout("args"), (16, 48, false));
        assert_eq!(layout("sptep"), (64, 8, false));
        assert_eq!(layout("errno"), (72, 4, true));
        assert!(Format::read("ID: 3\n").is_none());
    }
}
