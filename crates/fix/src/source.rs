//! Sources of kernels: Debian's `linux-source`, unpacked into the cache, or a tree of the user's own, which is read and
//! never written.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::{Stop, input};
use pagetoll_bill::Package;
use pagetoll_host::Error;
use pagetoll_host::Surroundings;
use pagetoll_host::cache::{Cache, Entry, require_room};
use pagetoll_host::digest::{sha256_of, sha256_of_file};
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::Tool;
use pagetoll_images::apt::resolve::SourcePackages;
use pagetoll_images::apt::{Archive, Freshness};
use pagetoll_images::deb;

use crate::error::{FixError, refused};
use crate::git::{Checkout, Commit, Repository};
use crate::spec::Spec;
use crate::target::Target;

/// Time limit of unpacking. Assumed: 15 s on an idle machine.
const UNPACK_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Disk space of a package and its files while both exist: 1.8 GiB for Linux 7.3, and 160 MiB.
const SOURCE_ROOM: u64 = 2200 << 20;
/// Files that a build leaves in its source tree.
const BUILT: [&str; 3] = [".config", "include/config", "include/generated"];

/// Limit of a Makefile, in bytes: Linux 7.3's has 80 KiB.
const MAKEFILE: u64 = 4 << 20;

const NO_LINUX: &str = "its Makefile is not Linux's: it sets no VERSION";

/// An unpacked kernel source, and its release.
#[derive(Debug)]
pub(crate) struct Source {
    /// Absolute path; below the cache unless it is the user's own.
    pub(crate) tree: Entry,
    /// Paths below the tree; `None` is all of them.
    pub(crate) files: Option<Vec<PathBuf>>,
    /// SHA-256 of the files, or the git tree.
    pub(crate) content: String,
    /// Version by its Makefile, such as `6.1.192`.
    pub(crate) version: String,
    /// Debian's configuration for this series.
    pub(crate) config: String,
    /// Packages of the tree and the configuration.
    pub(crate) packages: Vec<Package>,
}

/// The user's own source, where there is one, with Debian's configuration; else all of it is Debian's.
pub(crate) fn obtain(
    spec: &Spec,
    own: Option<Source>,
    freshness: Freshness,
    surroundings: Surroundings<'_>,
) -> Result<Source, FixError> {
    let Surroundings { cache, stop, .. } = surroundings;
    let archive = Archive::open(cache, spec.suite(), spec.arch(), freshness, stop)?;
    let packages = archive
        .index()
        .source(&spec.series.version)
        .map_err(|problem| {
            let problem = format!("{}: {problem}", archive.suite());
            let expected = "a suite with the source of that series, after an @";
            refused(spec, problem, expected.into())
        })?;
    let config = config(
        Target::for_arch(spec.arch()),
        &archive,
        &packages,
        surroundings,
    )?;
    let mut source = match own {
        Some(own) => own,
        None => from_debian(&archive, &packages, cache, stop)?,
    };
    source.packages.push(packages.config.package);
    Ok(Source { config, ..source })
}

fn from_debian(
    archive: &Archive<'_>,
    packages: &SourcePackages,
    cache: &Cache,
    stop: &Stop,
) -> Result<Source, FixError> {
    let package = &packages.source.package;
    let tree = cache.entry(&format!("fix/source/{}", package.sha256), stop, |place| {
        require_room(cache.root(), SOURCE_ROOM, "unpack a kernel's source")?;
        let deb = archive.fetch_one(&packages.source, stop)?;
        unpack(&deb, place, cache, stop)
    })?;
    Ok(Source {
        version: version(&tree)?,
        tree,
        files: None,
        content: package.sha256.clone(),
        config: String::new(),
        packages: vec![package.clone()],
    })
}

