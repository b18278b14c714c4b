//! A private root for apt: own sources, lists and caches below the cache folder.
//!
//! The system's own apt set-up is read (proxies, credentials, mirrors) and never changed; its
//! update hooks do not run. Package signatures are verified by apt itself. Nothing is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_bill::Arch;
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, require_room};
use pagetoll_host::error::ProcessError;
use pagetoll_host::process::{Output, Run, run_to_end};
use pagetoll_host::tools::{Installer, SearchPath, Tool};

use crate::apt::index::{self, Listed, debian_name};
use crate::apt::resolve::Index;
use crate::apt::sources::{FORMAT, Line, Sources, System, Target, of_debian, parse_targets};

/// The room that package lists and apt's own index of them take. A whole suite takes 110 MiB in 2026.
const UPDATE_ROOM: u64 = 160 << 20;
/// Time limit of fetching package lists. Assumed: 10 MB over a slow line.
const UPDATE_LIMIT: Duration = Duration::from_secs(15 * 60);
/// Time limit of fetching packages. Assumed: 200 MB over a slow line.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
/// Time limit of apt's queries.
const QUERY_LIMIT: Duration = Duration::from_secs(60);
/// Its settings; the file that says that the lists were fetched by them.
const SETTINGS: &str = "apt.conf";
const UPDATED: &str = "updated";
/// os-release(5).
const OS_RELEASE: &str = "/etc/os-release";
/// Message of apt about a suite that the mirror does not have.
const NO_SUCH_SUITE: &str = "does not have a Release file";

/// apt's package lists and settings for one suite.
#[derive(Debug)]
pub(super) struct PrivateRoot<'a> {
    cache: &'a Cache,
    /// Below the cache.
    name: String,
    folder: PathBuf,
    suite: String,
    holds: Holds,
}

/// The kind of packages that a root has lists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Packages for machines with a processor.
    Packages(Arch),
    /// Source packages.
    Sources,
}

impl<'a> PrivateRoot<'a> {
    /// The root of a suite.
    pub(super) fn new(cache: &'a Cache, suite: &str, holds: Holds) -> Self {
        let kind = match holds {
            Holds::Packages(Arch::X86_64) => "",
            Holds::Packages(Arch::Arm64) => "-arm64",
            Holds::Sources => "-source",
        };
        let name = format!("apt/{suite}{kind}");
        Self {
            cache,
            folder: cache.path(&name),
            name,
            suite: suite.to_owned(),
            holds,
        }
    }

    /// Its name in the cache.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The suite's name.
    pub(super) fn suite(&self) -> &str {
        &self.suite
    }

    /// The processor whose packages it has lists of.
    fn arch(&self) -> Arch {
        match self.holds {
            Holds::Packages(arch) => arch,
            Holds::Sources => Arch::default(),
        }
    }

    /// Returns whether its package lists have been fetched before, by these settings.
    ///
    /// # Errors
    /// [`Error::Environment`] when others can write to its folder.
    pub(super) fn has_lists(&self) -> Result<bool, Error> {
        let settings = self.folder.join(SETTINGS);
        Ok(self.cache.is_private(&self.name)?
            && self.folder.join(UPDATED).exists()
            && fs::read(settings).is_ok_and(|text| text == self.settings().as_bytes()))
    }

    /// Fetches the package lists and reads what the lab can use of them.
    pub(super) fn update(&self, sources: &Sources, stop: &Stop) -> Result<Index, Error> {
        let all = sources.own.iter().chain(&sources.base);
        let lines = all.map(|line| line.render(self.arch()));
        self.fetch_lists(&lines.collect::<Result<String, _>>()?, stop)?;
        let own = self.listed(&sources.own, stop)?;
        let base = self.listed(&sources.base, stop)?;
        Ok(Index::new(self.arch(), seconds_since_1970(), own, base))
    }

    /// Fetches the lists of source packages of a suite.
    pub(super) fn update_sources(&self, sources: &Sources, stop: &Stop) -> Result<(), Error> {
        let lines = sources.own.iter().map(Line::render_source);
        self.fetch_lists(&lines.collect::<Result<String, _>>()?, stop)
    }

