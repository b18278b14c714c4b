//! The folder that keeps the bills of a sweep: `store.toml`, `bills`, `failures`, `runs.jsonl`, `lock`, `tmp`.
//!
//! A bill appears by a rename, complete and on the disk, or not at all. What is in `bills` depends on the jobs alone:
//! [`kept`] leaves out when something was counted. Nothing is deleted but the failure of a job that was billed since, and
//! what killed processes left in `tmp`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use pagetoll_bill::{Bill, Evidence};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::JobId;

/// The file that makes a folder a store.
const HEAD: &str = "store.toml";
/// What it says.
const SCHEMA: &str = "pagetoll.store/1";
const LOCK: &str = "lock";
const BILLS: &str = "bills";
const FAILURES: &str = "failures";
const RUNS: &str = "runs.jsonl";
/// Files that are being written.
const TMP: &str = "tmp";
/// What their names begin with; others in that folder are not pagetoll's.
const WRITTEN: &str = ".pagetoll-";

/// Why a store cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A folder of something else.
    #[error("{}: is not a store (it has no store.toml); expected {expected}", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// What would do.
        expected: &'static str,
    },
    /// A store of another version, or a damaged one.
    #[error("{}: {problem}; expected schema = \"pagetoll.store/1\"", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// What it holds instead.
        problem: String,
    },
    /// Another process works on it.
    #[error("{}: is in use by process {holder}; expected a store that no other sweep works on", path.display())]
    InUse {
        /// The store.
        path: PathBuf,
        /// Its number, or `unknown`.
        holder: String,
    },
    /// The file system refused.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried: read, write.
        operation: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl StoreError {
    fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            operation,
            path,
            source,
        }
    }
}

/// A file of a store that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {problem}; expected what a sweep wrote there", path.display())]
pub struct Damaged {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// What a thread returned; its panic is this one's.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a process does with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Runs all that is to do; no other process works on the store meanwhile.
    Sweep,
    /// Runs one job; others may do so meanwhile.
    Job,
    /// Reads, without taking the lock.
    Read,
}

/// An opened store; its lock is held until it is dropped.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    _lock: Option<File>,
}

/// The last failure of a job that has no bill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The job.
    pub id: JobId,
    /// Its command line.
    pub command: String,
    /// Exit code, 128 + N after signal N; `None` where it was not started or printed no bill.
    pub exit: Option<i32>,
    /// The last lines that it wrote to stderr.
    pub reason: String,
    /// How often it was tried by the sweep that gave up.
    pub attempts: u32,
}

/// One attempt at a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The job.
    pub id: JobId,
    /// The node's name.
    pub node: String,
    /// RFC 3339 time in UTC.
    pub started: String,
    /// Wall time in seconds.
    pub seconds: f64,
    /// As [`Failure::exit`].
    pub exit: Option<i32>,
}

/// All that a store holds of one kind, and the files that cannot be used.
#[derive(Debug)]
pub struct Found<T> {
    /// By id, in order.
    pub whole: Vec<(JobId, T)>,
    /// The others.
    pub damaged: Vec<Damaged>,
}

impl<T> Default for Found<T> {
    fn default() -> Self {
        Self {
            whole: Vec::new(),
            damaged: Vec::new(),
        }
    }
}

/// The bill as a store has it: of exact and modelled figures it does not say when they were counted, because they do not
/// depend on it.
#[must_use]
pub fn kept(mut bill: Bill) -> Bill {
    if bill.evidence != Evidence::Measured {
        bill.provenance.when.clear();
        bill.provenance.inputs.counted = None;
    }
    bill
}

