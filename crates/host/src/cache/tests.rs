//! Entries are complete or absent when processes die, makers fail and disks are full; files of the user survive.

mod entries;
mod ownership;
mod read_only;
mod steps;

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use pagetoll_backend::{Class, Classified};

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
        root::default_root(|name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
    };
    assert_eq!(root(0).unwrap(), Path::new("/a"));
    assert_eq!(root(1).unwrap(), Path::new("/b/pagetoll"));
    assert_eq!(root(2).unwrap(), Path::new("/c/.cache/pagetoll"));
    assert_eq!(root(3).unwrap_err().class(), Class::Environment);
}

#[test]
fn an_entry_is_made_once() {
    let (_folder, cache) = opened();
    for _ in 0..2 {
        let path = cache.entry("kind/one", &Stop::new(), |path| {
            assert!(!cache.path("kind/one").exists(), "made twice");
            fs::write(path, "x").map_err(Error::io("write", path))
        });
        assert_eq!(fs::read(path.unwrap().path()).unwrap(), b"x");
    }
}

#[test]
fn an_entry_that_was_removed_while_others_were_verified_differs_from_nothing() {
    let (_folder, cache) = opened();
    let make = |path: &Path| fs::write(path, "x").map_err(Error::io("write", path));
    drop(cache.entry("counted/one", &Stop::new(), make).unwrap());
    let items = inventory::list(&cache.root).unwrap();
    fs::remove_file(record_of(&cache.root, &items[0].name)).unwrap();
    fs::remove_file(cache.path("counted/one")).unwrap();
    let verified = inventory::verify(&cache.root, &items[0]).unwrap();
    assert_eq!(verified, inventory::Verified::Unrecorded);
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
fn leftovers_of_killed_processes_are_swept_and_running_work_is_not() {
    let (_folder, cache) = opened();
    let dead = cache.path("tmp/run-dead");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("alive"), "").unwrap();
    let other = Cache::open_at(cache.root(), &Stop::new()).unwrap();
    assert!(!dead.exists());
    assert!(cache.run.exists() && other.run.exists());
}

/// A file that a user keeps at this place below a root, where a sweep could reach it.
fn thesis(root: &Path, place: &str) -> PathBuf {
    let file = root.join(place).join("chapter");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "x").unwrap();
    file
}

fn open_and_close(root: &Path) {
    drop(Cache::open_at(root, &Stop::new()).unwrap());
}

#[test]
fn files_of_the_user_below_tmp_survive_in_any_root() {
    let folder = tempfile::tempdir().unwrap();
    // A home with files of its own, one with nothing but tmp, and a cache.
    let [home, bare, tagged] = ["home", "bare", "tagged"].map(|name| folder.path().join(name));
    thesis(&home, "documents");
    fs::create_dir(&tagged).unwrap();
    open_and_close(&tagged);
    for root in [&home, &bare, &tagged] {
        let kept = ["tmp/thesis", "tmp/run-thesis"].map(|place| thesis(root, place));
        open_and_close(root);
        assert!(kept.iter().all(|file| file.exists()), "{}", root.display());
    }
}

#[test]
fn a_root_that_pagetoll_did_not_make_is_neither_tagged_nor_swept() {
    let folder = tempfile::tempdir().unwrap();
    thesis(folder.path(), "documents");
    let dead = folder.path().join("tmp/run-dead");
    fs::create_dir_all(&dead).unwrap();
    fs::write(dead.join(ALIVE), "").unwrap();
    for _ in 0..2 {
        open_and_close(folder.path());
    }
    assert!(dead.exists() && !folder.path().join("CACHEDIR.TAG").exists());
    fs::write(folder.path().join("CACHEDIR.TAG"), "Signature: other\n").unwrap();
    open_and_close(folder.path());
    assert!(dead.exists());
}

#[test]
fn a_cache_of_an_older_pagetoll_is_tagged_and_swept() {
    let (folder, cache) = opened();
    let root = cache.root().to_path_buf();
    fs::remove_file(root.join("CACHEDIR.TAG")).unwrap();
    fs::create_dir(root.join("xen")).unwrap();
    let dead = root.join("tmp/run-dead");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join(ALIVE), "").unwrap();
    open_and_close(&root);
    assert!(!dead.exists() && root.join("CACHEDIR.TAG").exists());
    drop((cache, folder));
}

#[test]
fn the_target_of_a_symbolic_link_is_never_swept() {
    let (_folder, cache) = opened();
    let elsewhere = tempfile::tempdir().unwrap();
    let kept = thesis(elsewhere.path(), "run-one");
    fs::write(elsewhere.path().join("run-one").join(ALIVE), "").unwrap();
    symlink(elsewhere.path().join("run-one"), cache.path("tmp/run-link")).unwrap();
    open_and_close(cache.root());
    let root = cache.root().to_path_buf();
    drop(cache);
    fs::remove_dir_all(root.join("tmp")).unwrap();
    symlink(elsewhere.path(), root.join("tmp")).unwrap();
    let refused = Cache::open_at(&root, &Stop::new()).unwrap_err();
    assert!(
        refused.to_string().contains("/tmp in the cache is not"),
        "{refused}"
    );
    assert!(kept.exists());
}

#[test]
fn a_lock_that_is_a_symbolic_link_is_refused_and_its_target_kept() {
    let (_folder, cache) = opened();
    let kept = thesis(cache.root(), "elsewhere");
    symlink(&kept, cache.path("locks/name")).unwrap();
    let error = cache.lock("name", &Stop::new()).unwrap_err();
    assert!(error.to_string().contains("locks/name"), "{error}");
    assert_eq!(fs::read(&kept).unwrap(), b"x");
}

#[test]
fn looking_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(folder.path()).unwrap();
    let found = root::look_at(&folder.path().join("a/b")).unwrap();
    assert_eq!((found.root, &found.existing), (real.join("a/b"), &real));
    assert_eq!(children(folder.path()), 0);

    let (_cache_folder, cache) = opened();
    let dead = cache.path("tmp/run-dead");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join(ALIVE), "").unwrap();
    let found = root::look_at(cache.root()).unwrap();
    assert_eq!(
        (found.root.as_path(), found.existing.as_path()),
        (cache.root(), cache.root())
    );
    assert!(dead.exists());
}

#[test]
fn concurrent_requests_for_an_entry_make_it_once() {
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
fn a_path_that_make_cannot_handle_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Cache::open_at(&folder.path().join("my cache"), &Stop::new()).unwrap_err();
    assert_eq!(error.class(), Class::BadInput);
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
fn a_full_disk_is_reported_with_the_path_and_leaves_nothing() {
    let Some(disk) = SmallDisk::mount() else {
        pagetoll_test_support::skip!("cannot mount a tmpfs here (needs root)");
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

/// An entry that is a file.
fn make(cache: &Cache, name: &str, text: &str) -> Entry {
    let write = |path: &Path| fs::write(path, text).map_err(Error::io("write", path));
    cache.entry(name, &Stop::new(), write).unwrap()
}
