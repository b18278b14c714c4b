//! The way to the cache: folders and links that nobody but root and this user can put others in the place of.
//!
//! As sshd looks at the folders above a key (OpenSSH 9.2, `safe_path` of misc.c), with two differences. A folder that
//! others write to may be sticky, as `/tmp` is, where they cannot rename what is not theirs. Links are followed one by one, so
//! that each of them and each folder that it leads through is looked at.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;

use super::private::{WRITABLE_BY_OTHERS, is_sudo_by};
use super::root::CACHE_VARIABLE;
use crate::error::Error;

/// Links of one way, as the kernel bounds them (`MAXSYMLINKS`, include/linux/namei.h).
const MOST_LINKS: usize = 40;

/// The absolute path of a folder without links, as far as it exists. The folder itself is not looked at.
pub(super) fn resolve(folder: &Path) -> Result<PathBuf, Error> {
    let absolute = std::path::absolute(folder).map_err(Error::io("open", folder))?;
    let (mut path, mut links) = (PathBuf::from("/"), 0);
    let mut rest: VecDeque<OsString> = names(&absolute).map(OsStr::to_owned).collect();
    while let Some(name) = rest.pop_front() {
        require_unshared(&path)?;
        let next = path.join(&name);
        let meta = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(rest.into_iter().fold(next, |path, name| path.join(name)));
            }
            meta => meta.map_err(Error::io("open", &next))?,
        };
        if meta.is_symlink() {
            require_trusted(&next, &meta)?;
            let target = fs::read_link(&next).map_err(Error::io("open", &next))?;
            links += 1;
            if links > MOST_LINKS {
                return Err(Error::io("open", next)(Errno::LOOP.into()));
            }
            if target.is_absolute() {
                path = "/".into();
            }
            for name in names(&target).rev() {
                rest.push_front(name.to_owned());
            }
        } else if name == ".." {
            path.pop();
        } else if meta.is_dir() {
            path = next;
        } else {
            return Err(Error::bad_file(
                CACHE_VARIABLE,
                &next,
                "is a file",
                "a folder",
            ));
        }
    }
    Ok(path)
}

/// The components that lead on from where a path begins.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    let components = path.components();
    let leads_on = |one: &Component<'_>| matches!(one, Component::Normal(_) | Component::ParentDir);
    components.filter(leads_on).map(Component::as_os_str)
}

/// Refuses a folder in which others could rename what is root's or the user's.
fn require_unshared(folder: &Path) -> Result<(), Error> {
    let meta = fs::metadata(folder).map_err(Error::io("open", folder))?;
    require_trusted(folder, &meta)?;
    let mode = Mode::from_raw_mode(meta.mode());
    if !mode.intersects(WRITABLE_BY_OTHERS) || mode.contains(Mode::SVTX) {
        return Ok(());
    }
    let folder = folder.display();
    Err(Error::Environment {
        what: format!(
            "{folder}, on the way to the cache, can be written by others, who could put another cache there"
        ),
        remedy: format!("chmod go-w {folder}, or set {CACHE_VARIABLE} to a folder elsewhere"),
    })
}

/// Refuses what belongs to neither root nor the user. Whoever owns `/` counts as root, which in a user namespace is not 0.
fn require_trusted(path: &Path, meta: &Metadata) -> Result<(), Error> {
    let root = fs::metadata("/").map_err(Error::io("open", "/"))?.uid();
    let (owner, user) = (meta.uid(), rustix::process::geteuid().as_raw());
    if [0, root, user].contains(&owner) {
        return Ok(());
    }
    Err(Error::Environment {
        what: format!(
            "{}, on the way to the cache, belongs to uid {owner}, who could put another cache there",
            path.display()
        ),
        remedy: match is_sudo_by(owner) {
            true => format!("run without sudo, or set {CACHE_VARIABLE} to a folder of root's"),
            false => format!("set {CACHE_VARIABLE} to a folder of your own"),
        },
    })
}
