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

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
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
