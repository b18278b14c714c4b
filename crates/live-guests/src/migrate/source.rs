//! The source of a migration: the guest at its work on the vCPU's thread, and a thread that sends its memory.

use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use pagetoll_backend::Stop;
use pagetoll_bill::route::live::Dirty;
use pagetoll_bill::row::{Folio, Phase};
use pagetoll_bill::spec::Ring;
use pagetoll_pager::{PageSource, socket};
use rustix::thread::sched_getcpu;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::channel::{Channel, MOST_PAGES};
use super::messages::{Answer, Burst, Report, Switch};
use super::pace::Pace;
use super::plan::Plan;
use super::workload::Ticks;
use crate::dirty::guest::Guest;
use crate::dirty::line::Line;
use crate::dirty::pages::PageSet;
use crate::dirty::session::{Session, with_guest};
use crate::dirty::tracker::Tracker;
use pagetoll_live_host::LiveError;
use pagetoll_live_host::own_process::{OwnProcess, hear, nanos, now};
use pagetoll_live_host::patience::{Patience, patience};
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::place::keep_off;

/// The hidden command of the destination.
const COMMAND: &str = "migrate-destination";
/// Interval between checks for a stop and the deadline.
const POLL: Duration = Duration::from_millis(20);
/// Passes of the working set before the migration: the first one populates, and the second one is the pace without it.
const PASSES: u64 = 2;

/// Pages that are sent one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Round {
    /// Times of the monotonic clock, in nanoseconds.
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) pages: u64,
    pub(super) phase: Phase,
}

/// A migration. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) begun: u64,
    pub(super) stopped: u64,
    pub(super) rounds: Vec<Round>,
    /// Bursts of the guest at the source since the order to migrate.
    pub(super) bursts: Vec<Burst>,
    /// Time of a page in a burst before that, in nanoseconds.
    pub(super) untracked: f64,
    pub(super) report: Report,
}

/// Sent by the guest's thread when it has stopped: the time, and the pages that the guest has written.
type Stopped = (u64, u64);

/// Migrates a guest as planned.
///
/// # Errors
/// Either end lacks something or fails, or a stop.
pub(super) fn migrate(plan: &Plan, stop: &Stop) -> Result<Run, LiveError> {
    let (ours, theirs) = UnixStream::pair().map_err(LiveError::system("socketpair"))?;
    let input = Stdio::from(OwnedFd::from(theirs));
    let (process, output) = OwnProcess::start(COMMAND, input)?;
    let channel = Channel::new(ours);
    let destination = Destination {
        channel,
        output: Mutex::new(BufReader::new(output)),
    };
    let over = AtomicBool::new(false);
    let mut patience = Patience::new(2 * patience(plan.order.pages));
    let migrated = thread::scope(|scope| {
        // The destination ends with what this waits for where it is given up.
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                if stop.requested() || patience.is_over() {
                    process.kill();
                }
                thread::sleep(POLL);
            }
        });
        let _over = Over(&over);
        both_ends(plan, &destination, stop)
    });
    stop.check()?;
    migrated
}

/// Ends the thread that watches the destination, also where a migration panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn both_ends(plan: &Plan, destination: &Destination, stop: &Stop) -> Result<Run, LiveError> {
    destination.channel.send(&plan.order)?;
    if !matches!(destination.hear()?, Answer::Ready) {
        return Err(LiveError::Session(
            "the destination reported before it was ready".into(),
        ));
    }
    // A guest that is not tracked has a dirty log that is never begun.
    let line = Line {
        mechanism: plan.tracker.unwrap_or(Dirty::Bitmap),
        folio: Folio::Pages4k,
        ring: Ring::Three,
    };
    with_guest(line, plan.order.pages, stop, |session| {
        at_work(plan, destination, session)
    })
}

/// The destination's process, as the source has it.
struct Destination {
    channel: Channel,
    output: Mutex<BufReader<ChildStdout>>,
}

impl Destination {
    /// Waits for its next line.
    fn hear(&self) -> Result<Answer, LiveError> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = hear(&mut *output).map_err(LiveError::system("read from the destination"))?;
        match answer {
            Some(Answer::Lacking { what, remedy }) => Err(LiveError::Environment { what, remedy }),
            Some(Answer::Failed(why)) => Err(LiveError::Session(format!("the destination: {why}"))),
            Some(answer) => Ok(answer),
            None => Err(LiveError::Session("the destination has ended".into())),
        }
    }

    fn report(&self) -> Result<Report, LiveError> {
        match self.hear()? {
            Answer::Report(report) => Ok(report),
            _ => Err(LiveError::Session("the destination was ready twice".into())),
        }
    }
}

