//! Names of functions by their addresses: of an object file, or of a kernel that ran.

use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};

use crate::error::Error;
use pagetoll_backend::input;

/// A file with more is not read. Assumed: a vmlinux with its debug information is below.
const MOST_BYTES: u64 = 2 << 30;
/// Before each function of a kernel that is built with padding for call thunks, since Linux 6.2.
const PADDING: &str = "__pfx_";

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    address: u64,
    /// Its name.
    pub name: String,
    /// The kernel's module that it is part of.
    pub module: Option<String>,
}

/// Functions by address.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// In ascending order.
    functions: Vec<Symbol>,
    /// Where the last of them ends: of a file.
    end: Option<u64>,
}

impl Symbols {
    /// Those of an ELF or PE file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::BadInput`] for a file that is neither.
    pub fn of_object(file: &Path) -> Result<Self, Error> {
        let refuse = |problem: String| {
            Error::bad_file("symbols", file, problem, "an ELF or PE file with symbols")
        };
        let bytes = input::read(file, MOST_BYTES).map_err(|error| refuse(error.to_string()))?;
        let object = object::File::parse(&*bytes).map_err(|error| refuse(error.to_string()))?;
        let text = object
            .sections()
            .filter(|section| section.kind() == SectionKind::Text);
        let text: Vec<_> = text.collect();
        let in_text = |symbol: &object::Symbol<'_, '_>| {
            let section = symbol.section_index();
            text.iter().any(|text| section == Some(text.index()))
        };
        let named = object.symbols().filter(in_text).filter_map(|symbol| {
            let name = symbol.name().ok()?;
            // The other names are those of sections, and labels of an assembler's.
            let is_function = !name.is_empty() && !name.starts_with('.');
            is_function.then(|| Symbol {
                address: symbol.address(),
                name: name.to_owned(),
                module: None,
            })
        });
        let end = text.iter().map(|text| text.address() + text.size()).max();
        Ok(Self::sorted(named.collect(), end))
    }

    /// Those of a kernel, as its `/proc/kallsyms` has them; other lines are left out.
    #[must_use]
    pub fn of_kallsyms(text: &str) -> Self {
        Self::sorted(text.lines().filter_map(kallsyms_line).collect(), None)
    }

    fn sorted(mut functions: Vec<Symbol>, end: Option<u64>) -> Self {
        functions.retain(|symbol| symbol.address != 0);
        functions.sort_by_key(|symbol| symbol.address);
        functions.dedup_by_key(|symbol| symbol.address);
        Self { functions, end }
    }

    /// The function that an address is in; `None` before the first, and after the last of a file.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&Symbol> {
        if self.end.is_some_and(|end| address >= end) {
            return None;
        }
        let after = self
            .functions
            .partition_point(|symbol| symbol.address <= address);
        self.functions.get(after.checked_sub(1)?)
    }
}

/// `ffffffff81000000 T _text`, of a module followed by its name in brackets.
fn kallsyms_line(line: &str) -> Option<Symbol> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    let module = words
        .next()
        .map(|word| word.trim_matches(['[', ']']).to_owned());
    let is_function = matches!(kind, "t" | "T" | "w" | "W") && !name.starts_with(PADDING);
    is_function.then(|| Symbol {
        address,
        name: name.to_owned(),
        module,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "ffffffff81000000 T _text\nffffffff81000010 t __pfx_one\nffffffff81000020 t one\n\
                            ffffffff81000020 T alias\nffffffff81000040 D data\n\
                            ffffffffc0200000 t clear_one\t[xen_probe]\n0000000000000000 T hidden\nnonsense\n";

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let symbols = Symbols::of_kallsyms(KALLSYMS);
        let name = |address| symbols.at(address).map(|symbol| symbol.name.as_str());
        assert_eq!(name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(0xffff_ffff_8100_0015), Some("_text"));
        assert_eq!(name(0xffff_ffff_8100_0020), Some("one"));
        assert_eq!(name(0xffff_ffff_8100_0041), Some("one"));
        let of_module = symbols.at(0xffff_ffff_c020_0001).unwrap();
        assert_eq!(of_module.module.as_deref(), Some("xen_probe"));
    }

    #[test]
    fn this_program_knows_its_own_functions_and_a_text_file_has_none() {
        let this = std::env::current_exe().unwrap();
        let symbols = Symbols::of_object(&this).unwrap();
        assert!(symbols.functions.len() > 100);
        assert_eq!(symbols.at(u64::MAX), None);
        let text = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        let error = Symbols::of_object(text).unwrap_err().to_string();
        assert!(error.contains("Cargo.toml"), "{error}");
    }
}
