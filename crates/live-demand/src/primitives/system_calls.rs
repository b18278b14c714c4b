//! What any system call costs.

use super::round::{Round, each_takes};
use super::{Group, Primitive};
use pagetoll_live_host::LiveError;

pub(super) const GROUP: Group = Group {
    name: "system calls",
    measure,
    primitives: &[Primitive::SystemCall],
};

/// Calls of a burst.
const CALLS: u64 = 4096;

fn measure(round: &mut Round<'_>) -> Result<(), LiveError> {
    let call = each_takes(CALLS, || {
        for _ in 0..CALLS {
            // Never cached: each is a system call.
            let _ = rustix::thread::gettid();
        }
        Ok(())
    })?;
    round.note(Primitive::SystemCall, call);
    Ok(())
}
