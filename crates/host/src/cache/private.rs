//! Folders that this user alone can change.
//!
//! What is in the cache is loaded, compiled and run. So every folder of it is opened component by component, without
//! following a symbolic link, and belongs to the effective user and to no other writer. That others may read it is the
//! user's choice; folders above the root are the business of [`way`](super::way).

use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path};
use std::{env, fs};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::Error;

/// Mode of folders: all rights for the user, none for others.
const PRIVATE: Mode = Mode::RWXU;
pub(super) const WRITABLE_BY_OTHERS: Mode = Mode::WGRP.union(Mode::WOTH);
const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Creates the root, and folders above it, where they are missing.
pub(super) fn create_root(root: &Path) -> Result<(), Error> {
    if root.is_dir() {
        return Ok(());
    }
    let mut folders = fs::DirBuilder::new();
    let made = folders.recursive(true).mode(PRIVATE.bits()).create(root);
    made.map_err(Error::io("create", root))?;
    close_to_others(root)
}

/// Gives a folder its mode, of which the umask may have taken rights, also the user's own.
pub(super) fn close_to_others(folder: &Path) -> Result<(), Error> {
    rustix::fs::chmod(folder, PRIVATE).map_err(|errno| Error::io("create", folder)(errno.into()))
}

/// Opens a folder below the root, which may be the root itself; `None` where there is none.
pub(super) fn open(root: &Path, below: &Path) -> Result<Option<OwnedFd>, Error> {
    walk(root, below, |_, _| Ok(()))
}

/// Opens a folder below the root and creates what is missing of it.
pub(super) fn create(root: &Path, below: &Path) -> Result<OwnedFd, Error> {
    let make = |parent: &OwnedFd, name: &Path| match rustix::fs::mkdirat(parent, name, PRIVATE) {
        Ok(()) => rustix::fs::chmodat(parent, name, PRIVATE, rustix::fs::AtFlags::empty()),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    };
    let folder = walk(root, below, make)?;
    folder.ok_or_else(|| Error::io("open", root.join(below))(Errno::NOENT.into()))
}

fn walk(
    root: &Path,
    below: &Path,
    before: impl Fn(&OwnedFd, &Path) -> Result<(), Errno>,
) -> Result<Option<OwnedFd>, Error> {
    let mut path = root.to_path_buf();
    let mut folder = match rustix::fs::openat(CWD, root, FOLDER, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened.map_err(|errno| not_a_folder(&path, errno))?,
    };
    require_private(&folder, &path)?;
    for component in below.components() {
        let Component::Normal(name) = component else {
            return Err(not_a_folder(&root.join(below), Errno::INVAL));
        };
        path.push(name);
        before(&folder, name.as_ref()).map_err(|errno| Error::io("create", &path)(errno.into()))?;
        folder = match rustix::fs::openat(&folder, name, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|errno| not_a_folder(&path, errno))?,
        };
        require_private(&folder, &path)?;
    }
    Ok(Some(folder))
}

/// ELOOP and ENOTDIR are what a symbolic link gives.
fn not_a_folder(path: &Path, errno: Errno) -> Error {
    if !matches!(errno, Errno::LOOP | Errno::NOTDIR) {
        return Error::io("open", path)(errno.into());
    }
    Error::Environment {
        what: format!("{} in the cache is not a folder of its own", path.display()),
        remedy: "remove that file or symbolic link, or set PAGETOLL_CACHE to another folder".into(),
    }
}

fn require_private(folder: &OwnedFd, path: &Path) -> Result<(), Error> {
    let stat = rustix::fs::fstat(folder).map_err(|errno| Error::io("open", path)(errno.into()))?;
    let problem = problem(&stat, rustix::process::geteuid().as_raw());
    problem.map_or(Ok(()), |problem| Err(problem.folder_error(path, &stat)))
}

/// Why a file or folder could have been changed by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Problem {
    /// It belongs to another user.
    Foreign,
    /// Its group, or everyone, can write to it.
    Shared,
}

fn problem(stat: &Stat, user: u32) -> Option<Problem> {
    let shared = Mode::from_raw_mode(stat.st_mode).intersects(WRITABLE_BY_OTHERS);
    match (stat.st_uid == user, shared) {
        (false, _) => Some(Problem::Foreign),
        (true, true) => Some(Problem::Shared),
        (true, false) => None,
    }
}

impl Problem {
    fn folder_error(self, path: &Path, stat: &Stat) -> Error {
        let (folder, owner) = (path.display(), stat.st_uid);
        let (what, remedy) = match self {
            Self::Shared => (
                format!(
                    "the cache folder {folder} can be written by others, whose files would be run"
                ),
                format!(
                    "chmod -R go-w {folder}, if none of them has, or set PAGETOLL_CACHE to another folder"
                ),
            ),
            Self::Foreign if is_sudo_by(owner) => (
                format!(
                    "the cache folder {folder} belongs to the user (uid {owner}) who called sudo, not to root"
                ),
                "run without sudo, or set PAGETOLL_CACHE to a folder of root's".into(),
            ),
            Self::Foreign => (
                format!(
                    "the cache folder {folder} belongs to uid {owner}, not to the user who runs this (uid {})",
                    rustix::process::geteuid().as_raw()
                ),
                "set PAGETOLL_CACHE to a folder of your own".into(),
            ),
        };
        Error::Environment { what, remedy }
    }
}

/// Returns whether sudo(8) started this process for the user, as it says in the environment.
pub(super) fn is_sudo_by(user: u32) -> bool {
    let caller = env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    rustix::process::geteuid().is_root() && caller == Some(user)
}

/// Returns whether an open file is a plain one that this user alone can change.
pub(super) fn is_private_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
        && problem(stat, rustix::process::geteuid().as_raw()).is_none()
}
