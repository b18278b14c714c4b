//! Memory in QEMU's `mapped-ram` files: a stream of `migrate file:` whose pages lie at fixed offsets.
//!
//! The stream begins as every migration's: a header, the section of the configuration, then that of `ram`, which has the
//! header of each RAM block. Behind a block's header lie a bitmap and the pages; a page whose bit is clear is all zeroes. The
//! state of devices follows, and is not read. Source: docs/devel/migration/mapped-ram.rst, migration/savevm.c
//! (`qemu_savevm_state_header`, `vmstate_configuration`) and migration/ram.c (`ram_save_setup`,
//! `mapped_ram_setup_ramblock`) of QEMU 10.0; the capability is there since 9.0.

use std::io::{self, Read, Seek, SeekFrom};

use thiserror::Error;

/// `QEMU_VM_FILE_MAGIC` and `QEMU_VM_FILE_VERSION` (migration/savevm.h).
const MAGIC: &[u8; 4] = b"QEVM";
const VERSION: u32 = 3;
/// Types of sections (migration/savevm.h).
const SECTION_START: u8 = 0x01;
const SUBSECTION: u8 = 0x05;
const CONFIGURATION: u8 = 0x07;
/// `RAM_SAVE_FLAG_MEM_SIZE` (migration/ram.h), in the low bits of a length in pages.
const MEM_SIZE: u64 = 0x04;
/// `MAPPED_RAM_HDR_VERSION`.
const HEADER_VERSION: u32 = 1;
/// Size of a page that is read.
const PAGE: u64 = 4096;
/// Most blocks of a file: machines have a handful, for memory, firmware and video.
const MOST_BLOCKS: usize = 256;
/// Longest name of a machine, and most capabilities: assumed, several times those of QEMU 10.0.
const MOST_NAME: u32 = 1024;
const MOST_CAPABILITIES: u32 = 256;

/// A mapped-ram file that is not read.
#[derive(Debug, Error)]
pub enum MappedRamError {
    /// The file cannot be read, or ends early.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// A field of the stream is not what a mapped-ram file has.
    #[error("{field} {value} at byte {at}; expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
        /// Offset in the file, in bytes, behind the field.
        at: u64,
        /// Values that are read.
        expected: String,
    },
}

/// A RAM block of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RamBlock {
    /// QEMU's name of it, as `pc.ram`.
    pub name: String,
    /// Its size in bytes, a multiple of 4096.
    pub bytes: u64,
    /// Offset of its bitmap in the file: a bit for each page, the first in bit 0 of the first byte.
    bitmap: u64,
    /// Offset of its first page in the file.
    pages: u64,
}

/// A run of pages that a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRun {
    /// Number of the first page within its block.
    pub first: u64,
    /// Pages, at least one.
    pub count: u64,
    /// Offset of the first in the file.
    pub offset: u64,
}

/// Tests for the beginning of a QEMU migration stream.
#[must_use]
pub fn is_stream(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

/// The RAM blocks of a file, in its order. Only headers are read.
///
/// # Errors
/// The file cannot be read, or is a migration stream of another kind; the field that tells is named.
pub fn blocks(file: &mut (impl Read + Seek)) -> Result<Vec<RamBlock>, MappedRamError> {
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(0))?;
    let mut stream = Stream { file, size };
    stream.header()?;
    stream.configuration()?;
    stream.section_of_ram()?;
    stream.ram_blocks()
}

/// The largest block: a machine's main memory.
#[must_use]
pub fn largest(blocks: &[RamBlock]) -> Option<&RamBlock> {
    blocks.iter().max_by_key(|block| block.bytes)
}

impl RamBlock {
    /// The runs of pages that the file holds, in order; pages between them are all zeroes.
    ///
    /// # Errors
    /// The size of the file cannot be found. Items are errors where the bitmap cannot be read, or a page lies behind the end.
    pub fn runs<'f, F: Read + Seek>(
        &'f self,
        file: &'f mut F,
    ) -> Result<Runs<'f, F>, MappedRamError> {
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Runs {
            file,
            size,
            block: self,
            page: 0,
            part: None,
            bitmap: [0; PART],
        })
    }
}

/// Bytes of a bitmap that are read at once.
const PART: usize = 512;

/// Runs of pages of a block.
#[derive(Debug)]
pub struct Runs<'f, F> {
    file: &'f mut F,
    size: u64,
    block: &'f RamBlock,
    /// The page to go on with.
    page: u64,
    /// Number of the part of the bitmap that is at hand.
    part: Option<u64>,
    bitmap: [u8; PART],
}

