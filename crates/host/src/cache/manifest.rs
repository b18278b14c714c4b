//! Manifests of entries: kind, size and digest of each file, recorded when the entry was made.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::disk;
use crate::digest::sha256_of_reader;
use crate::error::Error;

/// The mode bits that matter: whether its owner can run a file, and as whom.
const MODE_KEPT: u32 = 0o7100;

/// The files and folders of an entry by their paths below it; of an entry that is a file, that file by an empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest(BTreeMap<String, Item>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Item {
    Folder,
    Link {
        target: String,
    },
    File {
        mode: u32,
        size: u64,
        sha256: String,
    },
}

/// The difference between a file and its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Below the entry; empty where that is a file.
    pub(super) file: PathBuf,
    pub(super) how: &'static str,
}

impl Manifest {
    /// Reads a file or folder as it is now.
    pub(super) fn read(root: &Path) -> Result<Self, Error> {
        let mut items = BTreeMap::new();
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            let path = place_of(root, &below);
            let item = Item::read(&path).map_err(Error::io("read", &path))?;
            if item == Item::Folder {
                for child in fs::read_dir(&path).map_err(Error::io("read", &path))? {
                    let child = child.map_err(Error::io("read", &path))?;
                    pending.push(below.join(child.file_name()));
                }
            }
            let name = below.into_os_string().into_string().map_err(|name| {
                let problem = io::Error::other("a name that is not UTF-8");
                Error::io("record", root.join(name))(problem)
            })?;
            items.insert(name, item);
        }
        Ok(Self(items))
    }

    pub(super) fn is_folder(&self) -> bool {
        self.0.get("") == Some(&Item::Folder)
    }

    /// The first difference of an entry as it is now, `None` where there is none.
    pub(super) fn difference(&self, root: &Path) -> Result<Option<Difference>, Error> {
        let now = match Self::read(root) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Self::default()
            }
            now => now?,
        };
        let names = self.0.keys().chain(now.0.keys());
        let differing = names
            .filter(|name| self.0.get(*name) != now.0.get(*name))
            .min();
        Ok(differing.map(|name| Difference {
            file: name.into(),
            how: how(self.0.get(name), now.0.get(name)),
        }))
    }

    /// The difference of one file. A file that neither exists nor was recorded does not differ.
    pub(super) fn difference_of(
        &self,
        root: &Path,
        below: &Path,
    ) -> Result<Option<Difference>, Error> {
        let path = place_of(root, below);
        let now = match Item::read_plain(root, below) {
            Ok(item) => Some(item),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if is_no_plain_file(&error) => Some(Item::Folder),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let recorded = below.to_str().and_then(|name| self.0.get(name));
        let differs = recorded != now.as_ref();
        Ok(differs.then(|| Difference {
            file: below.to_path_buf(),
            how: how(recorded, now.as_ref()),
        }))
    }
}

/// Without the slash that an empty path leaves at the end.
pub(super) fn place_of(entry: &Path, below: &Path) -> PathBuf {
    match below.as_os_str().is_empty() {
        true => entry.to_path_buf(),
        false => entry.join(below),
    }
}

/// ELOOP and ENOTDIR are what symbolic links on the way give.
fn is_no_plain_file(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::LOOP | Errno::NOTDIR | Errno::ISDIR))
}

fn how(recorded: Option<&Item>, now: Option<&Item>) -> &'static str {
    match (recorded, now) {
        (None, _) => "was added",
        (_, None) => "is gone",
        (Some(Item::File { size, .. }), Some(Item::File { size: now, .. })) if size != now => {
            "has another size"
        }
        (Some(Item::File { sha256, .. }), Some(Item::File { sha256: now, .. }))
            if sha256 != now =>
        {
            "has another SHA-256"
        }
        (Some(Item::File { .. }), Some(Item::File { .. })) => "has another mode",
        (Some(Item::Link { .. }), Some(Item::Link { .. })) => "leads elsewhere",
        _ => "is of another kind",
    }
}

impl Item {
    fn read(path: &Path) -> io::Result<Self> {
        let kind = fs::symlink_metadata(path)?.file_type();
        if kind.is_dir() {
            return Ok(Self::Folder);
        }
        if kind.is_symlink() {
            return Ok(Self::Link {
                target: fs::read_link(path)?.to_string_lossy().into_owned(),
            });
        }
        disk::opened(path)?;
        let file = rustix::fs::openat(CWD, path, READ, Mode::empty())?;
        Self::read_file(File::from(file))
    }

    /// Reads a plain file, none of whose folders below `root` is a symbolic link.
    fn read_plain(root: &Path, below: &Path) -> io::Result<Self> {
        disk::opened(&place_of(root, below))?;
        let mut opened = rustix::fs::openat(CWD, root, READ, Mode::empty())?;
        for component in below.components() {
            opened = rustix::fs::openat(&opened, component.as_os_str(), READ, Mode::empty())?;
        }
        Self::read_file(File::from(opened))
    }

    fn read_file(file: File) -> io::Result<Self> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(Errno::ISDIR.into());
        }
        Ok(Self::File {
            mode: meta.permissions().mode() & MODE_KEPT,
            size: meta.len(),
            sha256: sha256_of_reader(file)?,
        })
    }
}

/// Without waiting for the writer of a FIFO.
const READ: OFlags = OFlags::NOFOLLOW
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);
