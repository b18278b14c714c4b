//! The folder that keeps the bills of a sweep: `store.toml`, `bills`, `failures`, `runs.jsonl`, `lock`, `tmp`.
//!
//! A bill appears by a rename, complete and on the disk, or not at all. What is in `bills` depends on the jobs alone:
//! [`kept`] leaves out when something was counted. Nothing is deleted but the failure of a job that was billed since, and
//! what killed processes left in `tmp`.
//!
//! A store may come from elsewhere. All in it is opened below the descriptor of its folder ([`Folder`]): where a sweep
//! keeps a file only a regular one is used, no link is followed, and nothing is read beyond a size.

use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZero;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use pagetoll_backend::input::{self, Folder, ReadError};
use pagetoll_backend::join;
use pagetoll_bill::{Bill, Evidence, from_json};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::JobId;

/// The file that makes a folder a store.
const HEAD: &str = "store.toml";
/// Version of the store's layout, in [`HEAD`].
const SCHEMA: &str = "pagetoll.store/1";
const LOCK: &str = "lock";
const BILLS: &str = "bills";
const FAILURES: &str = "failures";
const RUNS: &str = "runs.jsonl";
/// Files that are being written.
const TMP: &str = "tmp";
/// Prefix of temporary files; others in that folder are not pagetoll's.
const WRITTEN: &str = ".pagetoll-";

/// Expectation of commands that only read a store.
const SWEPT: &str = "the folder of an earlier `pagetoll sweep --store`";

/// A larger file is no bill and no failure, in bytes. Assumed: the bill of the largest order is below 1 MiB.
pub const MOST_OF_BILL: u64 = 64 << 20;
/// Size limit of `runs.jsonl`, in bytes: some 400 000 attempts.
const MOST_OF_RUNS: u64 = 64 << 20;
/// Size limit of [`HEAD`], in bytes.
const MOST_OF_HEAD: u64 = 4 << 10;
/// Size limit of [`LOCK`], which holds a process ID, in bytes.
const MOST_OF_HOLDER: u64 = 32;

/// Failure of a store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A folder of something else.
    #[error("{}: is not a store (it has no store.toml); expected {expected}", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// Acceptable folders.
        expected: &'static str,
    },
    /// A store of another version, or a damaged one.
    #[error("{}: {problem}; expected schema = \"pagetoll.store/1\"", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// Content that was found instead.
        problem: String,
    },
    /// Another process works on it.
    #[error("{}: is in use by process {holder}; expected a store that no other sweep works on", path.display())]
    InUse {
        /// The store.
        path: PathBuf,
        /// Process ID, or `unknown`.
        holder: String,
    },
    /// Something that no sweep left where it is.
    #[error("{}: {problem}", path.display())]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// File type that was found, and the expected one.
        problem: String,
    },
    /// The file system refused.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// Operation: read, write.
        operation: &'static str,
        /// File or folder.
        path: PathBuf,
        /// Cause.
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

    fn unreadable(operation: &'static str, path: &Path) -> impl FnOnce(ReadError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            ReadError::Io(source) => Self::Io {
                operation,
                path,
                source,
            },
            other => Self::Foreign {
                path,
                problem: other.to_string(),
            },
        }
    }
}

/// A file of a store that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {problem}; expected what a sweep wrote there", path.display())]
pub struct DamagedFile {
    /// The file.
    pub path: PathBuf,
    /// Problem of the file.
    pub problem: String,
}

/// Access of a process to a store.
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
    root: Folder,
    _lock: Option<File>,
}

/// The last failure of a job that has no bill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The job.
    pub id: JobId,
    /// Command line.
    pub command: String,
    /// Exit code, 128 + N after signal N; `None` where it was not started or printed no bill.
    pub exit: Option<i32>,
    /// The last lines that it wrote to stderr.
    pub reason: String,
    /// Attempts of the sweep that gave up.
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
    /// Exit code, see [`Failure::exit`].
    pub exit: Option<i32>,
}

/// Entries of one kind, and the files that cannot be read.
#[derive(Debug)]
pub struct Entries<T> {
    /// By id, in order.
    pub whole: Vec<(JobId, T)>,
    /// The others.
    pub damaged: Vec<DamagedFile>,
}