impl<F: Read + Seek> Runs<'_, F> {
    fn next_run(&mut self) -> Result<Option<PageRun>, MappedRamError> {
        let pages = self.block.bytes / PAGE;
        while self.page < pages && !self.has(self.page)? {
            self.page += 1;
        }
        let first = self.page;
        while self.page < pages && self.has(self.page)? {
            self.page += 1;
        }
        let run = PageRun {
            first,
            count: self.page - first,
            offset: self.block.pages + first * PAGE,
        };
        match run.count {
            0 => Ok(None),
            _ => within(run, self.size).map(Some),
        }
    }

    fn has(&mut self, page: u64) -> Result<bool, MappedRamError> {
        let part = page / (8 * PART as u64);
        if self.part != Some(part) {
            self.read_part(part)?;
        }
        let byte = usize::try_from(page / 8).unwrap_or(0) % PART;
        Ok(self.bitmap[byte] >> (page % 8) & 1 == 1)
    }

    fn read_part(&mut self, part: u64) -> Result<(), MappedRamError> {
        let start = part * PART as u64;
        let left = (self.block.bytes / PAGE).div_ceil(8) - start;
        let length = usize::try_from(left).map_or(PART, |left| left.min(PART));
        self.file.seek(SeekFrom::Start(self.block.bitmap + start))?;
        self.file.read_exact(&mut self.bitmap[..length])?;
        self.part = Some(part);
        Ok(())
    }
}

impl<F: Read + Seek> Iterator for Runs<'_, F> {
    type Item = Result<PageRun, MappedRamError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_run().transpose()
    }
}

/// Refuses pages behind the end of a file.
fn within(run: PageRun, size: u64) -> Result<PageRun, MappedRamError> {
    let end = run.offset + run.count * PAGE;
    match end <= size {
        true => Ok(run),
        false => Err(MappedRamError::Field {
            field: "end of the pages",
            value: end.to_string(),
            at: size,
            expected: "pages within the file".into(),
        }),
    }
}

/// A file that is read from its beginning.
struct Stream<'f, F> {
    file: &'f mut F,
    size: u64,
}

