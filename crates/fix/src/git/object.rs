//! Names of git's objects: SHA-1 over kind, length and content.
//!
//! Format: gitformat-pack(5), "git-cat-file --batch"; entries of a tree as `base_name_compare` of Git's read-cache.c sorts
//! them. SHA-1 is that with collision detection, as Git's own is.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pagetoll_backend::Stop;
use pagetoll_host::Error;
use sha1_checked::{CollisionResult, Digest, Sha1};

use super::Commit;

/// Bytes of a SHA-1.
const BYTES: usize = 20;

/// SHA-1 of an object; zeros for content of a known collision.
fn name(kind: &str, content: &[u8]) -> [u8; BYTES] {
    let mut hasher = Sha1::new();
    hasher.update(format!("{kind} {}\0", content.len()));
    hasher.update(content);
    match hasher.try_finalize() {
        CollisionResult::Ok(hash) | CollisionResult::Mitigated(hash) => hash.into(),
        // No object is found by it.
        CollisionResult::Collision(_) => [0; BYTES],
    }
}

fn hexadecimal(name: [u8; BYTES]) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Commits as `git cat-file --batch` prints them, each compared with its name.
///
/// # Errors
/// A commit that is absent or does not match its name, by its line.
pub(super) fn commits(mut batch: &[u8]) -> Result<Vec<Commit>, String> {
    let mut commits = Vec::new();
    while !batch.is_empty() {
        let end = batch.iter().position(|&byte| byte == b'\n');
        let (head, rest) = batch.split_at(end.unwrap_or(batch.len()));
        let (head, rest) = (
            String::from_utf8_lossy(head),
            rest.get(1..).unwrap_or_default(),
        );
        let (content, rest) = match *head.split(' ').collect::<Vec<_>>() {
            [_, "commit", size] => size
                .parse()
                .ok()
                .and_then(|size: usize| rest.split_at_checked(size)),
            _ => None,
        }
        .ok_or_else(|| format!("{head}: not a readable commit"))?;
        let hash = hexadecimal(name("commit", content));
        if !head.starts_with(&hash) {
            return Err(format!("{head}: holds the commit {hash}"));
        }
        commits.push(commit(hash, &String::from_utf8_lossy(content)));
        batch = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
    Ok(commits)
}

/// Parses a commit: `tree NAME` in its first line, the message after an empty line.
fn commit(hash: String, content: &str) -> Commit {
    let (head, message) = content.split_once("\n\n").unwrap_or((content, ""));
    let tree = head.lines().find_map(|line| line.strip_prefix("tree "));
    Commit {
        hash,
        tree: tree.unwrap_or_default().to_owned(),
        subject: message.lines().next().unwrap_or_default().to_owned(),
    }
}

/// SHA-1 of a folder as a git tree.
///
/// # Errors
/// [`Error::Io`]; [`Error::Stopped`].
pub(super) fn tree(folder: &Path, stop: &Stop) -> Result<String, Error> {
    Ok(hexadecimal(digest(folder, stop)?))
}

fn digest(folder: &Path, stop: &Stop) -> Result<[u8; BYTES], Error> {
    stop.check()?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(Error::io("read", &path))?;
        // A folder is sorted as if its name ended with a slash.
        let (mode, after, content) = if kind.is_dir() {
            ("40000", "/", digest(&path, stop)?)
        } else if kind.is_symlink() {
            let target = fs::read_link(&path).map_err(Error::io("read", &path))?;
            ("120000", "", name("blob", target.as_os_str().as_bytes()))
        } else {
            let meta = entry.metadata().map_err(Error::io("read", &path))?;
            let content = fs::read(&path).map_err(Error::io("read", &path))?;
            let mode = match meta.permissions().mode() & 0o100 {
                0 => "100644",
                _ => "100755",
            };
            (mode, "", name("blob", &content))
        };
        let file = entry.file_name().into_vec();
        let place = [file.as_slice(), after.as_bytes()].concat();
        let line = [mode.as_bytes(), b" ", &file, b"\0", &content].concat();
        entries.push((place, line));
    }
    entries.sort_unstable();
    let content: Vec<u8> = entries.into_iter().flat_map(|(_, line)| line).collect();
    Ok(name("tree", &content))
}
