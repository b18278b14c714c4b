//! Negative controls: a use of each mechanism that is known to lose pages, and must be caught.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;

use pagetoll_backend::Stop;
use pagetoll_bill::route::live::Dirty;
use rustix::fs::{Mode, OFlags, open};

use super::guest::{Guest, Origin};
use super::host_memory::{Advice, Forked};
use super::line::Line;
use super::pagemap::Pagemap;
use super::pages::PageSet;
use super::run::{HOT, is_harvested_beside};
use super::session::{self, Session, with_guest};
use super::shadow::{CopyOrder, Shadow};
use pagetoll_live_host::LiveError;

/// Pages of a control: two huge pages, less than a dirty ring takes.
pub(super) const PAGES: u64 = 1024;
/// Pages of a file that is paged out.
const FILE_PAGES: u64 = 512;
/// Pages of a race: few, so that all are written between their copy and their clearing.
const RACED: u64 = 8;
/// Races that are tried until one has lost something.
const RACES: u32 = 8;
/// Folder of a file that is paged out: not /tmp, which is memory on many systems.
const FOLDER: &str = "/var/tmp";
/// `KPF_ANON` of include/uapi/linux/kernel-page-flags.h.
const ANONYMOUS: u64 = 1 << 12;

/// Pages that negative controls lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) failed: u64,
    pub(super) failed_in_race: u64,
}

/// Runs the negative controls of a line.
///
/// # Errors
/// The host lacks the mechanism, or the guest fails.
pub(super) fn control(line: Line, stop: &Stop) -> Result<Control, LiveError> {
    match line.mechanism {
        Dirty::Pagemap => with_guest(line, PAGES, stop, frames),
        Dirty::Mincore => paged_out(line, stop),
        mechanism => with_guest(line, PAGES, stop, |session| {
            let failed_in_race = match is_harvested_beside(mechanism) {
                true => raced(session)?,
                false => 0,
            };
            Ok(Control {
                failed: cleared_late(session)?,
                failed_in_race,
            })
        }),
    }
}

/// Pages that are lost beside a copy where reported pages are armed again after they were copied.
fn raced(session: &mut Session<'_, '_, '_, '_>) -> Result<u64, LiveError> {
    session.populate_and_track()?;
    let (mut lost, gap) = (0, AtomicBool::new(false));
    let order = CopyOrder::CopyFirst { gap: &gap };
    for _ in 0..RACES {
        let mut shadow = Shadow::new(session.guest)?;
        lost = session.race(&mut shadow, order, &(0..RACED), HOT)?;
        if lost > 0 {
            break;
        }
    }
    session.tracker.disarm()?;
    Ok(lost)
}

/// Pages that are lost where they are written between their copy and their clearing.
fn cleared_late(session: &mut Session<'_, '_, '_, '_>) -> Result<u64, LiveError> {
    session.populate_and_track()?;
    session.write_all()?;
    let mut shadow = Shadow::new(session.guest)?;
    let (written, _) = session.harvest()?;
    session.write_all()?;
    session.tracker.clear_late(&written)?;
    shadow.round(session.guest, session.tracker, CopyOrder::ClearFirst)?;
    let lost = shadow.lost(session.guest)?;
    session.tracker.disarm()?;
    Ok(lost)
}

/// Frames of written pages are looked up once the pages have moved to others: a fork has the guest's next writes copied.
/// Without the privilege to see frames nothing is lost.
fn frames(session: &mut Session<'_, '_, '_, '_>) -> Result<Control, LiveError> {
    let memory = session.guest.host()?;
    session.write_all()?;
    let frames = Pagemap::open()?.frames(memory.start(), memory.pages())?;
    let forked = Forked::new().map_err(LiveError::system("fork(2)"))?;
    session.write_all()?;
    drop(forked);
    let Ok(flags) = File::open("/proc/kpageflags") else {
        return Ok(Control::default());
    };
    let mut failed = 0;
    for frame in frames.into_iter().flatten() {
        let mut bytes = [0; 8];
        let read = flags.read_exact_at(&mut bytes, frame * 8);
        let is_anonymous = read.is_ok() && u64::from_ne_bytes(bytes) & ANONYMOUS != 0;
        failed += u64::from(!is_anonymous);
    }
    Ok(Control {
        failed,
        failed_in_race: 0,
    })
}

/// Pages of a file are paged out after they were written. Where no file can be, or where it is in memory, nothing is lost.
fn paged_out(line: Line, stop: &Stop) -> Result<Control, LiveError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(file) = open(FOLDER, flags, Mode::RUSR | Mode::WUSR).map(File::from) else {
        return Ok(Control::default());
    };
    if file.set_len(FILE_PAGES * 4096).is_err() {
        return Ok(Control::default());
    }
    let origin = Origin::Shared(&file);
    let (guest, vcpu) = Guest::over(line.mechanism, line.folio, FILE_PAGES, origin)?;
    session::with(line, &guest, vcpu, stop, |session| {
        session.write_all()?;
        let memory = session.guest.host()?;
        let stored = file.sync_data();
        let paged_out = stored.and_then(|()| memory.advise(&session.all(), Advice::PageOut));
        if paged_out.is_err() {
            return Ok(Control::default());
        }
        let written = PageSet::with(session.all(), FILE_PAGES);
        let (reported, _) = session.harvest()?;
        Ok(Control {
            failed: written.missing_from(&reported),
            failed_in_race: 0,
        })
    })
}
