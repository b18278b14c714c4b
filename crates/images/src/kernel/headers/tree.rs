//! Debian's header packages as one folder that works wherever it stands.
//!
//! Absolute paths become relative, and build tools that the host cannot load are wrapped so that
//! they run with the loader and libraries of their own suite, which lie in the same folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_host::Error;
use pagetoll_host::cache::{Cache, Entry};
use pagetoll_host::digest::sha256_of;
use pagetoll_host::process::{Run, run_to_end};

use crate::apt::Archive;
use crate::apt::index::Listed;
use crate::deb;

/// Folder of the libraries of wrapped tools within a tree.
const LIBRARIES: &str = "tool-libraries";
/// Folders of Debian's amd64 libraries and their loader within a root.
const LIBRARY_FOLDERS: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// The loader's file name.
const LOADER: &str = "ld-linux-x86-64.so.2";
/// The layout's version: a tree that was made otherwise is made anew.
const LAYOUT: &str = "1";
/// Time limit of the loader that names a tool's libraries.
const LOAD_LIMIT: Duration = Duration::from_secs(30);

/// The folder with these packages, made unless it exists.
pub(super) fn assembled(
    archive: &Archive<'_>,
    cache: &Cache,
    listed: &[Listed],
    stop: &Stop,
) -> Result<Entry, Error> {
    let digests: String = listed
        .iter()
        .map(|listed| listed.package.sha256.as_str())
        .collect();
    let key = sha256_of(format!("{LAYOUT} {} {digests}", host_libc(stop)).as_bytes());
    cache.entry(&format!("headers/{key}"), stop, |tree| {
        deb::unpack_into(tree, &archive.fetch(listed, stop)?, stop)?;
        for folder in header_folders(tree)? {
            let path = folder.join("Makefile");
            let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
            let relative = relative_makefile(&text);
            if relative != text {
                fs::write(&path, relative).map_err(Error::io("write", &path))?;
            }
        }
        wrap_tools(archive, listed, tree, stop)
    })
}

/// The folder for `make -C` within a tree.
pub(super) fn build_dir(tree: &Entry) -> Result<Entry, Error> {
    let found = header_folders(tree.path())?
        .into_iter()
        .find(|folder| folder.join(".config").exists());
    found.map(|folder| tree.below(folder)).ok_or_else(|| {
        Error::bad_file(
            "headers",
            tree.path(),
            "hold no configured kernel",
            "Debian's linux-headers",
        )
    })
}

/// Tools that run here need other wrappers than tools that run elsewhere.
fn host_libc(stop: &Stop) -> String {
    let run = Run::new("getconf").arg("GNU_LIBC_VERSION");
    run_to_end(&run, LOAD_LIMIT, stop)
        .map_or_else(|_| String::new(), |output| output.text().trim().to_owned())
}

fn header_folders(tree: &Path) -> Result<Vec<PathBuf>, Error> {
    let sources = tree.join("usr/src");
    let entries = fs::read_dir(&sources).map_err(Error::io("read", &sources))?;
    let is_headers = |path: &PathBuf| path.is_dir() && path.join("Makefile").exists();
    Ok(entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_headers)
        .collect())
}

/// Debian's Makefile has one `include` and, since 6.13 or so, one `KBUILD_OUTPUT` with an absolute path.
fn relative_makefile(text: &str) -> String {
    const HERE: &str = "$(dir $(lastword $(MAKEFILE_LIST)))";
    let line = |line: &str| {
        if let Some(rest) = line.strip_prefix("include /usr/src/") {
            format!("include {HERE}../{rest}\n")
        } else if line.starts_with("KBUILD_OUTPUT=/usr/src/") {
            // Expanded at once: the last makefile is another one later.
            format!("KBUILD_OUTPUT := $(realpath {HERE})\n")
        } else {
            format!("{line}\n")
        }
    };
    text.lines().map(line).collect()
}

