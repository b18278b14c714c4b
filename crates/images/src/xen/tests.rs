//! Every refusal names the file and what would have been accepted.

use std::io::Write;

use super::*;

/// A 32-bit x86 ELF file with one segment that covers all of it.
fn fake(multiboot: u32, text: &[u8]) -> Vec<u8> {
    let total = u32::try_from(52 + 32 + 4 + text.len()).unwrap();
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let fields: [(usize, u32); 13] = [
        (2, 2),
        (2, 3),
        (4, 1),
        (4, 0),
        (4, 52),
        (4, 0),
        (4, 0),
        (2, 52),
        (2, 32),
        (2, 1),
        (2, 40),
        (2, 0),
        (2, 0),
    ];
    let segment: [(usize, u32); 8] = [
        (4, 1),
        (4, 0),
        (4, 0),
        (4, 0),
        (4, total),
        (4, total),
        (4, 7),
        (4, 64),
    ];
    for (size, value) in fields.into_iter().chain(segment) {
        bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    }
    bytes.extend(multiboot.to_le_bytes());
    bytes.extend(text);
    bytes
}

fn xen() -> Vec<u8> {
    fake(
        MULTIBOOT_MAGIC,
        b"\0Xen version %d.%d%s (%s)\0\x004.17.7+13-g2445-0+deb12u1\0",
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn obtained(bytes: &[u8]) -> Result<(XenImage, Vec<u8>), Error> {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
    let path = folder.path().join("xen.gz");
    fs::write(&path, bytes).unwrap();
    let image = obtain(
        &XenSource::File(path),
        &cache,
        Freshness::Cached,
        &Stop::new(),
    )?;
    let elf = fs::read(&image.elf).unwrap();
    Ok((image, elf))
}

#[test]
fn gzipped_or_not_the_elf_file_is_the_same() {
    for bytes in [xen(), gzip(&xen())] {
        let (image, elf) = obtained(&bytes).unwrap();
        assert_eq!(image.version.as_deref(), Some("4.17.7+13-g2445-0+deb12u1"));
        assert_eq!(elf, xen());
    }
}

#[test]
fn refusals_name_file_problem_and_expectation() {
    let truncated = &xen()[..120];
    let cases: [(&[u8], &str); 6] = [
        (b"", "not a 32-bit x86 ELF file"),
        (b"#!/bin/sh\n", "not a 32-bit x86 ELF file"),
        (truncated, "is truncated: 120 of at least"),
        (&gzip(&xen())[..60], "damaged or truncated gzip"),
        (&fake(7, b"\0Xen version %d.%d"), "no multiboot header"),
        (&fake(MULTIBOOT_MAGIC, b"some other kernel"), "but not Xen"),
    ];
    for (bytes, problem) in cases {
        let error = obtained(bytes).unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_code(), 2, "{text}");
        assert!(
            text.contains("xen.gz") && text.contains(problem) && text.contains(EXPECTED),
            "{text}"
        );
    }
}

#[test]
fn a_missing_file_is_the_callers_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
    let source = XenSource::File(folder.path().join("none.gz"));
    let error = obtain(&source, &cache, Freshness::Cached, &Stop::new()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(
        error
            .to_string()
            .contains("none.gz: cannot be read: No such file"),
        "{error}"
    );
}

#[test]
fn reads_sources() {
    assert_eq!(
        "debian".parse::<XenSource>().unwrap(),
        XenSource::Debian { suite: None }
    );
    let trixie = XenSource::Debian {
        suite: Some("trixie".into()),
    };
    assert_eq!("debian:trixie".parse::<XenSource>().unwrap(), trixie);
    assert_eq!(
        "./xen.gz".parse::<XenSource>().unwrap(),
        XenSource::File("./xen.gz".into())
    );
    assert_eq!("debian:".parse::<XenSource>().unwrap_err().exit_code(), 2);
    assert_eq!("".parse::<XenSource>().unwrap_err().exit_code(), 2);
}
