//! Valid files for each reader: those of the repository, and the smallest images that are accepted.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// A file of the repository, by its path below the root.
macro_rules! file {
    ($path:literal) => {
        include_bytes!(concat!("../../../", $path)).to_vec()
    };
}

const BILLS: [&[u8]; 5] = [
    include_bytes!("../../render/tests/data/sample-bill.json"),
    include_bytes!("../../render/tests/data/demand-live.json"),
    include_bytes!("../../render/tests/data/demand-sim.json"),
    include_bytes!("../../render/tests/data/flush-sim.json"),
    include_bytes!("../../render/tests/data/pin-sim.json"),
];

pub(crate) fn bills() -> Vec<Vec<u8>> {
    BILLS.iter().map(|bill| bill.to_vec()).collect()
}

/// Each bill beside itself, as a JSON array.
pub(crate) fn pairs_of_bills() -> Vec<Vec<u8>> {
    BILLS
        .iter()
        .map(|bill| [&b"["[..], bill, b",", bill, b"]"].concat())
        .collect()
}

pub(crate) fn traces() -> Vec<Vec<u8>> {
    // The first windows of each: the rest is more of the same, and takes longer.
    const WINDOWS: usize = 16 << 10;
    [
        file!("crates/xentrace/tests/data/xentrace-all.bin"),
        file!("crates/xentrace/tests/data/xentrace-unmap.bin"),
        file!("crates/xentrace/tests/data/made/xentrace-hvm.bin"),
    ]
    .into_iter()
    .map(|trace| trace[..trace.len().min(WINDOWS)].to_vec())
    .collect()
}

pub(crate) fn lock_profiles() -> Vec<Vec<u8>> {
    let text = "(XEN) Global lock flush_lock: addr=ffff82d0404d1b40, lockval=03ad03ad, not locked\n\
                (XEN)   lock:12(34567), block:8(90123)\n\
                (XEN) Global lock heap_lock: addr=ffff82d040471c40, lockval=00010000, cpu=3\n\
                (XEN)   lock:1(2), block:0(0)\n";
    vec![text.into()]
}

pub(crate) fn cost_tables() -> Vec<Vec<u8>> {
    vec![
        file!("costs/lab-xen-4.17.toml"),
        file!("costs/x86-256-core-1-4.toml"),
        file!("costs/amd-pv-shim-32.toml"),
        file!("costs/lab-vfio-6.18.toml"),
    ]
}

pub(crate) fn published() -> Vec<Vec<u8>> {
    vec![file!("published/published.toml")]
}

pub(crate) fn scripts() -> Vec<Vec<u8>> {
    vec![
        file!("conformance/mmu_update.script"),
        file!("conformance/multicall.script"),
        file!("conformance/kvm/api.script"),
        file!("conformance/kvm/memslot.script"),
        file!("conformance/vfio/map.script"),
    ]
}

pub(crate) fn patches() -> Vec<Vec<u8>> {
    let text = "Subject: a change\n\n---\n--- a/f.c\n+++ b/f.c\n@@ -1,3 +1,4 @@ f\n a\n-b\n+c\n+d\n e\n@@ -9 +10 @@\n-x\n+y\n\
                --- /dev/null\n+++ b/new.c\n@@ -0,0 +1,2 @@\n+a\n+b\n-- \n2.39\n";
    vec![text.into()]
}

/// A result of each kind that guests report.
pub(crate) fn consoles() -> Vec<Vec<u8>> {
    let text = r#"(XEN) Xen version 4.17.7
{"kind":"hello","version":"Debian 6.1.192-2","release":"6.1.0-56-amd64","xen":"4.17.7","cpus":1}
{"kind":"settled","quiet":true,"milliseconds":120}
{"kind":"clear","mechanism":"emulate","batch":1,"pages":16384,"mark":-1,"instructions":30471214,"classes":[4096,4096,4096,4096],"faults":{"lost_accessed":0,"lost_dirty":0,"wrong_frame":0,"wrong_flags":0,"not_none":0,"refused":0}}
{"kind":"case","index":1,"unclean":0,"frames":[1,2],"answers":[[-22,0,18446744073709551615]]}
{"kind":"check","name":"race","tried":3,"failed":0,"milliseconds":12}
{"kind":"kernel-log","warnings":1,"first":"WARNING: CPU: 0"}
{"kind":"blob","name":"trace","bytes":4096,"crc32":"00c0ffee"}
{"kind":"error","what":"swapon","errno":22}
[    1.2] Kernel panic - not syncing: Attempted to kill init!
{"kind":"done"}
"#;
    vec![text.into()]
}

/// One kernel in each compression, and uncompressed.
pub(crate) fn kernels() -> Vec<Vec<u8>> {
    let elf = vmlinux();
    [
        gzip(&elf),
        lz4_legacy(&elf),
        file!("crates/readers/seeds/vmlinux.xz"),
        file!("crates/readers/seeds/vmlinux.lzma"),
        file!("crates/readers/seeds/vmlinux.zst"),
    ]
    .iter()
    .map(|payload| boot_image(payload))
    .chain([elf.clone()])
    .collect()
}

