//! The switch route: TLS descriptors at a context switch. Source: Linux 6.1, arch/x86/xen/enlighten_pv.c,
//! `xen_load_tls`, `load_TLS_descriptor` and `shadow_tls_desc`; before Linux 3.2 all three were written each time.
//!
//! Only the descriptors: stacks, base pointers and the FPU are no part of the route.

use super::kernel::Kernel;
use super::route_run::{Comparison, RouteRun};
use crate::Error;
use crate::xen::{Descriptor, Layout};

/// TLS descriptors of a task (`GDT_ENTRY_TLS_ENTRIES`).
pub const TLS_ENTRIES: usize = 3;
/// Index of the first in the GDT (`GDT_ENTRY_TLS_MIN`, arch/x86/include/asm/segment.h, 64-bit).
const TLS_MIN: u64 = 12;
/// A 32-bit data segment of ring 3 without its base, as `set_thread_area` makes one.
const DATA_SEGMENT: u64 = 0x00cf_f300_0000_ffff;

/// A way to load TLS descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoadTls {
    /// Loads all three, in one multicall.
    Always,
    /// Loads the ones that differ from the shadow copies.
    IfChanged,
}

/// Switches between two tasks of a new guest that differ in `changed` of their TLS descriptors.
///
/// # Errors
/// More descriptors than a task has.
pub fn switch(switches: u64, mechanism: LoadTls, changed: usize) -> Result<RouteRun, Error> {
    if changed > TLS_ENTRIES {
        return Err(Error::TooManyDescriptors { changed });
    }
    let mut kernel = Kernel::boot(Layout::default())?;
    let tasks = [task(0), task(changed)];
    kernel.load_tls(tasks[1], LoadTls::Always)?;
    kernel.load_tls(tasks[0], LoadTls::IfChanged)?;
    let before = kernel.tolls();
    let mut checked = Comparison::default();
    for number in 0..switches {
        let next = tasks[usize::from(number % 2 == 0)];
        kernel.load_tls(next, mechanism)?;
        checked.items += 1;
        checked.wrong_value += u64::from(kernel.tls() != next);
    }
    Ok(RouteRun {
        items: switches,
        tolls: kernel.tolls() - before,
        checked,
    })
}

/// A task whose first descriptors are its own.
fn task(own: usize) -> [Descriptor; TLS_ENTRIES] {
    let mut tls = [Descriptor::default(); TLS_ENTRIES];
    for (base, descriptor) in (1u64..).zip(&mut tls[..own]) {
        *descriptor = Descriptor(DATA_SEGMENT | base << 28);
    }
    tls
}

impl Kernel {
    /// Loads the next task's TLS descriptors.
    ///
    /// # Errors
    /// Xen refuses a descriptor.
    pub fn load_tls(&mut self, next: [Descriptor; TLS_ENTRIES], how: LoadTls) -> Result<(), Error> {
        for (index, descriptor) in (0u64..).zip(next) {
            let shadow = &mut self.shadow_tls[usize::try_from(index).unwrap_or(0)];
            // Xen stores other descriptors than it is asked to, so what was asked for is what is compared.
            let same = std::mem::replace(shadow, descriptor) == descriptor;
            if how == LoadTls::Always || !same {
                let place = self.gdt.address((TLS_MIN + index) * 8);
                self.queue_update_descriptor(place, descriptor)?;
            }
        }
        self.mc_flush()
    }

    /// Descriptors in the GDT.
    fn tls(&self) -> [Descriptor; TLS_ENTRIES] {
        [0, 1, 2].map(|index: u64| {
            let place = self.gdt.address((TLS_MIN + index) * 8);
            Descriptor(self.xen.entry_at(place).0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_descriptors_in_one_multicall_whatever_changed() {
        let walked = switch(10, LoadTls::Always, 0).unwrap();
        assert_eq!((walked.tolls.hypercalls, walked.tolls.multicall), (10, 10));
        assert_eq!((walked.tolls.subcalls, walked.tolls.descriptors), (30, 30));
        assert_eq!((walked.checked.items, walked.checked.failed()), (10, 0));
    }

    #[test]
    fn only_what_changed_is_loaded_and_one_alone_needs_no_multicall() {
        for (changed, hypercalls, multicalls) in [(0, 0, 0), (1, 10, 0), (2, 10, 10), (3, 10, 10)] {
            let walked = switch(10, LoadTls::IfChanged, changed).unwrap();
            let tolls = walked.tolls;
            assert_eq!(
                (tolls.hypercalls, tolls.multicall),
                (hypercalls, multicalls)
            );
            assert_eq!(tolls.descriptors, 10 * changed as u64);
            assert_eq!(walked.checked.failed(), 0);
        }
        assert!(switch(1, LoadTls::IfChanged, 4).is_err());
    }

    #[test]
    fn a_descriptor_that_xen_changes_is_not_loaded_again() {
        let mut kernel = Kernel::boot(Layout::default()).unwrap();
        let ring_0 = Descriptor(DATA_SEGMENT & !(3 << 45));
        let task = [ring_0, Descriptor::default(), Descriptor::default()];
        kernel.load_tls(task, LoadTls::IfChanged).unwrap();
        assert_eq!(kernel.tls()[0], Descriptor(DATA_SEGMENT));
        let before = kernel.tolls();
        kernel.load_tls(task, LoadTls::IfChanged).unwrap();
        assert_eq!(kernel.tolls(), before);
    }
}
