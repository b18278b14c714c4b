//! Kernel headers that a module can be built against, without installing them.
//!
//! Debian's headers are three packages that refer to one another by absolute paths; here they are
//! unpacked into one folder of the cache and made to refer relatively. Headers of a newer Debian
//! than the host's are met half-way: their build tools run with the libraries they were linked
//! to, and options of newer compilers are left out. A trial build then shows whether that was enough.

mod tree;
mod trial;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use pagetoll_backend::Stop;
use pagetoll_bill::{Available, Package};
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_host::process::Run;
use pagetoll_host::{Error, make};

use crate::apt::Archive;
use crate::apt::index::Listed;

/// Headers that a trial module has been built with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// The folder for `make -C`.
    pub build_dir: Entry,
    /// The release that modules will be built for.
    pub release: String,
    /// Arguments that `make` needs on this machine.
    pub make_arguments: Vec<String>,
    /// Their packages; empty for a folder that was given.
    pub packages: Vec<Package>,
}

impl Headers {
    /// The command that builds the modules of a folder with a `Kbuild` file or a `Makefile`.
    ///
    /// # Errors
    /// [`Error::Altered`], and those of reading all of the headers once.
    pub fn module_build(&self, folder: &Path) -> Result<Run, Error> {
        let mut module = OsString::from("M=");
        module.push(folder);
        let make = make::command(1)
            .temporary(folder)
            .arg("-C")
            .arg(self.build_dir.whole()?);
        Ok(make.args(&self.make_arguments).arg(module).arg("modules"))
    }
}

/// Unpacks the headers that a suite has for a kernel, and tries them.
///
/// # Errors
/// Those of [`Archive::fetch`] and of the cache. A build that fails is no error but a reason.
pub fn from_packages(
    archive: &Archive<'_>,
    cache: &Cache,
    listed: &[Listed],
    stop: &Stop,
) -> Result<Available<Headers>, Error> {
    let tree = tree::assembled(archive, cache, listed, stop)?;
    let found = from_build_dir(tree::build_dir(&tree)?, cache, stop)?;
    let packages = listed.iter().map(|listed| listed.package.clone()).collect();
    Ok(found.map(|headers| Headers {
        packages,
        ..headers
    }))
}

/// Tries the headers in a folder, such as `/lib/modules/RELEASE/build` or a built kernel tree.
///
/// # Errors
/// [`Error::BadInput`] when these are no kernel headers; those of the cache.
pub fn from_build_dir(
    build_dir: Entry,
    cache: &Cache,
    stop: &Stop,
) -> Result<Available<Headers>, Error> {
    let headers = Headers {
        release: release(&build_dir)?,
        make_arguments: trial::make_arguments(&build_dir, stop)?,
        build_dir,
        packages: Vec::new(),
    };
    let verdict = trial::verdict(&headers, cache, stop)?;
    Ok(verdict.map(|()| headers))
}

/// `UTS_RELEASE`. Debian's include/config/kernel.release will not do: in 6.1 it holds 6.1.192 for 6.1.0-56-amd64.
fn release(build_dir: &Entry) -> Result<String, Error> {
    let path = build_dir.file("include/generated/utsrelease.h")?;
    let refuse = |problem: String| {
        Error::bad_file(
            "--headers",
            build_dir.path(),
            problem,
            "a folder that kernel modules can be built in",
        )
    };
    let text = fs::read_to_string(&path)
        .map_err(|error| refuse(format!("{}: {error}", path.display())))?;
    let release = text
        .lines()
        .find_map(|line| line.strip_prefix("#define UTS_RELEASE "));
    release
        .map(|quoted| quoted.trim().trim_matches('"').to_owned())
        .ok_or_else(|| refuse(format!("{} does not define UTS_RELEASE", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_release_modules_will_have() {
        let folder = tempfile::tempdir().unwrap();
        let generated = folder.path().join("include/generated");
        fs::create_dir_all(&generated).unwrap();
        assert!(
            release(&Entry::from_user(folder.path()))
                .unwrap_err()
                .to_string()
                .contains("utsrelease.h: No such file")
        );
        fs::write(
            generated.join("utsrelease.h"),
            "#define UTS_RELEASE \"6.1.0-56-amd64\"\n",
        )
        .unwrap();
        assert_eq!(
            release(&Entry::from_user(folder.path())).unwrap(),
            "6.1.0-56-amd64"
        );
    }

    #[test]
    fn a_module_build_says_where_and_how() {
        let headers = Headers {
            build_dir: Entry::from_user("/h"),
            release: "6.1".into(),
            make_arguments: vec!["CC=gcc".into()],
            packages: Vec::new(),
        };
        assert_eq!(
            headers.module_build(Path::new("/m")).unwrap().to_string(),
            "make -j1 -C /h CC=gcc M=/m modules"
        );
    }
}
