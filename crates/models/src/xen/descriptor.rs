//! Segment descriptors: the hypercalls `update_descriptor` and `set_gdt`. Source:
//! xen/arch/x86/pv/descriptor-tables.c, `do_update_descriptor`, `check_descriptor`, `validate_segdesc_page` and
//! `pv_set_gdt`; xen/arch/x86/include/asm/desc.h, 4.17.
//!
//! Of a 32-bit guest's descriptors only the privilege levels are fixed up; the limit that Xen extends for old PAE kernels
//! is not modelled. LDTs are not either.

use pagetoll_units::{MachineAddress, Mfn};

use super::domain::VcpuId;
use super::errno::Errno;
use super::flush::Extent;
use super::frame::PageType;
use super::machine::{Width, Xen};
use super::multicall::Call;
use super::tolls::Outcome;
use crate::x86::ENTRIES;

/// Entries of a GDT that are the guest's (xen/include/public/arch-x86/xen.h, `FIRST_RESERVED_GDT_ENTRY`).
const FIRST_RESERVED_ENTRY: u32 = 14 * 512;

/// Bits of the upper half (desc.h).
const SEGMENT_L: u32 = 1 << 21;
const SEGMENT_P: u32 = 1 << 15;
const SEGMENT_DPL: u32 = 3 << 13;
const SEGMENT_S: u32 = 1 << 12;
const SEGMENT_TYPE: u32 = 15 << 8;
/// A call gate, the only system descriptor that a guest may have.
const CALL_GATE: u32 = 12 << 8;

/// An entry of a descriptor table, as it lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Descriptor(pub u64);

impl Descriptor {
    const fn new(low: u32, high: u32) -> Self {
        Self((high as u64) << 32 | low as u64)
    }

    #[allow(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    const fn low(self) -> u32 {
        self.0 as u32
    }

    const fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The descriptor as Xen lets a guest have it (`check_descriptor`); `None`: not at all.
    fn checked(self, width: Width) -> Option<Self> {
        let (low, high) = (self.low(), self.high());
        if high & SEGMENT_P == 0 {
            return Some(self);
        }
        let privilege = (high >> 13 & 3).max(width.kernel_ring());
        let high = high & !SEGMENT_DPL | privilege << 13;
        if high & SEGMENT_S != 0 {
            let fits = width == Width::Bits64 || high & SEGMENT_L == 0;
            return fits.then_some(Self::new(low, high));
        }
        match high & SEGMENT_TYPE {
            0 => Some(self),
            CALL_GATE => checked_gate(low, high, privilege, width),
            _ => None,
        }
    }
}

/// A call gate keeps its privilege in its selector: using it faults, and Xen emulates it.
fn checked_gate(low: u32, high: u32, privilege: u32, width: Width) -> Option<Descriptor> {
    let selector = low >> 16;
    let is_guests = selector >> 3 < FIRST_RESERVED_ENTRY || selector & 4 != 0;
    if !is_guests && selector != width.kernel_selector() {
        return None;
    }
    let reserved = match width {
        Width::Bits64 => 0xff,
        Width::Pae32 => 0xe0,
    };
    let low = low & 0xffff | (selector & !3 | privilege) << 16;
    (high & reserved == 0).then_some(Descriptor::new(low, high & !SEGMENT_DPL))
}

impl Width {
    /// Ring of a guest's kernel (`GUEST_KERNEL_RPL`).
    const fn kernel_ring(self) -> u32 {
        match self {
            Self::Bits64 => 3,
            Self::Pae32 => 1,
        }
    }

    /// The flat code segment that Xen has for it (`FLAT_KERNEL_CS`, `FLAT_COMPAT_KERNEL_CS`).
    const fn kernel_selector(self) -> u32 {
        match self {
            Self::Bits64 => 0xe033,
            Self::Pae32 => 0xe019,
        }
    }
}

impl Xen {
    /// `update_descriptor`: one entry of a table, by its machine address.
    pub fn update_descriptor(
        &mut self,
        current: VcpuId,
        place: MachineAddress,
        descriptor: Descriptor,
    ) -> Outcome {
        self.call(current, Call::UpdateDescriptor(place, descriptor))
    }

    pub(super) fn do_update_descriptor(
        &mut self,
        current: VcpuId,
        place: MachineAddress,
        descriptor: Descriptor,
    ) -> Result<(), Errno> {
        let checked = descriptor.checked(self.width).ok_or(Errno::Einval)?;
        let (mfn, domain) = (place.mfn(), self.vcpus[current.0].domain);
        if place.0 & 7 != 0 || !self.frames.get_page(mfn, domain) {
            return Err(Errno::Einval);
        }
        let wanted = match self.type_of(mfn) {
            PageType::SegmentDescriptors => PageType::SegmentDescriptors,
            _ => PageType::Writable,
        };
        let taken = self.get_page_type(mfn, wanted);
        if taken.is_ok() {
            self.memory.write(place, checked.0);
            self.tolls.descriptors += 1;
            self.put_page_type(mfn, None);
        }
        self.frames.put_page(mfn);
        taken.map_err(|_| Errno::Einval)
    }

