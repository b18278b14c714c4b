//! A cache on a file system that was full and is read-only now, in a mount namespace of its own.

use super::ownership::{refusal, run_alone, this_program};
use super::*;

/// Mounts a small file system over a folder, and runs what follows with it.
const MOUNTED: &str = "mount -t tmpfs -o size=64k cache \"$SMALL_DISK\" && exec \"$@\"";

fn in_a_namespace(folder: &Path) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["-rm", "sh", "-c", MOUNTED, "sh"]);
    unshare.env("SMALL_DISK", folder);
    unshare
}

#[test]
fn a_read_only_file_system_is_called_that_after_a_full_one() {
    if let Some(why) = pagetoll_test_support::emulated() {
        pagetoll_test_support::skip!("{why}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mounts = in_a_namespace(folder.path()).arg("true").output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        pagetoll_test_support::skip!("unshare(1) may not mount a file system here");
    }
    let mut alone = in_a_namespace(folder.path());
    run_alone(alone.arg(this_program()), "read_only::fills_a_disk");
}

#[test]
#[ignore = "run by a_read_only_file_system_is_called_that_after_a_full_one"]
fn fills_a_disk() {
    let Some(disk) = std::env::var_os("SMALL_DISK").map(PathBuf::from) else {
        return;
    };
    let root = disk.join("cache");
    fs::create_dir(&root).unwrap();
    let mut rest = File::create(disk.join("rest")).unwrap();
    while rest.write_all(&[0; 512]).is_ok() {}
    drop(rest);
    // What is left of it is a tag without text.
    let full = refusal(&root);
    assert!(full.contains("no space left on device"), "{full}");
    let mut mount = Command::new("mount");
    let status = mount.args(["-o", "remount,bind,ro"]).arg(&disk).status();
    assert!(status.unwrap().success());
    let expected = format!(
        "cannot write {}: its file system is read-only; mount it for writing, or point PAGETOLL_CACHE to another file system",
        root.display()
    );
    assert_eq!(refusal(&root), expected);
    assert_eq!(root::look_at(&root).unwrap_err().to_string(), expected);
    let below = refusal(&disk.join("other/cache"));
    assert!(below.contains("read-only"), "{below}");
}
