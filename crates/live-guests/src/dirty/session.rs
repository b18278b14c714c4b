//! A guest at work under a mechanism: phase by phase, with the time of each, and the pages that no harvest reported.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pagetoll_backend::Stop;
use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::row::{Rewriting, Span};
use pagetoll_bill::spec::Placement;
use pagetoll_vmm::Kicker;
use pagetoll_vmm::guest::{Parameters, Program};
use rustix::thread::sched_getcpu;

use super::guest::Guest;
use super::line::Line;
use super::pages::PageSet;
use super::shadow::{CopyOrder, Shadow};
use super::tracker::{Clearing, Tracker, clearing, tracker};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::vcpus::crew::{Crew, Member};
use pagetoll_live_host::vcpus::entry::Entry;
use pagetoll_live_host::vcpus::place::keep_off;
use pagetoll_live_host::vcpus::readers::with_readers;

/// Time for which a guest rewrites its pages without and with tracking, at least.
const REWRITING: Duration = Duration::from_millis(60);
/// Pages that the guest writes at a time beside other work.
const BURST: usize = 8;
/// Bursts of a guest before something is done beside it.
const BURSTS_BEFORE: usize = 8;
/// Sleep of a thread before it works beside the guest: that between 16 pages on a line of 256 MiB a second.
const NAP: Duration = Duration::from_micros(250);
/// Pause between the rounds of a copy beside a guest: each interrupts its vCPU.
const PAUSE: Duration = Duration::from_millis(1);
/// Interval between harvests beside a guest that rewrites its pages.
pub(super) const INTERVAL: Duration = Duration::from_millis(10);

/// Work beside the guest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    pub(super) rounds: u32,
    pub(super) work: Duration,
    /// Pages that the guest wrote meanwhile, and its time for them.
    pub(super) written: u64,
    pub(super) writing: Duration,
}

impl Beside {
    pub(super) fn add(&mut self, more: Self) {
        self.rounds += more.rounds;
        self.work += more.work;
        self.written += more.written;
        self.writing += more.writing;
    }
}

/// A guest with a mechanism on its vCPU's thread.
pub(crate) struct Session<'a, 'm, 'c, 'p> {
    pub(crate) guest: &'a Guest,
    pub(crate) tracker: &'a dyn Tracker,
    member: &'m mut Member<'c, 'p>,
    /// Number of words that were written.
    stamps: u64,
    /// Time of entering the guest and coming back.
    entering: Duration,
}

/// Runs `task` on the vCPU's thread of a guest with the mechanism, beside its handler.
///
/// # Errors
/// The host lacks the mechanism or the memory; the guest or the task fails; a stop.
pub(crate) fn with_guest<T: Clone + Send>(
    line: Line,
    pages: u64,
    stop: &Stop,
    task: impl Fn(&mut Session<'_, '_, '_, '_>) -> Result<T, LiveError> + Sync,
) -> Result<T, LiveError> {
    let (guest, vcpu) = Guest::new(line.mechanism, line.folio, pages)?;
    with(line, &guest, vcpu, stop, task)
}

/// Runs `task` as [`with_guest`] does, on a guest that is there.
pub(super) fn with<T: Clone + Send>(
    line: Line,
    guest: &Guest,
    vcpu: kvm_ioctls::VcpuFd,
    stop: &Stop,
    task: impl Fn(&mut Session<'_, '_, '_, '_>) -> Result<T, LiveError> + Sync,
) -> Result<T, LiveError> {
    let mechanism = line.mechanism;
    let tracker = tracker(mechanism, guest)?;
    let tracker = &*tracker;
    let empty = || tracker.empty_ring();
    let entry = match mechanism {
        Dirty::Ring => Entry::Ring(&empty),
        _ => Entry::Plain,
    };
    let kicker = Kicker::new()?;
    let crew = Crew {
        mechanism: mechanism.properties().name,
        pages: guest.pages,
        ring: line.ring,
        placement: Placement::Vcpus,
        kicker: &kicker,
        stop,
    };
    let handlers = usize::from(mechanism == Dirty::UffdWp);
    let serve = |_, end: &_| tracker.serve(end);
    let (results, _) = with_readers(handlers, serve, |sound| {
        crew.run(vec![vcpu], vec![entry], sound, |member| {
            task(&mut Session::begin(guest, tracker, member)?)
        })
    })?;
    let result = results.into_iter().next();
    result.ok_or_else(|| LiveError::Session("the guest gave no result".into()))
}

