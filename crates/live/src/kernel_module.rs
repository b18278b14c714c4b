//! Modules of this host's kernel: loaded and unloaded by the system calls themselves, without modprobe's settings.

#![allow(
    unsafe_code,
    reason = "finit_module(2) and delete_module(2) have no wrapper"
)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_live_host::LiveError;

/// How long a module may be in use by a process that was killed. Assumed: longer than any step of a session.
const IN_USE: Duration = Duration::from_secs(90);
/// How often it is tried.
const AGAIN: Duration = Duration::from_millis(10);

/// Whether a module of this name is loaded.
pub(crate) fn is_loaded(name: &str) -> bool {
    Path::new("/sys/module").join(name).exists()
}

/// Loads a module from a file.
///
/// # Errors
/// What the kernel has against it, in words.
pub(crate) fn load(file: &Path) -> Result<(), LiveError> {
    let shown = file.display();
    let open = File::open(file).map_err(LiveError::system(format!("open of {shown}")))?;
    // SAFETY: the descriptor is open, the parameters are an empty string that ends, and there are no flags.
    let loaded =
        unsafe { libc::syscall(libc::SYS_finit_module, open.as_raw_fd(), c"".as_ptr(), 0) };
    if loaded == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match refusal(error.raw_os_error().unwrap_or_default()) {
        Some((why, remedy)) => {
            LiveError::environment(format!("the kernel refuses {shown}: {why}"), remedy)
        }
        None => LiveError::system(format!("finit_module of {shown}"))(error),
    })
}

/// What finit_module(2) means by an errno, and what to do.
fn refusal(errno: i32) -> Option<(&'static str, &'static str)> {
    Some(match errno {
        libc::EKEYREJECTED | libc::ENOKEY => (
            "it takes signed modules alone (module.sig_enforce, or Secure Boot)",
            "sign it with a key that this machine trusts (mokutil, scripts/sign-file) and give it by --probe",
        ),
        libc::EPERM => (
            "modules are locked (kernel_lockdown(7), kernel.modules_disabled), or CAP_SYS_MODULE is missing",
            "sign it and give it by --probe, or boot without lockdown",
        ),
        libc::ENOEXEC => (
            "it was built for another kernel",
            "build it against the headers of this one",
        ),
        libc::ENODEV => (
            "this kernel is no Xen PV guest with what the probe needs",
            "see the kernel's log",
        ),
        _ => return None,
    })
}

/// Unloads a module as soon as nothing uses it. One that is not loaded is fine.
///
/// # Errors
/// It is still in use after a minute and a half, or the kernel refuses.
pub(crate) fn unload(name: &str) -> Result<(), LiveError> {
    let operation = || format!("delete_module of {name}");
    let c_name = CString::new(name)
        .map_err(io::Error::from)
        .map_err(LiveError::system(operation()))?;
    let began = Instant::now();
    loop {
        // SAFETY: the name is a string that ends.
        let unloaded =
            unsafe { libc::syscall(libc::SYS_delete_module, c_name.as_ptr(), libc::O_NONBLOCK) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if unloaded == 0 => return Ok(()),
            // ENOSYS: a kernel without modules.
            Some(libc::ENOENT | libc::ENOSYS) => return Ok(()),
            Some(libc::EAGAIN | libc::EBUSY) if began.elapsed() < IN_USE => thread::sleep(AGAIN),
            _ => return Err(LiveError::system(operation())(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_that_users_meet_are_explained() {
        for errno in [libc::EKEYREJECTED, libc::ENOKEY, libc::EPERM, libc::ENOEXEC] {
            let (why, remedy) = refusal(errno).unwrap();
            assert!(!why.is_empty() && !remedy.is_empty());
        }
        assert_eq!(refusal(libc::ENOMEM), None);
    }

    #[test]
    fn what_is_no_module_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(load(file.path()).is_err());
        assert!(!is_loaded("pagetoll_no_such"));
    }
}
