//! Git repositories of the user's. Nothing in them is run, and nothing is trusted that its name does not prove.
//!
//! Two questions are asked in a repository, both by rev-parse: where its files are, and which commit a name stands for.
//! All else is read by a repository of pagetoll's own, which borrows the objects and has its own configuration: no
//! filter, hook, monitor, signature or remote of the user's is known there. Commits are compared with their names when
//! they are read, and trees when they are written (the module `object`), so that neither replace refs, grafts, commit
//! graphs nor pack indexes can put one thing under the name of another.
//!
//! Git runs programs and follows links for more settings than those that `CONFIGURATION` lists (git-config(1)); these are
//! the ones that rev-parse, or git's own start, might come to.

mod object;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::{Stop, input};
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Scratch};
use pagetoll_host::process::{Output, Run, run_to_end};

/// Time limit of commands that read history or write a tree. Assumed: they take a minute with a cold disk.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Size limit of files that are copied from a repository, in bytes. Assumed: `info/exclude` and `shallow` have some
/// lines.
const COPIED: u64 = 1 << 20;
/// Command-line settings, which override those of any file. The user names the tree, so its owner makes no difference
/// (`safe.directory`).
const CONFIGURATION: [&str; 10] = [
    "safe.directory=*",
    "core.commitGraph=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.sshCommand=false",
    "credential.helper=",
    "log.showSignature=false",
    "protocol.allow=never",
];
/// Environment without configuration of the system or the user, prompts, pagers, transports, fetched, replaced or
/// grafted objects, and optional writes (git(1)).
const ENVIRONMENT: [(&str, &str); 15] = [
    ("HOME", "/nonexistent"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
];
/// Attributes that override those of every tree: files are written as the commit holds them (gitattributes(5)).
const ATTRIBUTES: &str = "* -text -ident !eol !filter !working-tree-encoding\n";

/// A commit whose hash was checked against its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// SHA-1, 40 hexadecimal digits.
    pub hash: String,
    /// SHA-1 of its tree.
    pub(crate) tree: String,
    /// The first line of its message.
    pub subject: String,
}

/// A repository of the user's, read by a temporary one of pagetoll's own.
#[derive(Debug)]
pub struct Repository {
    /// Path on the command line.
    folder: PathBuf,
    own: Scratch,
}

/// A folder that holds the files of one commit of a repository at a time.
#[derive(Debug)]
pub struct Checkout {
    repository: Repository,
    place: PathBuf,
}

/// A git that reads no configuration file but the repository's.
fn git() -> Run {
    let configuration = CONFIGURATION.iter().flat_map(|setting| ["-c", setting]);
    let run = Run::new("git").arg("--no-pager").args(configuration);
    let set = |run: Run, (name, value)| run.env(name, value);
    ENVIRONMENT.into_iter().fold(run, set)
}

/// Lines that a command prints.
fn lines(output: &Output) -> Vec<OsString> {
    let lines = output.stdout.split(|&byte| byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| OsString::from_vec(line.to_vec()))
        .collect()
}

impl Repository {
    /// Opens the repository that a folder is in.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a folder of no repository, and for one whose objects have names other than by SHA-1;
    /// [`Error::Environment`] without git; [`Error::Io`]; [`Error::Stopped`].
    pub fn open(folder: &Path, cache: &Cache, stop: &Stop) -> Result<Self, Error> {
        let repository = Self {
            folder: folder.to_owned(),
            own: cache.scratch(),
        };
        let format = repository.ask(&["rev-parse", "--show-object-format"], stop)?;
        if lines(&format) != ["sha1"] {
            return Err(repository.refused(
                "has objects with names other than SHA-1",
                "a repository of Linux",
            ));
        }
        let init = git().args(["init", "--quiet", "--bare", "--template=", "--"]);
        run_to_end(&init.arg(repository.own.path()), LIMIT, stop)?;
        let [objects, shallow, exclude] =
            repository.paths(["objects", "shallow", "info/exclude"], stop)?;
        let objects = objects
            .canonicalize()
            .map_err(Error::io("read", &objects))?;
        let mut alternates = objects.into_os_string().into_vec();
        alternates.push(b'\n');
        repository.write("objects/info/alternates", &alternates)?;
        repository.write("info/attributes", ATTRIBUTES.as_bytes())?;
        repository.copy(&shallow, "shallow")?;
        repository.copy(&exclude, "info/exclude")?;
        Ok(repository)
    }

