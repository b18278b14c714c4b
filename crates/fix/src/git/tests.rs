//! Repositories as their authors may have made them, each with a git of the user's own that does what they want.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pagetoll_test_support::skip;

use super::*;

/// A git of the user's in this folder; `None` without git.
fn output(folder: &Path, arguments: &[&str]) -> Option<String> {
    let who = ["-c", "user.name=n", "-c", "user.email=e"];
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(who).args(arguments);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env_remove("GIT_EDITOR");
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// Tells if a git in this folder succeeds.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> bool {
    output(folder, arguments).is_some()
}

/// A repository beside a cache.
struct Fixture {
    folder: tempfile::TempDir,
    cache: Cache,
    stop: Stop,
}

impl Fixture {
    /// Three commits: a file changes, and another one goes. `None` without git.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        let cache = Cache::open_at(&folder.path().join("cache"), &stop).unwrap();
        let fixture = Self {
            folder,
            cache,
            stop,
        };
        let tree = fixture.tree();
        fs::create_dir(&tree).unwrap();
        if !git(&tree, &["init", "-q"]) {
            return None;
        }
        for (text, gone) in [("one", false), ("two", false), ("three", true)] {
            fs::create_dir_all(tree.join("a")).unwrap();
            fs::write(tree.join("a/a.c"), text).unwrap();
            fs::write(tree.join("a.c"), text).unwrap();
            fs::write(tree.join("b.c"), "b").unwrap();
            if gone {
                fs::remove_file(tree.join("b.c")).unwrap();
            }
            fixture.commit(text);
        }
        Some(fixture)
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn write(&self, file: &str, text: impl AsRef<[u8]>) {
        fs::write(self.tree().join(file), text).unwrap();
    }

    /// A git of the user's that has to succeed.
    fn git(&self, arguments: &[&str]) -> String {
        let said = output(&self.tree(), arguments);
        said.unwrap_or_else(|| panic!("git {arguments:?} failed"))
    }

    fn config(&self, settings: &[(&str, &str)]) {
        for (name, value) in settings {
            self.git(&["config", name, value]);
        }
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    fn open(&self) -> Repository {
        Repository::open(&self.tree(), &self.cache, &self.stop).unwrap()
    }

    fn between(&self, good: &str, bad: &str) -> Result<Vec<Commit>, Error> {
        self.open().between(good, bad, &self.stop)
    }

    /// The files of a commit, where there were none.
    fn switch(&self, commit: &Commit) -> Result<Checkout, Error> {
        let place = self.folder.path().join("place");
        let _absent = fs::remove_dir_all(&place);
        let checkout = Checkout::new(self.open(), &place);
        checkout.switch(commit, &self.stop)?;
        Ok(checkout)
    }

    /// Reads a repository in every way that pagetoll does; continues after errors where it can.
    fn use_all(&self) {
        let repository = Repository::open(&self.tree(), &self.cache, &self.stop);
        let Ok(repository) = repository else { return };
        let _ = repository.files(&self.stop);
        let Ok(commits) = repository.between("HEAD~1", "HEAD", &self.stop) else {
            return;
        };
        for commit in commits {
            let _ = repository.text(&commit, "a.c", &self.stop);
            let _ = self.switch(&commit);
        }
    }
}

#[test]
fn commits_are_written_elsewhere_one_after_the_other() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    fixture.write("a.c", "not committed");
    let commits = fixture.between("HEAD~2", "HEAD").unwrap();
    let subjects: Vec<_> = commits.iter().map(|commit| &commit.subject).collect();
    assert_eq!(subjects, ["one", "two", "three"]);
    let checkout = fixture.switch(&commits[2]).unwrap();
    for (commit, files) in [(&commits[2], 2), (&commits[0], 3), (&commits[1], 3)] {
        checkout.switch(commit, &fixture.stop).unwrap();
        let tree = checkout.tree();
        let text = fs::read_to_string(tree.join("a.c")).unwrap();
        assert_eq!(text, commit.subject);
        assert_eq!(fs::read_dir(tree).unwrap().count(), files);
        let text = checkout
            .repository()
            .text(&commits[1], "a/a.c", &fixture.stop);
        assert_eq!(text.unwrap(), "two");
    }
    let own = fs::read_to_string(fixture.tree().join("a.c")).unwrap();
    assert_eq!(own, "not committed");
    fixture.git(&["diff", "--cached", "--quiet"]);
}

