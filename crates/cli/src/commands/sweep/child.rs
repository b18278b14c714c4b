//! A child process in a group of its own, which ends on a stop and leaves nothing of the group behind.

use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use pagetoll_backend::{Error, Stop, Stopped};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

/// Between two looks at a child.
const POLL: Duration = Duration::from_millis(10);
/// Time between SIGTERM and SIGKILL for a child. A sweep itself has to end within a second.
const GRACE: Duration = Duration::from_millis(500);

/// Waits until a child ends that leads a process group, and kills what is left of the group.
///
/// # Errors
/// [`Stopped`], once it ended after a stop: it was asked to, and killed after a while.
pub(super) fn wait(child: &mut Child, stop: &Stop) -> Result<ExitStatus> {
    let pid = Pid::from_child(child);
    let mut asked: Option<Instant> = None;
    while !has_ended(pid) {
        match asked {
            None if stop.requested() => {
                asked = Some(Instant::now());
                // One that is gone needs no signal.
                let _gone = kill_process(pid, Signal::TERM);
            }
            Some(since) if since.elapsed() > GRACE => {
                let _gone = kill_process_group(pid, Signal::KILL);
            }
            _ => thread::sleep(POLL),
        }
    }
    // As long as the leader is not reaped, the number of its group is not used again.
    let _gone = kill_process_group(pid, Signal::KILL);
    let status = child.wait().context("cannot wait for a child")?;
    match asked {
        Some(_) => Err(Error::from(Stopped).into()),
        None => Ok(status),
    }
}

fn has_ended(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(waitid(WaitId::Pid(pid), look), Ok(None) | Err(Errno::INTR))
}
