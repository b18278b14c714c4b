//! Every step of the cache fails in turn: nothing half made is used, nothing is lost, the next run is right.

use rustix::io::Errno;

use super::super::faults::{self, Fault, Plan};
use super::*;

const FAULTS: [Fault; 4] = [
    Fault::Fails(Errno::NOSPC),
    Fault::Fails(Errno::IO),
    Fault::Fails(Errno::MFILE),
    Fault::Killed,
];

/// A run that makes a file, a folder and a record, and finds an entry that was made before.
fn run(root: &Path) -> Result<(), Error> {
    let cache = Cache::open_at(root, &Stop::new())?;
    let file = cache.entry("kind/file", &Stop::new(), |path| disk::write(path, b"file"))?;
    let folder = cache.entry("kind/folder", &Stop::new(), |path| {
        fs::create_dir(path).map_err(Error::io("create", path))?;
        disk::write(&path.join("a"), b"in a folder")
    })?;
    cache.record("records/one", b"new")?;
    let before = cache.entry("kind/before", &Stop::new(), |path| {
        disk::write(path, b"before")
    })?;
    for (entry, below, text) in [
        (file, "", "file"),
        (folder, "a", "in a folder"),
        (before, "", "before"),
    ] {
        assert_eq!(entry.text(below)?.as_deref(), Some(text));
    }
    Ok(())
}

/// A cache of an earlier run, with one entry, an altered one, and a record.
fn earlier(root: &Path) {
    let cache = Cache::open_at(root, &Stop::new()).unwrap();
    make(&cache, "kind/before", "before");
    let altered = make(&cache, "kind/file", "file");
    fs::write(altered.path(), "fil").unwrap();
    cache.record("records/one", b"old").unwrap();
}

/// Checks that entries are whole, and that the record is the old or the new one.
fn check(root: &Path, case: &str) {
    let cache = Cache::open_at(root, &Stop::new()).unwrap();
    for (name, below, text) in [
        ("kind/file", "", "file"),
        ("kind/folder", "a", "in a folder"),
        ("kind/before", "", "before"),
    ] {
        match cache.known(name).unwrap().map(|entry| entry.text(below)) {
            None | Some(Err(Error::Altered { .. })) => {
                assert_ne!(name, "kind/before", "{case}: lost")
            }
            Some(found) => assert_eq!(found.unwrap().as_deref(), Some(text), "{case}: half made"),
        }
    }
    let record = cache.recorded("records/one").unwrap();
    assert!(
        matches!(record.as_deref(), Some(b"old" | b"new")),
        "{case}: {record:?}"
    );
}

/// Returns whether the next runs remove all leftovers. Between fork and exec, a child of another test holds this process's
/// locks.
fn is_swept(root: &Path) -> bool {
    (0..500).any(|_| {
        drop(Cache::open_at(root, &Stop::new()).unwrap());
        let swept = children(&root.join(TMP)) == 0;
        if !swept {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        swept
    })
}

/// On a disk the steps that sync take most of the test's time.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

#[test]
fn every_step_can_fail_and_every_step_can_be_the_last() {
    let whole = in_memory();
    earlier(whole.path());
    let (result, steps) = faults::with(None, || run(whole.path()));
    result.unwrap();
    for (step, name) in steps.iter().enumerate() {
        for fault in FAULTS {
            let case = format!("{fault:?} at step {step}, {name}");
            let folder = in_memory();
            earlier(folder.path());
            let (result, _) = faults::with(Some(Plan { step, fault }), || run(folder.path()));
            check(folder.path(), &case);
            if let Err(error) = result {
                let text = error.to_string();
                assert!(!text.is_empty(), "{case}");
            }
            run(folder.path()).unwrap_or_else(|error| panic!("{case}: the next run: {error}"));
            assert!(is_swept(folder.path()), "{case}: left behind");
        }
    }
    println!(
        "{} steps, {} faults",
        steps.len(),
        steps.len() * FAULTS.len()
    );
}