#[test]
fn a_tree_has_the_name_that_git_gives_it() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    // Sorted as by git: a folder as if its name ended with a slash.
    for name in ["a-b", "a0", "b", "\u{e9}"] {
        fixture.write(name, name);
    }
    let run = fs::Permissions::from_mode(0o755);
    fs::set_permissions(fixture.tree().join("b"), run).unwrap();
    std::os::unix::fs::symlink("nowhere", fixture.tree().join("link")).unwrap();
    fixture.commit("four");
    let commits = fixture.between("HEAD~1", "HEAD").unwrap();
    assert_eq!(commits[1].tree, fixture.git(&["rev-parse", "HEAD^{tree}"]));
    let checkout = fixture.switch(&commits[1]).unwrap();
    for change in ["a/a.c", "new"] {
        fs::write(checkout.tree().join(change), "other").unwrap();
        let changed = object::tree(&checkout.tree(), &fixture.stop).unwrap();
        assert_ne!(changed, commits[1].tree);
    }
}

#[test]
fn files_of_a_work_tree_are_those_that_git_tracks_or_would() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    fixture.write(".gitignore", "*.o\n");
    fixture.write(".git/info/exclude", "secret\n");
    for file in ["a.o", "b.o", "secret", "new.c", "gone.c"] {
        fixture.write(file, "");
    }
    fixture.git(&["add", "-f", "a.o", "gone.c"]);
    fs::remove_file(fixture.tree().join("gone.c")).unwrap();
    let expected = [".gitignore", "a/a.c", "a.c", "a.o", "new.c"].map(PathBuf::from);
    let files = |fixture: &Fixture| fixture.open().files(&fixture.stop).unwrap();
    assert_eq!(files(&fixture), expected);
    fixture.git(&["update-index", "--split-index"]);
    assert_eq!(files(&fixture), expected, "of a split index");
    let linked = fixture.folder.path().join("linked");
    fixture.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        linked.to_str().unwrap(),
    ]);
    let linked = Repository::open(&linked, &fixture.cache, &fixture.stop).unwrap();
    let expected = ["a/a.c", "a.c"].map(PathBuf::from);
    assert_eq!(linked.files(&fixture.stop).unwrap(), expected);
    assert_eq!(
        linked
            .between("HEAD~2", "HEAD", &fixture.stop)
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn a_shallow_clone_has_the_commits_that_are_there() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    let url = format!("file://{}", fixture.tree().display());
    let folder = fixture.folder.path();
    assert!(git(folder, &["clone", "-q", "--depth=2", &url, "shallow"]));
    let shallow = Repository::open(&folder.join("shallow"), &fixture.cache, &fixture.stop);
    let commits = shallow.unwrap().between("HEAD~1", "HEAD", &fixture.stop);
    assert_eq!(commits.unwrap().len(), 2);
}

#[test]
fn a_range_that_is_none_is_refused() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    let refused = |good, bad| fixture.between(good, bad).unwrap_err().to_string();
    assert!(refused("HEAD", "HEAD~1").contains("not an ancestor"));
    assert!(refused("no-such", "HEAD").contains("has no commit no-such"));
    assert!(refused("--output=x", "HEAD").contains("--output=x"));
    assert!(refused("HEAD", "HEAD:a.c").contains("has no commit HEAD:a.c"));
    assert!(!fixture.tree().join("x").exists());
    let empty = tempfile::tempdir().unwrap();
    let error = Repository::open(empty.path(), &fixture.cache, &fixture.stop).unwrap_err();
    assert!(matches!(error, Error::BadInput { .. }), "{error}");
}

/// A way of a repository to have a program run.
struct Trap {
    name: &'static str,
    /// Sets it up for this program.
    set: fn(&Fixture, &str),
    /// A git of the user's that runs the program.
    springs: &'static [&'static str],
}

/// A commit upon HEAD that claims a signature of this kind.
fn sign(fixture: &Fixture, kind: &str) {
    let raw = fixture.git(&["cat-file", "commit", "HEAD"]);
    let (head, message) = raw.split_once("\n\n").unwrap();
    let signature = format!("gpgsig -----BEGIN {kind}-----\n x\n -----END {kind}-----");
    fixture.write("signed", format!("{head}\n{signature}\n\n{message}\n"));
    let hash = fixture.git(&["hash-object", "-t", "commit", "-w", "signed"]);
    fixture.git(&["reset", "-q", "--hard", &hash]);
}

