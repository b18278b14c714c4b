//! What a run changes on this host is undone, whatever happens to the run.
//!
//! Before it is made, a change is written to a journal, a file that a second process of this program knows, the guardian.
//! When the run has ended or was killed, the guardian undoes the changes in reverse order. It shares neither process group
//! nor namespace with the run's children, and heeds no signal but SIGKILL, since `systemctl stop` and CI signal both. Where
//! both were killed the journal is left, and the next run undoes what is in it. It lies below /run, which a reboot clears
//! like the changes, and is locked as long as one of the two lives.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use pagetoll_protocol::report::Parameter;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::kernel_module;
use crate::pci::Binding;
use crate::routes::pv;
use pagetoll_live_host::LiveError;

/// The hidden command of the process that restores this host.
const COMMAND: &str = "guard";
/// Journals of the superuser, who alone can change this host.
const JOURNALS: &str = "/run/pagetoll";
/// A new value after each boot (random(4)).
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A change to this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Change {
    /// A module of this name is loaded.
    Module(String),
    /// A device is bound to vfio-pci.
    Driver(Binding),
    /// Xen's trace is taken, which had this choice of events.
    Trace(u32),
    /// A parameter of Xen is set, which had this value.
    Parameter(Parameter),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(name) => write!(f, "module {name} is loaded"),
            Self::Driver(binding) => write!(f, "device {} is bound to vfio-pci", binding.address()),
            Self::Trace(_) => write!(f, "Xen's trace is taken"),
            Self::Parameter(before) => write!(f, "Xen's parameter {} is set", before.name),
        }
    }
}

impl Change {
    fn undo(&self) -> Result<(), LiveError> {
        match self {
            Self::Module(name) => kernel_module::unload(name),
            Self::Driver(binding) => binding.restore(),
            Self::Trace(mask) => pv::steps::stop_trace(*mask),
            Self::Parameter(before) => pv::steps::set(before.clone()),
        }
    }
}

/// Undoes changes at the end of its life.
pub(crate) struct Guardian {
    process: Child,
    /// Closed, the other process ends.
    alive: Option<UnixStream>,
    journal: Journal,
}

impl Guardian {
    /// Undoes what killed runs have left, and starts one.
    ///
    /// # Errors
    /// A journal cannot be kept; the program does not start.
    pub(crate) fn start() -> Result<Self, LiveError> {
        let folder = Path::new(JOURNALS);
        mend(folder)?;
        Self::start_in(
            folder,
            &std::env::current_exe().map_err(LiveError::system("look for this program"))?,
        )
    }

    fn start_in(folder: &Path, pagetoll: &Path) -> Result<Self, LiveError> {
        let journal = Journal::create(folder)?;
        let (mut alive, theirs) =
            UnixStream::pair().map_err(LiveError::system("start of the guardian"))?;
        let mut command = Command::new(pagetoll);
        command.arg(COMMAND).arg(&journal.path);
        command.stdin(OwnedFd::from(theirs)).stdout(journal.lock()?);
        // Ctrl-C is for the run.
        let process = command.process_group(0).spawn();
        let process = process.map_err(LiveError::system("start of the guardian"))?;
        drop(command);
        // No change is made before it heeds no signals.
        alive
            .read_exact(&mut [0])
            .map_err(LiveError::system("start of the guardian"))?;
        Ok(Self {
            process,
            alive: Some(alive),
            journal,
        })
    }

    /// Announces a change that is about to be made: it is undone even if this process dies at once.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn expect(&mut self, change: &Change) -> Result<(), LiveError> {
        self.journal.add(change)
    }

    /// Undoes all changes now.
    ///
    /// # Errors
    /// Something could not be undone; what, was said on stderr.
    pub(crate) fn finish(mut self) -> Result<(), LiveError> {
        match self.end() {
            true => Ok(()),
            false => Err(LiveError::environment(
                "this host is not as it was before the run",
                "see above for what could not be undone",
            )),
        }
    }

    /// Returns whether all was undone, by this process where the other one was killed.
    fn end(&mut self) -> bool {
        if self.alive.take().is_none() {
            return true;
        }
        let was_killed = |status: &ExitStatus| status.signal().is_some();
        match self.process.wait() {
            Ok(status) if !was_killed(&status) => status.success(),
            _ => undo(&self.journal.path),
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // It has said itself what went wrong.
        let _ = self.end();
    }
}

