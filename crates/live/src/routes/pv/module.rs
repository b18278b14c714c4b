//! The probe of this host's kernel: given, or built from its headers.

use std::path::{Path, PathBuf};

use pagetoll_backend::Stop;
use pagetoll_bill::{Available, Unavailable};
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_images::kernel::headers;
use pagetoll_protocol::build::xen_probe;

use crate::kernel_module;
use crate::undo::{Change, Guardian};
use pagetoll_live_host::LiveError;

/// Its name in the kernel.
const NAME: &str = "xen_probe";

/// Where distributions keep what modules of the running kernel are built with.
pub(super) fn build_folder() -> PathBuf {
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy();
    Path::new("/lib/modules")
        .join(release.as_ref())
        .join("build")
}

/// The module's file, or why there is none.
///
/// # Errors
/// Those of the cache. A build that fails is no error but a reason.
pub(super) fn obtain(
    given: Option<&Path>,
    cache: &Cache,
    stop: &Stop,
) -> Result<Available<PathBuf>, LiveError> {
    if let Some(file) = given {
        return Ok(Ok(file.to_owned()));
    }
    let folder = build_folder();
    if !folder.is_dir() {
        return Ok(Err(Unavailable(format!(
            "no probe: {} is not there; install the headers of this kernel, or give --probe",
            folder.display()
        ))));
    }
    let headers = headers::from_build_dir(Entry::from_user(folder), cache, stop)?;
    Ok(xen_probe(&headers, cache, stop)?)
}

/// Loads it until the guardian ends.
///
/// # Errors
/// It is loaded already, or the kernel refuses it.
pub(super) fn load(file: &Path, guardian: &mut Guardian) -> Result<(), LiveError> {
    if kernel_module::is_loaded(NAME) {
        return Err(LiveError::environment(
            format!("{NAME} is loaded already"),
            format!("let the other run end, or rmmod {NAME}"),
        ));
    }
    guardian.expect(&Change::Module(NAME.to_owned()))?;
    kernel_module::load(file)
}
