//! Values that are computed once for each processor.

use std::sync::OnceLock;

use pagetoll_bill::Arch;

/// A value for each processor, once it was asked for.
#[derive(Debug, Default)]
pub struct PerArch<T> {
    x86_64: OnceLock<T>,
    arm64: OnceLock<T>,
}

impl<T> PerArch<T> {
    /// Empty cells.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            x86_64: OnceLock::new(),
            arm64: OnceLock::new(),
        }
    }

    /// The value, found out now where it was not before.
    ///
    /// # Errors
    /// Those of finding out, which is tried again then.
    pub fn get_or_try<E>(&self, arch: Arch, find: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        let known = match arch {
            Arch::X86_64 => &self.x86_64,
            Arch::Arm64 => &self.arm64,
        };
        if let Some(value) = known.get() {
            return Ok(value);
        }
        let found = find()?;
        Ok(known.get_or_init(|| found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_out_once_for_each_and_failures_are_tried_again() {
        let known = PerArch::new();
        assert_eq!(known.get_or_try(Arch::X86_64, || Err("no")), Err("no"));
        assert_eq!(known.get_or_try(Arch::X86_64, || Ok::<_, &str>(1)), Ok(&1));
        assert_eq!(known.get_or_try(Arch::X86_64, || Err("no")), Ok(&1));
        assert_eq!(known.get_or_try(Arch::Arm64, || Ok::<_, &str>(2)), Ok(&2));
    }
}
