//! A user that owns nothing and runs nothing, for one QEMU.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pagetoll_backend::Stop;
use pagetoll_host::error::{Error, Outcome};
use pagetoll_host::process::{Run, run_to_end};

/// The users that systemd gives to services for as long as they run, hence of no account (`DynamicUser=`,
/// systemd.exec(5)).
const FREE_FOR_SERVICES: Range<u32> = 61184..65520;
/// The limit of a query. Assumed: a directory service answers sooner.
const LIMIT: Duration = Duration::from_secs(10);
/// What getent(1) exits with for a user that does not exist.
const NO_SUCH_KEY: i32 = 2;

/// The number of a user, and of the group of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct User(u32);

impl User {
    /// One that has no account and no process; `None` for pagetoll's own, where it is not the superuser and can be no
    /// other. Each call gives another. A pagetoll that looks at the same moment may choose the same.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub(crate) fn unused(stop: &Stop) -> Result<Option<Self>, Error> {
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
        match run_to_end(&ask, LIMIT, stop) {
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
    use super::*;

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
