//! Obtains a Xen hypervisor that QEMU can start: the ELF file, not the gzip file that Debian ships.
//!
//! A file is checked before anything is started with it. Source: the multiboot specification
//! 0.6.96, section 3.1, and xen/arch/x86/boot/head.S, seen in Xen 4.17 and 4.20.

pub mod build;
pub mod pv32;

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use object::Endianness;
use object::elf::{EM_386, FileHeader32};
use object::read::elf::{FileHeader, ProgramHeader};
use pagetoll_backend::{Stop, input};
use pagetoll_bill::{Arch, Package};
use pagetoll_host::Error;
use pagetoll_host::cache::Cache;
use pagetoll_host::digest::sha256_of;

use crate::apt::{Archive, Freshness};
use crate::{deb, unpack};

/// Acceptable files, as errors put it.
const EXPECTED: &str =
    "a Xen hypervisor for x86 such as Debian's /boot/xen-*-amd64.gz, gzipped or not";
/// A multiboot header begins with this word,
const MULTIBOOT_MAGIC: u32 = 0x1bad_b002;
/// within the first bytes of the image.
const MULTIBOOT_WITHIN: usize = 8192;
/// The banner's format in xen/common/version.c and console.c.
const BANNER: &[u8] = b"Xen version %d.%d";
/// A file that has more bytes, or unpacks to more, is not believed. Assumed: Xen is below 10 MiB.
const UNPACKED_LIMIT: u64 = 256 << 20;

/// The source of a Xen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XenSource {
    /// The newest one of a suite; `None` is the suite that this system runs.
    Debian {
        /// The suite's name.
        suite: Option<String>,
    },
    /// This file.
    File(PathBuf),
    /// One that pagetoll has built.
    Built(Box<XenImage>),
}

impl FromStr for XenSource {
    type Err = Error;

    /// Reads `debian`, `debian:SUITE`, or a path.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text.strip_prefix("debian:") {
            None if text == "debian" => Ok(Self::Debian { suite: None }),
            Some(suite) if !suite.is_empty() => Ok(Self::Debian {
                suite: Some(suite.to_owned()),
            }),
            None if !text.is_empty() => Ok(Self::File(PathBuf::from(text))),
            _ => Err(Error::BadInput {
                what: "--xen",
                value: format!("{text:?}"),
                problem: "names neither a suite nor a file".into(),
                expected: "debian, debian:SUITE, or a path".into(),
            }),
        }
    }
}

/// A Xen that QEMU can start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XenImage {
    /// The uncompressed ELF file, in the cache.
    pub elf: PathBuf,
    /// The file that has its symbols, where there is one.
    pub symbols: Option<PathBuf>,
    /// Its version, such as `4.17.7+13-g2445b30a44-0+deb12u1`, where it can be read.
    pub version: Option<String>,
    /// Its packages; empty for a file that was given.
    pub packages: Vec<Package>,
}

/// Fetches or reads a Xen, checks it, and puts its ELF file into the cache.
///
/// # Errors
/// [`Error::BadInput`] for a file that is not a whole Xen, or a suite without one; those of
/// [`Archive::open`] and [`Archive::fetch`].
pub fn obtain(
    source: &XenSource,
    cache: &Cache,
    freshness: Freshness,
    stop: &Stop,
) -> Result<XenImage, Error> {
    match source {
        XenSource::File(path) => from_file(path, cache, stop),
        XenSource::Built(image) => Ok(image.as_ref().clone()),
        XenSource::Debian { suite } => from_debian(suite.as_deref(), cache, freshness, stop),
    }
}

fn from_debian(
    suite: Option<&str>,
    cache: &Cache,
    freshness: Freshness,
    stop: &Stop,
) -> Result<XenImage, Error> {
    let archive = Archive::open(cache, suite, Arch::X86_64, freshness, stop)?;
    let listed = archive.index().xen().ok_or_else(|| Error::BadInput {
        what: "--xen",
        value: format!("debian:{}", archive.suite()),
        problem: "the suite has no xen-hypervisor-*-amd64".into(),
        expected: "a suite with one, such as stable, or a file".into(),
    })?;
    let deb = archive.fetch_one(listed, stop)?;
    let folder = deb::unpacked(cache, &deb, &listed.package.sha256, stop)?;
    let gzipped = folder.file(gzipped_in(&folder.path().join("boot"))?)?;
    Ok(XenImage {
        packages: vec![listed.package.clone()],
        ..from_file(&gzipped, cache, stop)?
    })
}

