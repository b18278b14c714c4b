//! The engine's names for things: [`TaskId`], [`CoreId`], [`Toll`].
//!
//! Ids are small numbers handed out by one engine; they mean nothing to another.

/// The absence of a task in an intrusive link. No engine has this many tasks.
pub(crate) const NONE: u32 = u32::MAX;

/// Payer of charges: a task, or a core for the interrupts that it handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u32);

impl TaskId {
    /// The bare number: tasks count from 0 in the order of their spawning.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A core that tasks run on, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u32);

impl CoreId {
    /// The bare number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The name under which time is charged, registered with [`Tolls::register`](crate::Tolls::register).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Toll(pub(crate) u16);

impl Toll {
    /// The bare number: tolls count from 0 in the order of their registration.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