pub(crate) fn xens() -> Vec<Vec<u8>> {
    let text = b"\0Xen version %d.%d%s (%s)\0\x004.17.7+13-g2445-0+deb12u1\0";
    let end = u32::try_from(HEADER_32 + SEGMENT_32 + 4 + text.len()).unwrap_or(u32::MAX);
    let multiboot = 0x1bad_b002_u32.to_le_bytes();
    let elf = [&elf_header_32()[..], &segment_32(end), &multiboot, text].concat();
    vec![gzip(&elf), elf]
}

const HEADER_32: usize = 52;
const SEGMENT_32: usize = 32;

fn elf_header_32() -> [u8; HEADER_32] {
    let mut header = [0; HEADER_32];
    header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    for (at, value) in [
        (16, 2),
        (18, 3),
        (20, 1),
        (28, 52),
        (40, 52),
        (42, 32),
        (44, 1),
        (46, 40),
    ] {
        header[at] = value;
    }
    header
}

/// One segment that covers the file.
fn segment_32(end: u32) -> [u8; SEGMENT_32] {
    let mut segment = [0; SEGMENT_32];
    segment[0] = 1;
    segment[16..20].copy_from_slice(&end.to_le_bytes());
    segment[20..24].copy_from_slice(&end.to_le_bytes());
    segment
}

/// An ELF file for x86-64 with Xen's note of a PV entry point, and Linux's banner.
fn vmlinux() -> Vec<u8> {
    const NOTE: [u8; 16] = *b"\x04\0\0\0\0\0\0\0\x01\0\0\0Xen\0";
    let mut head = [0; 120];
    head[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (at, value) in [
        (16, 2),
        (18, 62),
        (20, 1),
        (32, 64),
        (52, 64),
        (54, 56),
        (56, 1),
        (58, 64),
    ] {
        head[at] = value;
    }
    for (at, value) in [(64, 4), (68, 4), (72, 120), (96, 16), (104, 16), (112, 4)] {
        head[at] = value;
    }
    [
        &head[..],
        &NOTE,
        b"\0Linux version 6.1.0-56-amd64 (debian) #1\0",
    ]
    .concat()
}

/// A boot image around a payload: Documentation/arch/x86/boot.rst.
fn boot_image(payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 1024];
    image[0x1f1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x020f_u16.to_le_bytes());
    image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x236] = 1;
    let size = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    image[0x24c..0x250].copy_from_slice(&size.to_le_bytes());
    image[0x300..0x30e].copy_from_slice(b"6.1.0-56-amd64");
    image.extend(payload);
    image
}

pub(crate) fn mapped_rams() -> Vec<Vec<u8>> {
    use pagetoll_images::mapped_ram::sample;
    vec![
        sample(&[("pc.ram", &[1, 0, 2, 2])]),
        sample(&[
            ("pc.bios", &[1]),
            ("pc.ram", &[0; 70]),
            ("vga.vram", &[0, 3]),
        ]),
    ]
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

fn lz4_legacy(bytes: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(bytes);
    let size = u32::try_from(block.len()).unwrap_or(u32::MAX);
    [&[0x02, 0x21, 0x4c, 0x18][..], &size.to_le_bytes(), &block].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `xz`, `lzma` and `zstd` made the files in `seeds/` from this one.
    #[test]
    fn every_kernel_and_xen_is_accepted() {
        for kernel in kernels() {
            assert_eq!(
                pagetoll_images::kernel::inspect(&kernel).unwrap(),
                "6.1.0-56-amd64"
            );
        }
        for xen in xens() {
            pagetoll_images::xen::inspect(xen).unwrap();
        }
    }

    #[test]
    fn every_file_of_memory_is_accepted() {
        for file in mapped_rams() {
            let blocks = pagetoll_images::mapped_ram::blocks(&mut std::io::Cursor::new(file));
            assert!(!blocks.unwrap().is_empty());
        }
    }

    #[test]
    fn every_other_seed_is_valid() {
        for bill in bills() {
            serde_json::from_slice::<pagetoll_bill::Bill>(&bill).unwrap();
        }
        for table in cost_tables() {
            pagetoll_cost::CostTable::parse("t", std::str::from_utf8(&table).unwrap()).unwrap();
        }
        for patch in patches() {
            let files = pagetoll_fix::patch::parse(std::str::from_utf8(&patch).unwrap()).unwrap();
            assert_eq!(files.len(), 2);
        }
        for profiles in lock_profiles() {
            let text = String::from_utf8(profiles).unwrap();
            let read = pagetoll_xentrace::lock_profile::LockProfile::read(&text);
            assert_eq!(read.unwrap().len(), 2);
        }
    }
}
