//! Queues of task numbers: the ready ring, timers by due time, and waiters first in, first out.

pub(crate) mod front;
pub(crate) mod ready;
pub(crate) mod timers;
pub(crate) mod wait_list;
mod wheel;
