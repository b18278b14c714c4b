//! Entries that were altered after they were made are not used.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// A change of a folder behind the back of the cache.
type Alteration = dyn Fn(&Path);

fn reopened(cache: &Cache) -> Cache {
    Cache::open_at(cache.root(), &Stop::new()).unwrap()
}

/// A folder with two files, one of them in a folder of its own.
fn tree(cache: &Cache) -> Entry {
    let made = cache.entry("kind/tree", &Stop::new(), |path| {
        fs::create_dir_all(path.join("boot")).unwrap();
        fs::write(path.join("boot/vmlinuz"), "kernel").unwrap();
        fs::write(path.join("config"), "y").unwrap();
        symlink("boot/vmlinuz", path.join("link")).unwrap();
        Ok(())
    });
    made.unwrap()
}

fn refused(result: Result<impl std::fmt::Debug, Error>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Altered { .. }), "{error}");
    assert_eq!(error.class(), Class::Environment);
    error.to_string()
}

#[test]
fn a_file_that_was_altered_is_made_anew() {
    let (_folder, cache) = opened();
    let place = make(&cache, "kind/one", "right").path().to_path_buf();
    let alterations: [&dyn Fn(); 4] = [
        &|| fs::write(&place, "wrong").unwrap(),
        &|| fs::write(&place, "").unwrap(),
        &|| fs::set_permissions(&place, fs::Permissions::from_mode(0o4755)).unwrap(),
        &|| {
            fs::remove_file(&place).unwrap();
            symlink("/etc/passwd", &place).unwrap();
        },
    ];
    for alter in alterations {
        alter();
        let made = make(&reopened(&cache), "kind/one", "right");
        assert_eq!(fs::read(made.file("").unwrap()).unwrap(), b"right");
    }
}

#[test]
fn an_entry_without_its_manifest_or_with_a_torn_one_is_made_anew() {
    let (_folder, cache) = opened();
    let place = make(&cache, "kind/one", "right").path().to_path_buf();
    let manifest = cache.path("manifests/kind%one");
    let text = fs::read(&manifest).unwrap();
    let damages: [&dyn Fn(); 3] = [
        &|| fs::remove_file(&manifest).unwrap(),
        &|| fs::write(&manifest, &text[..text.len() / 2]).unwrap(),
        &|| fs::write(&manifest, "").unwrap(),
    ];
    for damage in damages {
        fs::write(&place, "wrong").unwrap();
        damage();
        make(&reopened(&cache), "kind/one", "right");
        assert_eq!(fs::read(&place).unwrap(), b"right");
    }
}

#[test]
fn a_file_of_a_folder_is_compared_when_it_is_handed_out() {
    let (_folder, cache) = opened();
    let place = tree(&cache).path().to_path_buf();
    fs::write(place.join("boot/vmlinuz"), "kernEl").unwrap();
    let entry = tree(&reopened(&cache));
    entry.file("config").unwrap();
    let text = refused(entry.file("boot/vmlinuz"));
    assert!(
        text.contains("tree/boot/vmlinuz has another SHA-256 since kind/tree was made"),
        "{text}"
    );
    // The next run makes it anew.
    let next = tree(&reopened(&cache));
    assert_eq!(
        fs::read(next.below("boot").file("vmlinuz").unwrap()).unwrap(),
        b"kernel"
    );
}

#[test]
fn additions_and_links_in_a_folder_are_not_handed_out() {
    let add = |place: &Path| fs::write(place.join("added"), "x").unwrap();
    let remove = |place: &Path| fs::remove_file(place.join("config")).unwrap();
    let link = |place: &Path| {
        fs::rename(place.join("boot"), place.join("moved")).unwrap();
        symlink("moved", place.join("boot")).unwrap();
    };
    let none = |_: &Path| ();
    let altered: [(&str, &Alteration); 4] = [
        ("added", &add),
        ("config", &remove),
        ("boot/vmlinuz", &link),
        ("link", &none),
    ];
    for (file, alter) in altered {
        let (_folder, cache) = opened();
        let place = tree(&cache).path().to_path_buf();
        alter(&place);
        let entry = tree(&reopened(&cache));
        refused(entry.file(file));
    }
}

#[test]
fn all_of_a_folder_is_compared_once_for_each_process() {
    let (_folder, cache) = opened();
    let place = tree(&cache).path().to_path_buf();
    let entry = tree(&reopened(&cache));
    entry.whole().unwrap();
    fs::write(place.join("added"), "x").unwrap();
    entry.whole().unwrap();
    let text = refused(tree(&reopened(&cache)).whole());
    assert!(text.contains("tree/added was added"), "{text}");
}

#[test]
fn a_file_that_never_was_is_the_readers_to_find_out() {
    let (_folder, cache) = opened();
    let entry = tree(&cache);
    assert!(!entry.file("absent").unwrap().exists());
    assert_eq!(entry.text("absent").unwrap(), None);
    assert!(entry.file("/etc/passwd").is_err());
    assert!(tree(&reopened(&cache)).file("../one").is_err());
}

#[test]
fn a_record_that_is_torn_altered_or_a_link_counts_as_none() {
    let (_folder, cache) = opened();
    cache.record("suites/one", b"{}").unwrap();
    assert_eq!(cache.recorded("suites/one").unwrap().unwrap(), b"{}");
    let place = cache.path("suites/one");
    let sealed = fs::read(&place).unwrap();
    for torn in [&b""[..], b"{}", &sealed[..sealed.len() - 1]] {
        fs::write(&place, torn).unwrap();
        assert_eq!(cache.recorded("suites/one").unwrap(), None);
    }
    let aside = cache.path("suites/aside");
    fs::write(&aside, &sealed).unwrap();
    fs::remove_file(&place).unwrap();
    symlink(&aside, &place).unwrap();
    assert_eq!(cache.recorded("suites/one").unwrap(), None);
}