/// A repository that has to fetch a file from this remote.
fn promise(fixture: &Fixture, remote: &[(&str, &str)]) {
    let blob = fixture.git(&["rev-parse", "HEAD:a.c"]);
    let object = format!(".git/objects/{}/{}", &blob[..2], &blob[2..]);
    fs::remove_file(fixture.tree().join(object)).unwrap();
    fixture.config(&[
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
    ]);
    fixture.config(remote);
}

fn hook(fixture: &Fixture, folder: &str, program: &str) {
    fs::create_dir_all(fixture.tree().join(folder)).unwrap();
    for hook in [
        "post-checkout",
        "post-index-change",
        "reference-transaction",
    ] {
        fs::copy(program, fixture.tree().join(folder).join(hook)).unwrap();
    }
}

/// Attributes of the newest commit that name a driver.
fn attribute(fixture: &Fixture, attribute: &str) {
    fixture.write(".gitattributes", format!("*.c {attribute}\n"));
    fixture.git(&["add", ".gitattributes"]);
    fixture.git(&["commit", "-q", "-m", "attributes"]);
}

const LOG: &[&str] = &["log", "-1"];
const READ: &[&str] = &["cat-file", "blob", "HEAD:a.c"];
const LIST: &[&str] = &["ls-files"];
const WRITE: &[&str] = &["worktree", "add", "-q", "--detach", "../written"];
const SWITCH: &[&str] = &["checkout", "-q", "--detach", "HEAD~1"];

const TRAPS: [Trap; 17] = [
    Trap {
        name: "log.showSignature and gpg.program",
        set: |fixture, program| {
            sign(fixture, "PGP SIGNATURE");
            fixture.config(&[("log.showSignature", "true"), ("gpg.program", program)]);
        },
        springs: LOG,
    },
    Trap {
        name: "log.showSignature and gpg.ssh.program",
        set: |fixture, program| {
            sign(fixture, "SSH SIGNATURE");
            fixture.config(&[
                ("log.showSignature", "true"),
                ("gpg.ssh.allowedSignersFile", "signed"),
                ("gpg.ssh.program", program),
            ]);
        },
        springs: LOG,
    },
    Trap {
        name: "include.path",
        set: |fixture, program| {
            sign(fixture, "PGP SIGNATURE");
            let included = format!("[log]\nshowSignature\n[gpg]\nprogram = {program}\n");
            fixture.write("included", included);
            fixture.config(&[("include.path", "../included")]);
        },
        springs: LOG,
    },
    Trap {
        name: "includeIf",
        set: |fixture, program| {
            fixture.write("included", format!("[core]\nfsmonitor = {program}\n"));
            fixture.config(&[("includeIf.gitdir:**.path", "../included")]);
        },
        springs: LIST,
    },
    Trap {
        name: "a promisor remote by ext",
        set: |fixture, program| {
            let url = format!("ext::{program} %S");
            promise(
                fixture,
                &[
                    ("protocol.ext.allow", "always"),
                    ("remote.origin.url", &url),
                ],
            );
        },
        springs: READ,
    },
    Trap {
        name: "a promisor remote by file, and its uploadpack",
        set: |fixture, program| {
            promise(
                fixture,
                &[
                    ("protocol.file.allow", "always"),
                    ("remote.origin.url", "."),
                    ("remote.origin.uploadpack", program),
                ],
            );
        },
        springs: READ,
    },
    Trap {
        name: "a promisor remote by ssh, and core.sshCommand",
        set: |fixture, program| {
            promise(
                fixture,
                &[
                    ("protocol.ssh.allow", "always"),
                    ("core.sshCommand", program),
                    ("remote.origin.url", "ssh://nowhere.invalid/x"),
                ],
            );
        },
        springs: READ,
    },
    Trap {
        name: "a promisor remote by git, and core.gitProxy",
        set: |fixture, program| {
            promise(
                fixture,
                &[
                    ("protocol.git.allow", "always"),
                    ("core.gitProxy", program),
                    ("remote.origin.url", "git://nowhere.invalid/x"),
                ],
            );
        },
        springs: READ,
    },
    Trap {
        name: "core.fsmonitor",
        set: |fixture, program| fixture.config(&[("core.fsmonitor", program)]),
        springs: LIST,
    },
    Trap {
        name: "the configuration of a worktree",
        set: |fixture, program| {
            fixture.config(&[("extensions.worktreeConfig", "true")]);
            fixture.git(&["config", "--worktree", "core.fsmonitor", program]);
        },
        springs: LIST,
    },
    Trap {
        name: "a .git that is a file",
        set: |fixture, program| {
            fixture.config(&[("core.fsmonitor", program)]);
            let (from, to) = (fixture.tree().join(".git"), fixture.folder.path().join("g"));
            fs::rename(from, to).unwrap();
            fixture.write(".git", "gitdir: ../g\n");
        },
        springs: LIST,
    },
    Trap {
        name: "a smudge filter",
        set: |fixture, program| {
            attribute(fixture, "filter=f");
            fixture.config(&[("filter.f.smudge", program)]);
        },
        springs: WRITE,
    },
    Trap {
        name: "a filter process",
        set: |fixture, program| {
            attribute(fixture, "filter=f");
            fixture.config(&[("filter.f.process", program)]);
        },
        springs: WRITE,
    },
    Trap {
        name: "a textconv driver",
        set: |fixture, program| {
            attribute(fixture, "diff=d");
            fixture.config(&[("diff.d.textconv", program)]);
        },
        springs: &["log", "-p", "-2"],
    },
    Trap {
        name: "hooks",
        set: |fixture, program| hook(fixture, ".git/hooks", program),
        springs: SWITCH,
    },
    Trap {
        name: "core.hooksPath",
        set: |fixture, program| {
            hook(fixture, "mine", program);
            fixture.config(&[("core.hooksPath", "mine")]);
        },
        springs: SWITCH,
    },
    Trap {
        name: "core.editor",
        set: |fixture, program| fixture.config(&[("core.editor", program)]),
        springs: &["commit", "--allow-empty"],
    },
];

