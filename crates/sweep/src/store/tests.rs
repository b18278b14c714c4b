use std::os::unix::fs::symlink;

use pagetoll_test_support::names;
use rustix::fs::{CWD, FileType, mknodat};

use super::*;

const SAMPLE: &[u8] = include_bytes!("../../../render/tests/data/sample-bill.json");

fn sample() -> Bill {
    serde_json::from_slice(SAMPLE).unwrap()
}

fn id(digit: char) -> JobId {
    digit.to_string().repeat(16).parse().unwrap()
}

fn refused(root: &Path, access: Access) -> String {
    Store::open(root, access).unwrap_err().to_string()
}

#[test]
fn a_bill_is_kept_without_its_time_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let store = Store::open(&root, Access::Sweep).unwrap();
    let failure = Failure {
        id: id('a'),
        command: "pagetoll bill unmap".into(),
        exit: Some(1),
        reason: "no".into(),
        attempts: 2,
    };
    store.fail(&failure).unwrap();
    assert_eq!(store.failures().unwrap().whole, [(id('a'), failure)]);
    store.keep(&id('a'), sample()).unwrap();
    assert!(store.failures().unwrap().whole.is_empty());
    let bill = store.bill(&id('a')).unwrap().unwrap().unwrap();
    assert_eq!(bill, kept(sample()));
    assert_eq!(bill.provenance.when, "");
    assert!(store.bill(&id('b')).unwrap().is_none());
    assert_eq!(names(&root.join(TMP)), [""; 0]);
    let text = fs::read_to_string(root.join("bills/aaaaaaaaaaaaaaaa.json")).unwrap();
    assert!(
        !text.contains("\"when\"") && text.ends_with("}\n"),
        "{text}"
    );
}

/// A store out of version control, which keeps no empty folder.
#[test]
fn a_store_without_its_empty_folders_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    drop(Store::open(&root, Access::Sweep).unwrap());
    for name in [BILLS, FAILURES, TMP] {
        fs::remove_dir(root.join(name)).unwrap();
    }
    let store = Store::look(&root).unwrap().unwrap();
    assert!(store.bill(&id('a')).unwrap().is_none());
    assert!(store.failure(&id('a')).unwrap().is_none());
    assert!(store.bills(|_, bill| bill).unwrap().whole.is_empty());
    assert!(store.failures().unwrap().whole.is_empty());
}

#[test]
fn what_is_measured_keeps_its_time() {
    let measured = Bill {
        evidence: Evidence::Measured,
        ..sample()
    };
    assert_eq!(kept(measured.clone()), measured);
}

#[test]
fn a_write_that_fails_leaves_nothing_and_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Access::Sweep).unwrap();
    let place = folder.path().join("bills/aaaaaaaaaaaaaaaa.json");
    // A folder at its place: the rename fails after everything was written.
    fs::create_dir(&place).unwrap();
    fs::write(place.join("x"), "").unwrap();
    let failed = store.keep(&id('a'), sample()).unwrap_err().to_string();
    assert!(
        failed.starts_with("cannot write ") && failed.ends_with("aaaa.json"),
        "{failed}"
    );
    assert_eq!(names(&folder.path().join(TMP)), [""; 0]);
    assert_eq!(names(&place), ["x"]);
}

#[test]
fn readers_see_a_whole_bill_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Access::Sweep).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..50 {
                store.keep(&id('a'), sample()).unwrap();
            }
        });
        while !writer.is_finished() {
            if let Some(bill) = store.bill(&id('a')).unwrap() {
                assert_eq!(bill, Ok(kept(sample())));
            }
        }
    });
}

#[test]
fn a_damaged_bill_is_named_and_the_rest_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Access::Sweep).unwrap();
    for digit in ['a', 'b'] {
        store.keep(&id(digit), sample()).unwrap();
    }
    let path = folder.path().join("bills/aaaaaaaaaaaaaaaa.json");
    fs::write(&path, &SAMPLE[..100]).unwrap();
    fs::write(folder.path().join("bills/notes.txt"), "mine").unwrap();
    let found = store.bills(|_, bill| bill).unwrap();
    assert_eq!(found.whole.len(), 1);
    assert_eq!(found.damaged.len(), 1);
    assert!(
        found.damaged[0]
            .to_string()
            .contains("aaaaaaaaaaaaaaaa.json: EOF while")
    );
}

