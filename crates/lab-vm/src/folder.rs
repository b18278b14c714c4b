//! The folder of a boot: everything that its QEMU reads and writes, and nothing else that it can reach.
//!
//! QEMU runs in it, and names files relative to it. Where QEMU is a user of its own it can read what lies there, as
//! copies, and write three files; it can make none, so that nothing there leads elsewhere.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use pagetoll_backend::input;
use pagetoll_host::Error;
use pagetoll_host::cache::Scratch;

use crate::confine::User;
use crate::machine::{self, CONSOLE, COUNTS, SHARED};
use crate::options::Boot;

/// Bytes of a console that are kept: its end. A normal boot writes 30 KiB.
const KEPT: u64 = 1 << 20;

/// Mode of files that QEMU reads.
const READABLE: u32 = 0o444;

/// A boot's folder, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    scratch: Scratch,
}

impl Folder {
    /// Makes the folder of a boot whose QEMU runs as `user`. The console goes on after what `console` holds.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub(crate) fn furnished(
        boot: Boot<'_>,
        console: Option<&Path>,
        scratch: Scratch,
        user: Option<User>,
    ) -> Result<Self, Error> {
        scratch.create_dir()?;
        let folder = Self { scratch };
        let files = [
            (machine::XEN, boot.xen),
            (machine::LINUX, Some(boot.linux)),
            (
                machine::COUNTER,
                boot.counter.map(|counter| counter.plugin.as_path()),
            ),
        ];
        for (name, file) in files {
            let put = |file| folder.put(name, file, user);
            file.map(put).transpose()?;
        }
        let initramfs = folder.path(machine::INITRAMFS);
        fs::write(&initramfs, boot.initramfs).map_err(Error::io("write", &initramfs))?;
        set_mode(&initramfs, READABLE)?;
        for name in [CONSOLE, SHARED, COUNTS] {
            folder.make_writable(name, user)?;
        }
        if let Some(console) = console {
            folder.write(
                CONSOLE,
                &fs::read(console).map_err(Error::io("read", console))?,
            )?;
        }
        if user.is_some() {
            set_mode(folder.place(), 0o711)?;
        }
        Ok(folder)
    }

    /// The folder itself, for QEMU to run in.
    pub(crate) fn place(&self) -> &Path {
        self.scratch.path()
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place().join(name)
    }

    /// A copy for another user, who cannot enter the cache; a link for this one.
    fn put(&self, name: &str, file: &Path, user: Option<User>) -> Result<(), Error> {
        let place = self.path(name);
        if user.is_some() {
            fs::copy(file, &place).map_err(Error::io("copy", file))?;
            return set_mode(&place, READABLE);
        }
        let target = fs::canonicalize(file).map_err(Error::io("read", file))?;
        symlink(target, &place).map_err(Error::io("write", &place))
    }

    /// Makes an empty file that QEMU writes.
    fn make_writable(&self, name: &str, user: Option<User>) -> Result<(), Error> {
        let path = self.path(name);
        File::create(&path).map_err(Error::io("write", &path))?;
        if let Some(user) = user {
            let number = Some(user.number());
            chown(&path, number, number).map_err(Error::io("change the owner of", &path))?;
        }
        set_mode(&path, 0o600)
    }

    /// Writes to the beginning of a file that QEMU has, too.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        let file = File::options().write(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.map_err(Error::io("write", &path))
    }

    /// Copies the end of the console to `place`; returns where it is.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`].
    pub(crate) fn keep_console(&self, place: &Path, name: &str) -> Result<PathBuf, Error> {
        fs::create_dir_all(place).map_err(Error::io("create", place))?;
        let log = place.join(format!("{name}.console.log"));
        let copied = end_of(&self.path(CONSOLE)).and_then(|text| fs::write(&log, text));
        copied.map_err(Error::io("write", &log))?;
        Ok(log)
    }
}

/// The beginning of a file that QEMU writes: at most so many bytes.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn beginning_of(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(Error::io("read", path))?;
    Ok(bytes)
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(Error::io("set permissions of", path))
}

/// The end of a file, with a line that says what is left out.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    let end = input::end_of(path, KEPT)?;
    Ok(match end.left_out {
        0 => end.bytes,
        bytes => [
            format!("[{bytes} bytes left out]\n").into_bytes(),
            end.bytes,
        ]
        .concat(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_console_the_end_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("c");
        let write = |size: usize| fs::write(&console, [vec![b'a'; size], b"end".to_vec()].concat());
        write(10).unwrap();
        assert_eq!(end_of(&console).unwrap(), b"aaaaaaaaaaend");
        write(3 << 20).unwrap();
        let kept = end_of(&console).unwrap();
        assert!(kept.starts_with(b"[2097155 bytes left out]\na") && kept.ends_with(b"aend"));
    }
}
