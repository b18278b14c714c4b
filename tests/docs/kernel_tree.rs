//! A kernel's build tree with a Xen beside it, made of Debian's packages: for pages about kernels of one's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Failed;
use pagetoll_backend::Stop;
use pagetoll_host::cache::Cache;

use super::debian;
use super::scratch::{Scratch, cache};

/// The folder to work in: headers, `arch/x86/boot/bzImage`, `xen/xen.gz`, and modules in `mods`.
///
/// Headers refer to one another by relative paths, so all of what was unpacked for them is copied.
pub(crate) fn make(scratch: &Scratch) -> Result<PathBuf, Failed> {
    let stop = Stop::new();
    let cache = Cache::open_at(&cache(), &stop)?;
    let (kernel, xen) = debian::obtain(&cache, &stop)?;
    let headers = kernel
        .headers
        .map_err(|reason| format!("no headers: {reason}"))?
        .build_dir;
    let headers = headers.path();
    let unpacked = headers.ancestors().find(|folder| {
        folder
            .parent()
            .is_some_and(|parent| parent.ends_with("headers"))
    });
    let unpacked = unpacked.ok_or("headers outside of the cache")?;
    let copied = Command::new("cp")
        .arg("-a")
        .arg(unpacked)
        .arg(scratch.path().join("headers"))
        .status()?;
    if !copied.success() {
        return Err("headers cannot be copied".into());
    }
    let tree = scratch
        .path()
        .join("headers")
        .join(headers.strip_prefix(unpacked)?);
    place(&kernel.image, &tree.join("arch/x86/boot/bzImage"))?;
    place(&xen, &tree.join("xen/xen.gz"))?;
    let modules = kernel.modules.ok_or("no modules")?;
    place(
        modules.path(),
        &tree.join("mods/lib/modules").join(&kernel.release),
    )?;
    Ok(tree)
}

fn place(file: &Path, at: &Path) -> Result<(), Failed> {
    if let Some(folder) = at.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(symlink(file, at)?)
}
