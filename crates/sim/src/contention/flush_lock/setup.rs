//! Setup of a run: costs, demand, vCPUs, and reasons to refuse it.

use pagetoll_models::xen::FullFlush;
use pagetoll_units::Nanos;
use thiserror::Error;

use crate::contention::EngineError;

/// vCPUs that a mask has room for.
pub const MOST_VCPUS: u32 = 64;

/// Costs of a flush on a host. The first two are `flush.hold.pge-on` and `flush.hold.pge-off` of a cost table, the
/// third is `flush.handle.cr3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushCosts {
    /// The mean time that `flush_lock` is held when a full flush toggles CR4.PGE.
    pub hold_pge_on: Nanos,
    /// Mean hold of the lock when the flush loads CR3.
    pub hold_pge_off: Nanos,
    /// Time from a target's interrupt to its acknowledgement, when it loads CR3; at most the hold.
    pub handle_cr3: Nanos,
}

impl FlushCosts {
    /// The published host: a PV shim with 32 vCPUs on AMD, in x2APIC mode.
    #[must_use]
    pub const fn amd_pv_shim_32() -> Self {
        Self {
            hold_pge_on: Nanos(746_588),
            hold_pge_off: Nanos(240_829),
            handle_cr3: Nanos(2_000),
        }
    }

    /// Sending the interrupts to all targets, and how long each then handles its own.
    pub(super) fn split(self, flush: FullFlush) -> Result<Hold, FlushError> {
        let hold = match flush {
            FullFlush::Cr4Toggle => self.hold_pge_on,
            FullFlush::Cr3Write => self.hold_pge_off,
            FullFlush::Invpcid => return Err(FlushError::NoFigureForInvpcid),
        };
        let refused = FlushError::HoldTooShort { hold, costs: self };
        let sending = self.hold_pge_off.get().checked_sub(self.handle_cr3.get());
        let sending = sending.ok_or_else(|| refused.clone())?;
        let handling = hold.get().checked_sub(sending).ok_or(refused)?;
        Ok(Hold {
            sending: Nanos(sending),
            handling: Nanos(handling),
        })
    }
}

/// Parts of a mean hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    /// Sending the interrupts to all targets.
    pub(super) sending: Nanos,
    /// Time from a target's interrupt to its acknowledgement.
    pub(super) handling: Nanos,
}

/// Demand of the guest, equal in all settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlushDemand {
    /// The mean time that a vCPU computes between two flushes, not counting the time that it is stopped by others'.
    pub compute: Nanos,
    /// The standard deviation of a hold, as a multiple of its mean: 0, or at least 1.
    pub hold_variation: f64,
}

impl FlushDemand {
    /// Fitted to the profiles of another publication (xen 5500d265a2a8), each with its own mean hold.
    #[must_use]
    pub const fn fitted() -> Self {
        Self {
            compute: Nanos(8_500_000),
            hold_variation: 2.0,
        }
    }
}

/// State of interrupts while a vCPU waits for `flush_lock`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitsWith {
    /// Interrupts reach it, as `flush_area_mask` asserts.
    #[default]
    InterruptsOn,
    /// Against the assertion: two vCPUs that flush at once wait for each other.
    InterruptsOff,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlushSetup {
    /// vCPUs, each on a core of its own: 2 to 64.
    pub vcpus: u32,
    /// Flushes in all.
    pub flushes: u64,
    /// Form of a full flush: by CR4.PGE and INVPCID of the CPU.
    pub flush: FullFlush,
    /// Demand of the vCPUs.
    pub demand: FlushDemand,
    /// State of interrupts while a vCPU waits for `flush_lock`.
    pub waits: WaitsWith,
}

/// Reason why there is no profile.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FlushError {
    /// More vCPUs than a mask holds, or no other vCPU to flush.
    #[error("{0} vCPUs: expected 2 to {MOST_VCPUS}")]
    VcpusOutOfRange(u32),
    /// A mean hold that is shorter than what it consists of.
    #[error("a mean hold of {hold} is shorter than what it consists of, given {costs:?}")]
    HoldTooShort {
        /// The mean hold.
        hold: Nanos,
        /// The costs it is one of.
        costs: FlushCosts,
    },
    /// Cost tables have no figure for this kind of flush.
    #[error("no cost table says what a flush by INVPCID costs")]
    NoFigureForInvpcid,
    /// A variation that no distribution here has.
    #[error("flush.hold-variation: {0}; expected 0, or 1 to 10")]
    VariationOutOfRange(f64),
    /// The engine cannot run it.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