impl<T> Default for Entries<T> {
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
        for check in bill.rows.iter_mut().flat_map(|row| &mut row.checks) {
            check.kept = None;
        }
    }
    bill
}

impl Store {
    /// Opens a store; for work, an empty or absent folder becomes one.
    ///
    /// # Errors
    /// Every [`StoreError`].
    pub fn open(root: &Path, access: Access) -> Result<Self, StoreError> {
        if access == Access::Read {
            return Self::look(root)?.ok_or_else(|| not_a_store(root, SWEPT));
        }
        fs::create_dir_all(root).map_err(StoreError::io("create", root))?;
        let root = Folder::open(root).map_err(StoreError::unreadable("open", root))?;
        // Before the head, which another process writes before anything else that is not among these names.
        let is_used = holds_something_else(&root)?;
        if !has_head(&root)? && is_used {
            let expected = "a store, an empty folder, or one to be made";
            return Err(not_a_store(root.path(), expected));
        }
        let mut store = Self { root, _lock: None };
        for name in [TMP, BILLS, FAILURES] {
            store.create(name)?;
        }
        store._lock = Some(store.lock(access)?);
        if access == Access::Sweep {
            let tmp = store.folder(TMP)?;
            for name in names(&tmp)? {
                if name.starts_with(WRITTEN) {
                    remove(&tmp, &name)?;
                }
            }
        }
        if !has_head(&store.root)? {
            let head = format!("schema = \"{SCHEMA}\"\n");
            store.replace(&store.root, HEAD, head.as_bytes())?;
        }
        // Before a job runs whose attempt it could not keep.
        store.in_place(RUNS, OFlags::WRONLY)?;
        Ok(store)
    }

    /// Opens a store to be read, as [`Access::Read`]; `None` is a folder that could become one.
    ///
    /// # Errors
    /// Every [`StoreError`].
    pub fn look(path: &Path) -> Result<Option<Self>, StoreError> {
        let root = match Folder::open(path) {
            Err(error) if error.is_absent() => return Ok(None),
            root => root.map_err(StoreError::unreadable("open", path))?,
        };
        let is_used = holds_something_else(&root)?;
        match (has_head(&root)?, is_used) {
            (true, _) => Ok(Some(Self { root, _lock: None })),
            (false, true) => Err(not_a_store(path, SWEPT)),
            (false, false) => Ok(None),
        }
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Keeps the bill of a job, as [`kept`] has it, and forgets its failure.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Io`].
    pub fn keep(&self, id: &JobId, bill: Bill) -> Result<(), StoreError> {
        self.replace(&self.folder(BILLS)?, &name(id), &json(&kept(bill))?)?;
        remove(&self.folder(FAILURES)?, &name(id))
    }

    /// Keeps why a job has no bill.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Io`].
    pub fn fail(&self, failure: &Failure) -> Result<(), StoreError> {
        let failures = self.folder(FAILURES)?;
        self.replace(&failures, &name(&failure.id), &json(failure)?)
    }

    /// Adds an attempt to `runs.jsonl`.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Io`].
    pub fn record(&self, run: &Run) -> Result<(), StoreError> {
        let path = self.root.path().join(RUNS);
        let mut line = serde_json::to_vec(run)
            .map_err(|error| StoreError::io("write", &path)(error.into()))?;
        line.push(b'\n');
        let mut file = self.in_place(RUNS, OFlags::WRONLY | OFlags::APPEND)?;
        // In one write(2): lines of several processes do not mix.
        file.write_all(&line)
            .map_err(StoreError::io("write", &path))
    }

    /// The bill of a job; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::Io`]; `Ok(Some(Err(_)))` is a bill that cannot be used.
    pub fn bill(&self, id: &JobId) -> Result<Option<Result<Bill, DamagedFile>>, StoreError> {
        match self.held(BILLS)? {
            Some(folder) => read(&folder, id),
            None => Ok(None),
        }
    }

    /// The failure of a job; `None` where there is none.
    ///
    /// # Errors
    /// Those of [`bill`](Self::bill).
    pub fn failure(&self, id: &JobId) -> Result<Option<Result<Failure, DamagedFile>>, StoreError> {
        match self.held(FAILURES)? {
            Some(folder) => read(&folder, id),
            None => Ok(None),
        }
    }

