//! Recording on this host: tracepoints, exits, counters of KVM.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::LiveError;

/// Folders of tracefs: mounted by itself, or below debugfs.
const TRACEFS: [&str; 2] = [
    "/sys/kernel/tracing/events",
    "/sys/kernel/debug/tracing/events",
];
const COUNTERS: &str = "/sys/kernel/debug/kvm";
/// Folders below a VM's: its vCPUs', and those of their parts.
const DEEPEST: u32 = 4;

/// The tracepoints of this kernel, such as `kvm:kvm_exit`.
///
/// # Errors
/// Why they may not be looked at, and what to do about it.
pub fn tracepoints() -> Result<BTreeSet<String>, String> {
    let listed = TRACEFS.map(|events| list(Path::new(events)));
    let mut refusals = Vec::new();
    for list in listed {
        match list {
            Ok(names) if !names.is_empty() => return Ok(names),
            Ok(_) => {}
            Err(error) => refusals.push(error.kind()),
        }
    }
    Err(match refusals.contains(&ErrorKind::PermissionDenied) {
        true => "only root may look at them".to_owned(),
        false => {
            "tracefs is not mounted; as root, mount -t tracefs none /sys/kernel/tracing".to_owned()
        }
    })
}

fn list(events: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for system in fs::read_dir(events)? {
        let system = system?;
        if !system.file_type()?.is_dir() {
            continue;
        }
        for event in fs::read_dir(system.path())? {
            let event = event?;
            if event.file_type()?.is_dir() {
                let (system, event) = (system.file_name(), event.file_name());
                names.insert(format!("{}:{}", system.display(), event.display()));
            }
        }
    }
    Ok(names)
}

/// Returns whether KVM runs guests by hardware virtualisation. There is KVM that does not (`kvm_pvm`).
#[must_use]
pub fn kvm_is_hardware() -> bool {
    cfg!(target_arch = "aarch64") || has_vmx_or_svm(Path::new("/"))
}

/// Returns whether the module of KVM that uses VMX or SVM is there, in the file system below `root`.
#[must_use]
pub fn has_vmx_or_svm(root: &Path) -> bool {
    let is_there = |module| root.join("sys/module").join(module).exists();
    ["kvm_intel", "kvm_amd"].into_iter().any(is_there)
}

/// Returns whether KVM's counters can be read.
#[must_use]
pub fn has_kvm_counters() -> bool {
    fs::read_dir(COUNTERS).is_ok()
}

/// The counters of a VMM's VMs, as `grep -r . /sys/kernel/debug/kvm/PID-*` prints them.
///
/// # Errors
/// [`LiveError::Environment`]: they may not be read, the process has no VM, or there is no debugfs.
pub fn kvm_counters(pid: u32) -> Result<String, LiveError> {
    let refused = |problem: String, remedy: &str| {
        LiveError::environment(format!("the counters of process {pid}: {problem}"), remedy)
    };
    let text = of_process(pid).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => refused(format!("{COUNTERS}: {error}"), "be root"),
        _ => refused(
            format!("{COUNTERS}: {error}"),
            "load KVM, and mount -t debugfs none /sys/kernel/debug",
        ),
    })?;
    match text.is_empty() {
        true => Err(refused(
            format!("nothing is named {pid}-* in {COUNTERS}"),
            "name a process that has a VM now",
        )),
        false => Ok(text),
    }
}

fn of_process(pid: u32) -> io::Result<String> {
    let own = format!("{pid}-");
    let mut text = String::new();
    for folder in fs::read_dir(COUNTERS)? {
        let folder = folder?;
        if folder.file_name().to_string_lossy().starts_with(&own) {
            append(&folder.path(), DEEPEST, &mut text)?;
        }
    }
    Ok(text)
}

/// Files that cannot be read have nothing to count: under lockdown some refuse.
fn append(folder: &Path, deepest: u32, text: &mut String) -> io::Result<()> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        if !path.is_dir() {
            let content = fs::read_to_string(&path).unwrap_or_default();
            for line in content.lines() {
                text.push_str(&format!("{}:{line}\n", path.display()));
            }
        } else if deepest > 0 {
            append(&path, deepest - 1, text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_a_folder_are_listed_as_grep_prints_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("vcpu0")).unwrap();
        fs::write(folder.path().join("exits"), "12\n").unwrap();
        fs::write(folder.path().join("vcpu0/exits"), "7\n").unwrap();
        let mut text = String::new();
        append(folder.path(), DEEPEST, &mut text).unwrap();
        let path = folder.path().display();
        assert_eq!(text, format!("{path}/exits:12\n{path}/vcpu0/exits:7\n"));
    }

    #[test]
    fn events_are_named_by_system() {
        let events = tempfile::tempdir().unwrap();
        fs::create_dir_all(events.path().join("kvm/kvm_exit")).unwrap();
        fs::write(events.path().join("enable"), "0").unwrap();
        fs::write(events.path().join("kvm/enable"), "0").unwrap();
        let names = list(events.path()).unwrap();
        assert_eq!(names, ["kvm:kvm_exit".to_owned()].into());
    }

    #[test]
    fn a_process_without_a_vm_has_no_counters() {
        let error = kvm_counters(1).unwrap_err();
        assert!(matches!(error, LiveError::Environment { .. }), "{error}");
        assert!(error.to_string().contains("process 1"), "{error}");
    }
}