impl<'a, 'm, 'c, 'p> Session<'a, 'm, 'c, 'p> {
    fn begin(
        guest: &'a Guest,
        tracker: &'a dyn Tracker,
        member: &'m mut Member<'c, 'p>,
    ) -> Result<Self, LiveError> {
        member.make_ready()?;
        let mut session = Self {
            guest,
            tracker,
            member,
            stamps: 0,
            entering: Duration::ZERO,
        };
        let all = session.parameters(&session.all());
        session.member.run(Program::Warm, all)?;
        let one = session.parameters(&(0..1));
        session.entering = session.member.entering(one)?;
        Ok(session)
    }

    /// All places of the order.
    pub(super) const fn all(&self) -> Range<u64> {
        0..self.guest.pages
    }

    fn parameters(&self, places: &Range<u64>) -> Parameters {
        let layout = self.guest.machine.backing().layout;
        Parameters {
            data: layout.data,
            order: layout.order_of(0) + places.start * 8,
            pages: places.end - places.start,
            step: 1,
            first: self.stamps + 1,
        }
    }

    /// Has the guest write the pages at these places of its order, each word another than all before; returns the time, without
    /// that of entering.
    pub(crate) fn write(&mut self, places: &Range<u64>) -> Result<Duration, LiveError> {
        let parameters = self.parameters(places);
        let time = self.member.timed(Program::Stamp, parameters)?;
        self.stamps += places.end - places.start;
        Ok(time.saturating_sub(self.entering))
    }

    /// Has the guest write all pages; returns the time.
    pub(super) fn write_all(&mut self) -> Result<Duration, LiveError> {
        self.write(&self.all())
    }

    /// Number of words that were written: the last one that the guest wrote.
    pub(crate) const fn stamps(&self) -> u64 {
        self.stamps
    }

    /// A word that no page has.
    pub(super) fn fresh_word(&mut self) -> u64 {
        self.stamps += 1;
        self.stamps
    }

    /// Harvests into an empty set; returns it and the time.
    pub(super) fn harvest(&self) -> Result<(PageSet, Duration), LiveError> {
        let mut written = PageSet::new(self.guest.pages);
        let began = Instant::now();
        self.tracker.harvest(&mut written)?;
        Ok((written, began.elapsed()))
    }

    /// Populates memory, and tracks it from now on.
    pub(super) fn populate_and_track(&mut self) -> Result<(), LiveError> {
        self.write_all()?;
        self.tracker.arm()?;
        self.track_written()
    }

    /// Tracks again what was written until now, so that it is no part of what comes.
    pub(super) fn track_written(&self) -> Result<(), LiveError> {
        let (written, _) = self.harvest()?;
        self.tracker.re_arm(&written)
    }

    /// Has the guest write all pages again and again for a while; returns the mean time of a round.
    pub(super) fn rewrite(&mut self) -> Result<Duration, LiveError> {
        self.rewrite_each(1, |_, _| ())
    }

    /// Rewrites as [`rewrite`](Self::rewrite) does, at least so many rounds, and gives the start and the time of each.
    fn rewrite_each(
        &mut self,
        least: u32,
        mut each: impl FnMut(Instant, Duration),
    ) -> Result<Duration, LiveError> {
        let (mut all, mut rounds) = (Duration::ZERO, 0);
        let first = Instant::now();
        // By the clock: a round of few pages may take no longer than an empty entry.
        while first.elapsed() < REWRITING || rounds < least {
            let began = Instant::now();
            let time = self.write_all()?;
            each(began, time);
            all += time;
            rounds += 1;
        }
        Ok(all / rounds)
    }

    /// Rewrites as [`rewrite`](Self::rewrite) does, at least so many rounds, beside a thread that harvests and arms again at each
    /// interval.
    pub(super) fn rewrite_tracked(
        &mut self,
        least: u32,
    ) -> Result<(Duration, Rewriting), LiveError> {
        let (guest, tracker) = (self.guest, self.tracker);
        let (mut rounds, harvests) = (Vec::new(), Mutex::new(Vec::new()));
        let first = Instant::now();
        let harvest = || {
            thread::sleep(INTERVAL);
            let mut written = PageSet::new(guest.pages);
            let began = Instant::now();
            tracker.harvest(&mut written)?;
            tracker.re_arm(&written)?;
            let mut harvests = harvests.lock().unwrap_or_else(PoisonError::into_inner);
            harvests.push(span(first, began, began.elapsed()));
            Ok(())
        };
        let each = |began, time| rounds.push(span(first, began, time));
        let (time, ()) = beside(harvest, || Ok(()), || self.rewrite_each(least, each))?;
        let harvests = harvests
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        Ok((time, Rewriting::new(&rounds, &harvests)))
    }

