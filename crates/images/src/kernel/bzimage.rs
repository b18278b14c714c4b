//! Linux's x86 boot image: its header, and the kernel compressed within.
//!
//! Source: Documentation/arch/x86/boot.rst of Linux 6.12. Reads only; never boots anything.

use std::ops::Range;

use crate::unpack;

/// Place of the number of setup sectors.
const SETUP_SECTS: usize = 0x1f1;
/// The size of the protected-mode code, in 16-byte paragraphs.
const SYSSIZE: usize = 0x1f4;
/// Place of `HdrS`.
const MAGIC: Range<usize> = 0x202..0x206;
/// The version of the boot protocol.
const PROTOCOL: usize = 0x206;
/// Place of the version text, less 0x200.
const KERNEL_VERSION: usize = 0x20e;
/// Since protocol 2.12; bit 0: the kernel has a 64-bit entry point.
const XLOADFLAGS: usize = 0x236;
/// Since protocol 2.08: where the payload stands within the protected-mode code.
const PAYLOAD_OFFSET: usize = 0x248;
/// Since protocol 2.08: its size.
const PAYLOAD_LENGTH: usize = 0x24c;
/// The end of the fields that are read here.
const HEADER_END: usize = 0x250;
/// The oldest protocol that has them all (Linux 3.8).
const OLDEST_PROTOCOL: u16 = 0x020c;
/// A kernel that unpacks to more is not believed. Assumed: distribution kernels are below 100 MiB.
const UNPACKED_LIMIT: u64 = 512 << 20;

/// The header of a boot image. Holding one proves that the file is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootImage {
    /// The kernel's release, as `uname -r` prints it.
    pub(crate) release: String,
    payload: Range<usize>,
}

impl BootImage {
    /// Reads the header of an x86-64 bzImage; an error says what is wrong with the bytes.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.get(MAGIC) != Some(b"HdrS") || bytes.len() < HEADER_END {
            return Err("is not a Linux boot image (no HdrS at 0x202)".into());
        }
        let protocol = u16_at(bytes, PROTOCOL)?;
        if protocol < OLDEST_PROTOCOL {
            return Err(format!(
                "has boot protocol {protocol:#x}, older than {OLDEST_PROTOCOL:#x}"
            ));
        }
        if u16_at(bytes, XLOADFLAGS)? & 1 == 0 {
            return Err("is a 32-bit kernel".into());
        }
        let setup = setup_size(bytes);
        let expected = setup + size_at(bytes, SYSSIZE)? * 16;
        if bytes.len() < expected {
            return Err(format!("is truncated: {} of {expected} bytes", bytes.len()));
        }
        Ok(Self {
            release: release(bytes, setup)?,
            payload: payload(bytes, setup)?,
        })
    }

    /// Unpacks the kernel, an ELF file; an error says why that cannot be done.
    pub(crate) fn unpack(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        decompress(bytes.get(self.payload.clone()).unwrap_or_default())
    }
}

fn setup_size(bytes: &[u8]) -> usize {
    // Zero means four, for boot loaders of old.
    let sectors = bytes
        .get(SETUP_SECTS)
        .copied()
        .filter(|&sectors| sectors != 0)
        .unwrap_or(4);
    (usize::from(sectors) + 1) * 512
}

fn release(bytes: &[u8], setup: usize) -> Result<String, String> {
    let start = usize::from(u16_at(bytes, KERNEL_VERSION)?) + 0x200;
    let text = bytes.get(start..setup).unwrap_or_default();
    let word = text
        .split(|&byte| byte == 0 || byte == b' ')
        .next()
        .unwrap_or_default();
    let is_release =
        word.first().is_some_and(u8::is_ascii_digit) && word.iter().all(u8::is_ascii_graphic);
    if !is_release || start == 0x200 {
        return Err("has no kernel version in its header".into());
    }
    Ok(String::from_utf8_lossy(word).into_owned())
}