    fn fetch_lists(&self, lines: &str, stop: &Stop) -> Result<(), Error> {
        self.write(lines)?;
        require_room(&self.folder, UPDATE_ROOM, "fetch package lists")?;
        let run = self.apt_get().arg("update");
        self.run(run, UPDATE_LIMIT, stop)
            .map_err(|error| self.explain(error, "the package lists"))?;
        self.cache.sync()?;
        self.write_file(UPDATED, "")
    }

    /// The versions of a source package that are listed, in no order.
    pub(super) fn versions_of_source(&self, name: &str, stop: &Stop) -> Result<Vec<String>, Error> {
        let show = apt(Tool::AptCache)
            .arg("-c")
            .arg(self.folder.join(SETTINGS))
            .args(["showsrc", "--only-source", name]);
        let text = self.run(show, QUERY_LIMIT, stop)?.text();
        let versions = text
            .lines()
            .filter_map(|line| line.strip_prefix("Version: "));
        Ok(versions.map(|version| version.trim().to_owned()).collect())
    }

    /// Fetches the files of a source package into an existing folder; apt checks them against its verified lists.
    pub(super) fn download_source(
        &self,
        name: &str,
        version: &str,
        into: &Path,
        stop: &Stop,
    ) -> Result<(), Error> {
        let what = format!("{name}={version}");
        let run = self
            .apt_get()
            .args(["source", "--download-only", "--only-source"])
            .arg(&what)
            .current_dir(into);
        self.run(run, DOWNLOAD_LIMIT, stop)
            .map_err(|error| self.explain(error, &what))
            .map(drop)
    }

