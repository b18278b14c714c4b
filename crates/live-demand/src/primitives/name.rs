//! Names of primitives.

use std::fmt;

use pagetoll_cost::Nearness;
use pagetoll_vmm::arch::EXIT;

use super::{Primitive, WithoutReader};
use pagetoll_live_host::arch::ATOMIC_ADDITION;

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Copy(pages) => write!(f, "UFFDIO_COPY DONTWAKE, {pages} a call, per page"),
            Self::Continue(pages) => {
                write!(f, "UFFDIO_CONTINUE DONTWAKE, {pages} a call, per page")
            }
            Self::LineHit => write!(f, "{ATOMIC_ADDITION} of a line of this CPU"),
            Self::LineFrom(nearness) => {
                write!(f, "{ATOMIC_ADDITION} of a line of {}", owner(*nearness))
            }
            Self::Contended(threads) => {
                write!(f, "{ATOMIC_ADDITION} of one line by {threads} CPUs")
            }
            Self::GuestPage(mechanism, vcpus) => {
                let (name, plural) = (mechanism.key(), if *vcpus == 1 { "" } else { "s" });
                write!(f, "guest's page by {name}, {vcpus} vCPU{plural} at once")
            }
            Self::VmExit => write!(f, "VM exit ({EXIT}) and re-entry"),
            other => f.write_str(fixed(*other)),
        }
    }
}

impl WithoutReader {
    /// The mechanism as keys of a cost table spell it.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Populated => "populated",
            Self::Kernel => "kernel",
            Self::Exit => "exit",
        }
    }
}

const fn owner(nearness: Nearness) -> &'static str {
    match nearness {
        Nearness::Cpu => "this CPU",
        Nearness::Core => "another thread of the core",
        Nearness::L3 => "another core on the L3",
        Nearness::Socket => "another L3 of the socket",
        Nearness::Machine => "another socket",
    }
}

/// The names that hold no number, and no word of the processor's.
const fn fixed(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::SystemCall => "system call (gettid)",
        Primitive::CopyAndWake => "UFFDIO_COPY with wake, no waiters, per page",
        Primitive::PopulateWrite => "MADV_POPULATE_WRITE, per page",
        Primitive::FirstTouch => "first touch of an anonymous page",
        Primitive::Munmap => "munmap, per page",
        Primitive::PopulateByHandler => "pager's handler, UFFDIO_COPY included",
        Primitive::ReadSource => "pager's source, its clock included",
        Primitive::Poll => "poll of a ready userfaultfd",
        Primitive::Epoll => "epoll_wait of a ready userfaultfd",
        Primitive::ReadMessage => "read of a userfaultfd message",
        Primitive::QueueEntry => "waiting fault passed over by a wake-up",
        Primitive::EventfdWrite => "write to an eventfd",
        Primitive::EventfdRead => "read of an eventfd",
        Primitive::EventfdWake => "write to an eventfd that wakes, same CPU",
        Primitive::EventfdWakeOther => "write to an eventfd that wakes another, idle CPU",
        Primitive::OneWaySameCpu => "wake-up, one way, same CPU",
        Primitive::OneWayOtherCpu => "wake-up, one way, another idle CPU",
        Primitive::EfaultRoundTrip => "KVM_RUN to EFAULT and again",
        Primitive::FindPage => "finding the missing page",
        Primitive::GuestTouch => "guest's touch, populated",
        Primitive::GuestZeroFill => "guest's touch, filled by the kernel",
        Primitive::GuestSleep => "guest's touch, by a reader: vCPU thread's part",
        Primitive::GuestReader => "guest's touch, by a reader: the reader's part",
        Primitive::Copy(_)
        | Primitive::Continue(_)
        | Primitive::LineHit
        | Primitive::LineFrom(_)
        | Primitive::Contended(_)
        | Primitive::GuestPage(..)
        | Primitive::VmExit => "",
    }
}
