//! Axes on which bills can differ, and the place of a row on them.

use std::collections::BTreeMap;

use pagetoll_bill::{Bill, Row, RowKey, names};

use super::place::Place;
use crate::diff::several_kernels;

names! {
    /// Axes, in the order in which they are tried.
    pub enum Axis as "axis" {
        /// The version of Linux.
        Kernel,
        /// The version of Xen.
        Xen,
        /// vCPUs that ran at once.
        Vcpus,
        /// Pages at once.
        Batch,
        /// Pages of each row.
        Pages,
        /// Date of the bill.
        Date,
    }
}

const LINUX: &str = "linux";
const XEN: &str = "xen";
/// Counts do not depend on it, by all that was seen; `diff` does not look at it either.
const QEMU: &str = "qemu";

impl Axis {
    /// True for versions and dates: a difference between neighbours means that something was changed. More vCPUs cost
    /// more without a change.
    #[must_use]
    pub const fn is_ordered_by_change(self) -> bool {
        match self {
            Self::Kernel | Self::Xen | Self::Date => true,
            Self::Vcpus | Self::Batch | Self::Pages => false,
        }
    }

    pub(super) fn place(self, bill: &Bill, row: &Row) -> Option<Place> {
        match self {
            Self::Kernel => kernel(bill, row).map(Place::version),
            Self::Xen => bill.stack.get(XEN).cloned().map(Place::version),
            Self::Vcpus => row.key.vcpus.map(Place::number),
            Self::Batch => Some(Place::number(row.key.batch)),
            Self::Pages => u32::try_from(row.pages.get()).ok().map(Place::number),
            Self::Date => Place::date(&bill.provenance.when),
        }
    }

    /// The key of a row wherever it stands.
    pub(super) fn without(self, bill: &Bill, key: &RowKey) -> RowKey {
        let mut key = key.clone();
        match self {
            Self::Kernel => key.kernel = None,
            // Its version changes with time, which makes it no other row.
            Self::Date if !several_kernels(bill) => key.kernel = None,
            Self::Vcpus => {
                // A reader for each vCPU: their number follows from the axis.
                key.readers = key.readers.filter(|_| key.readers != key.vcpus);
                key.vcpus = None;
            }
            Self::Batch => key.batch = 1,
            Self::Xen | Self::Pages | Self::Date => {}
        }
        key
    }

    /// Other properties that must be equal.
    pub(super) fn setting(self, bill: &Bill) -> BTreeMap<String, String> {
        let varies = |part: &str| {
            let is_linux = part.starts_with(LINUX);
            match self {
                Self::Kernel => is_linux || part == QEMU,
                Self::Xen => part == XEN || part == QEMU,
                Self::Date => is_linux || part == XEN || part == QEMU,
                Self::Vcpus | Self::Batch | Self::Pages => part == QEMU,
            }
        };
        let kept = bill.stack.iter().filter(|(part, _)| !varies(part));
        let mut setting: BTreeMap<_, _> = kept
            .map(|(part, value)| (part.clone(), value.clone()))
            .collect();
        if self != Self::Pages {
            setting.insert("pages".to_owned(), bill.order.pages.get().to_string());
        }
        setting
    }
}

/// The version that a row ran on. Rows of a bill with several kernels name theirs as it was ordered, or by its version.
fn kernel(bill: &Bill, row: &Row) -> Option<String> {
    let Some(ordered) = &row.key.kernel else {
        return bill.stack.get(LINUX).cloned();
    };
    let own = bill.stack.get(&format!("{LINUX} ({ordered})"));
    let only = bill.stack.get(LINUX);
    let Some(version) = own.or(only.filter(|version| !version.contains(','))) else {
        return Some(ordered.clone());
    };
    let is_debian = ordered == "debian" || ordered.starts_with("debian:");
    Some(if is_debian || ordered == version {
        version.clone()
    } else {
        format!("{version} {ordered}")
    })
}