    /// Checks every descriptor of a frame, and fixes them up in place (`validate_segdesc_page`).
    pub(super) fn validate_descriptors(&mut self, mfn: Mfn) -> Result<(), Errno> {
        for index in 0..ENTRIES {
            let place = mfn.address(index as u64 * 8);
            let descriptor = Descriptor(self.memory.read(place));
            let checked = descriptor.checked(self.width).ok_or(Errno::Einval)?;
            self.memory.write(place, checked.0);
        }
        Ok(())
    }

    /// `set_gdt`: the frames of the vCPU's descriptor table. The guest may not have them mapped writable.
    pub fn set_gdt(&mut self, current: VcpuId, frames: &[Mfn], entries: u32) -> Outcome {
        self.hypercall(
            current,
            |tolls| tolls.set_gdt += 1,
            |xen| (xen.do_set_gdt(current, frames, entries), 0),
        )
    }

    fn do_set_gdt(&mut self, current: VcpuId, frames: &[Mfn], entries: u32) -> Result<(), Errno> {
        if entries > FIRST_RESERVED_ENTRY {
            return Err(Errno::Einval);
        }
        let count = usize::try_from(entries.div_ceil(512)).unwrap_or(usize::MAX);
        let frames = frames.get(..count).ok_or(Errno::Efault)?;
        let domain = self.vcpus[current.0].domain;
        for (taken, &mfn) in frames.iter().enumerate() {
            let refused = self.get_page_and_type(mfn, PageType::SegmentDescriptors, domain);
            if refused.is_err() {
                self.put_gdt(&frames[..taken]);
                return Err(Errno::Einval);
            }
        }
        let old = std::mem::replace(&mut self.vcpus[current.0].gdt, frames.to_vec());
        self.put_gdt(&old);
        self.flush(current, &[current], Extent::Everything);
        Ok(())
    }

    fn put_gdt(&mut self, frames: &[Mfn]) {
        for &mfn in frames {
            self.put_page_type(mfn, None);
            self.frames.put_page(mfn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA_RING_0: u64 = 0x00cf_9200_0000_ffff;
    const DATA_RING_3: u64 = 0x00cf_f200_0000_ffff;
    const DATA_RING_1: u64 = 0x00cf_b200_0000_ffff;
    const LONG_CODE: u64 = 0x00af_fa00_0000_ffff;

    fn checked(raw: u64, width: Width) -> Option<u64> {
        Descriptor(raw)
            .checked(width)
            .map(|descriptor| descriptor.0)
    }

    #[test]
    fn segments_get_the_privilege_of_the_guests_kernel_at_least() {
        assert_eq!(checked(DATA_RING_0, Width::Bits64), Some(DATA_RING_3));
        assert_eq!(checked(DATA_RING_0, Width::Pae32), Some(DATA_RING_1));
        assert_eq!(checked(DATA_RING_3, Width::Pae32), Some(DATA_RING_3));
    }

    #[test]
    fn what_is_not_present_is_not_looked_at() {
        let task_gate = 0x0000_0500_0000_0000;
        assert_eq!(checked(task_gate, Width::Bits64), Some(task_gate));
        assert_eq!(checked(task_gate | 1 << 47, Width::Bits64), None);
    }

    #[test]
    fn a_32_bit_guest_gets_no_64_bit_code() {
        assert_eq!(checked(LONG_CODE, Width::Bits64), Some(LONG_CODE));
        assert_eq!(checked(LONG_CODE, Width::Pae32), None);
    }

    #[test]
    fn call_gates_lead_to_the_guests_own_segments_and_lose_their_privilege() {
        let gate = |selector: u64, flags: u64| selector << 16 | flags << 40 | 0x1234;
        let fixed = checked(gate(0x10, 0x8c), Width::Bits64);
        assert_eq!(fixed, Some(gate(0x13, 0x8c)));
        assert_eq!(checked(gate(0xe008, 0x8c), Width::Bits64), None);
        assert_eq!(
            checked(gate(0xe033, 0x8c), Width::Bits64),
            Some(gate(0xe033, 0x8c))
        );
        assert_eq!(checked(gate(0x10, 0x8c) | 1 << 32, Width::Bits64), None);
        // The second half of a gate is of type 0, and stays as it is.
        assert_eq!(
            checked(0x0000_8000_0000_0000, Width::Bits64),
            Some(0x0000_8000_0000_0000)
        );
    }
}
