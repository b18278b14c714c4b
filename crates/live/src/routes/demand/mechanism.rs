//! The mechanisms of the route, and what one row of a bill is measured with.

use pagetoll_bill::Route;

/// The ways to bring pages in, as `pagetoll_bill` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Populated,
    Kernel,
    Uffd,
    Exit,
    ExitGmem,
}

impl Mechanism {
    pub(super) const ALL: [Self; 5] = [
        Self::Populated,
        Self::Kernel,
        Self::Uffd,
        Self::Exit,
        Self::ExitGmem,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Populated => "populated",
            Self::Kernel => "kernel",
            Self::Uffd => "uffd",
            Self::Exit => "exit",
            Self::ExitGmem => "exit-gmem",
        }
    }

    pub(super) fn is_batched(self) -> bool {
        Route::Demand
            .mechanism(self.name())
            .is_ok_and(|known| known.batched)
    }
}