/// The changes of a run, a line of JSON each, in a file that it has locked.
struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// An empty one, in this folder, which is this user's alone.
    fn create(folder: &Path) -> Result<Self, LiveError> {
        let failed = || LiveError::system(format!("keeping a journal in {}", folder.display()));
        let mut folders = fs::DirBuilder::new();
        folders
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed())?;
        let path = folder.join(format!("{}.{}", boot_id()?, std::process::id()));
        let mut options = OpenOptions::new();
        options.append(true).read(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(failed())?;
        let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        locked.map_err(io::Error::from).map_err(failed())?;
        Ok(Self { path, file })
    }

    /// The lock, to be shared with another process.
    fn lock(&self) -> Result<File, LiveError> {
        self.file
            .try_clone()
            .map_err(LiveError::system("start of the guardian"))
    }

    fn add(&mut self, change: &Change) -> Result<(), LiveError> {
        let line = serde_json::to_string(change).map_err(io::Error::from);
        // In one write(2).
        let written = line.and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        written.map_err(LiveError::system(format!(
            "write of {}",
            self.path.display()
        )))
    }
}

fn boot_id() -> Result<String, LiveError> {
    let text =
        fs::read_to_string(BOOT_ID).map_err(LiveError::system(format!("read of {BOOT_ID}")))?;
    Ok(text.trim().to_owned())
}

/// Undoes what runs have left that were killed with their guardians, and says so. Journals of another boot are of changes
/// that are gone.
fn mend(folder: &Path) -> Result<(), LiveError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(LiveError::system(format!("read of {}", folder.display())))?,
    };
    let boot_id = boot_id()?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(_lock) = left(&path) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&boot_id) {
            for change in changes(&path) {
                say(&format!(
                    "a run that was killed has left this: {change}; it is undone now"
                ));
            }
            // What cannot be undone was said.
            let _ = undo(&path);
        } else {
            let _gone = fs::remove_file(&path);
        }
    }
    Ok(())
}

/// The lock of a journal whose run and guardian are gone.
fn left(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // Another process may have undone it meanwhile.
    (file.metadata().ok()?.nlink() > 0).then_some(file)
}

/// The changes in a journal; none where it cannot be read. A line that was not written whole is of a change that was not
/// made.
fn changes(journal: &Path) -> Vec<Change> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Undoes the changes of a journal, and removes it. Returns whether all of them were undone.
fn undo(journal: &Path) -> bool {
    let mut undone = true;
    for change in changes(journal).iter().rev() {
        if let Err(error) = change.undo() {
            say(&format!("{change}, and that was not undone: {error}"));
            undone = false;
        }
    }
    let _gone = fs::remove_file(journal);
    undone
}

/// With stderr closed there is no place left to report to.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "pagetoll: note: {text}");
}

/// Runs the guardian: waits for the end of file, then undoes the changes of a journal. Returns whether all of them were
/// undone. The caller has seen to it that signals do not end this process.
#[must_use]
pub fn guard(journal: &Path) -> bool {
    let alive = rustix::stdio::stdin();
    let _parent_is_gone = rustix::io::write(alive, b"\n");
    let mut bytes = [0; 64];
    loop {
        match rustix::io::read(alive, &mut bytes) {
            Ok(1..) | Err(rustix::io::Errno::INTR) => {}
            Ok(0) | Err(_) => return undo(journal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, change: &Change) -> PathBuf {
        let mut journal = Journal::create(folder).unwrap();
        journal.add(change).unwrap();
        journal.path
    }

    fn no_module() -> Change {
        Change::Module("pagetoll_no_such".into())
    }

    #[test]
    fn a_module_that_was_never_loaded_is_no_failure() {
        if !rustix::process::geteuid().is_root() {
            pagetoll_test_support::skip!("only the superuser unloads modules");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path(), &no_module());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"module\":\"pagetoll_no_such\"}\n");
        assert!(undo(&path) && !path.exists());
    }

    #[test]
    fn journals_that_are_left_are_undone_and_those_in_use_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let left_behind = written(folder.path(), &no_module());
        let mine = folder.path().join("x");
        fs::rename(&left_behind, &mine).unwrap();
        let in_use = Journal::create(folder.path()).unwrap();
        mend(folder.path()).unwrap();
        assert!(!mine.exists(), "of another boot");
        assert!(in_use.path.exists());
        // As if this process had been killed.
        drop(in_use.file);
        mend(folder.path()).unwrap();
        assert!(!in_use.path.exists());
        mend(&folder.path().join("none")).unwrap();
    }

    #[test]
    fn a_line_that_is_cut_off_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.add(&Change::Trace(7)).unwrap();
        journal.file.write_all(b"{\"module\":\"x").unwrap();
        assert_eq!(changes(&journal.path), [Change::Trace(7)]);
    }

    #[test]
    fn a_guardian_that_was_killed_is_stood_in_for() {
        let folder = tempfile::tempdir().unwrap();
        // In the place of this program: says that it is there, and dies.
        let program = folder.path().join("program");
        fs::write(&program, "#!/bin/sh\necho >&0; kill -KILL $$\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, executable).unwrap();
        let journals = folder.path().join("journals");
        let guardian = Guardian::start_in(&journals, &program).unwrap();
        assert_eq!(fs::read_dir(&journals).unwrap().count(), 1);
        guardian.finish().unwrap();
        assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
    }
}
