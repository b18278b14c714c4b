//! Newtypes for what pagetoll counts.
//!
//! A page is not a byte and an instruction is not a nanosecond: each quantity has a type of its own,
//! so that adding two different ones does not compile. The types are plain wrappers around `u64`,
//! ordered, hashable and transparent to serde.
//!
//! Names follow Xen's and KVM's: `mfn` is a machine frame number, `gfn` a guest's, `hva` an address of the host's.

#![forbid(unsafe_code)]

mod address;
pub mod budget;

pub use address::{Gfn, Gpa, Hva, MachineAddress, Mfn, VirtualAddress};

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Size in bytes of the smallest page of x86-64, the unit of every figure "per page".
pub const PAGE_SIZE: Bytes = Bytes(4096);

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The bare number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// Adds, or `None` beyond `u64::MAX`.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{}", $unit), self.0)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self(0), Add::add)
            }
        }
    };
}

quantity!(
    /// A number of 4 KiB pages.
    Pages,
    " pages"
);
quantity!(
    /// A number of bytes.
    Bytes,
    " B"
);
quantity!(
    /// A number of guest instructions, as QEMU's `-icount` counts them.
    Instructions,
    " instructions"
);
quantity!(
    /// A duration in nanoseconds.
    Nanos,
    " ns"
);

impl Pages {
    /// The memory that these pages hold, or `None` beyond `u64::MAX` bytes.
    #[must_use]
    pub const fn bytes(self) -> Option<Bytes> {
        match self.0.checked_mul(PAGE_SIZE.0) {
            Some(bytes) => Some(Bytes(bytes)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_bytes_and_say_when_they_cannot() {
        assert_eq!(Pages(3).bytes(), Some(Bytes(12288)));
        assert_eq!(Pages(u64::MAX).bytes(), None);
    }

    #[test]
    fn quantities_add_up_and_print_their_unit() {
        let sum: Instructions = [Instructions(2), Instructions(40)].into_iter().sum();
        assert_eq!(sum - Instructions(2), Instructions(40));
        assert_eq!(sum.to_string(), "42 instructions");
        assert_eq!(Nanos(1).checked_add(Nanos(u64::MAX)), None);
    }

    #[test]
    fn a_quantity_is_a_bare_number_in_json() {
        let json = serde_json::to_string(&Pages(16384)).unwrap();
        assert_eq!(json, "16384");
        assert_eq!(serde_json::from_str::<Pages>(&json).unwrap(), Pages(16384));
    }
}