    /// Values that `value` takes from each bill. Bills are read by as many threads as there are CPUs, and not kept: stores
    /// have more than fit into memory.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn bills<T: Send>(
        &self,
        value: impl Fn(&JobId, Bill) -> T + Sync,
    ) -> Result<Entries<T>, StoreError> {
        let Some(folder) = self.held(BILLS)? else {
            return Ok(Entries::default());
        };
        let ids = ids(&folder)?;
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let parts = ids.chunks(ids.len().div_ceil(threads).max(1));
        let read = |part| entries(&folder, part, &value);
        let parts: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> = parts.map(|part| scope.spawn(move || read(part))).collect();
            started.into_iter().map(join).collect()
        });
        let mut all = Entries::default();
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
    pub fn failures(&self) -> Result<Entries<Failure>, StoreError> {
        let Some(folder) = self.held(FAILURES)? else {
            return Ok(Entries::default());
        };
        entries(&folder, &ids(&folder)?, &|_, failure| failure)
    }

    /// All attempts, in the order in which they ended; malformed lines, as a killed process leaves them, are left out.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], also of more than 64 MiB; [`StoreError::Io`].
    pub fn runs(&self) -> Result<Vec<Run>, StoreError> {
        let text = match self.root.read(RUNS, MOST_OF_RUNS) {
            Err(error) if error.is_absent() => Vec::new(),
            text => text.map_err(StoreError::unreadable("read", &self.root.path().join(RUNS)))?,
        };
        let lines = text.split(|byte| *byte == b'\n');
        let runs = lines.filter_map(|line| serde_json::from_slice(line).ok());
        Ok(runs.collect())
    }

    fn folder(&self, name: &str) -> Result<Folder, StoreError> {
        let path = self.root.path().join(name);
        let folder = self.root.folder(name);
        folder.map_err(StoreError::unreadable("open", &path))
    }

    /// A folder to be read; none where it is not there, as version control keeps no empty one.
    fn held(&self, name: &str) -> Result<Option<Folder>, StoreError> {
        let path = self.root.path().join(name);
        match self.root.folder(name) {
            Err(error) if error.is_absent() => Ok(None),
            folder => {
                let folder = folder.map_err(StoreError::unreadable("open", &path))?;
                Ok(Some(folder))
            }
        }
    }

    /// Creates a folder where there is none; what is no folder of the store's own is refused.
    fn create(&self, name: &str) -> Result<(), StoreError> {
        match rustix::fs::mkdirat(&self.root, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => self.folder(name).map(drop),
            Err(errno) => {
                let path = self.root.path().join(name);
                Err(StoreError::io("create", &path)(errno.into()))
            }
        }
    }

    /// Opens a file that is written in place: one that has a second name may be anybody's.
    fn in_place(&self, name: &str, access: OFlags) -> Result<File, StoreError> {
        let path = self.root.path().join(name);
        let file = self.root.file(name, access | OFlags::CREATE);
        let file = file.map_err(StoreError::unreadable("write", &path))?;
        let about = file.metadata().map_err(StoreError::io("write", &path))?;
        match about.nlink() {
            0 | 1 => Ok(file),
            links => {
                let problem = format!("has {links} hard links; expected a file of the store alone");
                Err(StoreError::Foreign { path, problem })
            }
        }
    }

    /// Sweeps exclude each other and single jobs; the number of a sweep's process is in the file.
    fn lock(&self, access: Access) -> Result<File, StoreError> {
        let path = self.root.path().join(LOCK);
        let mut file = self.in_place(LOCK, OFlags::RDWR)?;
        let operation = match access {
            Access::Sweep => FlockOperation::NonBlockingLockExclusive,
            Access::Job | Access::Read => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&file, operation) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(StoreError::InUse {
                    path: self.root.path().to_owned(),
                    holder: holder(&file).unwrap_or_else(|| "unknown".to_owned()),
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

    /// Writes a file beside, syncs it and renames it.
    fn replace(&self, folder: &Folder, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let tmp = self.folder(TMP)?;
        let path = folder.path().join(name);
        let beside = format!("{WRITTEN}{:016x}", fastrand::u64(..));
        // For all who share the folder, as their umask has it.
        let access = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let mut file = tmp
            .file(&beside, access)
            .map_err(StoreError::unreadable("write", &path))?;
        let written = file.write_all(bytes).and_then(|()| {
            file.sync_all()?;
            rustix::fs::renameat(&tmp, &beside, folder, name)?;
            Ok(rustix::fs::fsync(folder)?)
        });
        if written.is_err() {
            // What is left of a failed write is of no use, and the failure is what counts.
            let _ = rustix::fs::unlinkat(&tmp, &beside, AtFlags::empty());
        }
        written.map_err(StoreError::io("write", &path))
    }
}

fn remove(folder: &Folder, name: &str) -> Result<(), StoreError> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(StoreError::io("remove", &folder.path().join(name))(
            errno.into(),
        )),
    }
}