    /// Does `work`, which returns its time, on another CPU, where there is one, while the guest writes its pages, few at a time. On
    /// the vCPU's own the guest would hardly run meanwhile. Before it that thread sleeps now and then while the guest writes, as
    /// one that sends pages does: after one long sleep it would keep a handler from its CPU for a time slice, and with it the guest.
    pub(super) fn write_beside(
        &mut self,
        work: impl FnOnce() -> Result<Duration, LiveError> + Send,
    ) -> Result<Beside, LiveError> {
        let pages = self.guest.pages;
        let places = |first| first..pages.min(first + BURST as u64);
        let mut bursts = (0..pages).step_by(BURST).cycle().map(places);
        let cpu = sched_getcpu();
        thread::scope(|scope| {
            let (begin, begun) = mpsc::channel();
            let worker = scope.spawn(move || {
                keep_off(cpu)?;
                loop {
                    thread::sleep(NAP);
                    match begun.try_recv() {
                        Ok(()) => return work(),
                        Err(TryRecvError::Empty) => {}
                        // The guest has failed.
                        Err(TryRecvError::Disconnected) => return Ok(Duration::ZERO),
                    }
                }
            });
            for places in bursts.by_ref().take(BURSTS_BEFORE) {
                self.write(&places)?;
            }
            // Its receiver is gone where the worker has failed.
            let _ = begin.send(());
            let (mut written, mut writing) = (0, Duration::ZERO);
            while written == 0 || !worker.is_finished() {
                let places = bursts.next().unwrap_or_default();
                writing += self.write(&places)?;
                written += places.end - places.start;
            }
            let work = worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(Beside {
                rounds: 1,
                work,
                written,
                writing,
            })
        })
    }

    /// Has the guest write the pages at these places, and until a time has passed, beside a thread that copies again and again;
    /// returns the pages whose last word is not in the copy once a last round has followed the guest's last write. Where pages
    /// are copied first, that write is meant to come between their copy and their clearing.
    pub(super) fn race(
        &mut self,
        shadow: &mut Shadow,
        order: CopyOrder<'_>,
        places: &Range<u64>,
        least: Duration,
    ) -> Result<u64, LiveError> {
        let (guest, tracker) = (self.guest, self.tracker);
        let shadow = Mutex::new(shadow);
        let round = || {
            let mut shadow = shadow.lock().unwrap_or_else(PoisonError::into_inner);
            shadow.round(guest, tracker, order).map(|_| ())
        };
        let repeated = || {
            thread::sleep(PAUSE);
            round()
        };
        let (_, ()) = beside(repeated, round, || {
            let began = Instant::now();
            let may_end = || match order {
                CopyOrder::ClearFirst => true,
                CopyOrder::CopyFirst { gap } => {
                    gap.load(Ordering::SeqCst) || began.elapsed() > 2 * least
                }
            };
            self.write(places)?;
            while began.elapsed() < least || !may_end() {
                self.write(places)?;
            }
            self.write(places)
        })?;
        let shadow = shadow.into_inner().unwrap_or_else(PoisonError::into_inner);
        shadow.lost(guest)
    }
}

/// Does `work` beside a thread that repeats `round`, and `last` once the work is done.
fn beside<T, L>(
    round: impl Fn() -> Result<(), LiveError> + Sync,
    last: impl Fn() -> Result<L, LiveError>,
    work: impl FnOnce() -> Result<T, LiveError>,
) -> Result<(T, L), LiveError> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let repeated = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                round()?;
            }
            Ok(())
        });
        let worked = work();
        done.store(true, Ordering::SeqCst);
        let repeated: Result<(), LiveError> = repeated
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        repeated?;
        Ok((worked?, last()?))
    })
}

fn span(first: Instant, began: Instant, time: Duration) -> Span {
    Span {
        start: began.saturating_duration_since(first).as_nanos() as f64,
        nanoseconds: time.as_nanos() as f64,
    }
}

/// True for a mechanism that finds pages which are absent until they are written.
pub(super) fn begins_absent(mechanism: Dirty) -> bool {
    clearing(mechanism) == Clearing::Never
}