#[test]
fn nothing_runs_that_a_repository_names() {
    for trap in TRAPS {
        let Some(fixture) = Fixture::new() else {
            skip!("git is not installed");
        };
        let program = fixture.folder.path().join("program");
        let mark = fixture.folder.path().join("ran");
        fs::write(&program, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        (trap.set)(&fixture, program.to_str().unwrap());
        fixture.use_all();
        assert!(!mark.exists(), "{} runs", trap.name);
        // The control: set as it is, it does run for a git that heeds it.
        let _ = output(&fixture.tree(), trap.springs);
        assert!(mark.exists(), "{} would never run", trap.name);
    }
}

#[test]
fn a_commit_is_the_one_of_its_name_whatever_replaces_it() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    let tree = ["log", "-1", "--format=%T", "HEAD"];
    let count = ["rev-list", "--count", "HEAD"];
    let (honest, first) = (fixture.git(&tree), fixture.git(&["rev-parse", "HEAD~2"]));
    let is_honest = |what: &str| {
        let commits = fixture.between("HEAD~2", "HEAD").expect(what);
        let hash = fixture.git(&["rev-parse", "HEAD"]);
        assert_eq!((commits.len(), &commits[2].hash), (3, &hash), "{what}");
        assert_eq!(commits[2].tree, honest, "{what}");
    };
    fixture.git(&["replace", "HEAD", &first]);
    assert_ne!(fixture.git(&tree), honest);
    is_honest("a replace ref");
    fixture.git(&["replace", "-d", "HEAD"]);

    fixture.write(
        ".git/info/grafts",
        fixture.git(&["rev-parse", "HEAD"]) + "\n",
    );
    assert_eq!(fixture.git(&count), "1");
    is_honest("a graft");
    fs::remove_file(fixture.tree().join(".git/info/grafts")).unwrap();

    fixture.git(&["commit-graph", "write", "--reachable"]);
    let graph = fixture.tree().join(".git/objects/info/commit-graph");
    let other = fixture.git(&["rev-parse", "HEAD~2^{tree}"]);
    let mut bytes = fs::read(&graph).unwrap();
    let at = position(&bytes, &digits(&honest));
    bytes[at..at + 20].copy_from_slice(&digits(&other));
    fs::remove_file(&graph).unwrap();
    fs::write(&graph, bytes).unwrap();
    assert_eq!(fixture.git(&tree), other);
    is_honest("a commit graph");
}