/// Names that are no UTF-8 are not a store's.
fn names(folder: &Folder) -> Result<Vec<String>, StoreError> {
    let names = folder.names();
    let names = names.map_err(StoreError::io("read", folder.path()))?;
    Ok(names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect())
}

fn name(id: &JobId) -> String {
    format!("{id}.json")
}

/// Ids of the files of one kind, in order.
fn ids(folder: &Folder) -> Result<Vec<JobId>, StoreError> {
    let names = names(folder)?;
    let ids = names.iter().filter_map(|name| name.strip_suffix(".json"));
    Ok(ids.filter_map(|id| id.parse().ok()).collect())
}

/// Entries of a folder, each as `value` of its id and content.
fn entries<F: for<'de> Deserialize<'de>, T>(
    folder: &Folder,
    ids: &[JobId],
    value: &impl Fn(&JobId, F) -> T,
) -> Result<Entries<T>, StoreError> {
    let mut entries = Entries::default();
    for id in ids {
        match read(folder, id)? {
            Some(Ok(content)) => entries.whole.push((id.clone(), value(id, content))),
            Some(Err(damaged)) => entries.damaged.push(damaged),
            None => {}
        }
    }
    Ok(entries)
}

fn not_a_store(root: &Path, expected: &'static str) -> StoreError {
    StoreError::NotAStore {
        path: root.to_owned(),
        expected,
    }
}

/// True if a folder without a head has files that are not a store's: another process may be making it a store.
fn holds_something_else(root: &Folder) -> Result<bool, StoreError> {
    let names = root.names();
    let names = names.map_err(StoreError::io("read", root.path()))?;
    let is_own = |name| {
        [LOCK, TMP, BILLS, FAILURES, HEAD]
            .iter()
            .any(|own| name == *own)
    };
    Ok(!names.iter().all(is_own))
}

/// Content of [`HEAD`].
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// True if there is a head; it has to be of this version.
fn has_head(root: &Folder) -> Result<bool, StoreError> {
    let path = root.path().join(HEAD);
    let bytes = match root.read(HEAD, MOST_OF_HEAD) {
        Err(error) if error.is_absent() => return Ok(false),
        bytes => bytes.map_err(StoreError::unreadable("read", &path))?,
    };
    let problem = match toml::from_slice::<Head>(&bytes) {
        Ok(head) if head.schema == SCHEMA => return Ok(true),
        Ok(head) => format!("has schema = {:?}", head.schema),
        Err(error) => error.message().to_owned(),
    };
    Err(StoreError::Head { path, problem })
}

/// The number of the process that wrote it; it only helps a message.
fn holder(lock: &File) -> Option<String> {
    let bytes = input::read_all(lock, MOST_OF_HOLDER).ok()?;
    let number: u32 = std::str::from_utf8(&bytes).ok()?.trim().parse().ok()?;
    Some(number.to_string())
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| StoreError::io("write", Path::new("JSON"))(error.into()))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn read<T: for<'de> Deserialize<'de>>(
    folder: &Folder,
    id: &JobId,
) -> Result<Option<Result<T, DamagedFile>>, StoreError> {
    let path = folder.path().join(name(id));
    let bytes = match folder.read(name(id), MOST_OF_BILL) {
        Err(error) if error.is_absent() => return Ok(None),
        bytes => bytes.map_err(StoreError::unreadable("read", &path))?,
    };
    let value = from_json(&bytes).map_err(|error| DamagedFile {
        path,
        problem: error.to_string(),
    });
    Ok(Some(value))
}

#[cfg(test)]
mod tests;
