//! A cache that others could have written is refused by name.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};

use super::*;

pub(super) fn refusal(root: &Path) -> String {
    let error = Cache::open_at(root, &Stop::new()).unwrap_err();
    assert_eq!(error.class(), Class::Environment, "{error}");
    error.to_string()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A uid that is not this process's, where it may give files away.
fn give_away(path: &Path) -> bool {
    rustix::process::geteuid().is_root() && chown(path, Some(65534), None).is_ok()
}

pub(super) fn this_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// Runs an ignored test of a file beside this one in a process of its own.
pub(super) fn run_alone(program: &mut Command, test: &str) {
    let module = module_path!().split_once("::").unwrap().1;
    let module = module.rsplit_once("::").unwrap().0;
    program.args(["--exact", "--ignored", &format!("{module}::{test}")]);
    let output = program.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn folders_are_private_whatever_the_umask() {
    if let Some(why) = pagetoll_test_support::emulated() {
        pagetoll_test_support::skip!("{why}");
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("above/cache");
    // A user whose files are not their own to write cannot work at all; root can.
    let is_root = rustix::process::geteuid().is_root();
    let umasks = ["0000", "0022", "0077", "0277"];
    for umask in umasks.iter().take(if is_root { 4 } else { 3 }) {
        // The umask is the process's, hence a process of its own.
        let script = format!("umask {umask}; exec \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, "sh"]).arg(this_program());
        run_alone(shell.env("MADE_CACHE", &root), "ownership::makes_a_cache");
        for below in ["", "tmp", "locks", "manifests", "logs", "kind", "kind/of"] {
            let mode = fs::metadata(root.join(below)).unwrap().mode() & 0o777;
            assert_eq!(mode, 0o700, "{umask} {below}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}

#[test]
#[ignore = "run by folders_are_private_whatever_the_umask"]
fn makes_a_cache() {
    let Some(root) = std::env::var_os("MADE_CACHE") else {
        return;
    };
    let cache = Cache::open_at(Path::new(&root), &Stop::new()).unwrap();
    cache.record("kind/of/one", b"x").unwrap();
    make(&cache, "kind/entry", "x");
    let next = Cache::open_at(Path::new(&root), &Stop::new()).unwrap();
    assert!(next.recorded("kind/of/one").unwrap().is_some());
    assert!(
        next.known("kind/entry").unwrap().is_some(),
        "it is made anew each time"
    );
}

#[test]
fn a_folder_that_others_can_write_to_is_refused_with_what_to_do() {
    for below in ["", "tmp", "locks", "manifests"] {
        for mode in [0o770, 0o702] {
            let (_folder, cache) = opened();
            let root = cache.root().to_path_buf();
            drop(cache);
            set_mode(&root.join(below), mode);
            let text = refusal(&root);
            assert!(
                text.contains("can be written by others") && text.contains("chmod -R go-w"),
                "{text}"
            );
            assert!(root::look_at(&root).is_err(), "doctor accepts {below}");
        }
    }
}

#[test]
fn an_entry_in_a_folder_that_others_can_write_to_is_refused() {
    let (_folder, cache) = opened();
    make(&cache, "kind/one", "x");
    cache.record("records/one", b"x").unwrap();
    let cache = Cache::open_at(cache.root(), &Stop::new()).unwrap();
    for below in ["kind", "records"] {
        set_mode(&cache.path(below), 0o777);
    }
    let refused = cache
        .entry("kind/one", &Stop::new(), |_| panic!("made"))
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("kind can be written by others"),
        "{refused}"
    );
    assert!(cache.recorded("records/one").is_err());
    assert!(cache.record("records/one", b"y").is_err());
}

#[test]
fn a_cache_of_another_user_is_refused_and_under_sudo_says_whose_it_is() {
    if let Some(why) = pagetoll_test_support::emulated() {
        pagetoll_test_support::skip!("{why}");
    }
    let (_folder, cache) = opened();
    let root = cache.root().to_path_buf();
    drop(cache);
    if !give_away(&root) {
        pagetoll_test_support::skip!("only root can give files away");
    }
    let text = refusal(&root);
    assert!(text.contains("belongs to uid 65534"), "{text}");
    assert!(
        text.contains("set PAGETOLL_CACHE to a folder of your own"),
        "{text}"
    );
    assert!(root::look_at(&root).is_err());
    let mut program = Command::new(this_program());
    program.env("SUDO_UID", "65534").env("FOREIGN_CACHE", &root);
    run_alone(&mut program, "ownership::says_that_sudo_was_used");
}

#[test]
#[ignore = "run by a_cache_of_another_user_is_refused_and_under_sudo_says_whose_it_is"]
fn says_that_sudo_was_used() {
    let Some(root) = std::env::var_os("FOREIGN_CACHE") else {
        return;
    };
    let text = refusal(Path::new(&root));
    assert!(
        text.contains("who called sudo, not to root; run without sudo"),
        "{text}"
    );
}

#[test]
fn a_symbolic_link_in_the_way_of_an_entry_is_refused_and_its_target_kept() {
    let (_folder, cache) = opened();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), cache.path("kind")).unwrap();
    let make = |path: &Path| fs::write(path, "x").map_err(Error::io("write", path));
    let refused = cache.entry("kind/one", &Stop::new(), make).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("kind in the cache is not a folder of its own"),
        "{refused}"
    );
    assert!(cache.record("kind/two", b"x").is_err());
    assert_eq!(children(elsewhere.path()), 0);
}

#[test]
fn a_cache_that_others_can_read_is_not_refused() {
    let (_folder, cache) = opened();
    let root = cache.root().to_path_buf();
    drop(cache);
    set_mode(&root, 0o755);
    assert!(Cache::open_at(&root, &Stop::new()).is_ok());
}

/// Checks that a folder above the cache is refused before anything is created.
fn refused_on_the_way(root: &Path, words: &str) {
    for way in [root.to_path_buf(), root.join("not/yet/there")] {
        let text = refusal(&way);
        assert!(
            text.contains(words) && text.contains("on the way to the cache"),
            "{text}"
        );
        assert_eq!(root::look_at(&way).unwrap_err().to_string(), text);
    }
    assert!(!root.join("not").exists());
}

#[test]
fn a_folder_above_that_others_can_write_to_is_refused_unless_it_is_sticky() {
    let (folder, cache) = opened();
    let root = cache.root().to_path_buf();
    drop(cache);
    for mode in [0o777, 0o775, 0o757] {
        set_mode(folder.path(), mode);
        refused_on_the_way(&root, "can be written by others");
    }
    set_mode(folder.path(), 0o1777);
    assert!(Cache::open_at(&root, &Stop::new()).is_ok());
    let link = tempfile::tempdir().unwrap();
    let link = link.path().join("link");
    symlink(&root, &link).unwrap();
    set_mode(folder.path(), 0o777);
    refused_on_the_way(&link, "can be written by others");
    set_mode(folder.path(), 0o700);
}

#[test]
fn a_folder_or_a_link_of_another_user_on_the_way_is_refused() {
    let (folder, cache) = opened();
    let root = cache.root().to_path_buf();
    drop(cache);
    let open = tempfile::tempdir().unwrap();
    set_mode(open.path(), 0o1777);
    // The user's own link leads to one of another user's, which leads to the user's own cache.
    let [own, foreign] = ["own", "foreign"].map(|name| open.path().join(name));
    symlink(&root, &foreign).unwrap();
    symlink(&foreign, &own).unwrap();
    if !rustix::process::geteuid().is_root() || lchown(&foreign, Some(65534), None).is_err() {
        pagetoll_test_support::skip!("only root can give files away");
    }
    let words = format!(
        "{}, on the way to the cache, belongs to uid 65534",
        foreign.display()
    );
    refused_on_the_way(&foreign, &words);
    refused_on_the_way(&own, &words);
    assert!(give_away(folder.path()));
    refused_on_the_way(&root, "belongs to uid 65534");
}

#[test]
fn links_that_lead_in_a_circle_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    symlink("link", &link).unwrap();
    let text = refusal(&link.join("cache"));
    assert!(
        text.contains("cannot open") && text.contains("link"),
        "{text}"
    );
}

#[test]
fn the_root_may_be_reached_through_a_symbolic_link() {
    let (folder, cache) = opened();
    let link = folder.path().join("link");
    symlink(cache.root(), &link).unwrap();
    let through = |way: &Path| {
        Cache::open_at(way, &Stop::new())
            .unwrap()
            .root()
            .to_path_buf()
    };
    assert_eq!(through(&link), cache.root());
    // Relative, by way of another, and to what is not there yet.
    symlink("../link/./../made/below", cache.root().join("relative")).unwrap();
    let made = folder.path().canonicalize().unwrap().join("made/below");
    assert_eq!(through(&link.join("relative")), made);
    assert_eq!(through(&link.join("relative/../below")), made);
}