impl Store {
    /// Opens a store; for work, an empty or absent folder becomes one.
    ///
    /// # Errors
    /// Every [`StoreError`].
    pub fn open(root: &Path, access: Access) -> Result<Self, StoreError> {
        let head = root.join(HEAD);
        if access == Access::Read {
            if !head.exists() {
                return Err(not_a_store(
                    root,
                    "the folder of an earlier `pagetoll sweep --store`",
                ));
            }
            check_head(&head)?;
            let root = root.to_owned();
            return Ok(Self { root, _lock: None });
        }
        if !head.exists() && holds_something_else(root)? {
            return Err(not_a_store(
                root,
                "a store, an empty folder, or one to be made",
            ));
        }
        for folder in [
            root.to_owned(),
            root.join(TMP),
            root.join(BILLS),
            root.join(FAILURES),
        ] {
            fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        }
        let store = Self {
            _lock: Some(lock(root, access)?),
            root: root.to_owned(),
        };
        if access == Access::Sweep {
            store.clear_leftovers()?;
        }
        match head.exists() {
            true => check_head(&head)?,
            false => store.replace(&head, format!("schema = \"{SCHEMA}\"\n").as_bytes())?,
        }
        Ok(store)
    }

    /// Opens a store to be read, as [`Access::Read`]; `None` is a folder that could become one.
    ///
    /// # Errors
    /// Every [`StoreError`].
    pub fn look(root: &Path) -> Result<Option<Self>, StoreError> {
        match root.join(HEAD).exists() || holds_something_else(root)? {
            true => Self::open(root, Access::Read).map(Some),
            false => Ok(None),
        }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Keeps the bill of a job, as [`kept`] has it, and forgets its failure.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep(&self, id: &JobId, bill: Bill) -> Result<(), StoreError> {
        self.replace(&self.path(BILLS, id), &json(&kept(bill))?)?;
        let failure = self.path(FAILURES, id);
        match fs::remove_file(&failure) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &failure)(error))
            }
            _ => Ok(()),
        }
    }

    /// Keeps why a job has no bill.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn fail(&self, failure: &Failure) -> Result<(), StoreError> {
        self.replace(&self.path(FAILURES, &failure.id), &json(failure)?)
    }

    /// Adds an attempt to `runs.jsonl`.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn record(&self, run: &Run) -> Result<(), StoreError> {
        let path = self.root.join(RUNS);
        let mut line = serde_json::to_vec(run)
            .map_err(|error| StoreError::io("write", &path)(error.into()))?;
        line.push(b'\n');
        // In one write(2): lines of several processes do not mix.
        let written = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(&line));
        written.map_err(StoreError::io("write", &path))
    }

    /// The bill of a job; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Io`]; `Ok(Some(Err(_)))` is a bill that cannot be used.
    pub fn bill(&self, id: &JobId) -> Result<Option<Result<Bill, Damaged>>, StoreError> {
        read(&self.path(BILLS, id))
    }

    /// What is wanted of each bill: stores have more bills than fit into memory. They are read by as many threads as there are
    /// CPUs.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn bills<T: Send>(
        &self,
        of: impl Fn(&JobId, Bill) -> T + Sync,
    ) -> Result<Found<T>, StoreError> {
        let ids = self.ids(BILLS)?;
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let parts = ids.chunks(ids.len().div_ceil(threads).max(1));
        let read = |part| self.found(BILLS, part, &of);
        let parts: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            started.into_iter().map(join).collect()
        });
        let mut all = Found::default();
        for part in parts {
            let part = part?;
            all.whole.extend(part.whole);
            all.damaged.extend(part.damaged);
        }
        Ok(all)
    }

    /// All failures.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn failures(&self) -> Result<Found<Failure>, StoreError> {
        self.found(FAILURES, &self.ids(FAILURES)?, &|_, failure| failure)
    }

    /// All attempts, in the order in which they ended; a line that is none, as a killed process leaves one, is left out.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn runs(&self) -> Result<Vec<Run>, StoreError> {
        let path = self.root.join(RUNS);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text.map_err(StoreError::io("read", &path))?,
        };
        let runs = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok(runs.collect())
    }

    /// Of the files of one kind, in order.
    fn ids(&self, kind: &str) -> Result<Vec<JobId>, StoreError> {
        let folder = self.root.join(kind);
        let mut ids = Vec::new();
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let name = entry.map_err(StoreError::io("read", &folder))?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
            ids.extend(id.and_then(|id| id.parse().ok()));
        }
        ids.sort();
        Ok(ids)
    }

    fn found<F: for<'de> Deserialize<'de>, T>(
        &self,
        kind: &str,
        ids: &[JobId],
        of: &impl Fn(&JobId, F) -> T,
    ) -> Result<Found<T>, StoreError> {
        let mut found = Found::default();
        for id in ids {
            match read(&self.path(kind, id))? {
                Some(Ok(value)) => found.whole.push((id.clone(), of(id, value))),
                Some(Err(damaged)) => found.damaged.push(damaged),
                None => {}
            }
        }
        Ok(found)
    }

    fn path(&self, kind: &str, id: &JobId) -> PathBuf {
        self.root.join(kind).join(format!("{id}.json"))
    }

    /// Writes a file beside, syncs it and renames it.
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = path.parent().unwrap_or(&self.root);
        // For all who share the folder, as their umask has it.
        let mut file = tempfile::Builder::new();
        let readable = fs::Permissions::from_mode(0o666);
        let file = file.prefix(WRITTEN).permissions(readable);
        let written = file.tempfile_in(self.root.join(TMP)).and_then(|mut file| {
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(path)?;
            File::open(folder)?.sync_all()
        });
        written.map_err(StoreError::io("write", path))
    }

    fn clear_leftovers(&self) -> Result<(), StoreError> {
        let folder = self.root.join(TMP);
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))? {
            let entry = entry.map_err(StoreError::io("read", &folder))?;
            if entry.file_name().to_string_lossy().starts_with(WRITTEN) {
                let path = entry.path();
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        Ok(())
    }
}

