//! Guests as they were when they were ready for their order, kept in the cache: restored, they count to the last digit
//! what those that were booted count.
//!
//! A snapshot bears the digest of all that such a guest follows from: QEMU, the machine, hypervisor, kernel, initramfs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use pagetoll_backend::Stop;
use pagetoll_host::cache::{self, Cache, Lock, Scratch};
use pagetoll_host::{Error, digest};

use crate::machine::CONSOLE;
use crate::options::Boot;

const KIND: &str = "snapshots";
const STATE: &str = "state.lz4";
/// Together, snapshots take no more of the disk than this, as those that were used last: of one kernel under Xen, the
/// default bill's four take 200 MB.
const MOST_BYTES: u64 = 4 << 30;

/// The place of a boot's snapshot.
pub(crate) struct Snapshot<'a> {
    cache: &'a Cache,
    name: String,
}

/// The files of a snapshot, as they were written.
pub(crate) struct SnapshotFiles {
    state: PathBuf,
    console: PathBuf,
}

/// A snapshot in the making.
pub(crate) struct Draft {
    scratch: Scratch,
}

/// The digest of all that a guest follows from until it is ready.
///
/// # Errors
/// A file that is booted cannot be read; QEMU does not say its version.
pub(crate) fn key(boot: Boot<'_>, stop: &Stop) -> Result<String, Error> {
    let of_file = |file: &Path| digest::sha256_of_file(file);
    let follows_from = [
        crate::qemu_build(boot.machine.firmware.arch(), stop)?,
        boot.machine.command().to_string(),
        boot.xen.map(of_file).transpose()?.unwrap_or_default(),
        of_file(boot.linux)?,
        digest::sha256_of(boot.initramfs),
    ];
    Ok(digest::sha256_of(follows_from.join("\n").as_bytes()))
}

impl<'a> Snapshot<'a> {
    /// The place of the snapshot with this key, whether or not it exists.
    pub(crate) fn at(key: &str, cache: &'a Cache) -> Self {
        let name = format!("{KIND}/{key}");
        Self { cache, name }
    }

    /// The snapshot, where there is one or another boot of the same guest is making it; else the right to make it, which
    /// others wait for.
    ///
    /// # Errors
    /// Those of the cache; [`Error::Stopped`] while waiting.
    pub(crate) fn saved_or_making(
        &self,
        stop: &Stop,
    ) -> Result<(Option<SnapshotFiles>, Option<Lock>), Error> {
        if let Some(saved) = self.saved()? {
            return Ok((Some(saved), None));
        }
        let making = self.cache.lock(&self.name, stop)?;
        let saved = self.saved()?;
        let making = saved.is_none().then_some(making);
        Ok((saved, making))
    }

    /// The snapshot, where there is one that is as it was written.
    ///
    /// # Errors
    /// Those of the cache.
    pub(crate) fn saved(&self) -> Result<Option<SnapshotFiles>, Error> {
        let Some(entry) = self.cache.known(&self.name)? else {
            return Ok(None);
        };
        let saved = entry.file(STATE).and_then(|state| {
            let console = entry.file(CONSOLE)?;
            Ok(SnapshotFiles { state, console })
        });
        cache::unaltered(saved)
    }

    /// Begins to make it.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub(crate) fn draft(&self) -> Result<Draft, Error> {
        let scratch = self.cache.scratch();
        scratch.create_dir()?;
        Ok(Draft { scratch })
    }

    /// Makes it one that later boots find, beside what the guest has written to its console.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub(crate) fn publish(&self, draft: &Draft, console: &Path) -> Result<(), Error> {
        let kept = draft.scratch.path().join(CONSOLE);
        fs::copy(console, &kept).map_err(Error::io("copy", console))?;
        self.cache.publish(draft.scratch.path(), &self.name)?;
        self.cache.trim(KIND, MOST_BYTES)
    }
}

impl Draft {
    /// Writes all that comes out of a socket, compressed.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub(crate) fn write(&self, mut from: UnixStream) -> Result<(), Error> {
        let path = self.scratch.path().join(STATE);
        let mut compressed = || -> io::Result<()> {
            let mut into = FrameEncoder::new(File::create(&path)?);
            io::copy(&mut from, &mut into)?;
            into.finish()?.flush()
        };
        compressed().map_err(Error::io("write", &path))
    }
}

impl SnapshotFiles {
    /// The console, as the guest had written it.
    pub(crate) fn console(&self) -> &Path {
        &self.console
    }

    /// Writes the guest's state into a socket.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn read(&self, mut into: UnixStream) -> Result<(), Error> {
        let mut decompressed = || -> io::Result<()> {
            let mut from = FrameDecoder::new(File::open(&self.state)?);
            io::copy(&mut from, &mut into).map(drop)
        };
        decompressed().map_err(Error::io("read", &self.state))
    }
}
