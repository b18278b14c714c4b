#![doc = include_str!("../README.md")]
#![no_std]
#![allow(unsafe_code)] // NOPs, which only assembly can give their bytes.

/// A NOP with this number in it; it keeps memory accesses on their side.
macro_rules! mark {
    ($number:literal) => {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a NOP changes neither registers nor memory.
        unsafe {
            core::arch::asm!(
                ".byte 0x0f, 0x1f, 0x80",
                concat!(".long ", $number, "0000"),
                options(nostack, preserves_flags)
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a move to XZR changes neither registers nor memory.
        unsafe {
            core::arch::asm!(
                concat!("movz xzr, #", $number, ", lsl #16"),
                options(nostack, preserves_flags)
            );
        }
    };
}

/// Begins an operation: `PAGETOLL_BEGIN` of `pagetoll.h`.
#[inline(always)]
pub fn begin() {
    mark!("0x5054");
}

/// Ends an operation: `PAGETOLL_END` of `pagetoll.h`.
#[inline(always)]
pub fn end() {
    mark!("0x5055");
}
