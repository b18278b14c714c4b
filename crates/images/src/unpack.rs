//! Decompressors that end: what they make has a limit, and so has the memory that a stream may ask for.

use std::io::{self, Read};

use flate2::read::GzDecoder;
use lzma_rust2::{LzmaReader, XzReader};
use pagetoll_backend::input::{self, ReadError};

/// The memory that an lzma or xz stream may ask for, in KiB. Linux's scripts/xz_wrap.sh asks for 128 MiB.
const MEMORY_KIB: u32 = (1 << 20) + 1024;
/// The largest block of lz4's legacy frame format.
const LZ4_LEGACY_BLOCK: usize = 8 << 20;

pub(crate) fn gzip(bytes: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    all_of(GzDecoder::new(bytes), limit)
}

/// One stream; a kernel's payload ends with its own size.
pub(crate) fn xz(bytes: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    all_of(XzReader::new_mem_limit(bytes, false, MEMORY_KIB), limit)
}

pub(crate) fn lzma(bytes: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    all_of(LzmaReader::new_mem_limit(bytes, MEMORY_KIB, None)?, limit)
}

pub(crate) fn zstd(bytes: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let reader = ruzstd::decoding::StreamingDecoder::new(bytes);
    all_of(reader.map_err(io::Error::other)?, limit)
}

/// The legacy frame: a magic number, then blocks, each behind its compressed size. The build of a kernel appends the
/// unpacked size, which must not be taken for one more block.
pub(crate) fn lz4(bytes: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut rest = bytes.get(4..).unwrap_or_default();
    while let Some((size, blocks)) = rest
        .split_first_chunk::<4>()
        .filter(|(_, blocks)| !blocks.is_empty())
    {
        let size = usize::try_from(u32::from_le_bytes(*size)).map_err(io::Error::other)?;
        let block = blocks.get(..size).ok_or(io::ErrorKind::UnexpectedEof)?;
        unpacked.extend(
            lz4_flex::block::decompress(block, LZ4_LEGACY_BLOCK).map_err(io::Error::other)?,
        );
        if !u64::try_from(unpacked.len()).is_ok_and(|size| size <= limit) {
            return Err(too_large(limit));
        }
        rest = &blocks[size..];
    }
    Ok(unpacked)
}

fn all_of(reader: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    input::read_all(reader, limit).map_err(|error| match error {
        ReadError::Io(error) => error,
        _ => too_large(limit),
    })
}

fn too_large(limit: u64) -> io::Error {
    io::Error::other(format!("it unpacks to more than {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LIMIT: u64 = 16 << 20;

    fn lz4_frame(blocks: usize, block: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x02, 0x21, 0x4c, 0x18];
        let packed = lz4_flex::block::compress(block);
        for _ in 0..blocks {
            frame.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
            frame.extend(&packed);
        }
        frame
    }

    fn refusal(unpacked: io::Result<Vec<u8>>) -> String {
        unpacked.unwrap_err().to_string()
    }

    #[test]
    fn the_legacy_lz4_frame_is_read_with_its_trailing_size() {
        let mut frame = lz4_frame(2, b"block ");
        frame.extend(12u32.to_le_bytes());
        assert_eq!(lz4(&frame, LIMIT).unwrap(), b"block block ");
    }

    #[test]
    fn what_unpacks_to_more_than_its_limit_is_refused() {
        let zeros = vec![0; 1 << 20];
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&vec![0; 17 << 20]).unwrap();
        assert!(refusal(gzip(&packed.finish().unwrap(), LIMIT)).contains("more than 16777216"));
        // A hundred blocks of 4 KiB that would become 100 MiB.
        let bomb = lz4_frame(100, &zeros);
        assert!(refusal(lz4(&bomb, LIMIT)).contains("more than 16777216"));
        assert_eq!(lz4(&lz4_frame(16, &zeros), LIMIT).unwrap().len(), 16 << 20);
    }

    /// A stream of xz as `xz --lzma2=dict=SIZE` makes it, with the byte that says the size of its dictionary.
    fn xz_with_dictionary(size: u8) -> Vec<u8> {
        let with_crc = |bytes: &[u8]| [bytes, &crc32(bytes).to_le_bytes()].concat();
        let flags = [0, 0];
        let block = [2, 0, 0x21, 1, size, 0, 0, 0];
        let data = [1, 0, 0, b'x', 0];
        let stream = [
            &[0xfd, b'7', b'z', b'X', b'Z', 0][..],
            &with_crc(&flags),
            &with_crc(&block),
            &data,
        ];
        stream.concat()
    }

    fn crc32(bytes: &[u8]) -> u32 {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum()
    }

    #[test]
    fn an_xz_stream_that_asks_for_4_gib_of_memory_is_refused() {
        assert!(refusal(xz(&xz_with_dictionary(40), LIMIT)).contains("memory"));
        // 1 GiB; the stream has no end, which is another error.
        assert!(!refusal(xz(&xz_with_dictionary(36), LIMIT)).contains("memory"));
    }
}
