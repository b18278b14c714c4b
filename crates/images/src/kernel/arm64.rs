//! The boot image of an arm64 kernel: `Image`, uncompressed.
//!
//! Source: Documentation/arch/arm64/booting.rst of Linux 6.12.

use super::vmlinux;

/// Place of the header's magic number, and the number.
const MAGIC_AT: usize = 0x38;
const MAGIC: &[u8] = b"ARM\x64";
/// Place of the size that the image takes in memory, with its zeroed part.
const SIZE_AT: usize = 0x10;

/// Returns whether these bytes begin like such an image.
pub(super) fn is_image(bytes: &[u8]) -> bool {
    bytes.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)
}

/// The release of a whole image; an error says why this is none.
pub(super) fn release(bytes: &[u8]) -> Result<String, String> {
    if !is_image(bytes) {
        return Err("is no arm64 kernel (there is no ARM\\x64 at 0x38)".into());
    }
    let size = bytes.get(SIZE_AT..SIZE_AT + 8).unwrap_or_default();
    let size = size.try_into().map_or(0, u64::from_le_bytes);
    if size == 0 {
        return Err("is an arm64 kernel of before 3.17, which says nothing of its size".into());
    }
    vmlinux::release(bytes)
        .ok_or_else(|| "is an arm64 Image, but not a whole Linux kernel (it has no banner)".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(size: u64, text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 0x40];
        bytes[SIZE_AT..SIZE_AT + 8].copy_from_slice(&size.to_le_bytes());
        bytes[MAGIC_AT..MAGIC_AT + MAGIC.len()].copy_from_slice(MAGIC);
        bytes.extend(text);
        bytes
    }

    #[test]
    fn the_release_is_in_the_banner() {
        let whole = image(1 << 20, b"\0Linux version 6.1.0-56-arm64 (debian) #1\0");
        assert_eq!(release(&whole).as_deref(), Ok("6.1.0-56-arm64"));
    }

    #[test]
    fn what_is_no_whole_image_is_said() {
        let of = |bytes: &[u8]| release(bytes).unwrap_err();
        assert!(of(b"hello").contains("no arm64 kernel"));
        assert!(of(&image(0, b"")).contains("says nothing of its size"));
        assert!(of(&image(1, b"")).contains("no banner"));
        for cut in 0..0x3c {
            release(&image(1, b"")[..cut]).unwrap_err();
        }
    }
}
