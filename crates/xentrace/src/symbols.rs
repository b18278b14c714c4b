//! Names of functions by their addresses: of an object file, or of a kernel that ran.

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use thiserror::Error;

/// Before each function of a kernel that is built with padding for call thunks, since Linux 6.2.
const PADDING: &str = "__pfx_";

/// Bytes that hold no symbols, so that `FILE: {it}` reads well.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SymbolsError {
    /// An object file that cannot be read.
    #[error("{0}; expected an ELF or PE file with symbols")]
    Object(String),
    /// Text of another kind.
    #[error(
        "no line is a symbol's; expected lines of System.map or /proc/kallsyms, or an ELF or PE file"
    )]
    None,
    /// Addresses as an unprivileged reader gets them.
    #[error("every address is 0; expected /proc/kallsyms as root reads it")]
    Hidden,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    address: u64,
    /// Its bytes, where that is known.
    size: u64,
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
    /// End of the last function, where a file says.
    end: Option<u64>,
}

impl Symbols {
    /// Reads a file of any of the kinds below, which its content tells.
    ///
    /// # Errors
    /// [`SymbolsError`].
    pub fn read(bytes: &[u8]) -> Result<Self, SymbolsError> {
        if object::FileKind::parse(bytes).is_ok() {
            let symbols = Self::from_object(bytes)?;
            return match symbols.functions.is_empty() {
                true => Err(SymbolsError::Object("has no symbols of functions".into())),
                false => Ok(symbols),
            };
        }
        let text = String::from_utf8_lossy(bytes);
        let symbols = Self::from_kallsyms(&text);
        if !symbols.functions.is_empty() {
            return Ok(symbols);
        }
        let hidden = text.lines().any(|line| kallsyms_line(line).is_some());
        Err(if hidden {
            SymbolsError::Hidden
        } else {
            SymbolsError::None
        })
    }

    /// Reads the symbols of an ELF or PE file; of one that was stripped those that it exports.
    ///
    /// # Errors
    /// [`SymbolsError::Object`] for a file that is neither.
    pub fn from_object(bytes: &[u8]) -> Result<Self, SymbolsError> {
        let refuse = |error: object::Error| SymbolsError::Object(error.to_string());
        let object = object::File::parse(bytes).map_err(refuse)?;
        let text = object
            .sections()
            .filter(|section| section.kind() == SectionKind::Text);
        let text: Vec<_> = text.collect();
        let in_text = |symbol: &object::Symbol<'_, '_>| {
            let section = symbol.section_index();
            text.iter().any(|text| section == Some(text.index()))
        };
        let named = |symbol: object::Symbol<'_, '_>| {
            let name = symbol.name().ok()?;
            // The other names are those of sections, and labels of an assembler's.
            let is_function = !name.is_empty() && !name.starts_with('.');
            is_function.then(|| Symbol {
                address: symbol.address(),
                size: symbol.size(),
                name: name.to_owned(),
                module: None,
            })
        };
        let mut functions: Vec<_> = object.symbols().filter(in_text).filter_map(named).collect();
        if functions.is_empty() {
            functions.extend(object.dynamic_symbols().filter(in_text).filter_map(named));
        }
        let end = text.iter().map(|text| text.address() + text.size()).max();
        Ok(Self::sorted(functions, end))
    }

    /// Reads lines of `/proc/kallsyms` or of a `System.map`; other lines are left out.
    #[must_use]
    pub fn from_kallsyms(text: &str) -> Self {
        Self::sorted(text.lines().filter_map(kallsyms_line).collect(), None)
    }

    /// Merges two tables; at an address that both have, the first one's function stays.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.functions.extend(other.functions);
        let end = self.end.zip(other.end).map(|(one, other)| one.max(other));
        Self::sorted(self.functions, end)
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

    /// The function that begins at an address.
    #[must_use]
    pub fn beginning_at(&self, address: u64) -> Option<&Symbol> {
        self.at(address).filter(|symbol| symbol.address == address)
    }

    /// The function at an address; `None` also between functions whose sizes are known.
    #[must_use]
    pub fn enclosing(&self, address: u64) -> Option<&Symbol> {
        let symbol = self.at(address)?;
        (symbol.size == 0 || address - symbol.address < symbol.size).then_some(symbol)
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
        size: 0,
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
        let symbols = Symbols::from_kallsyms(KALLSYMS);
        let name = |address| symbols.at(address).map(|symbol| symbol.name.as_str());
        assert_eq!(name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(0xffff_ffff_8100_0015), Some("_text"));
        assert_eq!(name(0xffff_ffff_8100_0020), Some("one"));
        assert_eq!(name(0xffff_ffff_8100_0041), Some("one"));
        let of_module = symbols.at(0xffff_ffff_c020_0001).unwrap();
        assert_eq!(of_module.module.as_deref(), Some("xen_probe"));
    }

    #[test]
    fn this_program_knows_its_own_functions() {
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = Symbols::read(&this).unwrap();
        assert!(symbols.functions.len() > 100);
        assert_eq!(symbols.at(u64::MAX), None);
    }

    #[test]
    fn what_has_no_symbols_says_why() {
        let refused = |bytes: &[u8]| Symbols::read(bytes).unwrap_err();
        assert_eq!(refused(b"[package]\n"), SymbolsError::None);
        assert_eq!(refused(b"0000000000000000 T _text\n"), SymbolsError::Hidden);
        assert!(matches!(
            refused(&[&b"\x7fELF\x02\x01\x01"[..], &[0; 57]].concat()),
            SymbolsError::Object(_)
        ));
    }

    #[test]
    fn two_files_are_one_table() {
        let xen = Symbols::from_kallsyms("ffff82d040200000 T xen_start\n");
        let both = Symbols::from_kallsyms(KALLSYMS).and(xen);
        let name = |address| both.at(address).map(|symbol| symbol.name.as_str());
        assert_eq!(name(0xffff_82d0_4020_0004), Some("xen_start"));
        assert_eq!(name(0xffff_ffff_8100_0020), Some("one"));
    }
}
