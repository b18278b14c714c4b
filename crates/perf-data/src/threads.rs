//! The names of threads, as they were at each time.

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Name, Names};

/// Threads that are remembered: `PID_MAX_LIMIT` of `include/linux/threads.h`. No valid trace has more.
const MAX_THREADS: usize = 4 << 20;

/// Names by thread. A tree does not double: a record of a name has 17 bytes or more.
#[derive(Debug, Default)]
pub(super) struct Threads(BTreeMap<u32, Name>);

impl Threads {
    /// A thread has this name from now on.
    pub(super) fn rename(&mut self, tid: u32, comm: Name) {
        if self.0.len() < MAX_THREADS || self.0.contains_key(&tid) {
            self.0.insert(tid, comm);
        }
    }

    /// A thread begins, with the name of the one that made it.
    pub(super) fn fork(&mut self, tid: u32, parent: u32) {
        if let Some(comm) = self.0.get(&parent).map(Name::clone) {
            self.rename(tid, comm);
        }
    }

    /// The name as perf prints it: `:TID` for a thread whose name the trace does not have, `:-1` for one that has exited.
    pub(super) fn comm(&self, tid: Option<u32>, names: &mut Names) -> Name {
        match tid {
            None => names.intern(":-1"),
            Some(0) => names.intern("swapper"),
            Some(tid) => match self.0.get(&tid) {
                Some(comm) => Name::clone(comm),
                None => names.intern(&format!(":{tid}")),
            },
        }
    }
}
