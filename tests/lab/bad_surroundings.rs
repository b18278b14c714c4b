//! Unsuitable files and machines are rejected before anything starts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;
use pagetoll_test_support::skipped_test;

use crate::bench::{Bench, must_fail, nothing_is_left};

pub(crate) fn other_headers(bench: &Bench) -> Result<(), Failed> {
    let headers = bench.folder.path().join("headers");
    let generated = headers.join("include/generated");
    fs::create_dir_all(&generated)?;
    fs::write(
        generated.join("utsrelease.h"),
        "#define UTS_RELEASE \"5.0-other\"\n",
    )?;
    fs::write(
        headers.join("Makefile"),
        "modules:\n\ttouch $(M)/trial.ko\n",
    )?;
    let mut command = bench.small_bill(&["--kernel"]);
    command
        .arg(&bench.kernel.image)
        .arg("--headers")
        .arg(&headers);
    must_fail(
        command,
        2,
        &["--headers", "5.0-other", &bench.kernel.release],
    )
}

pub(crate) fn truncated_xen(bench: &Bench) -> Result<(), Failed> {
    let whole = fs::read(&bench.xen)?;
    let half = bench.folder.path().join("half-a-xen");
    fs::write(&half, &whole[..whole.len() / 2])?;
    let mut command = bench.small_bill(&["--xen"]);
    command.arg(&half);
    must_fail(command, 2, &["--xen", "half-a-xen", "truncated"])?;
    nothing_is_left(&bench.cache)
}

/// A search path with everything of this machine's but QEMU.
pub(crate) fn no_qemu(bench: &Bench) -> Result<(), Failed> {
    let folder = bench.folder.path().join("bin");
    fs::create_dir(&folder)?;
    for program in [
        "sh",
        "make",
        "gcc",
        "ld",
        "strip",
        "apt-get",
        "apt-cache",
        "dpkg-deb",
        "setpriv",
    ] {
        let places = ["/usr/bin", "/bin", "/usr/sbin"].map(|place| Path::new(place).join(program));
        if let Some(place) = places.iter().find(|place| place.exists()) {
            symlink(place, folder.join(program))?;
        }
    }
    let mut command = bench.small_bill(&[]);
    command.env("PATH", &folder);
    must_fail(
        command,
        3,
        &["qemu-system-x86_64", "apt-get install", "qemu-system-x86"],
    )
}

/// Unmounts and removes.
struct Mount<'a>(&'a Path);

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(
            unmounted.is_ok_and(|status| status.success()),
            "{} stays mounted",
            self.0.display()
        );
    }
}

pub(crate) fn full_disk(bench: &Bench) -> Result<(), Failed> {
    let disk = bench.folder.path().join("disk");
    fs::create_dir(&disk)?;
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
        .arg(&disk)
        .output()?;
    if !mount.status.success() {
        skipped_test(
            "a_full_disk_is_reported",
            "cannot mount a tmpfs here (needs root)",
        );
        return Ok(());
    }
    let _mounted = Mount(&disk);
    let cache = disk.join("cache");
    let mut command = bench.small_bill(&[]);
    command.env("PAGETOLL_CACHE", &cache);
    must_fail(command, 3, &["space", &cache.to_string_lossy()])?;
    nothing_is_left(&cache)
}
