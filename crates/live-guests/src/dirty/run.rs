//! A timed run of a line, and the losses that are looked for in it.

use std::time::{Duration, Instant};

use pagetoll_backend::Stop;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::row::Rewriting;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

use super::line::Line;
use super::pages::PageSet;
use super::session::{Beside, Session, begins_absent, with_guest};
use super::shadow::{CopyOrder, Shadow};
use super::tracker::{Clearing, clearing};
use crate::restore::touches::shuffle;
use pagetoll_live_host::LiveError;

/// Races of a run in which the guest writes all pages.
const RACES: u32 = 2;
/// Pages of a race in which the guest writes few pages again and again.
const HOT_PAGES: u64 = 64;
/// Time of such a race, at least.
pub(super) const HOT: Duration = Duration::from_millis(50);
/// Rounds in which as many are tracked again beside the guest.
const ROUNDS_BESIDE: u32 = 4;
/// One page of so many is written in the round that shows what is reported beside it.
pub(super) const SPARSE: usize = 8;

/// Times of the phases of a run, each of all pages, and counts of pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    pub(super) arm: Option<Duration>,
    pub(super) first_write: Duration,
    pub(super) harvest: Duration,
    /// Reporting one page in [`SPARSE`], here and there.
    pub(super) harvest_sparse: Option<Duration>,
    pub(super) re_arm: Option<Duration>,
    /// Tracking one page in [`SPARSE`], here and there.
    pub(super) re_arm_sparse: Option<Duration>,
    /// Tracking as many beside the guest at work, in each of some rounds.
    pub(super) beside: Option<Beside>,
    pub(super) write_again: Option<Duration>,
    pub(super) disarm: Option<Duration>,
    pub(super) untracked: Duration,
    pub(super) tracked: Option<(Duration, Rewriting)>,
    /// Crossings of the first write.
    pub(super) crossings: u64,
    pub(super) lost: Lost,
    /// Pages of the sparse round that were written, and that were reported.
    pub(super) written: u64,
    pub(super) reported: u64,
}

/// Pages that were written, and those of them that no harvest reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) tried: u64,
    pub(super) failed: u64,
    /// Beside a copy.
    pub(super) raced: u64,
    pub(super) failed_in_race: u64,
}

impl Lost {
    pub(super) fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.failed += other.failed;
        self.raced += other.raced;
        self.failed_in_race += other.failed_in_race;
    }

    fn look(&mut self, written: &PageSet, reported: &PageSet) {
        self.tried += written.len();
        self.failed += written.missing_from(reported);
    }
}

/// Runs a line once, with so many rounds at least of rewriting tracked pages.
pub(super) fn run(
    line: Line,
    pages: u64,
    seed: u64,
    rounds: u32,
    stop: &Stop,
) -> Result<Run, LiveError> {
    with_guest(line, pages, stop, |session| {
        let mut run = Run::default();
        match begins_absent(line.mechanism) {
            true => present(session, &mut run)?,
            false => tracked(session, line, seed, rounds, &mut run)?,
        }
        Ok(run)
    })
}

/// The phases of a mechanism that is armed.
fn tracked(
    session: &mut Session<'_, '_, '_, '_>,
    line: Line,
    seed: u64,
    rounds: u32,
    run: &mut Run,
) -> Result<(), LiveError> {
    let all = PageSet::with(session.all(), session.guest.pages);
    // The first round populates.
    session.write_all()?;
    run.untracked = session.rewrite()?;
    run.arm = Some(timed(|| session.tracker.arm())?);
    run.first_write = session.write_all()?;
    run.crossings = session.tracker.crossings();
    let (reported, time) = session.harvest()?;
    run.harvest = time;
    run.lost.look(&all, &reported);
    let re_arm = timed(|| session.tracker.re_arm(&reported))?;
    run.re_arm = (clearing(line.mechanism) == Clearing::Separate).then_some(re_arm);
    run.write_again = Some(session.write_all()?);
    let (reported, _) = session.harvest()?;
    run.lost.look(&all, &reported);
    session.tracker.re_arm(&reported)?;
    sparse(session, line, seed, run)?;
    run.tracked = Some(session.rewrite_tracked(rounds)?);
    if is_harvested_beside(line.mechanism) {
        race(session, run)?;
    }
    let disarm = timed(|| session.tracker.disarm())?;
    run.disarm = (line.mechanism != Dirty::SoftDirty).then_some(disarm);
    Ok(())
}