/// The package holds one archive, `usr/src/linux-source-6.1.tar.xz`, of one folder.
fn unpack(deb: &Entry, place: &Path, cache: &Cache, stop: &Stop) -> Result<(), Error> {
    let scratch = cache.scratch();
    deb::unpack_into(scratch.path(), std::slice::from_ref(deb), stop)?;
    let sources = scratch.path().join("usr/src");
    let mut files = fs::read_dir(&sources)
        .map_err(Error::io("read", &sources))?
        .flatten()
        .map(|entry| entry.path());
    let archive = files
        .find(|path| path.to_string_lossy().ends_with(".tar.xz"))
        .ok_or_else(|| Error::Environment {
            what: format!("{} holds no *.tar.xz", sources.display()),
            remedy: "Debian's package has changed; give a tree by --source".into(),
        })?;
    fs::create_dir(place).map_err(Error::io("create", place))?;
    let untar = Run::new(Tool::Tar.program()).arg("-xJf").arg(archive);
    let untar = untar.args(["--strip-components=1", "-C"]).arg(place);
    run_to_end(&untar, UNPACK_LIMIT, stop)
        .map_err(|error| error.or_no_space("unpack a kernel's source to", place))
        .map(drop)
}

/// Debian's configuration for ordinary machines.
fn config(
    target: &Target,
    archive: &Archive<'_>,
    packages: &SourcePackages,
    surroundings: Surroundings<'_>,
) -> Result<String, FixError> {
    let Surroundings { cache, stop, .. } = surroundings;
    let deb = archive.fetch_one(&packages.config, stop)?;
    let folder = deb::unpacked(cache, &deb, &packages.config.package.sha256, stop)?;
    let name = &packages.config.package.name;
    let path = folder.file(format!("usr/src/{name}/{}.xz", target.debian))?;
    let unpack = Run::new(Tool::Xz.program()).arg("-dc").arg(path);
    Ok(run_to_end(&unpack, UNPACK_LIMIT, stop)?.text())
}

/// The user's own tree. What git tracks, or would, is the source; without git, all of a tree that nothing was built in.
pub(crate) fn from_user(
    folder: &Path,
    spec: &Spec,
    cache: &Cache,
    stop: &Stop,
) -> Result<Source, FixError> {
    let tree = fs::canonicalize(folder).map_err(|error| unusable(folder, error.to_string()))?;
    let version = version(&Entry::from_user(&tree))?;
    let linux = &spec.series.version;
    if spec.fix.is_some() && series_of(&version) != *linux {
        let problem = format!("is Linux {version}, but {spec} has patches for Linux {linux}");
        return Err(unusable(folder, problem));
    }
    let files = if tree.join(".git").exists() {
        Repository::open(&tree, cache, stop)?.files(stop)?
    } else {
        if let Some(left) = BUILT.iter().find(|left| tree.join(left).exists()) {
            let problem = format!(
                "something was built in it ({left}), and there is no git to list its sources"
            );
            return Err(unusable(folder, problem));
        }
        all_files(&tree)?
    };
    Ok(Source {
        content: digest_of(&tree, &files, stop)?,
        files: Some(files),
        version,
        tree: Entry::from_user(tree),
        config: String::new(),
        packages: Vec::new(),
    })
}

/// The source of a commit, which its tree's name stands for; its files are there once it is switched to.
pub(crate) fn from_commit(
    checkout: &Checkout,
    commit: &Commit,
    stop: &Stop,
) -> Result<Source, FixError> {
    let repository = checkout.repository();
    let makefile = repository.text(commit, "Makefile", stop)?;
    let no_linux = || {
        let problem = format!("in commit {}, {NO_LINUX}", commit.hash);
        let expected = "a repository of Linux";
        Error::bad_file("--git", repository.folder(), problem, expected)
    };
    Ok(Source {
        content: format!("git tree {}", commit.tree),
        files: None,
        version: version_in(&makefile).ok_or_else(no_linux)?,
        tree: Entry::from_user(checkout.tree()),
        config: String::new(),
        packages: Vec::new(),
    })
}

fn unusable(folder: &Path, problem: String) -> FixError {
    let expected = "a clean source tree of Linux, or one that git knows";
    Error::bad_file("--source", folder, problem, expected).into()
}

