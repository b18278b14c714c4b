//! The host programs that the lab calls, and the Debian package that brings each.
//!
//! Only looks for them on a search path; never runs or installs anything.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fmt, fs};

use pagetoll_bill::Arch;

use crate::error::{Error, MissingTool};

/// A host program that some part of the lab needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    /// The machine emulator that guests run in.
    Qemu,
    /// Drives the build of the guest's kernel module.
    Make,
    /// Compiles the guest's programs and kernel module.
    Gcc,
    /// Links them (kbuild calls `ld` by itself, not only through `gcc`).
    Ld,
    /// Takes the build's traces out of the kernel module.
    Strip,
    /// Fetches packages, signatures verified.
    AptGet,
    /// Reads the package lists that `apt-get` fetched.
    AptCache,
    /// Unpacks packages.
    DpkgDeb,
    /// Lets a child die with its parent.
    Setpriv,
    /// Unpacks a kernel's source,
    Tar,
    /// which is compressed.
    Xz,
    /// Makes the scanners of a kernel's build tools,
    Flex,
    /// and their parsers.
    Bison,
    /// Computes a kernel's time constants.
    Bc,
    /// Makes Xen's headers for 32-bit guests.
    Python,
    /// Unpacks source packages.
    DpkgSource,
    /// The emulator of machines with ARM's processor.
    QemuArm64,
    /// Compiles for such machines,
    GccArm64,
    /// and links.
    LdArm64,
}

impl Tool {
    /// The name on the search path.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Self::Qemu => "qemu-system-x86_64",
            Self::Make => "make",
            Self::Gcc => "gcc",
            Self::Ld => "ld",
            Self::Strip => "strip",
            Self::AptGet => "apt-get",
            Self::AptCache => "apt-cache",
            Self::DpkgDeb => "dpkg-deb",
            Self::Setpriv => "setpriv",
            Self::Tar => "tar",
            Self::Xz => "xz",
            Self::Flex => "flex",
            Self::Bison => "bison",
            Self::Bc => "bc",
            Self::Python => "python3",
            Self::DpkgSource => "dpkg-source",
            Self::QemuArm64 => "qemu-system-aarch64",
            Self::GccArm64 => "aarch64-linux-gnu-gcc",
            Self::LdArm64 => "aarch64-linux-gnu-ld",
        }
    }

    /// The Debian package that brings it.
    #[must_use]
    pub fn package(self) -> &'static str {
        match self {
            Self::Qemu => "qemu-system-x86",
            Self::Make => "make",
            Self::Gcc => "gcc",
            Self::Ld | Self::Strip => "binutils",
            Self::AptGet | Self::AptCache => "apt",
            Self::DpkgDeb => "dpkg",
            Self::Setpriv => "util-linux",
            Self::Tar => "tar",
            Self::Xz => "xz-utils",
            Self::Flex => "flex",
            Self::Bison => "bison",
            Self::Bc => "bc",
            Self::Python => "python3",
            Self::DpkgSource => "dpkg-dev",
            Self::QemuArm64 => "qemu-system-arm",
            Self::GccArm64 => "gcc-aarch64-linux-gnu",
            Self::LdArm64 => "binutils-aarch64-linux-gnu",
        }
    }

    /// The emulator of machines with this processor.
    #[must_use]
    pub const fn emulator(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self::Qemu,
            Arch::Arm64 => Self::QemuArm64,
        }
    }

    /// The compiler for them.
    #[must_use]
    pub const fn compiler(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self::Gcc,
            Arch::Arm64 => Self::GccArm64,
        }
    }

    /// Prefix of the names of the compiler, the linker and their like: `CROSS_COMPILE` of kbuild.
    #[must_use]
    pub fn prefix(arch: Arch) -> &'static str {
        let compiler = Self::compiler(arch).program();
        compiler.strip_suffix("gcc").unwrap_or_default()
    }

    /// Its linker.
    #[must_use]
    pub const fn linker(arch: Arch) -> Self {
        match arch {
            Arch::X86_64 => Self::Ld,
            Arch::Arm64 => Self::LdArm64,
        }
    }
}