/// The phases of a mechanism that takes what is present for what was written.
fn present(session: &mut Session<'_, '_, '_, '_>, run: &mut Run) -> Result<(), LiveError> {
    let all = PageSet::with(session.all(), session.guest.pages);
    run.first_write = session.write_all()?;
    let (reported, time) = session.harvest()?;
    run.harvest = time;
    run.lost.look(&all, &reported);
    race(session, run)?;
    run.untracked = session.rewrite()?;
    Ok(())
}

/// Writes few pages, in an order by the seed, and tracks them again: at rest, and beside the guest.
fn sparse(
    session: &mut Session<'_, '_, '_, '_>,
    line: Line,
    seed: u64,
    run: &mut Run,
) -> Result<(), LiveError> {
    let mut tracked_first: Vec<u64> = session.all().collect();
    shuffle(&mut tracked_first, &mut SplitMix64::seed_from_u64(seed));
    let order = tracked_first[..tracked_first.len() / SPARSE].to_vec();
    tracked_first.rotate_left(order.len());
    let (reported, time) = sparse_round(session, &order, run)?;
    run.harvest_sparse = Some(time);
    let at_rest = timed(|| session.tracker.re_arm(&reported))?;
    let mut beside = Beside::default();
    for _ in 0..ROUNDS_BESIDE {
        session.track_written()?;
        let (reported, _) = sparse_round(session, &order, run)?;
        let tracker = session.tracker;
        session.guest.set_order(&tracked_first)?;
        beside.add(session.write_beside(|| timed(|| tracker.re_arm(&reported)))?);
    }
    if clearing(line.mechanism) == Clearing::Separate {
        run.re_arm_sparse = Some(at_rest);
        run.beside = Some(beside);
    }
    Ok(())
}

/// Writes these pages, and returns what is reported, and the time of reporting it.
fn sparse_round(
    session: &mut Session<'_, '_, '_, '_>,
    order: &[u64],
    run: &mut Run,
) -> Result<(PageSet, Duration), LiveError> {
    session.guest.set_order(order)?;
    session.write(&(0..order.len() as u64))?;
    let (reported, time) = session.harvest()?;
    let mut written = PageSet::new(session.guest.pages);
    order.iter().for_each(|page| written.insert(*page));
    run.lost.look(&written, &reported);
    run.written += written.len();
    run.reported += reported.len();
    Ok((reported, time))
}

/// False for a mechanism that is harvested while the guest is at rest: 4 in `clear_refs` clears all bits, those of pages that
/// were written since pagemap was read, too.
pub(super) fn is_harvested_beside(mechanism: Dirty) -> bool {
    mechanism != Dirty::SoftDirty
}

/// Copies pages beside the guest that writes them.
fn race(session: &mut Session<'_, '_, '_, '_>, run: &mut Run) -> Result<(), LiveError> {
    session.track_written()?;
    let mut shadow = Shadow::new(session.guest)?;
    let all = session.all();
    let races = std::iter::repeat_n((all, Duration::ZERO), RACES as usize);
    for (places, least) in races.chain([(0..HOT_PAGES, HOT)]) {
        run.lost.raced += places.end;
        run.lost.failed_in_race +=
            session.race(&mut shadow, CopyOrder::ClearFirst, &places, least)?;
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), LiveError>) -> Result<Duration, LiveError> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}
