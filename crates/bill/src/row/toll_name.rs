//! Names of the tolls of threads that contend: who pays, for which kind of thing, and for which of that kind.
//!
//! Bills hold names as text; the simulator makes them and the renderings sum them up by kind, both by [`TollName`].

use std::fmt;

/// Word before the name of a reader's toll.
const READER: &str = "reader ";

/// Kind of thing that a toll is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TollKind {
    /// A cache line that moves between CPUs.
    Line,
    /// A lock that other threads hold.
    Lock,
    /// A wait queue that is walked.
    Queue,
    /// A step of the thread's own.
    Step,
}

impl TollKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Line, Self::Lock, Self::Queue, Self::Step];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Line => "line ",
            Self::Lock => "lock ",
            Self::Queue => "queue ",
            Self::Step => "",
        }
    }
}

/// Thread that pays a toll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Payer {
    /// The thread whose page it is.
    Own,
    /// A reader that serves that thread.
    Reader,
}

/// Name of a toll in its parts: `reader lock fd_wqh` is what a reader pays for the lock `fd_wqh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TollName<'a> {
    /// Thread that pays.
    pub payer: Payer,
    /// Kind of thing that is paid for.
    pub kind: TollKind,
    /// Name of the line, lock, queue or step.
    pub object: &'a str,
}

impl<'a> TollName<'a> {
    /// The toll that a thread pays for its own page.
    #[must_use]
    pub const fn own(kind: TollKind, object: &'a str) -> Self {
        Self {
            payer: Payer::Own,
            kind,
            object,
        }
    }

    /// Parts of a toll's name. A name that says no kind is a step's.
    #[must_use]
    pub fn parse(name: &'a str) -> Self {
        let (payer, name) = match name.strip_prefix(READER) {
            Some(rest) => (Payer::Reader, rest),
            None => (Payer::Own, name),
        };
        let parts = |kind: TollKind| Some((kind, name.strip_prefix(kind.prefix())?));
        let parts = TollKind::ALL.into_iter().find_map(parts);
        let (kind, object) = parts.unwrap_or((TollKind::Step, name));
        Self {
            payer,
            kind,
            object,
        }
    }
}

impl fmt::Display for TollName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let payer = match self.payer {
            Payer::Own => "",
            Payer::Reader => READER,
        };
        write!(f, "{payer}{}{}", self.kind.prefix(), self.object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_saved_bills() {
        let line = TollName::own(TollKind::Line, "mm");
        assert_eq!(line.to_string(), "line mm");
        let lock = TollName {
            payer: Payer::Reader,
            ..TollName::own(TollKind::Lock, "fd_wqh")
        };
        assert_eq!(lock.to_string(), "reader lock fd_wqh");
        let queue = TollName::own(TollKind::Queue, "faults");
        assert_eq!(queue.to_string(), "queue faults");
        assert_eq!(
            TollName::parse("stage-2"),
            TollName::own(TollKind::Step, "stage-2")
        );
    }

    proptest! {
        #[test]
        fn a_name_is_parsed_into_the_parts_that_it_was_made_of(
            object in "[a-z_]{1,12}", kind in 0..4_usize, of_reader: bool
        ) {
            let payer = if of_reader { Payer::Reader } else { Payer::Own };
            let name = TollName { payer, ..TollName::own(TollKind::ALL[kind], &object) };
            let text = name.to_string();
            prop_assert_eq!(TollName::parse(&text), name);
        }

        #[test]
        fn no_name_is_changed_by_taking_it_apart(name in "((reader|line|lock|queue|wait) )*[a-z]{0,4}") {
            prop_assert_eq!(TollName::parse(&name).to_string(), name);
        }
    }
}