fn gzipped_in(boot: &Path) -> Result<PathBuf, Error> {
    let entries = fs::read_dir(boot).map_err(Error::io("read", boot))?;
    let mut images = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some("gz".as_ref()));
    images
        .next()
        .ok_or_else(|| Error::bad_file("--xen", boot, "holds no xen-*.gz", EXPECTED))
}

/// Checks a file and puts its ELF file into the cache.
fn from_file(path: &Path, cache: &Cache, stop: &Stop) -> Result<XenImage, Error> {
    let refuse = |problem: String| Error::bad_file("--xen", path, problem, EXPECTED);
    let bytes = input::read(path, UNPACKED_LIMIT).map_err(|error| refuse(error.to_string()))?;
    let elf = inspect(bytes).map_err(refuse)?;
    let place = cache.entry(&format!("xen/{}.elf", sha256_of(&elf)), stop, |place| {
        fs::write(place, &elf).map_err(Error::io("write", place))
    })?;
    Ok(XenImage {
        elf: place.file("")?,
        symbols: symbols_beside(path),
        version: version(&elf),
        packages: Vec::new(),
    })
}

/// The file of symbols that a build of Xen leaves beside `xen.gz`, and Debian beside `xen-VERSION-amd64.gz`.
fn symbols_beside(path: &Path) -> Option<PathBuf> {
    let beside = [path.with_extension("efi"), path.with_file_name("xen-syms")];
    beside.into_iter().find(|file| file.is_file())
}

/// The ELF file of a whole Xen, gzipped or not; an error says what is wrong with the bytes.
///
/// # Errors
/// The bytes are no Xen, or a damaged one.
pub fn inspect(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let elf = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => unpack::gzip(&bytes, UNPACKED_LIMIT)
            .map_err(|error| format!("is a damaged or truncated gzip file: {error}"))?,
        false => bytes,
    };
    check(&elf)?;
    Ok(elf)
}

/// Xen is a 32-bit ELF file for x86, whatever it runs as later, with a multiboot header and its banner.
fn check(elf: &[u8]) -> Result<(), String> {
    let loaded_end =
        loaded_end(elf).map_err(|error| format!("is not a 32-bit x86 ELF file: {error}"))?;
    if u64::try_from(elf.len()).is_ok_and(|size| size < loaded_end) {
        return Err(format!(
            "is truncated: {} of at least {loaded_end} bytes",
            elf.len()
        ));
    }
    let words = elf.get(..MULTIBOOT_WITHIN).unwrap_or(elf).chunks_exact(4);
    if !words
        .into_iter()
        .any(|word| word == MULTIBOOT_MAGIC.to_le_bytes())
    {
        return Err("has no multiboot header".into());
    }
    if !contains(elf, BANNER) {
        return Err("is a multiboot kernel, but not Xen (it has no Xen banner)".into());
    }
    Ok(())
}

fn loaded_end(elf: &[u8]) -> Result<u64, String> {
    let header = FileHeader32::<Endianness>::parse(elf).map_err(|error| error.to_string())?;
    let endian = header.endian().map_err(|error| error.to_string())?;
    if header.e_machine(endian) != EM_386 {
        return Err(format!("it is for machine {}", header.e_machine(endian)));
    }
    let segments = header
        .program_headers(endian, elf)
        .map_err(|error| error.to_string())?;
    let ends = segments
        .iter()
        .map(|s| u64::from(s.p_offset(endian)) + u64::from(s.p_filesz(endian)));
    ends.max().ok_or_else(|| "it has no segments".into())
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

/// The full version stands by itself among Xen's strings: major, minor and the vendor's extra version.
fn version(elf: &[u8]) -> Option<String> {
    elf.split(|&byte| byte == 0)
        .find(|text| is_version(text))
        .map(|text| String::from_utf8_lossy(text).into_owned())
}

fn is_version(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let mut numbers = text.splitn(3, '.');
    let (major, minor, rest) = (numbers.next(), numbers.next(), numbers.next());
    let is_number = |text: Option<&str>| {
        text.is_some_and(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()))
    };
    let rest_fits = |rest: &str| {
        rest.starts_with(|c: char| c.is_ascii_digit())
            && rest
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.~".contains(c))
    };
    is_number(major) && is_number(minor) && rest.is_some_and(rest_fits) && major >= Some("4")
}

#[cfg(test)]
mod tests;