#[test]
fn two_sweeps_exclude_each_other_and_jobs_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = Store::open(folder.path(), Access::Sweep).unwrap();
    let number = std::process::id().to_string();
    for access in [Access::Sweep, Access::Job] {
        let text = refused(folder.path(), access);
        assert!(
            text.contains(&format!("in use by process {number}")),
            "{text}"
        );
    }
    assert!(Store::open(folder.path(), Access::Read).is_ok());
    drop(sweep);
    let _one = Store::open(folder.path(), Access::Job).unwrap();
    let _other = Store::open(folder.path(), Access::Job).unwrap();
    assert!(refused(folder.path(), Access::Sweep).contains("in use by process"));
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "").unwrap();
    for access in [Access::Sweep, Access::Job, Access::Read] {
        let text = refused(folder.path(), access);
        assert!(
            text.contains("is not a store (it has no store.toml)"),
            "{text}"
        );
    }
    assert_eq!(names(folder.path()), ["thesis.tex"]);
    fs::write(folder.path().join(HEAD), "schema = \"pagetoll.store/9\"\n").unwrap();
    let text = refused(folder.path(), Access::Sweep);
    assert!(
        text.contains("has schema = \"pagetoll.store/9\"; expected"),
        "{text}"
    );
    assert!(refused(&folder.path().join("none"), Access::Read).contains("is not a store"));
}

#[test]
fn leftovers_of_a_killed_sweep_go() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path(), Access::Sweep).unwrap());
    fs::write(folder.path().join("tmp/.pagetoll-half"), "half").unwrap();
    drop(Store::open(folder.path(), Access::Job).unwrap());
    assert_eq!(
        names(&folder.path().join(TMP)),
        [".pagetoll-half"],
        "another job's"
    );
    drop(Store::open(folder.path(), Access::Sweep).unwrap());
    assert_eq!(names(&folder.path().join(TMP)), [""; 0]);
}

#[test]
fn what_lies_in_a_folder_that_becomes_a_store_stays() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    fs::write(folder.path().join("tmp/thesis.tex"), "mine").unwrap();
    drop(Store::open(folder.path(), Access::Sweep).unwrap());
    drop(Store::open(folder.path(), Access::Sweep).unwrap());
    assert_eq!(names(&folder.path().join(TMP)), ["thesis.tex"]);
}

/// A foreign file in a store.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ForeignFile {
    Link,
    LinkToDevice,
    LinkToNothing,
    Pipe,
    Folder,
    Huge,
    HardLink,
}

impl ForeignFile {
    const ALL: [Self; 7] = [
        Self::Link,
        Self::LinkToDevice,
        Self::LinkToNothing,
        Self::Pipe,
        Self::Folder,
        Self::Huge,
        Self::HardLink,
    ];

    /// Puts it where something of a store is, or may be. `other` has a file of the user's, `victim`.
    fn put(self, place: &Path, other: &Path) {
        let _absent = fs::remove_file(place).or_else(|_| fs::remove_dir_all(place));
        match self {
            Self::Link if is_folder(place) => symlink(other, place).unwrap(),
            Self::Link => symlink(other.join("victim"), place).unwrap(),
            Self::LinkToDevice => symlink("/dev/zero", place).unwrap(),
            Self::LinkToNothing => symlink(other.join("new"), place).unwrap(),
            Self::Pipe => mknodat(CWD, place, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            Self::Folder => fs::create_dir_all(place.join("x")).unwrap(),
            Self::Huge => File::create(place).unwrap().set_len(1 << 36).unwrap(),
            Self::HardLink => fs::hard_link(other.join("victim"), place).unwrap(),
        }
    }
}

fn is_folder(place: &Path) -> bool {
    place.extension().is_none() && !place.ends_with(LOCK)
}

/// All operations on a store, by name; `open` opens it again.
fn operations(store: &Store) -> Vec<(&'static str, Result<(), StoreError>)> {
    let failure = Failure {
        id: id('a'),
        command: "pagetoll bill unmap".into(),
        exit: Some(1),
        reason: "no".into(),
        attempts: 1,
    };
    let run = Run {
        id: id('a'),
        node: "n".into(),
        started: "now".into(),
        seconds: 1.0,
        exit: Some(1),
    };
    let open = |access| Store::open(store.root(), access).map(drop);
    vec![
        ("read", open(Access::Read)),
        ("bill", store.bill(&id('a')).map(drop)),
        ("failure", store.failure(&id('a')).map(drop)),
        ("bills", store.bills(|_, _| ()).map(drop)),
        ("failures", store.failures().map(drop)),
        ("runs", store.runs().map(drop)),
        ("job", open(Access::Job)),
        ("sweep", open(Access::Sweep)),
        ("record", store.record(&run)),
        ("fail", store.fail(&failure)),
        ("keep", store.keep(&id('a'), sample())),
    ]
}

const BILL: &str = "bills/aaaaaaaaaaaaaaaa.json";
const FAILURE: &str = "failures/aaaaaaaaaaaaaaaa.json";

/// Operations that are refused while the file is there. With a folder in place of a file that is renamed or removed,
/// others fail besides.
fn expected(place: &str, planted: ForeignFile) -> Vec<&'static str> {
    use ForeignFile::{Folder, HardLink, Huge};
    match (place, planted) {
        (LOCK, Huge) => vec![],
        (LOCK, _) => vec!["job", "sweep"],
        (RUNS, Huge) => vec!["runs"],
        (RUNS, HardLink) => vec!["job", "sweep", "record"],
        (RUNS, _) => vec!["runs", "job", "sweep", "record"],
        // The user's file is no head.
        (HEAD, _) => vec!["read", "job", "sweep"],
        (BILL, HardLink) | (FAILURE, HardLink) | (TMP | BILLS | FAILURES, Folder) => vec![],
        (BILL, Folder) => vec!["bill", "bills", "keep"],
        (BILL, _) => vec!["bill", "bills"],
        (FAILURE, Folder) => vec!["failure", "failures", "fail", "keep"],
        (FAILURE, _) => vec!["failure", "failures"],
        (TMP, _) => vec!["job", "sweep", "fail", "keep"],
        (BILLS, _) => vec!["bill", "bills", "job", "sweep", "keep"],
        (FAILURES, _) => vec!["failure", "failures", "job", "sweep", "fail", "keep"],
        _ => unreachable!("{place}"),
    }
}