    /// Runs a git command in the user's repository.
    fn ask(&self, arguments: &[&str], stop: &Stop) -> Result<Output, Error> {
        let run = git().arg("-C").arg(&self.folder).args(arguments);
        run_to_end(&run, LIMIT, stop).map_err(|error| match error {
            Error::Process(failed) if !failed.stderr_tail.is_empty() => {
                let said = failed.stderr_tail.lines().next().unwrap_or_default();
                self.refused(said, "a git repository that has both commits")
            }
            other => other,
        })
    }

    fn refused(&self, problem: &str, expected: &str) -> Error {
        Error::BadInput {
            what: "repository",
            value: self.folder.display().to_string(),
            problem: problem.to_owned(),
            expected: expected.to_owned(),
        }
    }

    /// Paths of files of the user's repository, or of the worktree where it has its own.
    fn paths<const N: usize>(&self, names: [&str; N], stop: &Stop) -> Result<[PathBuf; N], Error> {
        let asked = names.map(|name| ["--git-path", name]).concat();
        let said = self.ask(&[&["rev-parse"], asked.as_slice()].concat(), stop)?;
        let paths = lines(&said).into_iter().map(|path| self.folder.join(path));
        let paths: Vec<_> = paths.collect();
        paths
            .try_into()
            .map_err(|_| self.refused("has a path with a line break", "another path"))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.own.path().join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        }
        fs::write(&path, bytes).map_err(Error::io("write", &path))
    }

    /// Copies a small file that the user's repository may have.
    fn copy(&self, path: &Path, name: &str) -> Result<(), Error> {
        match input::read(path, COPIED) {
            Ok(bytes) => self.write(name, &bytes),
            Err(error) if error.is_absent() => Ok(()),
            Err(error) => Err(self.refused(&format!("{}: {error}", path.display()), "that file")),
        }
    }

    /// A git in pagetoll's own repository.
    fn own(&self) -> Run {
        git().env("GIT_DIR", self.own.path())
    }

    /// GOOD, and the commits after it up to BAD, along first parents.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a name without a commit, where GOOD is not an ancestor of BAD, and for a commit whose
    /// content does not
    /// match its name; those of git.
    pub fn between(&self, good: &str, bad: &str, stop: &Stop) -> Result<Vec<Commit>, Error> {
        let [good, bad] = [self.named(good, stop)?, self.named(bad, stop)?];
        let line = ["--reverse", "--first-parent", "--ancestry-path"];
        let range = format!("{good}..{bad}");
        let list = self.own().arg("rev-list").args(line).args([&range, "--"]);
        let after = run_to_end(&list, LIMIT, stop)?.text();
        if after.is_empty() {
            return Err(Error::BadInput {
                what: "commits",
                value: format!("{good} {bad}"),
                problem: "the first is not an ancestor of the second".into(),
                expected: "the good commit first".into(),
            });
        }
        // cat-file reads the names from a file: they may be more than a pipe holds.
        self.write("names", format!("{good}\n{after}").as_bytes())?;
        let path = self.own.path().join("names");
        let names = File::open(&path).map_err(Error::io("read", &path))?;
        let print = self.own().args(["cat-file", "--batch"]);
        let printed = print.start_with(names.into())?.finish(LIMIT, stop)?;
        object::commits(&printed.stdout).map_err(|problem| self.forged(&problem))
    }

    /// The commit that a name stands for in the user's repository.
    fn named(&self, name: &str, stop: &Stop) -> Result<String, Error> {
        let commit = format!("{name}^{{commit}}");
        let asked = ["rev-parse", "--verify", "--end-of-options", &commit];
        let said = self.ask(&asked, stop).map_err(|error| match error {
            Error::BadInput { problem, .. } => {
                let expected = "a git repository that has both commits";
                self.refused(&format!("has no commit {name}: {problem}"), expected)
            }
            other => other,
        })?;
        let hash = lines(&said).pop().unwrap_or_default();
        Ok(hash.to_string_lossy().into_owned())
    }

    fn forged(&self, problem: &str) -> Error {
        self.refused(problem, "objects that match their names (git fsck)")
    }

    /// The text of a file of a commit.
    ///
    /// # Errors
    /// [`Error::Process`] of git; [`Error::Stopped`].
    pub(crate) fn text(&self, commit: &Commit, file: &str, stop: &Stop) -> Result<String, Error> {
        let blob = format!("{}:{file}", commit.tree);
        let show = self.own().args(["cat-file", "blob", &blob]);
        Ok(run_to_end(&show, LIMIT, stop)?.text())
    }

    /// The path of the user's repository, as on the command line.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Files of the work tree: those that git tracks, and others that it does not ignore, as sorted paths below the
    /// tree.
    ///
    /// # Errors
    /// [`Error::BadInput`] for an index with a path that leaves the tree; those of git.
    pub(crate) fn files(&self, stop: &Stop) -> Result<Vec<PathBuf>, Error> {
        let [index] = self.paths(["index"], stop)?;
        self.link_shared_index(&index)?;
        let kinds = ["--cached", "--others", "--exclude-standard"];
        let list = self.own().env("GIT_WORK_TREE", &self.folder);
        let list = list.env("GIT_INDEX_FILE", &index);
        let list = list.arg("-C").arg(&self.folder).args(["ls-files", "-z"]);
        let listed = run_to_end(&list.args(kinds), LIMIT, stop)?.stdout;
        let names = listed.split(|&byte| byte == 0);
        let paths = names.map(|name| PathBuf::from(OsString::from_vec(name.to_vec())));
        let paths: Vec<_> = paths.filter(|path| !path.as_os_str().is_empty()).collect();
        if let Some(path) = paths.iter().find(|path| !is_below(path)) {
            let problem = format!("its index has the path {}", path.display());
            return Err(self.refused(&problem, "paths below the tree"));
        }
        let is_there = |path: &PathBuf| self.folder.join(path).symlink_metadata().is_ok();
        let mut files: Vec<_> = paths.into_iter().filter(is_there).collect();
        files.sort_unstable();
        files.dedup();
        Ok(files)
    }

    /// Links the shared part of a split index (git-update-index(1)) into pagetoll's repository, where git looks for it.
    fn link_shared_index(&self, index: &Path) -> Result<(), Error> {
        let entries = index.parent().map(fs::read_dir);
        for entry in entries.into_iter().flatten().flatten().flatten() {
            let name = entry.file_name();
            if name.as_bytes().starts_with(b"sharedindex.") {
                let link = self.own.path().join(&name);
                std::os::unix::fs::symlink(entry.path(), &link)
                    .map_err(Error::io("write", &link))?;
            }
        }
        Ok(())
    }
}