fn not_a_store(root: &Path, expected: &'static str) -> StoreError {
    StoreError::NotAStore {
        path: root.to_owned(),
        expected,
    }
}

/// Whether a folder without a head has files that are not a store's: another process may be making it a store.
fn holds_something_else(root: &Path) -> Result<bool, StoreError> {
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(StoreError::io("read", root))?,
    };
    for entry in entries {
        let name = entry.map_err(StoreError::io("read", root))?.file_name();
        if ![LOCK, TMP, BILLS, FAILURES, HEAD]
            .iter()
            .any(|own| name == *own)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What [`HEAD`] holds.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

fn check_head(path: &Path) -> Result<(), StoreError> {
    let text = fs::read_to_string(path).map_err(StoreError::io("read", path))?;
    let problem = match toml::from_str::<Head>(&text) {
        Ok(head) if head.schema == SCHEMA => return Ok(()),
        Ok(head) => format!("has schema = {:?}", head.schema),
        Err(error) => error.message().to_owned(),
    };
    let path = path.to_owned();
    Err(StoreError::Head { path, problem })
}

/// Sweeps exclude each other and single jobs; the number of a sweep's process is in the file.
fn lock(root: &Path, access: Access) -> Result<File, StoreError> {
    let path = root.join(LOCK);
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).read(true).write(true);
    let mut file = options
        .open(&path)
        .map_err(StoreError::io("write", &path))?;
    let operation = match access {
        Access::Sweep => FlockOperation::NonBlockingLockExclusive,
        Access::Job | Access::Read => FlockOperation::NonBlockingLockShared,
    };
    match rustix::fs::flock(&file, operation) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            // Who it is only helps the message.
            let _unknown = file.read_to_string(&mut holder);
            return Err(StoreError::InUse {
                path: root.to_owned(),
                holder: match holder.trim() {
                    "" => "unknown".to_owned(),
                    number => number.to_owned(),
                },
            });
        }
        Err(errno) => return Err(StoreError::io("lock", &path)(errno.into())),
    }
    if access == Access::Sweep {
        let number = format!("{}\n", std::process::id());
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(number.as_bytes()));
        written.map_err(StoreError::io("write", &path))?;
    }
    Ok(file)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| StoreError::io("write", Path::new("JSON"))(error.into()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn read<T: for<'de> Deserialize<'de>>(
    path: &Path,
) -> Result<Option<Result<T, Damaged>>, StoreError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(StoreError::io("read", path))?,
    };
    let value = serde_json::from_slice(&bytes).map_err(|error| Damaged {
        path: path.to_owned(),
        problem: error.to_string(),
    });
    Ok(Some(value))
}

#[cfg(test)]
mod tests;