/// Tools that every order of the lab needs, on machines with this processor. Modules are built for x86-64 only.
#[must_use]
pub const fn needed(arch: Arch) -> &'static [Tool] {
    match arch {
        Arch::X86_64 => &[Tool::Qemu, Tool::Make, Tool::Gcc, Tool::Ld, Tool::Strip],
        Arch::Arm64 => &[Tool::QemuArm64, Tool::GccArm64, Tool::LdArm64],
    }
}

/// Tools that kernels and hypervisors of Debian need besides.
pub const NEEDED_FOR_DEBIAN: [Tool; 3] = [Tool::AptGet, Tool::AptCache, Tool::DpkgDeb];

/// Tools that build a kernel (Documentation/process/changes.rst of Linux, as far as a kernel without modules goes).
pub const NEEDED_FOR_KERNELS: [Tool; 11] = [
    Tool::Make,
    Tool::Gcc,
    Tool::Ld,
    Tool::Flex,
    Tool::Bison,
    Tool::Bc,
    Tool::Tar,
    Tool::Xz,
    Tool::AptGet,
    Tool::AptCache,
    Tool::DpkgDeb,
];

/// Tools that build a Xen (its README, as far as the hypervisor alone goes).
pub const NEEDED_FOR_XEN: [Tool; 8] = [
    Tool::Make,
    Tool::Gcc,
    Tool::Ld,
    Tool::Flex,
    Tool::Bison,
    Tool::Python,
    Tool::AptGet,
    Tool::DpkgSource,
];

/// A file that the linker or a build tool must find in the library folders, and the Debian package that brings it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Library {
    /// Its file name.
    pub file: &'static str,
    /// The Debian package that brings it.
    pub package: &'static str,
    /// The compiler that links with it.
    pub compiler: Tool,
}

/// A library of Debian, for programs of this machine.
const fn library(file: &'static str, package: &'static str) -> Library {
    Library {
        file,
        package,
        compiler: Tool::Gcc,
    }
}

/// The static C library for the guest's first process; the library that Debian's `objtool` is linked with.
#[must_use]
pub const fn libraries(arch: Arch) -> &'static [Library] {
    const X86_64: [Library; 2] = [
        library("libc.a", "libc6-dev"),
        library("libelf.so.1", "libelf1"),
    ];
    const ARM64: [Library; 1] = [Library {
        file: "libc.a",
        package: "libc6-dev-arm64-cross",
        compiler: Tool::GccArm64,
    }];
    match arch {
        Arch::X86_64 => &X86_64,
        Arch::Arm64 => &ARM64,
    }
}

/// Libraries that the build tools of a kernel link with.
pub const KERNEL_LIBRARIES: [Library; 2] = [
    library("libelf.so", "libelf-dev"),
    library("libcrypto.so", "libssl-dev"),
];

impl Library {
    /// The file that its compiler on `path` finds; `None` also when there is no compiler to ask.
    ///
    /// # Errors
    /// [`Error::Io`] when the compiler cannot be asked: that says nothing of the library.
    pub fn find(self, path: &SearchPath) -> Result<Option<PathBuf>, Error> {
        let Some(gcc) = path.find(OsStr::new(self.compiler.program())) else {
            return Ok(None);
        };
        let answer = self.asked_of(&gcc)?;
        // gcc repeats the bare name of what it cannot find.
        let found = PathBuf::from(answer.trim());
        Ok((found.is_absolute() && found.exists()).then_some(found))
    }

    /// Not by [`Command::output`], which panics where the answer cannot be read.
    fn asked_of(self, gcc: &Path) -> Result<String, Error> {
        let mut asked = Command::new(gcc)
            .arg(format!("-print-file-name={}", self.file))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(Error::io("run", gcc))?;
        let mut answer = String::new();
        // Without its pipe it ends, whether it was read to the end or not.
        let read = asked
            .stdout
            .take()
            .map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut answer));
        let status = asked.wait().map_err(Error::io("wait for", gcc))?;
        read.map_err(Error::io("read the answer of", gcc))?;
        if status.success() {
            return Ok(answer);
        }
        let problem = io::Error::other(status.to_string());
        let what = format!("look for {} by", self.file);
        Err(Error::io(what, gcc)(problem))
    }
}

/// Folders in which programs are looked for, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath(Vec<PathBuf>);

impl SearchPath {
    /// The process's own `PATH`, and the administrator's directories, which an ordinary user's may lack.
    #[must_use]
    pub fn from_env() -> Self {
        let mut path = Self::new(&env::var_os("PATH").unwrap_or_default());
        path.0.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
        path
    }

