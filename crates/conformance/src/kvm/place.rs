//! Addresses of the memories of a case, equal on every system.

/// One memory every 16 GiB, the first at 16 GiB, where neither programs nor libraries are mapped. What is between them
/// is free.
const STRIDE: u64 = 1 << 34;
/// More memories than any case has.
const MOST: u64 = 64;

/// A place in the memory of a case, or an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Index among the case's memories; `None`: `offset` is an address.
    pub memory: Option<usize>,
    /// Bytes from its beginning.
    pub offset: u64,
}

impl Place {
    /// The first byte of a memory.
    #[must_use]
    pub const fn in_memory(memory: usize) -> Self {
        Self {
            memory: Some(memory),
            offset: 0,
        }
    }

    /// The place at an address.
    #[must_use]
    pub fn from_address(address: u64) -> Self {
        let memory = (address / STRIDE).checked_sub(1).filter(|n| *n < MOST);
        match memory.map(usize::try_from) {
            Some(Ok(memory)) => Self {
                memory: Some(memory),
                offset: address % STRIDE,
            },
            _ => Self {
                memory: None,
                offset: address,
            },
        }
    }

    /// Address in the process.
    #[must_use]
    pub fn address(self) -> u64 {
        let number = self.memory.map_or(0, |memory| memory as u64 + 1);
        (number * STRIDE).wrapping_add(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_again_by_its_address() {
        let place = Place {
            memory: Some(2),
            offset: 0x1008,
        };
        assert_eq!(Place::from_address(place.address()), place);
        let alone = Place {
            memory: None,
            offset: 0x7fff_ffff_f000,
        };
        assert_eq!(Place::from_address(alone.address()), alone);
    }
}
