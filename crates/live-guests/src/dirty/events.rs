//! Events other than a guest's write: each happens to a tracked guest of its own, and a copy by what is reported afterwards is
//! compared with the guest's memory.

use std::fs;
use std::io;
use std::ops::Range;

use pagetoll_backend::Stop;
use pagetoll_bill::row::{EventCoverage, Folio, PageEvent};

use super::host_memory::{Advice, Forked};
use super::line::Line;
use super::pagemap::Pagemap;
use super::session::{Session, with_guest};
use super::shadow::{CopyOrder, Shadow};
use pagetoll_live_host::{LiveError, smaps};

/// Pages of a guest: two huge pages.
const PAGES: u64 = 1024;
/// Pages of a huge page.
const HUGE: u64 = 512;
/// File whose 1 compacts all memory.
const COMPACT: &str = "/proc/sys/vm/compact_memory";

/// Tries all events on a line.
///
/// # Errors
/// The host lacks the mechanism, or a guest fails.
pub(super) fn events(line: Line, stop: &Stop) -> Result<Vec<EventCoverage>, LiveError> {
    let of_event =
        |event: &PageEvent| with_guest(line, PAGES, stop, |session| covered(session, *event));
    PageEvent::ALL.iter().map(of_event).collect()
}

fn covered(
    session: &mut Session<'_, '_, '_, '_>,
    event: PageEvent,
) -> Result<EventCoverage, LiveError> {
    session.populate_and_track()?;
    let mut shadow = Shadow::new(session.guest)?;
    match happen(session, event)? {
        Err(reason) => Ok(EventCoverage::untested(event, reason)),
        Ok(tried) => {
            shadow.round(session.guest, session.tracker, CopyOrder::ClearFirst)?;
            let lost = shadow.lost(session.guest)?;
            Ok(EventCoverage::of_pages(event, tried, lost))
        }
    }
}

const FIRST: Range<u64> = 0..PAGES / 2;
const SECOND: Range<u64> = PAGES / 2..PAGES;

/// Has an event happen; the pages that it changed, or that the guest wrote before and after it, or why it did not.
fn happen(
    session: &mut Session<'_, '_, '_, '_>,
    event: PageEvent,
) -> Result<Result<u64, String>, LiveError> {
    let half = PAGES / 2;
    match event {
        PageEvent::VmmWrite => {
            for page in FIRST {
                let word = session.fresh_word();
                session.guest.write_from_host(page, word)?;
            }
            return Ok(Ok(half));
        }
        PageEvent::Discarded => return discard(session).map(|done| done.map(|()| half)),
        PageEvent::DiscardedAndWritten => {
            return match discard(session)? {
                Ok(()) => session.write(&FIRST).map(|_| Ok(half)),
                Err(reason) => Ok(Err(reason)),
            };
        }
        PageEvent::DeviceWrite => {
            return Ok(Err("no device of this host writes guest memory".into()));
        }
        PageEvent::SwappedOut
        | PageEvent::Migrated
        | PageEvent::Split
        | PageEvent::Collapsed
        | PageEvent::Forked => {}
    }
    session.write(&FIRST)?;
    let happened = match event {
        PageEvent::SwappedOut => swap_out(session)?,
        PageEvent::Migrated => migrate(session)?,
        PageEvent::Split => split(session)?,
        PageEvent::Collapsed => collapse(session)?,
        _ => {
            let _forked = Forked::new().map_err(LiveError::system("fork(2)"))?;
            session.write(&SECOND)?;
            return Ok(Ok(PAGES));
        }
    };
    session.write(&SECOND)?;
    Ok(happened.map(|()| PAGES))
}

/// Discards the first half.
fn discard(session: &Session<'_, '_, '_, '_>) -> Result<Result<(), String>, LiveError> {
    let advice = match session.guest.folio() {
        Folio::Pages2m => Advice::Remove,
        _ => Advice::DontNeed,
    };
    let discarded = session.guest.host()?.advise(&FIRST, advice);
    Ok(refused(discarded, "madvise(2)"))
}

fn refused(done: io::Result<()>, call: &str) -> Result<(), String> {
    done.map_err(|error| format!("{call} fails: {error}"))
}

fn swap_out(session: &Session<'_, '_, '_, '_>) -> Result<Result<(), String>, LiveError> {
    let memory = session.guest.host()?;
    let advised = memory.advise(&FIRST, Advice::PageOut);
    if let Err(reason) = refused(advised, "madvise(MADV_PAGEOUT)") {
        return Ok(Err(reason));
    }
    let mut swapped = 0;
    Pagemap::open()?.entries(memory.start(), PAGES, |_, entry| {
        swapped += u64::from(entry.is_swapped());
    })?;
    Ok(match swapped {
        0 => Err("no page was swapped out: this host has no swap space to spare".into()),
        _ => Ok(()),
    })
}

fn migrate(session: &Session<'_, '_, '_, '_>) -> Result<Result<(), String>, LiveError> {
    let memory = session.guest.host()?;
    let pagemap = Pagemap::open()?;
    let before = pagemap.frames(memory.start(), PAGES)?;
    if let Err(reason) = refused(fs::write(COMPACT, "1"), "compaction") {
        return Ok(Err(reason));
    }
    let after = pagemap.frames(memory.start(), PAGES)?;
    let moved = before.iter().zip(&after);
    let moved = moved
        .filter(|(before, after)| before.is_some() && before != after)
        .count();
    Ok(match moved {
        0 => Err("compaction moved no page".into()),
        _ => Ok(()),
    })
}

fn huge_kib(session: &Session<'_, '_, '_, '_>) -> Result<u64, LiveError> {
    let memory = session.guest.host()?;
    let range = memory.start()..memory.start() + PAGES * 4096;
    let smaps = smaps::of_this_process();
    let huge = smaps::mappings(&smaps, &range);
    Ok(huge
        .filter_map(|fields| fields.get("AnonHugePages").copied())
        .sum())
}

/// Splits the mapping of each huge page.
fn split(session: &Session<'_, '_, '_, '_>) -> Result<Result<(), String>, LiveError> {
    if huge_kib(session)? == 0 {
        return Ok(Err(
            "no page is part of a transparent huge page by then".into()
        ));
    }
    let memory = session.guest.host()?;
    for huge in 0..PAGES / HUGE {
        let page = huge * HUGE + 7;
        let done = memory.protect_and_allow(&(page..page + 1));
        if let Err(reason) = refused(done, "mprotect(2)") {
            return Ok(Err(reason));
        }
    }
    Ok(match huge_kib(session)? {
        0 => Ok(()),
        kib => Err(format!("{kib} KiB are still mapped by huge pages")),
    })
}

fn collapse(session: &Session<'_, '_, '_, '_>) -> Result<Result<(), String>, LiveError> {
    if huge_kib(session)? > 0 || session.guest.folio() == Folio::Pages2m {
        return Ok(Err("pages are part of huge pages already".into()));
    }
    let memory = session.guest.host()?;
    let all = session.all();
    let advised = memory.advise(&all, Advice::HugePage);
    if let Err(reason) = refused(advised, "madvise(MADV_HUGEPAGE)") {
        return Ok(Err(reason));
    }
    let collapsed = memory.advise(&all, Advice::Collapse);
    Ok(refused(collapsed, "madvise(MADV_COLLAPSE)"))
}