/// All files below a folder, by their paths below it, in order.
pub(crate) fn all_files(tree: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = tree.join(&folder);
        for entry in fs::read_dir(&path).map_err(Error::io("read", &path))? {
            let entry = entry.map_err(Error::io("read", &path))?;
            let kind = entry.file_type().map_err(Error::io("read", &path))?;
            let below = folder.join(entry.file_name());
            if kind.is_dir() {
                folders.push(below);
            } else {
                files.push(below);
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn digest_of(tree: &Path, files: &[PathBuf], stop: &Stop) -> Result<String, Error> {
    let mut lines = String::new();
    for file in files {
        stop.check()?;
        let path = tree.join(file);
        let digest = if path.is_file() {
            sha256_of_file(&path)?
        } else {
            // A link to a folder, or to nothing.
            fs::read_link(&path)
                .unwrap_or_default()
                .display()
                .to_string()
        };
        lines += &format!("{digest} {}\n", file.display());
    }
    Ok(sha256_of(lines.as_bytes()))
}

/// `6.1` of `6.1.192`.
fn series_of(version: &str) -> &str {
    let second = version
        .match_indices('.')
        .nth(1)
        .map_or(version.len(), |(at, _)| at);
    &version[..second]
}

/// The version in a tree's Makefile.
fn version(tree: &Entry) -> Result<String, FixError> {
    let path = tree.file("Makefile")?;
    let text = input::read_text(&path, MAKEFILE)
        .map_err(|error| unusable(tree.path(), format!("{}: {error}", path.display())))?;
    version_in(&text).ok_or_else(|| unusable(tree.path(), NO_LINUX.into()))
}

fn version_in(makefile: &str) -> Option<String> {
    let value = |name: &str| {
        let mut lines = makefile.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
        value.map(str::trim)
    };
    let [version, patchlevel] = [value("VERSION")?, value("PATCHLEVEL")?];
    let sublevel = value("SUBLEVEL").unwrap_or("0");
    let extra = value("EXTRAVERSION").unwrap_or_default();
    Some(format!("{version}.{patchlevel}.{sublevel}{extra}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str =
        "# x\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 192\nEXTRAVERSION =\nNAME = Curry\n";

    fn tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("Makefile"), VERSION).unwrap();
        fs::create_dir(folder.path().join("mm")).unwrap();
        fs::write(folder.path().join("mm/memory.c"), "int x;\n").unwrap();
        folder
    }

    fn read(folder: &Path, spec: &Spec) -> Result<Source, FixError> {
        let cache = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        let cache = Cache::open_at(&cache.path().join("cache"), &stop).unwrap();
        from_user(folder, spec, &cache, &stop)
    }

    fn spec() -> Spec {
        "none@6.1".parse().unwrap()
    }

    #[test]
    fn versions_are_read_from_the_makefile() {
        assert_eq!(version_in(VERSION).unwrap(), "6.1.192");
        assert_eq!(series_of("6.1.192"), "6.1");
        assert_eq!(series_of("7.3"), "7.3");
        assert_eq!(version_in("all:\n"), None);
    }

    #[test]
    fn the_digest_of_a_tree_follows_its_content() {
        let folder = tree();
        let source = || read(folder.path(), &spec()).unwrap();
        let first = source();
        assert_eq!(first.files.as_ref().map(Vec::len), Some(2));
        assert_eq!(source().content, first.content);
        fs::write(folder.path().join("mm/memory.c"), "int y;\n").unwrap();
        assert_ne!(source().content, first.content);
    }

    #[test]
    fn unusable_trees_are_refused_with_the_reason() {
        let fixed: Spec = "xen-unpinned-set-pte@6.1".parse().unwrap();
        let refused = |folder: &Path| read(folder, &fixed).unwrap_err().to_string();
        let folder = tree();
        fs::write(folder.path().join(".config"), "").unwrap();
        assert!(refused(folder.path()).contains("something was built in it (.config)"));
        fs::write(
            folder.path().join("Makefile"),
            VERSION.replace("= 6", "= 5"),
        )
        .unwrap();
        let text = refused(folder.path());
        assert!(
            text.contains(
                "is Linux 5.1.192, but xen-unpinned-set-pte@6.1 has patches for Linux 6.1"
            ),
            "{text}"
        );
        assert!(
            refused(Path::new("/no-such-folder"))
                .contains("--source /no-such-folder: No such file")
        );
    }

    #[test]
    fn a_kernel_without_a_fix_is_of_any_version() {
        let folder = tree();
        let older = VERSION.replace("= 6", "= 5");
        fs::write(folder.path().join("Makefile"), older).unwrap();
        let source = read(folder.path(), &spec()).unwrap();
        assert_eq!(source.version, "5.1.192");
    }
}
