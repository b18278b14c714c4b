//! Conditions for comparing two bills.

use pagetoll_bill::{Arch, Backend, Bill, Route, Unit};
use pagetoll_units::Pages;
use thiserror::Error;

/// Two bills that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DiffError {
    /// Different routes.
    #[error("bills of different routes: {old} and {new}; expected two of one route")]
    Routes {
        /// Route of the old bill.
        old: Route,
        /// Route of the new bill.
        new: Route,
    },
    /// Their costs are not counted in the same unit.
    #[error("bills in different units: {old} and {new}; expected two in one unit")]
    Units {
        /// Unit of the old bill's costs.
        old: Unit,
        /// Unit of the new bill's costs.
        new: Unit,
    },
    /// Their costs cannot be trusted alike: a model says nothing about what was counted.
    #[error("bills of different backends: {old} and {new}; expected two of one backend")]
    Backends {
        /// Backend of the old bill.
        old: Backend,
        /// Backend of the new bill.
        new: Backend,
    },
    /// Different numbers of pages, which moves costs by itself.
    #[error("bills of different orders: {old} and {new} pages a row; expected the same --pages")]
    Pages {
        /// `--pages` of the old bill.
        old: Pages,
        /// `--pages` of the new bill.
        new: Pages,
    },
    /// A part of the stack that costs depend on differs.
    #[error("bills of different guests: {what} {old} and {new}; expected the same")]
    Stack {
        /// Name of the part that differs.
        what: &'static str,
        /// Version in the old bill.
        old: String,
        /// Version in the new bill.
        new: String,
    },
    /// No row of one has a figure in the other: that nothing regressed would be true of any two bills.
    #[error(
        "bills without a comparable row; expected the same operations, mechanisms, batches and shapes, and the same kernel where \
         a bill has several"
    )]
    NothingInCommon,
}

/// A guest's memory moves costs of its kernel: native munmap costs 1,119 a page at 900 MiB and 1,218 at 640.
const GUEST_RAM: &str = "guest-ram";

/// The processor of the machine; a bill that does not say is of the default one. Instructions of two say nothing of each
/// other.
const ARCH: &str = "arch";

fn arch(bill: &Bill) -> &str {
    bill.stack
        .get(ARCH)
        .map_or(Arch::default().name(), String::as_str)
}

pub(super) fn check(old: &Bill, new: &Bill) -> Result<(), DiffError> {
    if old.route != new.route {
        return Err(DiffError::Routes {
            old: old.route,
            new: new.route,
        });
    }
    if old.unit != new.unit {
        return Err(DiffError::Units {
            old: old.unit,
            new: new.unit,
        });
    }
    if old.backend != new.backend || old.evidence != new.evidence {
        return Err(DiffError::Backends {
            old: old.backend,
            new: new.backend,
        });
    }
    if old.order.pages != new.order.pages {
        return Err(DiffError::Pages {
            old: old.order.pages,
            new: new.order.pages,
        });
    }
    let (old_arch, new_arch) = (arch(old), arch(new));
    if old_arch != new_arch {
        return Err(DiffError::Stack {
            what: ARCH,
            old: old_arch.to_owned(),
            new: new_arch.to_owned(),
        });
    }
    match (old.stack.get(GUEST_RAM), new.stack.get(GUEST_RAM)) {
        (Some(old), Some(new)) if old != new => Err(DiffError::Stack {
            what: GUEST_RAM,
            old: old.clone(),
            new: new.clone(),
        }),
        _ => Ok(()),
    }
}
