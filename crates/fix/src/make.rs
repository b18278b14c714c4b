//! Runs kbuild: `make O=...` in a process group that ends with pagetoll, its output in a log.

use std::fs;
use std::path::PathBuf;

use pagetoll_host::Error;
use pagetoll_host::Surroundings;
use pagetoll_host::make::{self, Build};

use crate::error::FixError;

/// Variables that make builds reproducible: kbuild takes their defaults from the machine and the time.
const REPRODUCIBLE: [&str; 5] = [
    "KBUILD_BUILD_TIMESTAMP=Thu Jan 1 00:00:00 UTC 1970",
    "KBUILD_BUILD_USER=pagetoll",
    "KBUILD_BUILD_HOST=lab",
    "KBUILD_BUILD_VERSION=1",
    "LOCALVERSION=",
];

/// kbuild over a source tree, with an output folder and a log of its own.
#[derive(Clone)]
pub(crate) struct Make<'a> {
    pub(crate) tree: PathBuf,
    pub(crate) output: PathBuf,
    /// Target architecture, kbuild's `ARCH`.
    pub(crate) arch: &'a str,
    /// Prefix of compiler and linker, kbuild's `CROSS_COMPILE`.
    pub(crate) tools: &'a str,
    /// Log of all output of make; truncated when it is configured.
    pub(crate) log: PathBuf,
    /// The source's version, for errors.
    pub(crate) release: String,
    pub(crate) jobs: usize,
    pub(crate) surroundings: Surroundings<'a>,
}

impl Make<'_> {
    /// Writes the configuration and runs `make olddefconfig`.
    pub(crate) fn configure(&self, config: &str) -> Result<(), FixError> {
        self.begin(".config", config)?;
        self.run(["olddefconfig"], "configure", 10)
    }

    /// Runs `make allnoconfig` with these settings and those that they need.
    pub(crate) fn configure_only(&self, config: &str) -> Result<(), FixError> {
        const FRAGMENT: &str = "wanted.config";
        self.begin(FRAGMENT, config)?;
        let wanted = format!("KCONFIG_ALLCONFIG={FRAGMENT}");
        self.run([&wanted, "allnoconfig"], "configure", 10)
    }

    fn begin(&self, file: &str, config: &str) -> Result<(), FixError> {
        fs::create_dir_all(&self.output).map_err(Error::io("create", &self.output))?;
        let path = self.output.join(file);
        fs::write(&path, config).map_err(Error::io("write", &path))?;
        Ok(make::begin_log(&self.log)?)
    }

    /// Compiles and links a boot image. `lines` is the expected length of the output, for the progress bar.
    pub(crate) fn kernel(&self, target: &str, lines: u64) -> Result<(), FixError> {
        self.run([target], "build", lines)
    }

    /// Compiles objects alone.
    pub(crate) fn objects(&self, objects: &[String]) -> Result<(), FixError> {
        let targets = objects.iter().map(String::as_str);
        self.run(targets, "build", 200)
    }

    /// The current configuration.
    pub(crate) fn config(&self) -> Result<String, Error> {
        let path = self.output.join(".config");
        fs::read_to_string(&path).map_err(Error::io("read", path))
    }

    fn run<'t>(
        &self,
        words: impl IntoIterator<Item = &'t str>,
        phase: &str,
        lines: u64,
    ) -> Result<(), FixError> {
        let mut output = std::ffi::OsString::from("O=");
        output.push(&self.output);
        let make = make::command(self.jobs)
            .arg("-C")
            .arg(&self.tree)
            .arg(output)
            .arg(format!("ARCH={}", self.arch))
            .arg(format!("CROSS_COMPILE={}", self.tools))
            .args(REPRODUCIBLE)
            .args(words);
        let build = Build {
            make: &make,
            log: &self.log,
            place: ("build a kernel in", &self.output),
            phase: (phase, lines),
        };
        match make::run(build, self.surroundings)? {
            None => Ok(()),
            Some(failure) => Err(FixError::Build {
                release: self.release.clone(),
                failure,
            }),
        }
    }
}
