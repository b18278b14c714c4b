//! Files of this host that a program needs: itself, its libraries, and what the user names.
//!
//! Each has the path in the guest that it has here. Libraries are those that the program's own loader lists, which maps the
//! program and does not run it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf, absolute};
use std::time::Duration;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use pagetoll_backend::{Stop, input};
use pagetoll_bill::Arch;
use pagetoll_host::Error;
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::SearchPath;

/// Time limit of a loader that lists libraries. Assumed: it takes milliseconds.
const LIST_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a run on this host whose files are recorded.
const RUN_LIMIT: Duration = Duration::from_secs(600);
/// Bytes of all files together: they are in the guest's memory, and in the archive that it boots.
const MOST_BYTES: u64 = 1 << 30;
/// Files of all folders together.
const MOST_FILES: usize = 100_000;
/// Folders that a guest has of its own, and so may not be given.
const OF_GUEST: [&str; 5] = ["/proc", "/sys", "/dev", "/modules", "/.pagetoll"];
/// Folders in which loaders look by themselves.
const TRUSTED: [&str; 6] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
];
const ELF: &str = "an ELF program of the guest's processor, or a script";

/// Files of this host by their paths, and folders.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The guest's processor.
    arch: Arch,
    /// Path in the guest, without a leading slash, and here.
    files: BTreeMap<String, PathBuf>,
    folders: Vec<String>,
    /// Folders of libraries that a loader does not look into by itself.
    pub(super) library_folders: Vec<String>,
    bytes: u64,
}