/// True if a path has only plain names below the tree, and no `.git`.
fn is_below(path: &Path) -> bool {
    path.components().all(|part| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        _ => false,
    })
}

impl Checkout {
    /// A place for files of this repository: an empty folder.
    #[must_use]
    pub fn new(repository: Repository, place: &Path) -> Self {
        Self {
            repository,
            place: place.to_owned(),
        }
    }

    pub(crate) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Folder of the tree and of what is built from it.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// The folder with the files of the commit that was switched to last.
    pub(crate) fn tree(&self) -> PathBuf {
        self.place.join("tree")
    }

    /// Writes the files of a commit, those that differ from the commit before, and compares all with the commit's name.
    ///
    /// # Errors
    /// [`Error::BadInput`] for files that do not match the commit; [`Error::Process`] of git; [`Error::Stopped`].
    pub(crate) fn switch(&self, commit: &Commit, stop: &Stop) -> Result<(), Error> {
        let (repository, tree) = (&self.repository, self.tree());
        fs::create_dir_all(&tree).map_err(Error::io("create", &tree))?;
        let read = repository.own().env("GIT_WORK_TREE", &tree);
        let read = read.args(["read-tree", "-u", "--reset", &commit.tree]);
        run_to_end(&read, LIMIT, stop)?;
        let written = object::tree(&tree, stop)?;
        if written != commit.tree {
            let Commit { hash, tree, .. } = commit;
            let problem = format!("commit {hash} has the tree {tree}, whose files are {written}");
            return Err(repository.forged(&problem));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
