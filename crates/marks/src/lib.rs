#![doc = include_str!("../README.md")]
#![no_std]
#![allow(unsafe_code)] // NOPs, which only assembly can give their bytes.

/// A NOP with these bytes as its displacement; it keeps memory accesses on their side.
macro_rules! mark {
    ($bytes:literal) => {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a NOP changes neither registers nor memory.
        unsafe {
            core::arch::asm!(
                ".byte 0x0f, 0x1f, 0x80",
                concat!(".long ", $bytes),
                options(nostack, preserves_flags)
            );
        }
    };
}

/// Begins an operation: `PAGETOLL_BEGIN` of `pagetoll.h`.
#[inline(always)]
pub fn begin() {
    mark!("0x50540000");
}

/// Ends an operation: `PAGETOLL_END` of `pagetoll.h`.
#[inline(always)]
pub fn end() {
    mark!("0x50550000");
}