/// Runs the guest beside the thread that migrates it.
fn at_work(
    plan: &Plan,
    destination: &Destination,
    session: &mut Session<'_, '_, '_, '_>,
) -> Result<Run, LiveError> {
    let (guest, tracker) = (session.guest, session.tracker);
    fill(guest, plan.content)?;
    let untracked = warm_up(plan, session)?;
    let pause = AtomicBool::new(false);
    let (stopped, stops) = mpsc::channel();
    thread::scope(|scope| {
        let pause = &pause;
        let sender = Migration {
            plan,
            destination,
            guest,
            tracker,
            pace: Pace::new(plan.bandwidth),
            pause,
            rounds: Vec::new(),
        };
        let cpu = sched_getcpu();
        let migrated = scope.spawn(move || {
            let migrated = keep_off(cpu).and_then(|()| sender.run(&stops));
            // Ends the guest where the migration has failed.
            pause.store(true, Ordering::SeqCst);
            migrated
        });
        let bursts = write_until(pause, plan, session);
        if bursts.is_ok() {
            // The receiver is gone where the migration has failed.
            let _ = stopped.send((now(), session.stamps()));
        }
        drop(stopped);
        let migrated = migrated.join();
        let sent = migrated.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let bursts = bursts?;
        sent.map(|run| Run {
            bursts,
            untracked,
            ..run
        })
    })
}

/// Gives the guest's memory its content.
fn fill(guest: &Guest, content: Content) -> Result<(), LiveError> {
    let backing = guest.machine.backing();
    for first in (0..guest.pages).step_by(512) {
        let bytes = content.bytes_from(first, 512.min(guest.pages - first));
        let address = GuestAddress(backing.layout.data + first * 4096);
        backing.memory.write_slice(&bytes, address)?;
    }
    Ok(())
}

/// Lets the guest go through its working set without a pause; returns the time of a page in a burst, in the middle.
fn warm_up(plan: &Plan, session: &mut Session<'_, '_, '_, '_>) -> Result<f64, LiveError> {
    let workload = &plan.order.workload;
    session.guest.set_order(&workload.set)?;
    let mut times = Vec::new();
    while session.stamps() < PASSES * workload.set.len() as u64 {
        let Some(burst) = workload.burst(session.stamps()) else {
            break;
        };
        let time = session.write(&burst)?;
        times.push(time.as_nanos() as f64 / (burst.end - burst.start) as f64);
    }
    let of_last_pass = times.len() / 2;
    Ok(pagetoll_bill::row::median(&times[of_last_pass..]).unwrap_or_default())
}

/// Lets the guest write at its rate until it is to pause.
fn write_until(
    pause: &AtomicBool,
    plan: &Plan,
    session: &mut Session<'_, '_, '_, '_>,
) -> Result<Vec<Burst>, LiveError> {
    let workload = &plan.order.workload;
    let mut ticks = Ticks::new(workload.interval);
    let mut bursts = Vec::new();
    while !pause.load(Ordering::SeqCst) {
        if let Some(burst) = workload.burst(session.stamps()) {
            let begun = now();
            let time = session.write(&burst)?;
            bursts.push(Burst {
                begun,
                time: nanos(time),
                pages: burst.end - burst.start,
            });
        }
        ticks.wait(pause);
    }
    Ok(bursts)
}

/// A migration on its thread.
struct Migration<'a> {
    plan: &'a Plan,
    destination: &'a Destination,
    guest: &'a Guest,
    tracker: &'a dyn Tracker,
    pace: Pace,
    /// Asks the guest to stop.
    pause: &'a AtomicBool,
    rounds: Vec<Round>,
}