#[test]
fn whatever_stands_in_a_store_nothing_outside_is_touched_and_the_file_is_named() {
    for place in [LOCK, RUNS, HEAD, BILL, FAILURE, TMP, BILLS, FAILURES] {
        for planted in ForeignFile::ALL {
            let folder = tempfile::tempdir().unwrap();
            let other = folder.path().join("other");
            fs::create_dir(&other).unwrap();
            fs::write(other.join("victim"), "precious").unwrap();
            fs::write(other.join(".pagetoll-victim"), "precious").unwrap();
            let root = folder.path().join("store");
            // A sweep's lock would exclude the others.
            drop(Store::open(&root, Access::Sweep).unwrap());
            let store = Store::open(&root, Access::Read).unwrap();
            let path = root.join(place);
            planted.put(&path, &other);
            let mut refused = Vec::new();
            for (name, result) in operations(&store) {
                if let Err(error) = result {
                    let text = error.to_string();
                    assert!(text.contains(path.to_str().unwrap()), "{name}: {text}");
                    refused.push(name);
                }
            }
            assert_eq!(refused, expected(place, planted), "{planted:?} as {place}");
            assert_eq!(names(&other), [".pagetoll-victim", "victim"]);
            for victim in names(&other) {
                assert_eq!(fs::read(other.join(victim)).unwrap(), b"precious");
            }
        }
    }
}

#[test]
fn what_is_found_and_what_was_expected_is_said() {
    let cases = [
        (
            LOCK,
            ForeignFile::Link,
            "is a symbolic link; expected a regular file",
        ),
        (
            LOCK,
            ForeignFile::HardLink,
            "has 2 hard links; expected a file of the store alone",
        ),
        (
            RUNS,
            ForeignFile::Pipe,
            "is a named pipe; expected a regular file",
        ),
        (
            RUNS,
            ForeignFile::Huge,
            "is larger than 64 MiB; expected at most that",
        ),
        (
            HEAD,
            ForeignFile::LinkToDevice,
            "is a symbolic link; expected a regular file",
        ),
        (
            BILL,
            ForeignFile::Folder,
            "is a folder; expected a regular file",
        ),
        (
            TMP,
            ForeignFile::Link,
            "is a symbolic link; expected a folder",
        ),
        (
            BILLS,
            ForeignFile::Pipe,
            "is a named pipe; expected a folder",
        ),
    ];
    for (place, planted, problem) in cases {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("victim"), "precious").unwrap();
        let root = folder.path().join("store");
        drop(Store::open(&root, Access::Sweep).unwrap());
        let store = Store::open(&root, Access::Read).unwrap();
        planted.put(&root.join(place), folder.path());
        let refused = operations(&store)
            .into_iter()
            .find_map(|(_, result)| result.err());
        let expected = format!("{}: {problem}", root.join(place).display());
        assert_eq!(refused.unwrap().to_string(), expected);
    }
}

#[test]
fn a_store_may_be_reached_by_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let store = Store::open(&link, Access::Sweep).unwrap();
    store.keep(&id('a'), sample()).unwrap();
    assert!(real.join(BILL).is_file());
}
