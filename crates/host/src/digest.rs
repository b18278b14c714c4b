//! SHA-256 of files, as Debian's package lists write it.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::Error;

/// Bytes that are read at a time.
const CHUNK: usize = 128 * 1024;

/// The digest of a file's contents, in lower-case hexadecimal.
///
/// # Errors
/// [`Error::Io`] when it cannot be read.
pub fn sha256_of_file(path: &Path) -> Result<String, Error> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    sha256_of_reader(file).map_err(Error::io("read", path))
}

/// The digest of all that can be read, in lower-case hexadecimal.
///
/// # Errors
/// Those of the reader.
pub fn sha256_of_reader(mut reader: impl io::Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(hexadecimal(&hasher.finalize())),
            Ok(length) => hasher.update(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The digest of some bytes, in lower-case hexadecimal.
#[must_use]
pub fn sha256_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standards_own_example() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(b"abc"), expected);
    }
}