/// The bytes that hexadecimal digits stand for.
fn digits(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

fn position(bytes: &[u8], sought: &[u8]) -> usize {
    let mut windows = bytes.windows(sought.len());
    windows.position(|window| window == sought).unwrap()
}

/// Packs all objects, and makes the index of the pack (gitformat-pack(5), version 2) say that each of two is the other.
fn exchange(fixture: &Fixture, one: &str, other: &str) {
    fixture.git(&["repack", "-adq"]);
    let packs = fs::read_dir(fixture.tree().join(".git/objects/pack")).unwrap();
    let mut paths = packs.map(|entry| entry.unwrap().path());
    let index = paths.find(|path| path.extension().is_some_and(|end| end == "idx"));
    let index = index.unwrap();
    let mut bytes = fs::read(&index).unwrap();
    let names = 8 + 4 * 256;
    let last = bytes[names - 4..names].try_into().unwrap();
    let count = u32::from_be_bytes(last) as usize;
    let offset = |name: &str| {
        let number = (position(&bytes[names..], &digits(name))) / 20;
        names + count * (20 + 4) + number * 4
    };
    let (one, other) = (offset(one), offset(other));
    for byte in 0..4 {
        bytes.swap(one + byte, other + byte);
    }
    fs::remove_file(&index).unwrap();
    fs::write(&index, bytes).unwrap();
}

#[test]
fn a_pack_that_holds_one_thing_under_the_name_of_another_is_refused() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    let [one, other] = ["HEAD~2:a.c", "HEAD~1:a.c"].map(|name| fixture.git(&["rev-parse", name]));
    exchange(&fixture, &one, &other);
    assert_eq!(fixture.git(&["cat-file", "blob", "HEAD~2:a.c"]), "two");
    let commits = fixture.between("HEAD~2", "HEAD").unwrap();
    let error = fixture.switch(&commits[0]).unwrap_err().to_string();
    assert!(error.contains("whose files are"), "{error}");
    fixture.switch(&commits[2]).unwrap();

    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    fixture.write("a.c", "four");
    fixture.commit("four");
    let [good, one, other] =
        ["HEAD~3", "HEAD~2", "HEAD~1"].map(|name| fixture.git(&["rev-parse", name]));
    exchange(&fixture, &one, &other);
    let error = fixture.between(&good, "HEAD").unwrap_err().to_string();
    assert!(error.contains("holds the commit"), "{error}");
}

#[test]
fn files_are_what_a_commit_holds_whatever_its_attributes_say() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    let text = "$Id$ one\ntwo\n";
    fixture.write("a.c", text);
    attribute(&fixture, "ident text eol=crlf working-tree-encoding=UTF-16");
    fixture.git(&["checkout-index", "-f", "a.c"]);
    assert_ne!(
        fs::read(fixture.tree().join("a.c")).unwrap(),
        text.as_bytes()
    );
    let commits = fixture.between("HEAD~1", "HEAD").unwrap();
    let checkout = fixture.switch(&commits[1]).unwrap();
    let blob = fixture.git(&["cat-file", "blob", "HEAD:a.c"]);
    let written = fs::read_to_string(checkout.tree().join("a.c")).unwrap();
    assert_eq!(written.trim(), blob);
}

#[test]
fn an_index_with_a_path_outside_the_tree_is_refused() {
    let Some(fixture) = Fixture::new() else {
        skip!("git is not installed");
    };
    fs::create_dir(fixture.tree().join("qq")).unwrap();
    fixture.write("qq/outside", "");
    fs::write(fixture.folder.path().join("outside"), "").unwrap();
    fixture.git(&["add", "-A"]);
    let index = fixture.tree().join(".git/index");
    let mut bytes = fs::read(&index).unwrap();
    let at = position(&bytes, b"qq/outside");
    bytes[at..at + 2].copy_from_slice(b"..");
    fs::write(&index, bytes).unwrap();
    assert!(fixture.git(&["ls-files"]).contains("../outside"));
    let error = fixture.open().files(&fixture.stop).unwrap_err().to_string();
    assert!(
        error.contains("its index has the path ../outside"),
        "{error}"
    );
}
