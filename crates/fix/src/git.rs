//! A git repository of the user's, which is read: files of a commit are written elsewhere, by an index of their own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_images::Error;
use pagetoll_images::process::{Run, run_to_end};

/// Limit of what reads history or writes a tree. Assumed: a minute, with a cold disk.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The user says that this tree is meant, so whose it is makes no difference. Hence nothing that its
/// `.git/config` names is run: of what git-config(1) has, `ls-files` could run a file system monitor or fetch objects.
const UNCONFIGURED: [&str; 11] = [
    "--no-pager",
    "-c",
    "safe.directory=*",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "protocol.allow=never",
    "-c",
    "core.sshCommand=false",
];

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name, 40 hexadecimal digits.
    pub hash: String,
    /// The name of all that its files hold.
    pub(crate) tree: String,
    /// The first line of its message.
    pub subject: String,
}

/// Files of one commit of a repository at a time.
#[derive(Debug)]
pub struct Checkout {
    repository: PathBuf,
    place: PathBuf,
}

/// A git in this repository, without its configuration's programs.
pub(crate) fn in_tree(tree: &Path) -> Run {
    Run::new("git")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args(UNCONFIGURED)
        .arg("-C")
        .arg(tree)
}

/// GOOD, and the commits that follow it up to BAD, as a line of first parents has them.
///
/// # Errors
/// [`Error::BadInput`] for what is no repository or no commit, and where GOOD is not before BAD; those of git.
pub fn between(tree: &Path, good: &str, bad: &str, stop: &Stop) -> Result<Vec<Commit>, Error> {
    let log = |options: &[&str], range: &str| {
        let run = in_tree(tree)
            .args(["log", "--format=%H %T %s"])
            .args(options);
        let run = run.args(["--end-of-options", range, "--"]);
        let text = run_to_end(&run, LIMIT, stop)
            .map_err(|error| unknown(tree, error))?
            .text();
        Ok::<Vec<_>, Error>(text.lines().filter_map(commit).collect())
    };
    let mut commits = log(&["-1"], good)?;
    let line = ["--reverse", "--first-parent", "--ancestry-path"];
    let after = log(&line, &format!("{good}..{bad}"))?;
    if after.is_empty() {
        return Err(Error::BadInput {
            what: "commits",
            value: format!("{good} {bad}"),
            problem: "the first is no ancestor of the second".into(),
            expected: "the good commit first".into(),
        });
    }
    commits.extend(after);
    Ok(commits)
}

/// What git says of a folder or a name that it does not know.
fn unknown(tree: &Path, error: Error) -> Error {
    match error {
        Error::Process(failed) if !failed.stderr_tail.is_empty() => Error::BadInput {
            what: "--git",
            value: tree.display().to_string(),
            problem: failed
                .stderr_tail
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
            expected: "a git repository that has both commits".into(),
        },
        other => other,
    }
}

fn commit(line: &str) -> Option<Commit> {
    let (hash, rest) = line.split_once(' ')?;
    let (tree, subject) = rest.split_once(' ')?;
    Some(Commit {
        hash: hash.to_owned(),
        tree: tree.to_owned(),
        subject: subject.to_owned(),
    })
}

impl Checkout {
    /// A place for files of this repository: an empty folder.
    #[must_use]
    pub fn new(repository: &Path, place: &Path) -> Self {
        Self {
            repository: repository.to_owned(),
            place: place.to_owned(),
        }
    }

    pub(crate) fn repository(&self) -> &Path {
        &self.repository
    }

    /// Where its files, its index and more are.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }

    /// The folder with the files of the commit that was switched to last.
    pub(crate) fn tree(&self) -> PathBuf {
        self.place.join("tree")
    }

    /// Writes the files of a commit, those that differ from the commit before.
    ///
    /// # Errors
    /// [`Error::Process`] of git; [`Error::Stopped`].
    pub(crate) fn switch(&self, commit: &Commit, stop: &Stop) -> Result<(), Error> {
        let (own, tree) = (self.own(stop)?, self.tree());
        std::fs::create_dir_all(&tree).map_err(Error::io("create", &tree))?;
        let mut work_tree = OsString::from("--work-tree=");
        work_tree.push(tree);
        let read = in_tree(&own)
            .arg(work_tree)
            .args(["read-tree", "-u", "--reset", &commit.hash]);
        run_to_end(&read, LIMIT, stop).map(drop)
    }

    /// A repository without a configuration, which borrows the user's objects: filters and line ends that theirs asks for
    /// would be programs that run, and files that differ from the commit's.
    fn own(&self, stop: &Stop) -> Result<PathBuf, Error> {
        let own = self.place.join("repository");
        if own.is_dir() {
            return Ok(own);
        }
        let asked = in_tree(&self.repository).args(["rev-parse", "--git-path", "objects"]);
        let objects = run_to_end(&asked, LIMIT, stop)?.text();
        let objects = self.repository.join(objects.trim_end_matches('\n'));
        let objects = objects
            .canonicalize()
            .map_err(Error::io("read", &objects))?;
        std::fs::create_dir_all(&self.place).map_err(Error::io("create", &self.place))?;
        let init = in_tree(&self.place).args(["init", "--quiet", "--bare", "--template="]);
        run_to_end(&init.arg(&own), LIMIT, stop)?;
        let info = own.join("objects/info");
        std::fs::create_dir_all(&info).map_err(Error::io("create", &info))?;
        let alternates = info.join("alternates");
        let mut line = objects.into_os_string().into_vec();
        line.push(b'\n');
        std::fs::write(&alternates, line).map_err(Error::io("write", &alternates))?;
        Ok(own)
    }

