//! Installs missing packages through apt-get, where that needs no password.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use pagetoll_host::Error;
use pagetoll_host::tools::{Installer, SearchPath};

use super::Diagnosis;

/// Installs what `diagnosis` misses; nothing when no package is missing.
///
/// # Errors
/// [`Error::Environment`] with the command to run, when this process may not install or apt-get fails.
pub(crate) fn missing(diagnosis: &Diagnosis) -> Result<()> {
    let Some(command) = &diagnosis.install else {
        return Ok(());
    };
    let path = SearchPath::from_env();
    if path.find(OsStr::new("apt-get")).is_none() {
        return Err(to_be_run("there is no apt-get here", command));
    }
    let prefix = prefix(Installer::current(), &path)
        .ok_or_else(|| to_be_run("only root or sudo may install packages", command))?;
    let options = ["install", "--yes", "--no-install-recommends"];
    let install = [options.as_slice(), diagnosis.packages.as_slice()].concat();
    // A machine that has never fetched its package lists finds no package at all.
    let installed = apt_get(prefix, &install)?.success()
        || apt_get(prefix, &["update"])?.success() && apt_get(prefix, &install)?.success();
    if installed {
        Ok(())
    } else {
        Err(to_be_run("apt-get failed", command))
    }
}

/// What has to stand before `apt-get`; `None` when a password would be asked for.
fn prefix(installer: Installer, path: &SearchPath) -> Option<&'static [&'static str]> {
    const SUDO: &[&str] = &["sudo", "-n"];
    match installer {
        Installer::Root => Some(&[]),
        Installer::User => {
            path.find(OsStr::new("sudo"))?;
            let allowed = Command::new("sudo")
                .args(["-n", "true"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            allowed.is_ok_and(|status| status.success()).then_some(SUDO)
        }
    }
}

/// Runs apt-get with its output on stderr: stdout is for findings.
fn apt_get(prefix: &[&str], arguments: &[&str]) -> Result<ExitStatus> {
    let words = [
        prefix,
        &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"],
        arguments,
    ]
    .concat();
    let (program, arguments) = words.split_first().context("no program")?;
    let stderr = io::stderr().as_fd().try_clone_to_owned()?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(stderr)
        .status()
        .with_context(|| format!("cannot start {program}"))
}

fn to_be_run(what: &str, command: &str) -> anyhow::Error {
    Error::Environment {
        what: what.to_owned(),
        remedy: format!("run: {command}"),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_run_when_nothing_is_missing() {
        let diagnosis = Diagnosis {
            lab_can_run: true,
            own_kernels_can_run: true,
            install: None,
            findings: vec![],
            packages: vec![],
        };
        assert!(missing(&diagnosis).is_ok());
    }

    #[test]
    fn without_sudo_a_user_cannot_install() {
        let nowhere = SearchPath::new(OsStr::new(""));
        assert_eq!(prefix(Installer::User, &nowhere), None);
        assert_eq!(prefix(Installer::Root, &nowhere), Some([].as_slice()));
    }
}
