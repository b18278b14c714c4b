//! The uncompressed kernel: an ELF file whose notes say how Xen may start it.
//!
//! Source: include/xen/interface/elfnote.h of Linux 6.12.

use object::Endianness;
use object::elf::{EM_X86_64, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use serde::{Deserialize, Serialize};

/// `XEN_ELFNOTE_ENTRY`: where a PV guest starts.
const XEN_ELFNOTE_ENTRY: u32 = 1;
/// `XEN_ELFNOTE_PHYS32_ENTRY`: where a PVH guest starts.
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;

/// Xen's ways to start a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum XenSupport {
    /// Paravirtualised, hence also as dom0.
    Pv,
    /// In a hardware container only.
    PvhOnly,
    /// Not at all.
    None,
}

/// Reads the Xen notes of a kernel; an error says why this is not an x86-64 ELF kernel.
pub(crate) fn xen_support(bytes: &[u8]) -> Result<XenSupport, String> {
    let types =
        xen_notes(bytes).map_err(|error| format!("is not a whole x86-64 ELF file: {error}"))?;
    Ok(if types.contains(&XEN_ELFNOTE_ENTRY) {
        XenSupport::Pv
    } else if types.contains(&XEN_ELFNOTE_PHYS32_ENTRY) {
        XenSupport::PvhOnly
    } else {
        XenSupport::None
    })
}

/// Returns whether a machine without a boot loader can start this kernel, by the note that PVH guests have.
pub(crate) fn has_pvh_entry(bytes: &[u8]) -> bool {
    xen_notes(bytes).is_ok_and(|types| types.contains(&XEN_ELFNOTE_PHYS32_ENTRY))
}

fn xen_notes(bytes: &[u8]) -> Result<Vec<u32>, object::read::Error> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let mut types = Vec::new();
    for segment in header.program_headers(endian, bytes)? {
        let Some(mut notes) = segment.notes(endian, bytes)? else {
            continue;
        };
        while let Some(note) = notes.next()? {
            if note.name() == b"Xen" {
                types.push(note.n_type(endian));
            }
        }
    }
    Ok(types)
}

/// Returns whether these bytes begin like an ELF file for x86-64.
pub(crate) fn is_x86_64_elf(bytes: &[u8]) -> bool {
    FileHeader64::<Endianness>::parse(bytes)
        .and_then(|header| Ok(header.e_machine(header.endian()?) == EM_X86_64))
        .unwrap_or(false)
}

/// The release in an uncompressed kernel's banner, `Linux version 6.1.0-56-amd64 (…`.
pub(crate) fn release(bytes: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let starts = bytes
        .windows(BANNER.len())
        .enumerate()
        .filter(|(_, window)| *window == BANNER);
    starts
        .map(|(at, _)| &bytes[at + BANNER.len()..])
        .find(|text| text.first().is_some_and(u8::is_ascii_digit))
        .map(|text| {
            text.iter()
                .take_while(|byte| byte.is_ascii_graphic())
                .map(|&byte| char::from(byte))
                .collect()
        })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An ELF file for x86-64 with one note segment, which holds Xen notes of these types.
    pub(crate) fn fake(types: &[u32]) -> Vec<u8> {
        let notes: Vec<u8> = types
            .iter()
            .flat_map(|kind| {
                [
                    4u32.to_le_bytes(),
                    0u32.to_le_bytes(),
                    kind.to_le_bytes(),
                    *b"Xen\0",
                ]
                .concat()
            })
            .collect();
        let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        for (size, value) in [
            (2, 2),
            (2, 62),
            (4, 1),
            (8, 0),
            (8, 64),
            (8, 0),
            (4, 0),
            (2, 64),
            (2, 56),
            (2, 1),
            (2, 64),
            (2, 0),
            (2, 0),
        ] {
            bytes.extend_from_slice(&u64::to_le_bytes(value)[..size]);
        }
        let size = u64::try_from(notes.len()).unwrap();
        for (width, value) in [
            (4, 4),
            (4, 4),
            (8, 120),
            (8, 0),
            (8, 0),
            (8, size),
            (8, size),
            (8, 4),
        ] {
            bytes.extend_from_slice(&u64::to_le_bytes(value)[..width]);
        }
        bytes.extend(notes);
        bytes
    }

    #[test]
    fn pv_and_pvh_only_and_neither_are_distinguished() {
        assert_eq!(xen_support(&fake(&[6, 18, 1])), Ok(XenSupport::Pv));
        assert_eq!(xen_support(&fake(&[6, 18])), Ok(XenSupport::PvhOnly));
        assert_eq!(xen_support(&fake(&[])), Ok(XenSupport::None));
    }

    #[test]
    fn refuses_what_is_not_elf_or_is_cut_off() {
        assert!(xen_support(b"hello").is_err());
        let bytes = fake(&[1]);
        assert!(xen_support(&bytes[..bytes.len() - 4]).is_err());
        assert!(is_x86_64_elf(&bytes) && !is_x86_64_elf(b"hello"));
    }

    #[test]
    fn reads_the_release_in_the_banner() {
        let bytes = b"\0Linux version %s\0Linux version 6.1.0-56-amd64 (debian) #1\0";
        assert_eq!(release(bytes).as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(release(b"nothing"), None);
    }
}