impl Migration<'_> {
    fn run(mut self, stops: &Receiver<Stopped>) -> Result<Run, LiveError> {
        let begun = now();
        let mut left = match self.plan.tracker {
            Some(_) => self.precopy()?,
            None => self.all(),
        };
        self.pause.store(true, Ordering::SeqCst);
        let (stopped, writes) = stops
            .recv()
            .map_err(|_| LiveError::Session("the guest failed at the source".into()))?;
        if self.plan.tracker.is_some() {
            self.tracker.harvest(&mut left)?;
        }
        let missing = match self.plan.order.missing {
            Some(_) => left.runs(),
            None => {
                self.send(&left, Phase::Stopped)?;
                Vec::new()
            }
        };
        let is_postcopy = !missing.is_empty();
        let missing = missing
            .into_iter()
            .map(|run| (run.start, run.end - run.start));
        self.destination.channel.send(&Switch {
            writes,
            missing: missing.collect(),
        })?;
        let served = match is_postcopy {
            true => self.serve()?,
            false => 0,
        };
        let report = self.destination.report()?;
        if is_postcopy {
            self.rounds.push(Round {
                begun: report.resumed,
                ended: report.last,
                pages: served,
                phase: Phase::Postcopy,
            });
        }
        Ok(Run {
            begun,
            stopped,
            rounds: self.rounds,
            bursts: Vec::new(),
            untracked: 0.0,
            report,
        })
    }

    const fn pages(&self) -> u64 {
        self.plan.order.pages
    }

    fn all(&self) -> PageSet {
        PageSet::with(0..self.pages(), self.pages())
    }

    /// Sends memory while the guest runs, round after round; returns what is left to be sent once the guest has stopped.
    ///
    /// The last report is not tracked again: its pages are left, however often they are written before the guest stops.
    fn precopy(&mut self) -> Result<PageSet, LiveError> {
        self.tracker.arm()?;
        if self.plan.tracker == Some(Dirty::InitiallySet) {
            // Every page is reported, and protected by this call alone.
            let reported = self.harvest()?;
            self.tracker.re_arm(&reported)?;
        }
        let mut left = self.all();
        for round in 1.. {
            self.send(&left, Phase::Precopy)?;
            left = self.harvest()?;
            if left.len() <= self.plan.limit || round >= self.plan.most_rounds {
                break;
            }
            self.tracker.re_arm(&left)?;
        }
        Ok(left)
    }

    fn harvest(&self) -> Result<PageSet, LiveError> {
        let mut written = PageSet::new(self.pages());
        self.tracker.harvest(&mut written)?;
        Ok(written)
    }

    /// Sends pages at the bandwidth of the plan.
    fn send(&mut self, pages: &PageSet, phase: Phase) -> Result<(), LiveError> {
        let begun = now();
        self.pace.begin();
        let numbers: Vec<u64> = pages.iter().collect();
        let mut content = Vec::new();
        for numbers in numbers.chunks(MOST_PAGES) {
            self.pace.pass(numbers.len() as u64);
            content.resize(numbers.len() * 4096, 0);
            for (page, bytes) in numbers.iter().zip(content.chunks_mut(4096)) {
                self.memory().read(*page, bytes)?;
            }
            self.destination.channel.send_pages(numbers, &content)?;
        }
        self.rounds.push(Round {
            begun,
            ended: now(),
            pages: numbers.len() as u64,
            phase,
        });
        Ok(())
    }

    /// Answers the destination's requests until it has all pages; returns how many it was sent.
    fn serve(&self) -> Result<u64, LiveError> {
        let served = Served {
            memory: self.memory(),
            pace: &self.pace,
            pages: AtomicU64::new(0),
        };
        let stream = self.destination.channel.stream()?;
        socket::serve(stream, &served).map_err(LiveError::system("page requests"))?;
        Ok(served.pages.into_inner())
    }

    fn memory(&self) -> SourceMemory<'_> {
        let backing = self.guest.machine.backing();
        SourceMemory {
            memory: &backing.memory,
            data: backing.layout.data,
            changed: self.plan.changed,
        }
    }
}

/// Memory that is sent.
#[derive(Clone, Copy)]
struct SourceMemory<'a> {
    memory: &'a GuestMemoryMmap,
    data: u64,
    /// A page of which one word is sent with one bit changed: a negative control.
    changed: Option<u64>,
}

/// Word of a page that a negative control changes, in bytes from its start.
const CHANGED_BYTE: usize = 2048;

impl SourceMemory<'_> {
    /// Reads a page, or several from one on.
    fn read(self, page: u64, bytes: &mut [u8]) -> Result<(), LiveError> {
        let address = GuestAddress(self.data + page * 4096);
        self.memory.read_slice(bytes, address)?;
        let of_page = |bytes: &mut [u8]| {
            if let Some(byte) = bytes.get_mut(CHANGED_BYTE) {
                *byte ^= 1;
            }
        };
        let mut pages = (page..).zip(bytes.chunks_mut(4096));
        if let Some((_, bytes)) = pages.find(|(number, _)| Some(*number) == self.changed) {
            of_page(bytes);
        }
        Ok(())
    }
}

/// Memory of the source as requests of the destination see it.
struct Served<'a> {
    memory: SourceMemory<'a>,
    pace: &'a Pace,
    pages: AtomicU64,
}

impl PageSource for Served<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let pages = buffer.len() as u64 / 4096;
        self.memory
            .read(offset / 4096, buffer)
            .map_err(io::Error::other)?;
        self.pace.pass(pages);
        self.pages.fetch_add(pages, Ordering::Relaxed);
        Ok(buffer.len())
    }
}