    /// The directories of a colon-separated list.
    #[must_use]
    pub fn new(list: &OsStr) -> Self {
        Self(
            env::split_paths(list)
                .filter(|directory| !directory.as_os_str().is_empty())
                .collect(),
        )
    }

    /// The first executable file of this name; a name with a slash is taken as it is.
    #[must_use]
    pub fn find(&self, program: &OsStr) -> Option<PathBuf> {
        if Path::new(program).components().count() > 1 {
            return Some(PathBuf::from(program)).filter(|path| is_executable(path));
        }
        self.0
            .iter()
            .map(|directory| directory.join(program))
            .find(|path| is_executable(path))
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The user who would install: decides whether the advice starts with `sudo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installer {
    /// The superuser.
    Root,
    /// Anybody else.
    User,
}

impl Installer {
    /// Whoever runs this process.
    #[must_use]
    pub fn current() -> Self {
        if rustix::process::geteuid().is_root() {
            Self::Root
        } else {
            Self::User
        }
    }

    /// The command that installs these packages.
    #[must_use]
    pub fn command(self, packages: &[&str]) -> String {
        format!("{self}apt-get install {}", packages.join(" "))
    }
}

impl fmt::Display for Installer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "",
            Self::User => "sudo ",
        })
    }
}

/// The source of kernels and hypervisors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Images {
    /// At least one is Debian's.
    Debian,
    /// All are the user's own files.
    Files,
}

impl Images {
    /// The source of kernels and hypervisors of which any, or none, is Debian's.
    #[must_use]
    pub const fn new(any_is_debians: bool) -> Self {
        match any_is_debians {
            true => Self::Debian,
            false => Self::Files,
        }
    }
}

/// Checks that this machine has every program and library for an order.
///
/// # Errors
/// [`Error::MissingTools`] with every program and library that is missing.
pub fn check_lab(arch: Arch, images: Images) -> Result<(), Error> {
    let mut all = needed(arch).to_vec();
    if images == Images::Debian {
        all.extend(NEEDED_FOR_DEBIAN);
    }
    check_with_libraries(&all, libraries(arch))
}

/// Checks that this machine has every program and library for building a kernel of Debian's source, for a processor.
///
/// # Errors
/// [`Error::MissingTools`] with every program and library that is missing.
pub fn check_kernel_build(arch: Arch) -> Result<(), Error> {
    let mut needed = NEEDED_FOR_KERNELS.to_vec();
    let for_arch = [Tool::compiler(arch), Tool::linker(arch)];
    needed.extend(
        for_arch
            .iter()
            .filter(|tool| !NEEDED_FOR_KERNELS.contains(tool)),
    );
    check_with_libraries(&needed, &KERNEL_LIBRARIES)
}

fn check_with_libraries(needed: &[Tool], libraries: &[Library]) -> Result<(), Error> {
    let path = SearchPath::from_env();
    let mut missing = missing_on(needed, &path);
    for library in libraries {
        let has_compiler = path.find(OsStr::new(library.compiler.program())).is_some();
        if has_compiler && library.find(&path)?.is_none() {
            missing.push(MissingTool {
                program: library.file,
                package: library.package,
            });
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing_tools(missing, Installer::current()))
    }
}

/// Checks that all needed tools can be found on this process's search path.
///
/// # Errors
/// [`Error::MissingTools`] with every one that is missing.
pub fn check(needed: &[Tool]) -> Result<(), Error> {
    check_on(needed, &SearchPath::from_env(), Installer::current())
}

/// [`check`] over an explicit search path and installer.
///
/// # Errors
/// [`Error::MissingTools`] with every one that is missing.
pub fn check_on(needed: &[Tool], path: &SearchPath, installer: Installer) -> Result<(), Error> {
    let missing = missing_on(needed, path);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing_tools(missing, installer))
    }
}

/// Which of the needed tools are not on the search path, each once, in the order asked.
#[must_use]
pub fn missing_on(needed: &[Tool], path: &SearchPath) -> Vec<MissingTool> {
    let mut missing = Vec::new();
    for tool in needed {
        let absent = MissingTool {
            program: tool.program(),
            package: tool.package(),
        };
        if path.find(OsStr::new(tool.program())).is_none() && !missing.contains(&absent) {
            missing.push(absent);
        }
    }
    missing
}

fn missing_tools(tools: Vec<MissingTool>, installer: Installer) -> Error {
    let mut packages: Vec<&str> = tools.iter().map(|tool| tool.package).collect();
    packages.sort_unstable();
    packages.dedup();
    Error::MissingTools {
        install: installer.command(&packages),
        tools,
    }
}

/// A value for each processor, once it was asked for.
#[derive(Debug, Default)]
pub struct PerArch<T> {
    x86_64: OnceLock<T>,
    arm64: OnceLock<T>,
}

impl<T> PerArch<T> {
    /// No values yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            x86_64: OnceLock::new(),
            arm64: OnceLock::new(),
        }
    }

    /// The value, found out now where it was not before.
    ///
    /// # Errors
    /// Those of finding out, which is tried again then.
    pub fn get_or_try<E>(&self, arch: Arch, find: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let known = match arch {
            Arch::X86_64 => &self.x86_64,
            Arch::Arm64 => &self.arm64,
        };
        if let Some(value) = known.get() {
            return Ok(value);
        }
        let found = find()?;
        Ok(known.get_or_init(|| found))
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_backend::{Class, Classified};

    use super::*;

    #[test]
    fn a_library_that_does_not_exist_is_not_found() {
        let library = library("libnobody.so.9", "none");
        assert_eq!(library.find(&SearchPath::from_env()).unwrap(), None);
        let nowhere = libraries(Arch::X86_64)[0].find(&SearchPath::new(OsStr::new("")));
        assert_eq!(nowhere.unwrap(), None);
    }

    fn directory_with(programs: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for program in programs {
            let path = directory.path().join(program);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        directory
    }

    #[test]
    fn names_all_missing_tools_with_one_command() {
        let directory = directory_with(&["make"]);
        let path = SearchPath::new(directory.path().as_os_str());
        let needed = [Tool::Qemu, Tool::Make, Tool::AptGet, Tool::AptCache];
        let error = check_on(&needed, &path, Installer::User).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not installed: qemu-system-x86_64, apt-get, apt-cache; \
             to install: sudo apt-get install apt qemu-system-x86"
        );
        assert_eq!(error.class(), Class::Environment);
    }

    #[test]
    fn a_file_that_cannot_be_executed_is_not_found() {
        let directory = directory_with(&["make"]);
        fs::write(directory.path().join("gcc"), "").unwrap();
        let path = SearchPath::new(directory.path().as_os_str());
        assert!(check_on(&[Tool::Make], &path, Installer::Root).is_ok());
        assert_eq!(missing_on(&[Tool::Gcc], &path).len(), 1);
    }

    #[test]
    fn an_empty_search_path_finds_nothing() {
        assert_eq!(SearchPath::new(OsStr::new("")).find(OsStr::new("sh")), None);
    }

    /// The list in packaging/prerequisites, which is read before there is a program.
    #[test]
    fn prerequisites_of_the_build_are_those_of_the_lab() {
        let script = include_str!("../../../packaging/prerequisites");
        let list = script.split_once("list='\n").unwrap().1;
        let list = list.split_once("\n'").unwrap().0;
        let listed: Vec<_> = list
            .lines()
            .filter_map(|line| line.split_once(' '))
            .collect();
        let tools = needed(Arch::X86_64).iter().chain(&NEEDED_FOR_DEBIAN);
        let tools = tools.map(|tool| (tool.program(), tool.package()));
        let libraries = libraries(Arch::X86_64).iter();
        let lab = tools.chain(libraries.map(|library| (library.file, library.package)));
        let build = [("cargo", "-"), ("cc", "gcc")].into_iter();
        assert_eq!(listed, build.chain(lab).collect::<Vec<_>>());
    }

    #[test]
    fn a_value_is_found_out_once_for_each_and_failures_are_tried_again() {
        let known = PerArch::new();
        assert_eq!(known.get_or_try(Arch::X86_64, || Err("no")), Err("no"));
        assert_eq!(known.get_or_try(Arch::X86_64, || Ok::<_, &str>(1)), Ok(&1));
        assert_eq!(known.get_or_try(Arch::X86_64, || Err("no")), Ok(&1));
        assert_eq!(known.get_or_try(Arch::Arm64, || Ok::<_, &str>(2)), Ok(&2));
    }
}