    /// What a file of a commit holds; it need not have been switched to.
    ///
    /// # Errors
    /// As [`Checkout::switch`].
    pub(crate) fn text(&self, commit: &Commit, file: &str, stop: &Stop) -> Result<String, Error> {
        let blob = format!("{}:{file}", commit.hash);
        let show = in_tree(&self.repository).args(["cat-file", "blob", &blob]);
        Ok(run_to_end(&show, LIMIT, stop)?.text())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// Whether a git in this folder succeeds.
    pub(crate) fn git(folder: &Path, arguments: &[&str]) -> bool {
        let who = ["-c", "user.name=n", "-c", "user.email=e"];
        let mut command = Command::new("git");
        let ran = command
            .arg("-C")
            .arg(folder)
            .args(who)
            .args(arguments)
            .output();
        ran.is_ok_and(|output| output.status.success())
    }

    /// Three commits: a file changes, and another one goes.
    fn repository() -> Option<tempfile::TempDir> {
        let folder = tempfile::tempdir().unwrap();
        if !git(folder.path(), &["init", "-q"]) {
            return None;
        }
        for (text, gone) in [("one", false), ("two", false), ("three", true)] {
            fs::write(folder.path().join("a.c"), text).unwrap();
            fs::write(folder.path().join("b.c"), "b").unwrap();
            if gone {
                fs::remove_file(folder.path().join("b.c")).unwrap();
            }
            assert!(git(folder.path(), &["add", "-A"]));
            assert!(git(folder.path(), &["commit", "-q", "-m", text]));
        }
        Some(folder)
    }

    #[test]
    fn commits_are_written_elsewhere_one_after_the_other() {
        let Some(repository) = repository() else {
            pagetoll_test_support::skip!("git is not installed");
        };
        fs::write(repository.path().join("a.c"), "not committed").unwrap();
        let stop = Stop::new();
        let commits = between(repository.path(), "HEAD~2", "HEAD", &stop).unwrap();
        let subjects: Vec<_> = commits
            .iter()
            .map(|commit| commit.subject.as_str())
            .collect();
        assert_eq!(subjects, ["one", "two", "three"]);
        let place = tempfile::tempdir().unwrap();
        let checkout = Checkout::new(repository.path(), place.path());
        for (commit, files) in [(&commits[2], 1), (&commits[0], 2)] {
            checkout.switch(commit, &stop).unwrap();
            let tree = checkout.tree();
            assert_eq!(
                fs::read_to_string(tree.join("a.c")).unwrap(),
                commit.subject
            );
            assert_eq!(fs::read_dir(tree).unwrap().count(), files);
        }
        let own = fs::read_to_string(repository.path().join("a.c")).unwrap();
        assert_eq!(own, "not committed");
        assert!(
            git(repository.path(), &["diff", "--cached", "--quiet"]),
            "its index is as it was"
        );
    }

    #[test]
    fn neither_filters_nor_line_ends_of_the_repositorys_configuration_apply() {
        let Some(repository) = repository() else {
            pagetoll_test_support::skip!("git is not installed");
        };
        let folder = repository.path();
        fs::write(folder.join("a.c"), "one\ntwo\n").unwrap();
        fs::write(folder.join(".gitattributes"), "*.c filter=f text\n").unwrap();
        assert!(git(folder, &["add", "-A"]) && git(folder, &["commit", "-q", "-m", "four"]));
        let mark = folder.join("mark");
        let filter = format!("touch {}; cat", mark.display());
        assert!(git(folder, &["config", "filter.f.smudge", &filter]));
        assert!(git(folder, &["config", "core.autocrlf", "true"]));
        // As git writes it where the configuration is heeded.
        fs::remove_file(folder.join("a.c")).unwrap();
        assert!(git(folder, &["checkout", "a.c"]) && mark.exists());
        fs::remove_file(&mark).unwrap();
        let stop = Stop::new();
        let commits = between(folder, "HEAD~1", "HEAD", &stop).unwrap();
        let place = tempfile::tempdir().unwrap();
        let checkout = Checkout::new(folder, place.path());
        checkout.switch(&commits[1], &stop).unwrap();
        let text = fs::read_to_string(checkout.tree().join("a.c")).unwrap();
        assert_eq!((text.as_str(), mark.exists()), ("one\ntwo\n", false));
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        let Some(repository) = repository() else {
            pagetoll_test_support::skip!("git is not installed");
        };
        let refused = |good, bad| {
            between(repository.path(), good, bad, &Stop::new())
                .unwrap_err()
                .to_string()
        };
        assert!(
            refused("HEAD", "HEAD~1").contains("no ancestor"),
            "{}",
            refused("HEAD", "HEAD~1")
        );
        assert!(refused("no-such", "HEAD").contains("no-such"));
        assert!(refused("--output=x", "HEAD").contains("--output=x"));
        assert!(!repository.path().join("x").exists());
        let empty = tempfile::tempdir().unwrap();
        let error = between(empty.path(), "HEAD~1", "HEAD", &Stop::new()).unwrap_err();
        assert!(matches!(error, Error::BadInput { .. }), "{error}");
    }
}
