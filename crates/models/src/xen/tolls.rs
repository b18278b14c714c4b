//! Counts of the work of an entry into Xen, so that costs can be attached later.

use std::ops::{Add, AddAssign, Sub};

use super::errno::Errno;

macro_rules! tolls {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of what was crossed and done. All are events, none is a time.
        ///
        /// A hypercall counts in `hypercalls` and under its own name; a call within a multicall in `subcalls` alone.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Tolls {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Tolls {
            fn each_with(&mut self, other: &Self, change: fn(&mut u64, u64)) {
                $(change(&mut self.$name, other.$name);)*
            }

            /// Each count with its name, in the order of the fields.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

tolls! {
    /// Hypercalls made by the guest; a multicall is one.
    hypercalls,
    /// Hypercalls `mmu_update`.
    mmu_update,
    /// Hypercalls `update_va_mapping` and `update_va_mapping_otherdomain`.
    update_va_mapping,
    /// Hypercalls `mmuext_op`.
    mmuext_op,
    /// Hypercalls `multicall`.
    multicall,
    /// Hypercalls `update_descriptor`.
    update_descriptor,
    /// Hypercalls `set_gdt`.
    set_gdt,
    /// Hypercalls `xen_version`, which do nothing but come back.
    xen_version,
    /// Hypercalls `iret`, by which a 64-bit kernel ends an upcall.
    iret,
    /// Hypercalls `pte_xchg`, the proposed one.
    pte_xchg,
    /// Calls within multicalls.
    subcalls,
    /// Requests of `mmu_update`, `mmuext_op` and `pte_xchg` arrays that were taken up.
    requests,
    /// Page faults that reached Xen.
    page_faults,
    /// Instructions that ptwr emulated.
    emulations,
    /// 32-bit stores among the emulations that left an entry present.
    emulated_half_sets,
    /// 32-bit exchanges among the emulations.
    emulated_half_exchanges,
    /// Privileged instructions that Xen emulated.
    privileged,
    /// Entries whose frame was validated anew, or released.
    entries_revalidated,
    /// Entries that were changed in flags that need no validation.
    entries_fast,
    /// Frame numbers of translated domains that were looked up.
    p2m_lookups,
    /// Entries that the guest's kernel read by itself, without Xen.
    entries_read,
    /// Segment descriptors that were checked and written.
    descriptors,
    /// Tables that were promoted to a type, all 512 entries read.
    promotions,
    /// Tables that lost their type, all 512 entries read.
    demotions,
    /// Events that became pending for a vCPU.
    events,
    /// Event upcalls delivered to the guest on its way out of Xen.
    upcalls,
    /// CPUs that were interrupted to look at events.
    kicks,
    /// Flushes of the own CPU's whole TLB.
    flushes_local,
    /// INVLPG on the own CPU.
    invlpg_local,
    /// Other CPUs that a flush or INVLPG was sent to.
    flush_targets,
}

impl AddAssign for Tolls {
    fn add_assign(&mut self, other: Self) {
        self.each_with(&other, |own, other| *own += other);
    }
}

impl Add for Tolls {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Sub for Tolls {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        self.each_with(&other, |own, other| *own -= other);
        self
    }
}

/// Outcome of a hypercall, as the guest sees it, with its tolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Outcome {
    /// The return value: 0, or why not.
    pub result: Result<(), Errno>,
    /// Requests that were carried out, as the guest's done counter has it; for calls that have none, 0.
    pub done: u32,
    /// Tolls of the hypercall.
    pub tolls: Tolls,
}

impl Outcome {
    /// The number that the guest gets.
    #[must_use]
    pub const fn code(&self) -> i64 {
        match self.result {
            Ok(()) => 0,
            Err(errno) => errno.code(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolls_are_counted_up_and_the_difference_is_what_came() {
        let before = Tolls {
            hypercalls: 3,
            demotions: 1,
            ..Tolls::default()
        };
        let mut after = before;
        let more = Tolls {
            hypercalls: 1,
            flush_targets: 7,
            ..Tolls::default()
        };
        after += more;
        assert_eq!(after - before, more);
        assert_eq!(after.named().map(|(_, count)| count).sum::<u64>(), 12);
    }
}