impl<F: Read + Seek> Stream<'_, F> {
    fn header(&mut self) -> Result<(), MappedRamError> {
        let magic: [u8; 4] = self.bytes()?;
        if magic != *MAGIC {
            let found = magic.escape_ascii().to_string();
            return Err(self.unlike("magic number", found, "QEVM"));
        }
        self.expect("version of the stream", Self::u32, VERSION)
    }

    /// The machine's name, and subsections of which the fields are known here.
    fn configuration(&mut self) -> Result<(), MappedRamError> {
        self.expect("type of the first section", Self::u8, CONFIGURATION)?;
        let length = self.at_most("length of the machine's name", MOST_NAME)?;
        self.skip(length.into())?;
        while self.peek()? == SUBSECTION {
            self.u8()?;
            let name = self.name()?;
            self.u32()?;
            match name.as_str() {
                "configuration/target-page-bits" => self.skip(4)?,
                "configuration/uuid" => self.skip(16)?,
                "configuration/capabilities" => self.capabilities()?,
                _ => {
                    let known = "target-page-bits, capabilities or uuid";
                    return Err(self.unlike("subsection of the configuration", name, known));
                }
            }
        }
        Ok(())
    }

    /// Capabilities that the stream was written with: one of them adds a field to each block.
    fn capabilities(&mut self) -> Result<(), MappedRamError> {
        let mut is_mapped = false;
        for _ in 0..self.at_most("number of capabilities", MOST_CAPABILITIES)? {
            let name = self.name()?;
            is_mapped |= name == "mapped-ram";
            if name == "x-ignore-shared" {
                return Err(self.unlike("capability", name, "mapped-ram without it"));
            }
        }
        match is_mapped {
            true => Ok(()),
            false => Err(self.unlike("capabilities", "without mapped-ram".into(), "mapped-ram")),
        }
    }

    fn section_of_ram(&mut self) -> Result<(), MappedRamError> {
        self.expect("type of the second section", Self::u8, SECTION_START)?;
        self.u32()?;
        let name = self.name()?;
        if name != "ram" {
            return Err(self.unlike("name of the second section", name, "ram"));
        }
        // Instance and version.
        self.skip(8)
    }

    fn ram_blocks(&mut self) -> Result<Vec<RamBlock>, MappedRamError> {
        let total = self.u64()?;
        if total % PAGE != MEM_SIZE {
            let flags = format!("{:#x}", total % PAGE);
            return Err(self.unlike("flags of the size of memory", flags, "0x4"));
        }
        let mut left = total - MEM_SIZE;
        let mut blocks = Vec::new();
        while left > 0 {
            let block = self.ram_block()?;
            if block.bytes > left || blocks.len() == MOST_BLOCKS {
                let found = format!("{}, of {} blocks before it", block.bytes, blocks.len());
                let expected =
                    format!("at most {left}, the rest of all memory, and {MOST_BLOCKS} blocks");
                return Err(self.unlike("length of a RAM block", found, &expected));
            }
            left -= block.bytes;
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// A block's header. QEMU puts the bitmap right behind it, and the next block behind the pages.
    fn ram_block(&mut self) -> Result<RamBlock, MappedRamError> {
        let name = self.name()?;
        let bytes = self.u64()?;
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(self.unlike(
                "length of a RAM block",
                bytes.to_string(),
                "whole pages of 4096 B",
            ));
        }
        self.expect(
            "version of the mapped-ram header",
            Self::u32,
            HEADER_VERSION,
        )?;
        self.expect("page size of the mapped-ram header", Self::u64, PAGE)?;
        let header = self.position()? + 16;
        let (bitmap, pages) = (self.u64()?, self.u64()?);
        // A long of 64 bits for each 64 pages.
        let behind = (bytes / PAGE).div_ceil(64) * 8;
        let least = bitmap.saturating_add(behind);
        let end = pages.saturating_add(bytes);
        if bitmap < header || least > self.size {
            let expected = format!(
                "{header} at least, and {behind} B of it within {} B",
                self.size
            );
            return Err(self.unlike("offset of a bitmap", bitmap.to_string(), &expected));
        }
        if pages < least || !pages.is_multiple_of(PAGE) || end == u64::MAX {
            let expected = format!("whole pages, {least} at least");
            return Err(self.unlike("offset of a block's pages", pages.to_string(), &expected));
        }
        self.file.seek(SeekFrom::Start(end))?;
        Ok(RamBlock {
            name,
            bytes,
            bitmap,
            pages,
        })
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], MappedRamError> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8, MappedRamError> {
        self.bytes().map(u8::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, MappedRamError> {
        self.bytes().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, MappedRamError> {
        self.bytes().map(u64::from_be_bytes)
    }

    /// A byte that is read again.
    fn peek(&mut self) -> Result<u8, MappedRamError> {
        let byte = self.u8()?;
        self.file.seek(SeekFrom::Current(-1))?;
        Ok(byte)
    }

    /// A text with its length in a byte before it.
    fn name(&mut self) -> Result<String, MappedRamError> {
        let length = usize::from(self.u8()?);
        let mut bytes = [0; 255];
        let bytes = &mut bytes[..length];
        self.file.read_exact(bytes)?;
        Ok(bytes.escape_ascii().to_string())
    }

    fn skip(&mut self, bytes: i64) -> Result<(), MappedRamError> {
        self.file.seek(SeekFrom::Current(bytes))?;
        Ok(())
    }

    fn position(&mut self) -> Result<u64, MappedRamError> {
        Ok(self.file.stream_position()?)
    }

    fn at_most(&mut self, field: &'static str, most: u32) -> Result<u32, MappedRamError> {
        let value = self.u32()?;
        match value <= most {
            true => Ok(value),
            false => Err(self.unlike(field, value.to_string(), &format!("at most {most}"))),
        }
    }

    fn expect<T: PartialEq + std::fmt::Display>(
        &mut self,
        field: &'static str,
        read: impl Fn(&mut Self) -> Result<T, MappedRamError>,
        expected: T,
    ) -> Result<(), MappedRamError> {
        let value = read(self)?;
        match value == expected {
            true => Ok(()),
            false => Err(self.unlike(field, value.to_string(), &expected.to_string())),
        }
    }

    fn unlike(&mut self, field: &'static str, value: String, expected: &str) -> MappedRamError {
        MappedRamError::Field {
            field,
            value,
            at: self.position().unwrap_or(0),
            expected: expected.to_owned(),
        }
    }
}

/// A block of a file for tests of readers: its name, and for each page the byte that fills it.
pub type Sample<'a> = (&'a str, &'a [u8]);

/// The bytes of a file with these blocks as QEMU writes them, without the state of devices and with less padding: pages begin at
/// a multiple of 4096 B, not of 1 MiB. For tests of readers. A page of byte 0 is left out.
#[must_use]
pub fn sample(blocks: &[Sample<'_>]) -> Vec<u8> {
    let named = |name: &str| [&[u8::try_from(name.len()).unwrap_or(0)], name.as_bytes()].concat();
    let total: u64 = blocks
        .iter()
        .map(|(_, pages)| pages.len() as u64 * PAGE)
        .sum();
    let mut file = [
        MAGIC,
        &VERSION.to_be_bytes()[..],
        &[CONFIGURATION, 0, 0, 0, 7],
        b"machine",
        &[SUBSECTION],
        &named("configuration/capabilities"),
        &[0, 0, 0, 1, 0, 0, 0, 1],
        &named("mapped-ram"),
        &[SECTION_START, 0, 0, 0, 2],
        &named("ram"),
        &[0, 0, 0, 0, 0, 0, 0, 4],
        &(total | MEM_SIZE).to_be_bytes(),
    ]
    .concat();
    for (name, pages) in blocks {
        let bytes = pages.len() * usize::try_from(PAGE).unwrap_or(0);
        file.extend([&named(name)[..], &(bytes as u64).to_be_bytes()].concat());
        file.extend([&HEADER_VERSION.to_be_bytes()[..], &PAGE.to_be_bytes()].concat());
        let bitmap = file.len() + 16;
        let first = (bitmap + pages.len().div_ceil(64) * 8).next_multiple_of(4096);
        file.extend([bitmap as u64, first as u64].map(u64::to_be_bytes).concat());
        file.resize(first + bytes, 0);
        for (page, byte) in pages.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            file[bitmap + page / 8] |= 1 << (page % 8);
            file[first + page * 4096..][..4096].fill(*byte);
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Two blocks, of which the second is the larger one.
    fn file() -> Vec<u8> {
        let pages: Vec<u8> = (0..700).map(|page| u8::from(page % 3 == 0) * 7).collect();
        sample(&[("bios", &[1, 0]), ("pc.ram", &pages)])
    }

    fn refused(file: Vec<u8>) -> String {
        blocks(&mut Cursor::new(file)).unwrap_err().to_string()
    }

    fn runs(file: &[u8], block: &RamBlock) -> Result<Vec<PageRun>, MappedRamError> {
        block.runs(&mut Cursor::new(file))?.collect()
    }

    #[test]
    fn the_largest_block_is_found_and_its_pages_lie_where_the_file_has_them() {
        let file = file();
        assert!(is_stream(&file));
        let blocks = blocks(&mut Cursor::new(&file)).unwrap();
        let sizes = blocks
            .iter()
            .map(|block| (block.name.as_str(), block.bytes / PAGE));
        assert_eq!(sizes.collect::<Vec<_>>(), [("bios", 2), ("pc.ram", 700)]);
        let ram = largest(&blocks).unwrap();
        let runs = runs(&file, ram).unwrap();
        assert_eq!(runs.len(), 234);
        for run in runs {
            assert_eq!((run.first % 3, run.count), (0, 1));
            let at = usize::try_from(run.offset).unwrap();
            assert_eq!(file[at..at + 4096], [7; 4096]);
        }
    }

    #[test]
    fn runs_go_on_from_one_part_of_a_bitmap_to_the_next() {
        let pages = vec![5; 5000];
        let file = sample(&[("m", &pages)]);
        let blocks = blocks(&mut Cursor::new(&file)).unwrap();
        let runs = runs(&file, &blocks[0]).unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!((runs[0].first, runs[0].count), (0, 5000));
    }

    #[test]
    fn other_streams_are_refused_by_what_tells_them() {
        let changed = |at: usize, byte: u8| {
            let mut file = file();
            file[at] = byte;
            refused(file)
        };
        assert!(refused(b"flat".to_vec()).contains("magic number flat"));
        assert!(changed(7, 2).contains("version of the stream 2 at byte 8; expected 3"));
        assert!(changed(9, 255).starts_with("length of the machine's name"));
        let at = |text: &[u8]| {
            let file = file();
            file.windows(text.len())
                .position(|part| part == text)
                .unwrap()
        };
        assert!(changed(at(b"mapped-ram"), b'M').contains("capabilities without mapped-ram"));
        assert!(changed(at(b"ram\0\0\0\0"), b'd').contains("name of the second section"));
        let length = at(b"pc.ram") + 6;
        assert!(changed(length, 1).contains("offset of a bitmap"));
        assert!(changed(length + 7, 1).contains("whole pages"));
        assert!(changed(length + 11, 2).contains("version of the mapped-ram header 2"));
        assert!(changed(length + 18, 32).contains("page size of the mapped-ram header 8192"));
        assert!(changed(length + 20, 1).contains("offset of a bitmap"));
        assert!(changed(length + 35, 1).contains("offset of a block's pages"));
    }

    #[test]
    fn a_file_that_ends_early_is_refused_before_its_pages_are_read() {
        let whole = file();
        for length in [3, 20, 90, 200] {
            let _ = refused(whole[..length].to_vec());
        }
        let blocks = blocks(&mut Cursor::new(&whole)).unwrap();
        let error = runs(&whole[..whole.len() - 4096], &blocks[1]).unwrap_err();
        assert!(
            error.to_string().contains("pages within the file"),
            "{error}"
        );
    }
}
