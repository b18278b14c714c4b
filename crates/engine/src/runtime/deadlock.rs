//! Report of a deadlock: every waiter, its resource, and the holders.

use std::fmt;

use crate::ids::{CoreId, TaskId};
use crate::runtime::kernel::Kernel;
use crate::runtime::node::WaitFor;
use crate::time::Time;

/// Something that a task can wait for, asked only once a run is stuck.
pub(crate) trait Resource {
    /// Kind and name, to follow "waits for".
    fn title(&self) -> String;

    /// The tasks without which `waiter` cannot go on.
    fn holders(&self, kernel: &Kernel, waiter: u32) -> Vec<u32>;
}

/// One task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedTask {
    /// The task that waits for ever.
    pub task: TaskId,
    /// The name that was passed to `spawn`.
    pub name: String,
    /// The core that it runs on or queues for.
    pub core: CoreId,
    /// Resource that it waits for, e.g. ``spinlock `mmap` ``.
    pub waits_for: String,
    /// The tasks that hold it; none for a wake-up.
    pub held_by: Vec<TaskId>,
    holders: Vec<String>,
}

/// Tasks wait and nothing is pending: the whole waits-for graph and its cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Time at which the run came to a stop.
    pub at: Time,
    /// Every task that has not finished, by id.
    pub blocked: Vec<BlockedTask>,
    /// The cycles, each as the names of its tasks, beginning with the lowest id.
    pub cycles: Vec<Vec<String>>,
}

impl Deadlock {
    /// Describes a stopped run; `None` if every task has finished.
    pub(crate) fn new(kernel: &Kernel) -> Option<Self> {
        let blocked: Vec<_> = (0..kernel.tasks.borrow().len())
            .filter_map(|task| BlockedTask::new(kernel, u32::try_from(task).ok()?))
            .collect();
        if blocked.is_empty() {
            return None;
        }
        let cycles = cycles(&blocked);
        Some(Self {
            at: kernel.now(),
            blocked,
            cycles,
        })
    }
}

impl BlockedTask {
    fn new(kernel: &Kernel, task: u32) -> Option<Self> {
        if kernel.tasks.borrow().get(task as usize)?.done {
            return None;
        }
        let (waits_for, holders) = awaited(kernel, task);
        Some(Self {
            task: TaskId(task),
            name: kernel.name(task),
            core: kernel.core_of(task),
            waits_for,
            held_by: holders.iter().copied().map(TaskId).collect(),
            holders: holders.iter().map(|&holder| kernel.name(holder)).collect(),
        })
    }
}

/// Resource that `task` waits for, and the tasks that hold it.
fn awaited(kernel: &Kernel, task: u32) -> (String, Vec<u32>) {
    let wait = kernel.status(task).wait.get();
    if wait == WaitFor::CORE {
        let occupant = kernel.core(task).occupant().into_iter().collect();
        return (format!("core {}", kernel.core_of(task).0), occupant);
    }
    let resources = kernel.resources.borrow();
    let number = wait
        .as_resource()
        .map_or(usize::MAX, |number| number as usize);
    match resources.get(number).and_then(std::rc::Weak::upgrade) {
        Some(resource) => (resource.title(), resource.holders(kernel, task)),
        None => ("something that is gone".into(), Vec::new()),
    }
}

/// Every elementary cycle through its lowest task, at most one per lowest task: the first that a
/// depth-first walk along the holders finds.
fn cycles(blocked: &[BlockedTask]) -> Vec<Vec<String>> {
    let paths = (0..blocked.len()).filter_map(|start| cycle_from(blocked, start));
    paths
        .map(|path| path.into_iter().map(|i| blocked[i].name.clone()).collect())
        .collect()
}

/// A path from `start` back to itself over tasks above it, if there is one.
fn cycle_from(blocked: &[BlockedTask], start: usize) -> Option<Vec<usize>> {
    let mut seen = vec![false; blocked.len()];
    let mut path = vec![(start, holders_of(blocked, start))];
    while let Some((_, ahead)) = path.last_mut() {
        match ahead.pop() {
            Some(next) if next == start => return Some(path.iter().map(|step| step.0).collect()),
            Some(next) if next > start && !seen[next] => {
                seen[next] = true;
                path.push((next, holders_of(blocked, next)));
            }
            Some(_) => {}
            None => {
                path.pop();
            }
        }
    }
    None
}

/// Positions of the tasks that hold up `blocked[i]`, the first one last.
fn holders_of(blocked: &[BlockedTask], i: usize) -> Vec<usize> {
    let position = |id: &TaskId| blocked.binary_search_by_key(id, |other| other.task).ok();
    blocked[i]
        .held_by
        .iter()
        .rev()
        .filter_map(position)
        .collect()
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = if self.blocked.len() == 1 {
            "task waits"
        } else {
            "tasks wait"
        };
        write!(
            f,
            "deadlock at {}: {} {tasks}, nothing is pending",
            self.at,
            self.blocked.len()
        )?;
        for blocked in &self.blocked {
            write!(f, "\n  {blocked}")?;
        }
        for cycle in &self.cycles {
            write!(f, "\n  cycle: {} -> {}", cycle.join(" -> "), cycle[0])?;
        }
        Ok(())
    }
}

impl std::error::Error for Deadlock {}

impl fmt::Display for BlockedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (core {}) waits for {}",
            self.name, self.core.0, self.waits_for
        )?;
        if !self.holders.is_empty() {
            write!(f, ", held by {}", self.holders.join(", "))?;
        }
        Ok(())
    }
}