fn payload(bytes: &[u8], setup: usize) -> Result<Range<usize>, String> {
    let start = setup + size_at(bytes, PAYLOAD_OFFSET)?;
    let end = start + size_at(bytes, PAYLOAD_LENGTH)?;
    if start == end || end > bytes.len() {
        return Err(format!(
            "has a payload at {start}..{end}, outside of its {} bytes",
            bytes.len()
        ));
    }
    Ok(start..end)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, String> {
    let field = bytes
        .get(at..at + 2)
        .and_then(|field| field.try_into().ok());
    field
        .map(u16::from_le_bytes)
        .ok_or_else(|| format!("ends before {at:#x}"))
}

fn size_at(bytes: &[u8], at: usize) -> Result<usize, String> {
    let field = bytes
        .get(at..at + 4)
        .and_then(|field| field.try_into().ok());
    let value = field
        .map(u32::from_le_bytes)
        .ok_or_else(|| format!("ends before {at:#x}"))?;
    usize::try_from(value).map_err(|error| error.to_string())
}

/// The magic numbers are those of scripts/extract-vmlinux.
fn decompress(payload: &[u8]) -> Result<Vec<u8>, String> {
    let unpacked = match payload {
        [0x1f, 0x8b, ..] => unpack::gzip(payload, UNPACKED_LIMIT),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => unpack::xz(payload, UNPACKED_LIMIT),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack::zstd(payload, UNPACKED_LIMIT),
        [0x02, 0x21, 0x4c, 0x18, ..] => unpack::lz4(payload, UNPACKED_LIMIT),
        [0x5d, 0, 0, ..] => unpack::lzma(payload, UNPACKED_LIMIT),
        [0x7f, b'E', b'L', b'F', ..] => Ok(payload.to_vec()),
        [a, b, c, d, ..] => {
            return Err(format!(
                "is compressed in an unknown way ({a:02x} {b:02x} {c:02x} {d:02x})"
            ));
        }
        _ => return Err("has an empty payload".into()),
    };
    unpacked.map_err(|error| format!("cannot be decompressed: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// The smallest image that is accepted, around a payload.
    pub(crate) fn fake(release: &str, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 1024];
        bytes[SETUP_SECTS] = 1;
        bytes[MAGIC].copy_from_slice(b"HdrS");
        bytes[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x020fu16.to_le_bytes());
        bytes[XLOADFLAGS] = 1;
        bytes[KERNEL_VERSION..KERNEL_VERSION + 2].copy_from_slice(&0x100u16.to_le_bytes());
        let text = format!("{release} (builder@host) #1 SMP\0");
        bytes[0x300..0x300 + text.len()].copy_from_slice(text.as_bytes());
        let size = u32::try_from(payload.len()).unwrap();
        bytes[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&size.to_le_bytes());
        bytes[SYSSIZE..SYSSIZE + 4].copy_from_slice(&(size / 16).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn refusal(bytes: &[u8]) -> String {
        BootImage::parse(bytes).unwrap_err()
    }

    #[test]
    fn reads_release_and_payload() {
        let bytes = fake("6.1.0-56-amd64", &gzip(b"a kernel"));
        let image = BootImage::parse(&bytes).unwrap();
        assert_eq!(image.release, "6.1.0-56-amd64");
        assert_eq!(image.unpack(&bytes).unwrap(), b"a kernel");
    }

    #[test]
    fn refuses_what_is_not_a_boot_image() {
        for bytes in [&b""[..], b"hello", &[0; 4096]] {
            assert!(refusal(bytes).contains("no HdrS"), "{}", bytes.len());
        }
    }

    #[test]
    fn refuses_a_truncated_image() {
        let bytes = fake("6.1", &[1; 1600]);
        assert_eq!(refusal(&bytes[..2000]), "is truncated: 2000 of 2624 bytes");
    }

    #[test]
    fn refuses_old_protocols_and_32_bit_kernels() {
        let mut bytes = fake("6.1", &[1; 16]);
        bytes[XLOADFLAGS] = 0;
        assert_eq!(refusal(&bytes), "is a 32-bit kernel");
        bytes[PROTOCOL] = 4;
        assert!(refusal(&bytes).contains("boot protocol 0x204"));
    }

    #[test]
    fn refuses_a_header_without_a_version() {
        assert!(refusal(&fake("", &[1; 16])).contains("no kernel version"));
    }

    #[test]
    fn refuses_a_payload_outside_of_the_file() {
        let mut bytes = fake("6.1", &[1; 16]);
        bytes[PAYLOAD_OFFSET] = 1;
        assert!(refusal(&bytes).contains("outside of its 1040 bytes"));
    }

    #[test]
    fn says_why_a_payload_cannot_be_read() {
        let of = |payload: &[u8]| {
            let bytes = fake("6.1", payload);
            BootImage::parse(&bytes)
                .unwrap()
                .unpack(&bytes)
                .unwrap_err()
        };
        assert!(of(b"BZh91AY&SY").contains("unknown way (42 5a 68 39)"));
        assert!(of(&gzip(&[7; 10_000])[..20]).contains("cannot be decompressed"));
        assert!(of(&[0xfd, b'7', b'z', b'X', b'Z', 0, 1, 2]).contains("cannot be decompressed"));
        assert!(of(&[0x28, 0xb5, 0x2f, 0xfd, 1, 2]).contains("cannot be decompressed"));
    }

    #[test]
    fn an_lz4_bomb_is_refused() {
        let packed = lz4_flex::block::compress(&vec![0; 8 << 20]);
        let mut payload = vec![0x02, 0x21, 0x4c, 0x18];
        for _ in 0..65 {
            payload.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
            payload.extend(&packed);
        }
        let refused = decompress(&payload).unwrap_err();
        assert!(
            refused.contains("unpacks to more than 536870912 bytes"),
            "{refused}"
        );
    }

    proptest::proptest! {
        #[test]
        fn never_panics_on_a_damaged_header(at in 0x1f0usize..0x260, value: u8) {
            let mut bytes = fake("6.1", &gzip(b"a kernel"));
            bytes[at] = value;
            if let Ok(image) = BootImage::parse(&bytes) {
                let _any = image.unpack(&bytes);
            }
        }
    }
}
