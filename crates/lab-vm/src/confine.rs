//! Confinement of QEMU to its files, its memory and its CPU time. A guest is hostile, and may break out of it.
//!
//! - No new programs, threads' scheduling or privileges: seccomp (`-sandbox`, qemu(1)) and `no_new_privs`.
//! - Where pagetoll is the superuser, a user of its own for each QEMU, without groups and capabilities. It reaches
//!   nothing but the files of its boot: see `folder.rs`.
//! - Limits of files and memory.
//!
//! What this machine's QEMU or tools cannot do is left out, and the bill says so.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fmt, fs};

use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Available, Unavailable};
use pagetoll_host::error::{Error, Outcome};
use pagetoll_host::process::{Run, run_to_end};
use pagetoll_host::tools::{PerArch, Tool};

use crate::machine::SHARED_MIB;

const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// The limit of a trial. Assumed: QEMU lists its processors in less than a second.
const LIMIT: Duration = Duration::from_secs(60);
/// Address space beside the guest's memory: translated code (1 GiB), libraries, stacks and heaps of threads.
const QEMU_MIB: u64 = 4096;
/// Files of a machine with the lab's few devices.
const OPEN_FILES: u64 = 256;

/// The users that systemd gives to services for as long as they run, hence of no account (`DynamicUser=`,
/// systemd.exec(5)).
const FREE_FOR_SERVICES: Range<u32> = 61184..65520;
/// The limit of a query. Assumed: a directory service answers sooner.
const QUERY_LIMIT: Duration = Duration::from_secs(10);
/// Exit code of getent(1) for a user that does not exist.
const NO_SUCH_KEY: i32 = 2;

/// The means of this machine to confine QEMU.
#[derive(Debug)]
pub struct Confinement {
    /// Why not, where it cannot.
    sandbox: Available<()>,
    /// Privileges and limits; why not, where they cannot be had.
    wrapper: Available<()>,
}

impl Confinement {
    /// The means that work here for machines with a processor, tried once.
    ///
    /// # Errors
    /// [`Error::Stopped`]; QEMU is missing.
    pub fn here(arch: Arch, stop: &Stop) -> Result<&'static Self, Error> {
        static HERE: PerArch<Confinement> = PerArch::new();
        HERE.get_or_try(arch, || Self::tried(arch, stop))
    }

    fn tried(arch: Arch, stop: &Stop) -> Result<Self, Error> {
        let user = User::unused(stop)?;
        let wrapper = refusal(with_limits(qemu(arch), user, Room::NONE), stop)?;
        let sandboxed = qemu(arch).args(["-sandbox", SANDBOX]);
        let sandbox = match wrapper {
            Ok(()) => refusal(with_limits(sandboxed, user, Room::NONE), stop)?,
            Err(_) => refusal(sandboxed, stop)?,
        };
        Ok(Self { sandbox, wrapper })
    }

    /// The user that the next QEMU runs as, where it does not run as this process's.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn user(&self, stop: &Stop) -> Result<Option<User>, Error> {
        match self.wrapper {
            Ok(()) => User::unused(stop),
            Err(_) => Ok(None),
        }
    }

    /// QEMU's command, confined.
    pub fn around(&self, run: Run, user: Option<User>, room: Room) -> Run {
        let run = match self.sandbox {
            Ok(()) => run.args(["-sandbox", SANDBOX]),
            Err(_) => run,
        };
        match self.wrapper {
            Ok(()) => with_limits(run, user, room),
            Err(_) => run,
        }
    }

    /// Notes of a bill about means that do not work here.
    pub fn notes(&self) -> Vec<String> {
        let note = |what: &str, tried: &Available<()>| {
            let reason = tried.as_ref().err()?;
            Some(format!("QEMU ran without {what}: {reason}"))
        };
        let notes = [
            note("its seccomp sandbox", &self.sandbox),
            note("limits and a user of its own", &self.wrapper),
        ];
        notes.into_iter().flatten().collect()
    }
}

/// A QEMU that ends by itself, after it has taken its sandbox into use (`qemu_process_early_options` in softmmu/vl.c).
fn qemu(arch: Arch) -> Run {
    Run::new(Tool::emulator(arch).program()).args(["-machine", "none", "-cpu", "help"])
}

fn refusal(run: Run, stop: &Stop) -> Result<Available<()>, Error> {
    match run_to_end(&run, LIMIT, stop) {
        Ok(_) => Ok(Ok(())),
        Err(Error::Process(error)) => {
            let last = error.stderr_tail.lines().next_back().unwrap_or_default();
            Ok(Err(Unavailable(match last {
                "" => error.outcome.to_string(),
                last => last.to_owned(),
            })))
        }
        Err(error) => Err(error),
    }
}