    /// Fetches packages into an existing folder; apt checks them against its verified lists.
    pub(super) fn download(
        &self,
        packages: &[&Listed],
        into: &Path,
        stop: &Stop,
    ) -> Result<(), Error> {
        let names = packages
            .iter()
            .map(|listed| format!("{}={}", listed.package.name, listed.package.version));
        let run = self.apt_get().arg("download").args(names).current_dir(into);
        let what = packages
            .iter()
            .map(|listed| listed.package.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        self.run(run, DOWNLOAD_LIMIT, stop)
            .map_err(|error| self.explain(error, &what))
            .map(drop)
    }

    fn listed(&self, lines: &[Line], stop: &Stop) -> Result<Vec<Listed>, Error> {
        let run = self.apt_get().args([
            "indextargets",
            "--format",
            "$(RELEASE)|$(FILENAME)",
            "Created-By: Packages",
        ]);
        let targets = self.run(run, QUERY_LIMIT, stop)?.text();
        let mut listed = Vec::new();
        for (release, file) in targets.lines().filter_map(|line| line.split_once('|')) {
            if lines.iter().any(|line| line.release == release) {
                let text = fs::read_to_string(file).map_err(Error::io("read", file))?;
                listed.extend(index::parse(&text));
            }
        }
        Ok(listed)
    }

    fn write(&self, lines: &str) -> Result<(), Error> {
        for folder in ["state/lists/partial", "cache/archives/partial", "empty"] {
            self.cache.folder(&format!("{}/{folder}", self.name))?;
        }
        let _absent = fs::remove_file(self.folder.join(UPDATED));
        self.write_file("sources.list", lines)?;
        self.write_file(SETTINGS, &self.settings())
    }

    fn write_file(&self, name: &str, contents: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        fs::write(&path, contents).map_err(Error::io("write", &path))
    }

    /// Read by apt after the system's own settings, so that it wins; see apt.conf(5). What is verified is settled here,
    /// whatever the system lets pass.
    fn settings(&self) -> String {
        let folder = self.folder.display();
        let arch = debian_name(self.arch());
        let sandbox = match Installer::current() {
            // apt's own user could not reach the lists and packages: folders of a cache, and mostly those above them,
            // such as /root, are its user's alone.
            Installer::Root => "APT::Sandbox::User \"root\";\n",
            Installer::User => "",
        };
        format!(
            "Dir::State \"{folder}/state\";\n\
             Dir::State::lists \"lists/\";\n\
             Dir::State::status \"/dev/null\";\n\
             Dir::Cache \"{folder}/cache\";\n\
             Dir::Cache::archives \"archives/\";\n\
             Dir::Cache::pkgcache \"pkgcache.bin\";\n\
             Dir::Cache::srcpkgcache \"\";\n\
             Dir::Etc::sourcelist \"{folder}/sources.list\";\n\
             Dir::Etc::sourceparts \"{folder}/empty\";\n\
             Dir::Etc::preferences \"/dev/null\";\n\
             Dir::Etc::preferencesparts \"{folder}/empty\";\n\
             #clear APT::Architectures;\n\
             APT::Architecture \"{arch}\";\n\
             #clear APT::Update::Pre-Invoke;\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n\
             APT::Update::Error-Mode \"any\";\n\
             APT::Get::AllowUnauthenticated \"false\";\n\
             Acquire::AllowInsecureRepositories \"false\";\n\
             Acquire::AllowWeakRepositories \"false\";\n\
             Acquire::AllowDowngradeToInsecureRepositories \"false\";\n\
             Acquire::Check-Date \"true\";\n\
             Acquire::Check-Valid-Until \"true\";\n\
             Acquire::GzipIndexes \"false\";\n\
             Acquire::Languages \"none\";\n\
             Acquire::Retries \"2\";\n\
             {sandbox}"
        )
    }

    fn run(&self, run: Run, limit: Duration, stop: &Stop) -> Result<Output, Error> {
        let scratch = self.cache.scratch();
        run_to_end(&run.temporary(scratch.create_dir()?), limit, stop)
    }

    fn apt_get(&self) -> Run {
        apt(Tool::AptGet)
            .arg("-c")
            .arg(self.folder.join(SETTINGS))
            .arg("-q")
    }

    /// Says who is to blame for a refusal of apt: the suite's name, the disk, or the network.
    fn explain(&self, error: Error, what: &str) -> Error {
        match error.or_no_space("fetch packages to", &self.folder) {
            Error::Process(error) if error.stderr_tail.contains(NO_SUCH_SUITE) => Error::BadInput {
                what: "suite",
                value: self.suite.clone(),
                problem: "the Debian mirror in use does not have it".into(),
                expected: "a suite or codename of Debian, such as stable or trixie-backports"
                    .into(),
            },
            Error::Process(error) => Error::Environment {
                what: format!(
                    "apt cannot fetch {what} of {}: {}",
                    self.suite,
                    cause(&error)
                ),
                remedy: "check the network and apt's proxy settings; \
                         if a package has been superseded, refresh the package lists"
                    .into(),
            },
            other => other,
        }
    }
}

/// The first error that apt names; those after it are mostly its consequences.
fn cause(error: &ProcessError) -> String {
    let named = error
        .stderr_tail
        .lines()
        .find_map(|line| line.strip_prefix("E: "));
    named.map_or_else(|| error.to_string(), |line| line.trim().to_owned())
}

/// The Debian package lists that the system's own apt is set up to fetch.
pub(super) fn system_targets(stop: &Stop) -> Result<Vec<Target>, Error> {
    if SearchPath::from_env()
        .find(Tool::AptGet.program().as_ref())
        .is_none()
    {
        return Err(Error::Environment {
            what: "apt-get is not installed, so that no kernel or Xen can be fetched".into(),
            remedy: "run where apt is, or give files by --kernel, --headers and --xen".into(),
        });
    }
    let ask = |settings: &[&str]| {
        let run = apt(Tool::AptGet)
            .args(settings)
            .args(["indextargets", "--format", FORMAT])
            .arg("Created-By: Packages");
        Ok::<_, Error>(parse_targets(&run_to_end(&run, QUERY_LIMIT, stop)?.text()))
    };
    // Before the first update apt 2.6 lists only targets without what their Release files say.
    let known = ask(&[])?;
    let targets = match known.is_empty() {
        true => ask(&["-o", "APT::Get::IndexTargets::ReleaseInfo=false"])?,
        false => known,
    };
    let release = fs::read_to_string(OS_RELEASE).unwrap_or_default();
    Ok(of_debian(targets, System::from_os_release(&release)))
}

/// A program of apt, whose settings come from the system and from its arguments alone: an empty APT_CONFIG is none.
fn apt(program: Tool) -> Run {
    Run::new(program.program()).env("APT_CONFIG", "")
}

fn seconds_since_1970() -> u64 {
    std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests;
