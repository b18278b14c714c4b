//! userfaultfd write protection with a handler.

use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pagetoll_pager::ReaderStop;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Tracker;
use crate::dirty::guest::Guest;
use crate::dirty::pages::PageSet;
use crate::dirty::write_protection::{Resolution, WriteProtection};
use pagetoll_live_host::LiveError;

/// Interval between checks for the end.
const POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// A handler records pages and lets writes go on.
pub(super) struct UffdWp {
    protection: WriteProtection,
    /// Pages of a unit of protection: a page of hugetlb memory is protected as a whole.
    unit: u64,
    state: Mutex<State>,
}

struct State {
    recorded: PageSet,
    messages: u64,
}

impl UffdWp {
    pub(super) fn new(guest: &Guest) -> Result<Self, LiveError> {
        Ok(Self {
            protection: WriteProtection::new(guest.host()?, Resolution::Handler)?,
            unit: guest.unit(),
            state: Mutex::new(State {
                recorded: PageSet::new(guest.pages),
                messages: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records pages and lets their writes go on, as one step to a harvest: a page that was recorded, harvested and protected,
    /// and then allowed, would be written unseen.
    fn handle(&self) -> Result<(), LiveError> {
        let mut pages = Vec::new();
        self.protection.messages(|page| pages.push(page))?;
        for page in pages {
            let first = page - page % self.unit;
            let unit = first..first + self.unit;
            let mut state = self.state();
            state.messages += 1;
            state.recorded.insert_all(unit.clone());
            self.protection.allow(&unit)?;
        }
        Ok(())
    }
}

impl Tracker for UffdWp {
    fn arm(&self) -> Result<(), LiveError> {
        self.protection.register()?;
        self.protection.protect_all()
    }

    fn harvest(&self, written: &mut PageSet) -> Result<(), LiveError> {
        let mut state = self.state();
        written.insert_bits(state.recorded.bits());
        state.recorded.clear();
        Ok(())
    }

    fn re_arm(&self, written: &PageSet) -> Result<(), LiveError> {
        let mut runs = written.runs().into_iter();
        runs.try_for_each(|run| self.protection.protect(&run))
    }

    fn disarm(&self) -> Result<(), LiveError> {
        self.protection.unregister()
    }

    fn serve(&self, end: &ReaderStop) -> Result<(), LiveError> {
        while !end.is_requested() {
            let mut fds = [PollFd::from_borrowed_fd(
                self.protection.as_fd(),
                PollFlags::IN,
            )];
            match poll(&mut fds, Some(&POLL)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => self.handle()?,
                Err(errno) => return Err(LiveError::system("poll of a userfaultfd")(errno)),
            }
        }
        Ok(())
    }

    fn crossings(&self) -> u64 {
        self.state().messages
    }
}