impl Files {
    /// None yet, for a guest with this processor.
    pub(super) const fn new(arch: Arch) -> Self {
        Self {
            arch,
            files: BTreeMap::new(),
            folders: Vec::new(),
            library_folders: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Path)> {
        let files = self.files.iter();
        files.map(|(name, path)| (name.as_str(), path.as_path()))
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = &str> {
        self.folders.iter().map(String::as_str)
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a folder, which stays empty where nothing else is in it.
    ///
    /// # Errors
    /// [`Error::BadInput`]: one of the guest's own.
    pub(super) fn folder(&mut self, path: &Path) -> Result<(), Error> {
        self.folders.push(in_guest("folder", path)?);
        Ok(())
    }

    /// Adds a program with its libraries, or a script with its interpreter.
    ///
    /// # Errors
    /// [`Error::BadInput`]: another processor's, no program, a library that is not here.
    pub(super) fn program(
        &mut self,
        what: &'static str,
        path: &Path,
        stop: &Stop,
    ) -> Result<(), Error> {
        let bytes = self.file(what, path)?;
        match kind(&bytes, self.arch) {
            Kind::Elf(Some(loader)) => self.libraries(what, path, &loader, stop),
            Kind::Elf(None) => Ok(()),
            Kind::Script(interpreter) => self.program(what, &interpreter, stop),
            Kind::Foreign(problem) => Err(Error::bad_file(what, path, problem, ELF)),
        }
    }

    /// Adds a file, with the libraries of a program, or all files of a folder.
    ///
    /// # Errors
    /// [`Error::BadInput`]: it is not there; there is too much.
    pub(super) fn all_of(
        &mut self,
        what: &'static str,
        path: &Path,
        stop: &Stop,
    ) -> Result<(), Error> {
        if !path.is_dir() {
            let bytes = self.file(what, path)?;
            return match kind(&bytes, self.arch) {
                Kind::Elf(Some(loader)) => self.libraries(what, path, &loader, stop),
                Kind::Elf(None) | Kind::Script(_) | Kind::Foreign(_) => Ok(()),
            };
        }
        self.folder(&absolute_path(what, path)?)?;
        let entries = fs::read_dir(path).map_err(Error::io("read", path))?;
        for entry in entries {
            let entry = entry.map_err(Error::io("read", path))?.path();
            stop.check()?;
            if entry.is_dir() && entry.is_symlink() {
                continue;
            }
            if entry.is_dir() || entry.is_file() {
                self.all_of(what, &entry, stop)?;
            }
        }
        Ok(())
    }

    /// Adds the files that a command opens when it is run here, as strace sees it.
    ///
    /// # Errors
    /// There is no strace; the command fails.
    pub(super) fn of_run(
        &mut self,
        words: &[String],
        environment: &[(OsString, OsString)],
        folder: &Path,
        stop: &Stop,
    ) -> Result<(), Error> {
        if self.is_foreign() {
            return Err(Error::BadInput {
                what: "--files-of-run",
                value: words.join(" "),
                problem: format!("is a program of {}, which does not run here", self.arch),
                expected: "--file for each of its files".to_owned(),
            });
        }
        let log = tempfile::NamedTempFile::new().map_err(Error::io("create", "strace's output"))?;
        let arguments = ["-f", "-qq", "-z", "-s", "4096", "-e", "trace=%file", "-o"];
        let mut run = Run::new("strace")
            .args(arguments)
            .arg(log.path())
            .arg("--")
            .args(words)
            .current_dir(folder);
        for (name, value) in environment {
            run = run.env(name, value);
        }
        run_to_end(&run, RUN_LIMIT, stop)?;
        let text = fs::read(log.path()).map_err(Error::io("read", log.path()))?;
        let text = String::from_utf8_lossy(&text);
        let opened = text.lines().filter_map(|line| line.split('"').nth(1));
        for path in opened.map(|path| folder.join(path)) {
            let is_of_guest = OF_GUEST.iter().any(|own| path.starts_with(own));
            if is_of_guest
                || self
                    .files
                    .contains_key(path.to_string_lossy().trim_start_matches('/'))
            {
                continue;
            }
            if path.is_dir() {
                self.folder(&path)?;
            } else if path.is_file() {
                self.all_of("--files-of-run", &path, stop)?;
            }
        }
        Ok(())
    }

    fn libraries(
        &mut self,
        what: &'static str,
        program: &Path,
        loader: &Path,
        stop: &Stop,
    ) -> Result<(), Error> {
        if self.is_foreign() {
            let problem = format!("is dynamic, and loaders of {} do not run here", self.arch);
            return Err(Error::bad_file(what, program, problem, "a static program"));
        }
        let name = loader.file_name().unwrap_or_default().to_string_lossy();
        if !["ld-linux", "ld-musl"]
            .iter()
            .any(|known| name.starts_with(known))
        {
            let problem = format!("is loaded by {}, which is not known", loader.display());
            return Err(Error::bad_file(
                what,
                program,
                problem,
                "a program loaded by ld-linux or ld-musl",
            ));
        }
        self.file(what, loader)?;
        let program = absolute_path(what, program)?;
        let mut list = Run::new(loader).arg("--list").arg(&program);
        if let Some(folders) = std::env::var_os("LD_LIBRARY_PATH") {
            list = list.env("LD_LIBRARY_PATH", folders);
        }
        let listed = match run_to_end(&list, LIST_LIMIT, stop) {
            Ok(output) => output.text(),
            // A library that exports no entry, or one that is missing.
            Err(Error::Process(error)) => error.stderr_tail.clone(),
            Err(error) => return Err(error),
        };
        for line in listed.lines() {
            if let Some((library, _)) = line.trim().split_once(" => not found") {
                return Err(missing(what, &program, library));
            }
            if let Some((before, _)) = line.split_once("cannot open shared object file") {
                let library = before.rsplit(": ").nth(1).unwrap_or(before);
                return Err(missing(what, &program, library));
            }
            let Some(path) = listed_path(line) else {
                continue;
            };
            self.file(what, path)?;
            let folder = path.parent().unwrap_or(path).to_string_lossy().into_owned();
            if !TRUSTED.contains(&folder.as_str()) && !self.library_folders.contains(&folder) {
                self.library_folders.push(folder);
            }
        }
        Ok(())
    }

    /// Returns whether the guest's programs do not run on this host.
    fn is_foreign(&self) -> bool {
        Arch::of_machine(std::env::consts::ARCH) != Some(self.arch)
    }

    /// Adds one file and returns what it holds.
    fn file(&mut self, what: &'static str, path: &Path) -> Result<Vec<u8>, Error> {
        let refuse = |problem: String| Error::bad_file(what, path, problem, "a file of this host");
        let bytes = input::read(path, MOST_BYTES).map_err(|error| refuse(error.to_string()))?;
        let name = in_guest(what, &absolute_path(what, path)?)?;
        if self.files.insert(name, path.to_path_buf()).is_none() {
            self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        }
        if self.bytes > MOST_BYTES || self.files.len() > MOST_FILES {
            return Err(refuse(format!(
                "makes {} files of {} MiB, which a guest boots with",
                self.files.len(),
                self.bytes >> 20
            )));
        }
        Ok(bytes)
    }
}

fn missing(what: &'static str, program: &Path, library: &str) -> Error {
    let problem = format!(
        "needs {}, which its loader does not find here",
        library.trim()
    );
    Error::bad_file(
        what,
        program,
        problem,
        "a program that runs here; LD_LIBRARY_PATH is respected",
    )
}

/// `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, or the loader itself.
fn listed_path(line: &str) -> Option<&Path> {
    let line = line.trim();
    let path = line.split_once(" => ").map_or(line, |(_, path)| path);
    let (path, _) = path.rsplit_once(" (0x")?;
    path.starts_with('/').then(|| Path::new(path))
}

/// The path of a program by its name, as a shell finds it.
///
/// # Errors
/// [`Error::BadInput`]: there is none.
pub(super) fn find_program(word: &str) -> Result<PathBuf, Error> {
    let found = SearchPath::from_env().find(word.as_ref());
    let found = found.ok_or_else(|| {
        let problem = "is not an executable file, nor in PATH";
        Error::bad_file("program", Path::new(word), problem, ELF)
    })?;
    absolute_path("program", &found)
}

fn absolute_path(what: &'static str, path: &Path) -> Result<PathBuf, Error> {
    let path = absolute(path).map_err(Error::io("find", path))?;
    let mut plain = PathBuf::new();
    for component in path.components() {
        if component == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(component);
        }
    }
    match plain.to_str() {
        Some(_) => Ok(plain),
        None => Err(Error::bad_file(
            what,
            &plain,
            "is not UTF-8",
            "a path in UTF-8",
        )),
    }
}

/// A path without its leading slash.
fn in_guest(what: &'static str, path: &Path) -> Result<String, Error> {
    if let Some(own) = OF_GUEST.iter().find(|own| path.starts_with(own)) {
        let problem = format!("lies in {own}, which a guest has of its own");
        return Err(Error::bad_file(what, path, problem, "a file elsewhere"));
    }
    let path = path.to_string_lossy();
    Ok(path.trim_start_matches('/').to_owned())
}

enum Kind {
    /// With its loader, where it is dynamic.
    Elf(Option<PathBuf>),
    /// With its interpreter.
    Script(PathBuf),
    /// No program that the guest runs, and why.
    Foreign(String),
}

fn kind(bytes: &[u8], arch: Arch) -> Kind {
    if let Some(line) = bytes.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let interpreter = line.split_ascii_whitespace().next().unwrap_or_default();
        return Kind::Script(PathBuf::from(interpreter));
    }
    let Ok(header) = FileHeader64::<Endianness>::parse(bytes) else {
        return Kind::Foreign("is neither a 64-bit ELF file nor a script".to_owned());
    };
    let Ok(endian) = header.endian() else {
        return Kind::Foreign("is not an ELF file".to_owned());
    };
    let machine = header.e_machine(endian);
    let expected = match arch {
        Arch::X86_64 => elf::EM_X86_64,
        Arch::Arm64 => elf::EM_AARCH64,
    };
    if machine != expected {
        return Kind::Foreign(match machine {
            elf::EM_X86_64 => "is an ELF file of x86-64".to_owned(),
            elf::EM_AARCH64 => "is an ELF file of arm64".to_owned(),
            elf::EM_RISCV => "is an ELF file of RISC-V".to_owned(),
            other => format!("is an ELF file of machine {other}"),
        });
    }
    let segments = header.program_headers(endian, bytes).unwrap_or_default();
    let loader = segments
        .iter()
        .find_map(|segment| segment.interpreter(endian, bytes).ok().flatten());
    Kind::Elf(loader.map(|path| PathBuf::from(String::from_utf8_lossy(path).into_owned())))
}

/// The address in the file of the page that a mapping begins with, by its offset.
pub(super) fn address_at(bytes: &[u8], offset: u64) -> Option<u64> {
    const PAGE: u64 = 4096;
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let loaded = segments
        .iter()
        .filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    let mut starts = loaded.map(|segment| {
        (
            segment.p_offset(endian),
            segment.p_filesz(endian),
            segment.p_vaddr(endian),
        )
    });
    let (start, _, address) = starts.find(|(start, size, _)| {
        let first = start - start % PAGE;
        (first..start.saturating_add(*size)).contains(&offset)
    })?;
    Some(address.wrapping_add(offset).wrapping_sub(start))
}
