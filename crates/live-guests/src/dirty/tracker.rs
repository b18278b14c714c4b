//! A mechanism at work on one guest: it is armed, reports written pages, and is armed again.

mod bitmap;
mod present;
mod ring;
mod soft_dirty;
mod uffd_wp;
mod wp_async;

use pagetoll_bill::route::live::Dirty;
use pagetoll_pager::ReaderStop;

use super::guest::Guest;
use super::pages::PageSet;
use bitmap::{Bitmap, Manual};
use pagetoll_live_host::LiveError;
use present::{Mincore, Pagemap};
use ring::Ring;
use soft_dirty::SoftDirty;
use uffd_wp::UffdWp;
use wp_async::WpAsync;

/// A mechanism that finds the pages that one guest wrote. A harvest may run beside the guest.
pub(crate) trait Tracker: Sync {
    /// Begins to track.
    fn arm(&self) -> Result<(), LiveError>;

    /// Adds the pages that were written since they were last armed; where the mechanism's [`Clearing`] is
    /// [`ByHarvest`](Clearing::ByHarvest), they are armed again.
    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError>;

    /// Arms reported pages again; nothing where the harvest has done it or nothing does.
    fn re_arm(&self, _written: &PageSet) -> Result<(), LiveError> {
        Ok(())
    }

    /// Clears what has been copied already, which loses what was written meanwhile: a negative control.
    fn clear_late(&self, written: &PageSet) -> Result<(), LiveError> {
        self.re_arm(written)
    }

    /// Ends tracking.
    fn disarm(&self) -> Result<(), LiveError> {
        Ok(())
    }

    /// Handles faults of the guest until it is asked to end, where the mechanism has a handler.
    fn serve(&self, _end: &ReaderStop) -> Result<(), LiveError> {
        Ok(())
    }

    /// Empties a ring that is full.
    fn empty_ring(&self) -> Result<(), LiveError> {
        Ok(())
    }

    /// Messages that a handler read, or exits of a vCPU whose ring was full.
    fn crossings(&self) -> u64 {
        0
    }
}

/// Step that arms reported pages again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clearing {
    /// A call of its own.
    Separate,
    /// The harvest, by the same call.
    ByHarvest,
    /// None: what is present stays reported.
    Never,
}

/// The step of a mechanism.
pub(super) const fn clearing(mechanism: Dirty) -> Clearing {
    match mechanism {
        Dirty::Bitmap | Dirty::WpAsync => Clearing::ByHarvest,
        Dirty::ManualProtect
        | Dirty::InitiallySet
        | Dirty::Ring
        | Dirty::UffdWp
        | Dirty::SoftDirty => Clearing::Separate,
        Dirty::Pagemap | Dirty::Mincore => Clearing::Never,
    }
}

/// Kind of [`Tracker::crossings`], where a mechanism has them.
pub(super) const fn crossing(mechanism: Dirty) -> Option<&'static str> {
    match mechanism {
        Dirty::Ring => Some("ring-full"),
        Dirty::UffdWp => Some("uffd-message"),
        Dirty::Bitmap
        | Dirty::ManualProtect
        | Dirty::InitiallySet
        | Dirty::WpAsync
        | Dirty::SoftDirty
        | Dirty::Pagemap
        | Dirty::Mincore => None,
    }
}

/// The mechanism over a guest.
///
/// # Errors
/// The host lacks it.
pub(super) fn tracker<'g>(
    mechanism: Dirty,
    guest: &'g Guest,
) -> Result<Box<dyn Tracker + 'g>, LiveError> {
    Ok(match mechanism {
        Dirty::Bitmap => Box::new(Bitmap::new(guest)),
        Dirty::ManualProtect | Dirty::InitiallySet => Box::new(Manual::new(guest)),
        Dirty::Ring => Box::new(Ring::new(guest)?),
        Dirty::UffdWp => Box::new(UffdWp::new(guest)?),
        Dirty::WpAsync => Box::new(WpAsync::new(guest)?),
        Dirty::SoftDirty => Box::new(SoftDirty::new(guest)?),
        Dirty::Pagemap => Box::new(Pagemap::new(guest)?),
        Dirty::Mincore => Box::new(Mincore::new(guest)?),
    })
}
