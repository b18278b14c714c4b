//! When everything that a step has begun is over: every actor is done, or in a queue.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use pagetoll_conformance::kvm::Waiting;

use super::actor::Actor;
use super::userfaultfd::queues;
use pagetoll_live_host::LiveError;

/// A case that does not settle within this is given up. Nothing in it takes more than microseconds.
const LIMIT: Duration = Duration::from_secs(20);
/// How often the same must be seen: a thread may pass through a queue, on its way to find that its page is there.
const SIGHTINGS: u32 = 3;

/// Waits until as many threads are busy as wait in queues; says who waits.
pub(super) fn settled<'a>(
    userfaultfds: impl Iterator<Item = &'a OwnedFd> + Clone,
    actors: impl Iterator<Item = &'a Actor> + Clone,
) -> Result<Waiting, LiveError> {
    let began = Instant::now();
    let mut seen = 0;
    loop {
        let waiting = waiting(userfaultfds.clone())?;
        let busy = actors.clone().filter(|actor| actor.is_busy()).count();
        seen = if busy == waiting.total { seen + 1 } else { 0 };
        if seen == SIGHTINGS || (seen > 0 && busy == 0) {
            return Ok(waiting);
        }
        if began.elapsed() > LIMIT {
            return Err(LiveError::Hung {
                mechanism: "conformance".into(),
                vcpus: busy,
                seconds: LIMIT.as_secs(),
            });
        }
        match began.elapsed() > Duration::from_millis(1) {
            true => std::thread::sleep(Duration::from_micros(100)),
            false => std::thread::yield_now(),
        }
    }
}

fn waiting<'a>(userfaultfds: impl Iterator<Item = &'a OwnedFd>) -> Result<Waiting, LiveError> {
    let mut waiting = Waiting::default();
    for fd in userfaultfds {
        let (pending, total) =
            queues(fd.as_fd()).map_err(LiveError::system("reading fdinfo of a userfaultfd"))?;
        waiting.pending += pending;
        waiting.total += total;
    }
    Ok(waiting)
}
