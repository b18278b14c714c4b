//! Entries are complete or absent, whoever dies, fails or fills the disk.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::*;

fn opened() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open_at(&folder.path().join("cache"), &Stop::new()).unwrap();
    (folder, cache)
}

fn children(path: &Path) -> usize {
    fs::read_dir(path).unwrap().count()
}

#[test]
fn the_folder_is_chosen_by_three_variables_in_order() {
    let all = [
        ("PAGETOLL_CACHE", "/a"),
        ("XDG_CACHE_HOME", "/b"),
        ("HOME", "/c"),
    ];
    let root = |from: usize| {
        let set = &all[from..];
        default_root(|name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
    };
    assert_eq!(root(0).unwrap(), Path::new("/a"));
    assert_eq!(root(1).unwrap(), Path::new("/b/pagetoll"));
    assert_eq!(root(2).unwrap(), Path::new("/c/.cache/pagetoll"));
    assert_eq!(root(3).unwrap_err().exit_code(), 3);
}

#[test]
fn an_entry_is_made_once() {
    let (_folder, cache) = opened();
    for _ in 0..2 {
        let path = cache.entry("kind/one", &Stop::new(), |path| {
            assert!(!cache.path("kind/one").exists(), "made twice");
            fs::write(path, "x").map_err(Error::io("write", path))
        });
        assert_eq!(fs::read(path.unwrap()).unwrap(), b"x");
    }
}

#[test]
fn a_failure_leaves_neither_entry_nor_scratch() {
    let (_folder, cache) = opened();
    let result = cache.entry("kind/bad", &Stop::new(), |path| {
        fs::create_dir(path).unwrap();
        fs::write(path.join("half"), "x").unwrap();
        Err(Error::Stopped)
    });
    assert!(matches!(result, Err(Error::Stopped)));
    assert!(!cache.path("kind/bad").exists());
    assert_eq!(children(&cache.run), 1, "only the lock file");
}

#[test]
fn dropping_removes_the_folder_of_this_process() {
    let (folder, cache) = opened();
    let run = cache.run.clone();
    assert!(run.exists());
    drop(cache);
    assert!(!run.exists());
    drop(folder);
}

#[test]
fn leftovers_of_the_dead_are_swept_and_work_of_the_living_is_not() {
    let (_folder, cache) = opened();
    let dead = cache.path("tmp/run-dead");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("alive"), "").unwrap();
    let other = Cache::open_at(cache.root(), &Stop::new()).unwrap();
    assert!(!dead.exists());
    assert!(cache.run.exists() && other.run.exists());
}

#[test]
fn of_many_who_want_an_entry_one_makes_it() {
    let (_folder, cache) = opened();
    let made = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let cache = Cache::open_at(cache.root(), &Stop::new()).unwrap();
                let make = |path: &Path| {
                    made.fetch_add(1, Ordering::SeqCst);
                    fs::write(path, "x").map_err(Error::io("write", path))
                };
                cache.entry("kind/shared", &Stop::new(), make).unwrap();
            });
        }
    });
    assert_eq!(made.load(Ordering::SeqCst), 1);
}

#[test]
fn waiting_for_a_lock_can_be_stopped() {
    let (_folder, cache) = opened();
    let _held = cache.lock("name", &Stop::new()).unwrap();
    let stop = Stop::new();
    stop.request();
    assert!(matches!(cache.lock("name", &stop), Err(Error::Stopped)));
}

#[test]
fn a_path_that_make_cannot_bear_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Cache::open_at(&folder.path().join("my cache"), &Stop::new()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("my cache"), "{error}");
}

/// A small file system of its own, gone when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(folder.path())
            .output();
        mount
            .is_ok_and(|output| output.status.success())
            .then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ended = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_told_with_the_path_and_leaves_nothing() {
    let Some(disk) = SmallDisk::mount() else {
        crate::skipped(&"cannot mount a tmpfs here (needs root)");
        return;
    };
    let cache = Cache::open_at(&disk.0.path().join("cache"), &Stop::new()).unwrap();
    let written = cache.entry("kind/large", &Stop::new(), |path| {
        let mut file = File::create(path).map_err(Error::io("write", path))?;
        file.write_all(&[0; 1 << 20])
            .map_err(Error::io("write", path))
    });
    let error = written.unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains(&disk.0.path().display().to_string()),
        "{error}"
    );
    assert_eq!(children(&cache.run), 1);

    let child = cache.entry("kind/child", &Stop::new(), |path| {
        let script = format!("head -c 1000000 /dev/zero > {}", path.display());
        let run = crate::process::Run::new("sh").args(["-c", &script]);
        crate::process::run_to_end(&run, Duration::from_secs(60), &Stop::new()).map(drop)
    });
    assert!(matches!(child.unwrap_err(), Error::NoSpace { .. }));
}

#[test]
fn room_is_required_before_programs_that_hang_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    require_room(folder.path(), 1, "fetch packages").unwrap();
    let error = require_room(folder.path(), u64::MAX, "fetch packages").unwrap_err();
    assert!(matches!(error, Error::NoSpace { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("fetch packages (17592186044416 MiB) to "),
        "{error}"
    );
}
