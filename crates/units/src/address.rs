//! Newtypes for where memory is: machine frames, machine addresses, virtual addresses; under KVM, guest physical
//! addresses and frames, and virtual addresses of the host.
//!
//! They do no arithmetic with each other except where one really contains the other.

use std::fmt;

/// Bits of an address within a 4 KiB page.
const PAGE_SHIFT: u32 = 12;
/// Mask of an address within a 4 KiB page.
const OFFSET_MASK: u64 = (1 << PAGE_SHIFT) - 1;

/// A machine frame number, as Xen's `mfn`: a machine address divided by 4096.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mfn(pub u64);

/// A byte address in machine memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineAddress(pub u64);

/// A byte address as a program sees it, before translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualAddress(pub u64);

/// A byte address as a guest's physical memory has it, as KVM's `gpa_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gpa(pub u64);

/// A guest frame number, as KVM's `gfn_t`: a guest physical address divided by 4096.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gfn(pub u64);

/// A byte address as a process of the host sees it, as KVM's `hva_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hva(pub u64);

impl Gpa {
    /// The frame that holds this byte.
    #[must_use]
    pub const fn gfn(self) -> Gfn {
        Gfn(self.0 >> PAGE_SHIFT)
    }
}

impl Gfn {
    /// The address of its first byte.
    #[must_use]
    pub const fn gpa(self) -> Gpa {
        Gpa(self.0 << PAGE_SHIFT)
    }
}

impl Hva {
    /// The address of the first byte of the page that holds this byte.
    #[must_use]
    pub const fn page_start(self) -> Self {
        Self(self.0 & !OFFSET_MASK)
    }
}

impl Mfn {
    /// The address of a byte of this frame; bits of `offset` beyond the frame are ignored.
    #[must_use]
    pub const fn address(self, offset: u64) -> MachineAddress {
        MachineAddress(self.0 << PAGE_SHIFT | offset & OFFSET_MASK)
    }
}

impl MachineAddress {
    /// The frame that holds this byte.
    #[must_use]
    pub const fn mfn(self) -> Mfn {
        Mfn(self.0 >> PAGE_SHIFT)
    }

    /// Offset in the frame, from 0 to 4095.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.0 & OFFSET_MASK
    }
}

impl VirtualAddress {
    /// Offset in the page, from 0 to 4095.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.0 & OFFSET_MASK
    }

    /// The number of the page that holds this byte.
    #[must_use]
    pub const fn page(self) -> u64 {
        self.0 >> PAGE_SHIFT
    }
}

impl fmt::Display for Mfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mfn {:#x}", self.0)
    }
}

impl fmt::Display for MachineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine address {:#x}", self.0)
    }
}

impl fmt::Display for Gpa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gpa {:#x}", self.0)
    }
}

impl fmt::Display for Gfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gfn {:#x}", self.0)
    }
}

impl fmt::Display for Hva {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hva {:#x}", self.0)
    }
}

impl fmt::Display for VirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "virtual address {:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_frame_and_an_offset() {
        let address = Mfn(0x12).address(0x345);
        assert_eq!(address, MachineAddress(0x12345));
        assert_eq!((address.mfn(), address.offset()), (Mfn(0x12), 0x345));
        assert_eq!(Mfn(1).address(0x1008), MachineAddress(0x1008));
        assert_eq!(VirtualAddress(0x7fff_1234).page(), 0x7fff1);
    }

    #[test]
    fn each_prints_what_it_is() {
        assert_eq!(Mfn(16).to_string(), "mfn 0x10");
        assert_eq!(Gpa(0x1234).gfn(), Gfn(1));
        assert_eq!(Gfn(2).gpa().to_string(), "gpa 0x2000");
        assert_eq!(Hva(0x1fff).page_start().to_string(), "hva 0x1000");
        assert_eq!(Gfn(16).to_string(), "gfn 0x10");
        assert_eq!(VirtualAddress(16).to_string(), "virtual address 0x10");
        assert_eq!(MachineAddress(16).to_string(), "machine address 0x10");
    }
}