/// Through setpriv and prlimit of util-linux.
fn with_limits(run: Run, user: Option<User>, room: Room) -> Run {
    let mut words: Vec<OsString> = ["setpriv", "--no-new-privs"].map(Into::into).into();
    if let Some(user) = user {
        words.push(format!("--reuid={user}").into());
        words.push(format!("--regid={user}").into());
        // A change of user drops the signal for the death of the parent: prctl(2).
        words.extend(
            [
                "--clear-groups",
                "--bounding-set=-all",
                "--inh-caps=-all",
                "--ambient-caps=-all",
                "--pdeathsig=KILL",
            ]
            .map(Into::into),
        );
    }
    words.extend(["--", "prlimit", "--core=0"].map(Into::into));
    let mib = |name: &str, mib: u64| OsString::from(format!("--{name}={}", mib << 20));
    words.push(mib("fsize", room.file_mib));
    words.push(mib("as", room.memory_mib + SHARED_MIB + QEMU_MIB));
    words.push(format!("--nofile={OPEN_FILES}").into());
    words.push("--".into());
    run.behind(words)
}

/// Room that a QEMU may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Memory of its guest, in MiB.
    pub memory_mib: u64,
    /// The largest file that it writes, in MiB.
    pub file_mib: u64,
}

impl Room {
    /// Room of a QEMU that has no guest.
    const NONE: Self = Self {
        memory_mib: 0,
        file_mib: SHARED_MIB,
    };
}

/// The number of a user, and of the group of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(u32);

impl User {
    /// One that has no account and no process; `None` for pagetoll's own, where it is not the superuser and can be no
    /// other. Each call gives another. A pagetoll that looks at the same moment may choose the same.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn unused(stop: &Stop) -> Result<Option<Self>, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let busy = owners_of_processes();
        let count = FREE_FOR_SERVICES.end - FREE_FOR_SERVICES.start;
        for _ in 0..count {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let offset = std::process::id().wrapping_mul(64).wrapping_add(number) % count;
            let user = FREE_FOR_SERVICES.start + offset;
            if !busy.contains(&user) && has_no_account(user, stop)? {
                return Ok(Some(Self(user)));
            }
        }
        Ok(None)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn owners_of_processes() -> BTreeSet<u32> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let owners = folders.filter_map(|folder| Some(folder.metadata().ok()?.uid()));
    owners.collect()
}

/// Neither as user nor as group. Where that cannot be asked, neither is assumed to be free.
fn has_no_account(user: u32, stop: &Stop) -> Result<bool, Error> {
    for database in ["passwd", "group"] {
        let ask = Run::new("getent").arg(database).arg(user.to_string());
        match run_to_end(&ask, QUERY_LIMIT, stop) {
            Err(Error::Process(error)) if matches!(error.outcome, Outcome::Exited(NO_SUCH_KEY)) => {
            }
            Err(Error::Stopped) => return Err(Error::Stopped),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use pagetoll_host::tools;

    use super::*;

    #[test]
    fn what_is_missing_is_noted_and_left_out() {
        let without = Confinement {
            sandbox: Err("no seccomp".into()),
            wrapper: Ok(()),
        };
        assert_eq!(
            without.notes(),
            ["QEMU ran without its seccomp sandbox: no seccomp"]
        );
        let command = without.around(Run::new("qemu"), None, Room::NONE);
        assert_eq!(command.to_string(), "qemu");
    }

    #[test]
    fn this_machines_qemu_is_confined_or_says_why_not() {
        if let Err(missing) = tools::check(&[Tool::Qemu]) {
            pagetoll_test_support::skip!("{missing}");
        }
        let here = Confinement::here(Arch::X86_64, &Stop::new()).unwrap();
        if !here.notes().is_empty() {
            pagetoll_test_support::skip!("{:?}", here.notes());
        }
        let show = Run::new("cat").arg("/proc/self/status");
        let user = here.user(&Stop::new()).unwrap();
        let shown = run_to_end(&with_limits(show, user, Room::NONE), LIMIT, &Stop::new()).unwrap();
        let text = shown.text();
        assert!(text.contains("NoNewPrivs:\t1"), "{text}");
        assert!(
            !rustix::process::geteuid().is_root() || !text.contains("Uid:\t0"),
            "{text}"
        );
    }

    #[test]
    fn each_is_another_without_account() {
        let users = [(); 3].map(|()| User::unused(&Stop::new()).unwrap());
        if !rustix::process::geteuid().is_root() {
            assert_eq!(users, [None; 3]);
            return;
        }
        let numbers = users.map(|user| user.unwrap().number());
        assert!(
            numbers
                .iter()
                .all(|number| FREE_FOR_SERVICES.contains(number))
        );
        assert!(numbers[0] != numbers[1] && numbers[1] != numbers[2]);
        assert!(!has_no_account(0, &Stop::new()).unwrap());
    }
}
