//! Removes what killed processes left half made, and nothing else.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{ALIVE, Lock, RUN_PREFIX, disk};

/// Removes the run folders directly below `tmp` whose process is gone.
pub(super) fn leftovers(tmp: &Path) {
    let entries = fs::read_dir(tmp).into_iter().flatten().flatten();
    for run in entries.map(|entry| entry.path()) {
        if is_leftover(&run) {
            tracing::debug!(path = %run.display(), "removing leftovers of a killed process");
            disk::remove(&run);
        }
    }
}

/// Named as a run, a folder of this user, with the file that its process held locked until it died.
fn is_leftover(run: &Path) -> bool {
    let named = run
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(RUN_PREFIX));
    let user = rustix::process::geteuid().as_raw();
    let ours = fs::symlink_metadata(run).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
    named && ours && Lock::is_released(run, ALIVE)
}