/// Without the libraries nothing is wrapped: a trial build will quote what the loader says.
fn wrap_tools(
    archive: &Archive<'_>,
    listed: &[Listed],
    tree: &Path,
    stop: &Stop,
) -> Result<(), Error> {
    let mut unloadable = Vec::new();
    for tool in executables(&tree.join("usr/lib")) {
        if !loads(&tool, stop)? {
            unloadable.push(tool);
        }
    }
    let libraries = archive.index().tool_libraries(listed).unwrap_or_default();
    if unloadable.is_empty() || libraries.is_empty() {
        return Ok(());
    }
    deb::unpack_into(
        &tree.join(LIBRARIES),
        &archive.fetch(&libraries, stop)?,
        stop,
    )?;
    unloadable.iter().try_for_each(|tool| wrap(tree, tool))
}

/// All ELF programs below a folder.
fn executables(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                folders.push(entry.path());
            } else if meta.is_file()
                && meta.permissions().mode() & 0o111 != 0
                && is_elf(&entry.path())
            {
                found.push(entry.path());
            }
        }
    }
    found
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut magic))
        .is_ok()
        && magic == *b"\x7fELF"
}

/// Asks the loader, without running the program.
fn loads(tool: &Path, stop: &Stop) -> Result<bool, Error> {
    let run = Run::new("ldd").arg(tool);
    match run_to_end(&run, LOAD_LIMIT, stop) {
        Ok(output) => {
            Ok(!output.text().contains("not found") && !output.stderr_tail.contains("not found"))
        }
        Err(Error::Process(error)) if error.is_refusal() => Ok(false),
        Err(error) => Err(error),
    }
}

fn wrap(tree: &Path, tool: &Path) -> Result<(), Error> {
    let depth = tool
        .strip_prefix(tree)
        .map_or(0, |path| path.components().count().saturating_sub(1));
    let up = format!("${{0%/*}}/{}{LIBRARIES}", "../".repeat(depth));
    let root = tree.join(LIBRARIES);
    let folder = LIBRARY_FOLDERS
        .into_iter()
        .find(|folder| root.join(folder).join(LOADER).exists());
    let folder = folder.unwrap_or(LIBRARY_FOLDERS[0]);
    let paths = LIBRARY_FOLDERS
        .map(|folder| format!("{up}/{folder}"))
        .join(":");
    let script = format!(
        "#!/bin/sh\nexec \"{up}/{folder}/{LOADER}\" --library-path \"{paths}\" \"$0.elf\" \"$@\"\n"
    );
    let mut moved = tool.as_os_str().to_owned();
    moved.push(".elf");
    fs::rename(tool, &moved).map_err(Error::io("rename", tool))?;
    fs::write(tool, script).map_err(Error::io("write", tool))?;
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755))
        .map_err(Error::io("make executable", tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makefiles_refer_relatively() {
        let text = "KBUILD_OUTPUT=/usr/src/linux-headers-7.2-amd64\ninclude /usr/src/linux-headers-7.2-common/Makefile\n";
        assert_eq!(
            relative_makefile(text),
            "KBUILD_OUTPUT := $(realpath $(dir $(lastword $(MAKEFILE_LIST))))\n\
             include $(dir $(lastword $(MAKEFILE_LIST)))../linux-headers-7.2-common/Makefile\n"
        );
        assert_eq!(relative_makefile("all:\n\techo\n"), "all:\n\techo\n");
    }

    #[test]
    fn a_wrapped_tool_is_looked_for_relatively() {
        let folder = tempfile::tempdir().unwrap();
        let scripts = folder.path().join("usr/lib/kbuild/scripts");
        fs::create_dir_all(&scripts).unwrap();
        let tool = scripts.join("fixdep");
        fs::write(&tool, "\x7fELF").unwrap();
        wrap(folder.path(), &tool).unwrap();
        let script = fs::read_to_string(&tool).unwrap();
        assert!(
            script.contains("${0%/*}/../../../../tool-libraries/usr/lib"),
            "{script}"
        );
        assert!(scripts.join("fixdep.elf").exists());
    }

    #[test]
    fn the_shell_loads_and_a_text_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("tool");
        fs::write(&text, "\x7fELF nonsense").unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(loads(Path::new("/bin/sh"), &Stop::new()).unwrap());
        assert!(!loads(&text, &Stop::new()).unwrap());
        assert_eq!(executables(folder.path()), [text]);
    }
}
