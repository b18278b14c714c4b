//! Translation tables of stage 1: 39 bits of addresses, each translated to itself.
//!
//! | guest physical | what |
//! |---|---|
//! | `0x1000` | level 1: blocks of 1 GiB, but for the first one |
//! | `0x2000` | level 2: the first GiB by blocks of 2 MiB |
//! | 5 MiB | the exception vectors |
//!
//! EL0 may write everything except the block of programs and vectors: what EL0 may write, EL1 does not execute (Arm ARM,
//! VMSAv8-64, direct permissions). The access flag is set beforehand in all descriptors. The guest has its caches on, since a host without
//! `FEAT_S2FWB` would otherwise read stale lines of what the guest wrote past them.

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::code::vectors;
use super::{DONE, registers};
use crate::Error;
use crate::guest::{CODE, write};

const LEVEL_1: u64 = 0x1000;
const LEVEL_2: u64 = 0x2000;
pub(super) const VECTORS: u64 = CODE + (1 << 20);
const ENTRIES: u64 = 512;
const GIB: u64 = 1 << 30;
const LARGE_PAGE: u64 = 2 << 20;

/// A table descriptor (Arm ARM, VMSAv8-64 translation table descriptor formats).
const TABLE: u64 = 0x3;
/// A block: memory of attribute 0, inner shareable, its access flag set, read and written at EL0 and EL1.
const MEMORY: u64 = 0x1 | 1 << 6 | 3 << 8 | 1 << 10;
/// [`MEMORY`], read-only.
const READ_ONLY: u64 = MEMORY | 1 << 7;
/// A block of a device: attribute 1, never executed.
const DEVICE: u64 = 0x1 | 1 << 2 | 1 << 6 | 1 << 10 | 1 << 53 | 1 << 54;

/// Attribute 0: write-back memory; attribute 1: Device-nGnRnE.
const MAIR: u64 = 0x00ff;
/// T0SZ 25; walks of TTBR0 are write-back and inner shareable; none of TTBR1 (EPD1); granules of 4 KiB; IPS 40 bits, as
/// the default VM has.
const TCR: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32;

/// Registers by which a vCPU uses the tables, apart from SCTLR_EL1.
pub(super) const SETTINGS: [(registers::Register, u64); 4] = [
    (registers::MAIR_EL1, MAIR),
    (registers::TCR_EL1, TCR),
    (registers::TTBR0_EL1, LEVEL_1),
    (registers::VBAR_EL1, VECTORS),
];

/// Maps everything, what lies below `end` included, and writes the vectors.
///
/// # Errors
/// There is no memory at the tables' addresses, or it ends too high.
pub fn write_tables(memory: &GuestMemoryMmap, end: u64) -> Result<(), Error> {
    if end > ENTRIES * GIB {
        let problem = format!("{end:#x}: guest memory ends below 512 GiB");
        return Err(Error::Memory(problem));
    }
    let level_1: Vec<u64> = (0..ENTRIES)
        .map(|entry| descriptor_1(entry * GIB))
        .collect();
    let level_2: Vec<u64> = (0..ENTRIES)
        .map(|entry| descriptor_2(entry * LARGE_PAGE))
        .collect();
    write(memory, LEVEL_1, &level_1)?;
    write(memory, LEVEL_2, &level_2)?;
    memory
        .write_slice(vectors(), GuestAddress(VECTORS))
        .map_err(Error::from)
}

const fn descriptor_1(address: u64) -> u64 {
    match address {
        0 => LEVEL_2 | TABLE,
        DONE => DONE | DEVICE,
        address => address | MEMORY,
    }
}

const fn descriptor_2(address: u64) -> u64 {
    match address {
        CODE => CODE | READ_ONLY,
        address => address | MEMORY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::Program;

    #[test]
    fn vectors_are_sixteen_of_128_bytes_behind_the_programs() {
        assert_eq!(vectors().len(), 16 * 128);
        assert!(VECTORS.is_multiple_of(2048));
        assert!(CODE + Program::ALL.len() as u64 * 4096 <= VECTORS);
        assert_eq!(VECTORS / LARGE_PAGE, CODE / LARGE_PAGE);
    }

    #[test]
    fn only_programs_are_read_only_and_only_the_exit_is_a_device() {
        let write_protected = |block: &u64| descriptor_2(*block) & 1 << 7 != 0;
        let blocks = (0..ENTRIES).map(|entry| entry * LARGE_PAGE);
        assert_eq!(blocks.filter(write_protected).collect::<Vec<_>>(), [CODE]);
        let is_device = |block: &u64| *block != 0 && descriptor_1(*block) & 7 << 2 != 0;
        let blocks = (0..ENTRIES).map(|entry| entry * GIB);
        assert_eq!(blocks.filter(is_device).collect::<Vec<_>>(), [DONE]);
    }
}
