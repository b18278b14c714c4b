//! The `restore` route on this host: an image becomes a guest's memory by each mechanism, and the guest runs its touches.
//!
//! Each guest is a process of its own, as a VMM is. Its machine is there beforehand, with vCPUs that have run; what is timed
//! begins with the order to bring its memory back. Three boundaries are the guest's own, whatever the mechanism: it has
//! executed its first instruction, it has touched its working set, it has touched every page. Then guest and host compare
//! every word. Runs of all lines take turns, so that a drift of the machine meets all of them.
//!
//! Beside the timed runs each line has one in which memory is looked at once the working set is there, one of a guest that
//! touches nothing, which says whether the mechanism is lazy, and one from an image that lacks a page, which must fail.

mod clone;
mod clones;
mod conversation;
pub(crate) mod image;
mod line;
mod memory;
mod prediction;
mod request;
mod resident;
mod rows;
pub(crate) mod touches;
mod visit;

use std::fs;
use std::time::Instant;

use pagetoll_backend::{Billed, Context, Stacks, Stop, Timing};
use pagetoll_bill::route::Restore;
use pagetoll_bill::row::PageCache;
use pagetoll_bill::{Draft, HostLoad, Route, RouteMechanism};

use clones::Guests;
use conversation::{CloneOrder, Extent};
use image::{Image, ImageOrder};
use line::{Line, LineRuns, Measured};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::guest_memory::require_hugepages;
use pagetoll_live_host::host::{self, Watch};
use pagetoll_live_host::limits::{Lacking, require_any};
use pagetoll_live_host::turns::turns;
use pagetoll_live_host::vcpus::content::Content;
use prediction::Recorded;

pub use clone::restore_clone;
pub use request::Request;

const PHASE: &str = "restoring guests on this host";
/// Pages of the image that lacks one: a huge page, so that every mechanism can restore it.
const CONTROL_PAGES: u64 = 512;
const MISSING_PAGE: u64 = 333;
/// A run that records what is touched.
const RECORDING: Line = Line {
    mechanism: Restore::Uffd,
    batch: 1,
    vcpus: 1,
    cache: PageCache::Warm,
    clones: 1,
};

/// Bills the route on this host.
///
/// # Errors
/// Something missing on the host that every row needs, a failed guest, an image that changes, or a stop. What only some
/// rows need and the host lacks makes these rows unavailable.
pub fn bill(request: &Request, context: &Context<'_>) -> Result<Billed, LiveError> {
    let began = Instant::now();
    host::check_kvm()?;
    let most = request.clones.iter().max().copied().unwrap_or(1);
    host::require_memory(request.bytes() * (u64::from(most) + 1))?;
    let mut bench = Bench::new(request, context.stop)?;
    let watch = Watch::begin()?;
    let lines = bench.run(context);
    // Else a guest that fails since its image was cut is all that is said.
    bench.image.check_unchanged()?;
    let lines = lines?;
    let load = watch.end()?;
    require_any(lines.iter().map(|line| line.outcome.as_ref().err()))?;
    Ok(Billed {
        draft: draft(request, &bench, &lines, load),
        stacks: Stacks::new(),
        timings: vec![Timing::since(began, PHASE)],
    })
}

/// Images, and the order that runs from them.
struct Bench<'a> {
    request: &'a Request,
    image: Image,
    /// An image that lacks a page.
    control: Image,
    recorded: Recorded,
    /// Pages in memory of a guest that touched nothing and whose image was read.
    eager_pages: u64,
}

impl<'a> Bench<'a> {
    fn new(request: &'a Request, stop: &Stop) -> Result<Self, LiveError> {
        let folder = match &request.image {
            ImageOrder::New(folder) | ImageOrder::MappedRam { folder, .. } => folder.clone(),
            ImageOrder::File(_) => std::env::temp_dir(),
        };
        let control = Image::made(&folder, Content::WORDS, CONTROL_PAGES, stop)?;
        Ok(Self {
            request,
            image: Image::new(&request.image, request.order.pages.get(), stop)?,
            control: control.without_page(MISSING_PAGE)?,
            recorded: Recorded::default(),
            eager_pages: 0,
        })
    }

    /// Runs every line as often as was ordered; runs of different lines take turns.
    fn run(&mut self, context: &Context<'_>) -> Result<Vec<LineRuns>, LiveError> {
        self.record(context.stop)?;
        self.eager_pages = self.eager_pages(context.stop)?;
        let mut lines: Vec<LineRuns> = self
            .request
            .lines()
            .into_iter()
            .map(LineRuns::new)
            .collect();
        let runs = self.request.order.runs;
        let steps = u64::from(runs + 1) * lines.len() as u64;
        let mut phase = context.progress.begin_timed(PHASE, steps);
        for run in 0..=runs {
            for LineRuns { line, outcome } in turns(run, &mut lines) {
                context.stop.check()?;
                phase.step(&line.to_string());
                let Ok(measured) = outcome else { continue };
                // First what shows that the host can do it, which is not timed.
                let done = match run {
                    0 => self.examine(*line, measured, context.stop),
                    _ => self.time(*line, measured, context.stop),
                };
                match done {
                    Ok(()) => {}
                    Err(LiveError::Environment { what, remedy }) => {
                        *outcome = Err(Lacking { what, remedy });
                    }
                    Err(other) => return Err(other),
                }
                self.image.check_unchanged()?;
            }
        }
        Ok(lines)
    }

    /// Adds a run to a line.
    fn time(&self, line: Line, measured: &mut Measured, stop: &Stop) -> Result<(), LiveError> {
        let guests = self.guests(line, line.clones);
        if line.mechanism == Restore::Replay {
            let rehearsals = &mut measured.rehearsals;
            let whole = guests.restore(&self.rehearsal(line, &self.recorded.runs), stop)?;
            rehearsals.whole.extend(whole);
            let partial = guests.restore(&self.rehearsal(line, &self.recorded.partial), stop)?;
            rehearsals.partial.extend(partial);
        }
        let order = self.order(line, &self.request.set, Extent::LastPage);
        measured.runs.push(guests.restore(&order, stop)?);
        Ok(())
    }

    /// A replay of a set for guests that touch the recorded one.
    fn rehearsal(&self, line: Line, set: &[(u64, u64)]) -> CloneOrder {
        // One of several that stopped there would leave its CPU to those that are not as far.
        let extent = match line.clones {
            1 => Extent::Set,
            _ => Extent::LastPage,
        };
        CloneOrder {
            recorded: set.to_vec(),
            ..self.order(line, &self.recorded.touched, extent)
        }
    }

    /// Looks at memory, at a guest that touches nothing, and at one whose image lacks a page.
    fn examine(&self, line: Line, measured: &mut Measured, stop: &Stop) -> Result<(), LiveError> {
        if line.mechanism == Restore::Hugetlb2m {
            self.require_hugepages(line)?;
        }
        let order = self.order(line, &self.request.set, Extent::Set);
        let settled = self.guests(line, line.clones).restore(&order, stop)?;
        measured.kept = settled.iter().filter_map(|report| report.kept).collect();
        let order = self.order(line, &[], Extent::Set);
        let untouched = self.guests(line, 1).restore(&order, stop)?;
        measured.untouched = untouched.first().and_then(|report| report.kept);
        if line.clones == 1 {
            let order = self.order(line, &self.request.set, Extent::LastPage);
            measured.resident = self.guests(line, 1).resident(&order, stop)?;
        }
        let order = self.control_order(line);
        let guests = Guests {
            image: &self.control,
            ..self.guests(line, 1)
        };
        let failed = guests.restore(&order, stop)?;
        measured.control = clones::Wrong::of(&failed);
        Ok(())
    }

    fn require_hugepages(&self, line: Line) -> Result<(), LiveError> {
        let bytes = self.request.bytes();
        if !bytes.is_multiple_of(2 << 20) {
            return Err(LiveError::environment(
                format!("an image of {bytes} B is no multiple of 2 MiB"),
                "order a multiple of 512 --pages",
            ));
        }
        let kind = pagetoll_bill::spec::MemoryKind::Hugetlb2m;
        require_hugepages(kind, bytes * u64::from(line.clones))
    }

    const fn guests(&self, line: Line, count: u32) -> Guests<'_> {
        Guests {
            count: count as usize,
            image: &self.image,
            cache: line.cache,
        }
    }

    fn order(&self, line: Line, set: &[u64], extent: Extent) -> CloneOrder {
        let words = self.image.content();
        CloneOrder {
            mechanism: line.mechanism.properties().name.to_owned(),
            batch: line.batch,
            vcpus: line.vcpus as usize,
            readers: self.request.readers as usize,
            image: self.image.path(),
            pages: self.request.order.pages.get(),
            words: words.map(|words| (words.first, words.step)),
            touches: touches::entries(set, self.request.access, self.request.seed),
            recorded: match line.mechanism {
                Restore::Replay => self.recorded.runs.clone(),
                _ => Vec::new(),
            },
            extent,
        }
    }

    fn control_order(&self, line: Line) -> CloneOrder {
        let words = Content::WORDS;
        CloneOrder {
            image: self.control.path(),
            pages: CONTROL_PAGES,
            words: Some((words.first, words.step)),
            touches: vec![0, MISSING_PAGE * 4096],
            recorded: Vec::new(),
            ..self.order(line, &[], Extent::LastPage)
        }
    }

    /// Records the set that is replayed, and the one that the user wants.
    fn record(&mut self, stop: &Stop) -> Result<(), LiveError> {
        if let Some(path) = &self.request.record {
            let recorded = self.recording(&self.request.set, stop)?;
            let text = touches::listed(&recorded);
            fs::write(path, text).map_err(LiveError::system(format!(
                "write of --record {}",
                path.display()
            )))?;
        }
        if self
            .request
            .order
            .of::<Restore>()
            .contains(&Restore::Replay)
        {
            let choice = self.request.choice();
            let set = choice.recorded(&self.request.set, self.request.overlap);
            let runs = match self.recording(&set, stop) {
                // Replays lack it, too, and say so.
                Err(LiveError::Environment { .. }) => Vec::new(),
                recorded => recorded?,
            };
            self.recorded = Recorded::new(runs, choice, self.request.overlap);
        }
        Ok(())
    }

    /// Pages in memory of a guest that touches nothing and whose image is read: what a look at memory must find.
    fn eager_pages(&self, stop: &Stop) -> Result<u64, LiveError> {
        let line = Line {
            mechanism: Restore::Read,
            ..RECORDING
        };
        let order = self.order(line, &[], Extent::Set);
        let reports = self.guests(line, 1).restore(&order, stop)?;
        let kept = reports.iter().filter_map(|report| report.kept);
        Ok(kept.map(|kept| kept.resident / 4096).sum())
    }

    /// The pages that a guest is given which touches these.
    fn recording(&self, set: &[u64], stop: &Stop) -> Result<Vec<(u64, u64)>, LiveError> {
        let order = self.order(RECORDING, set, Extent::Set);
        let reports = self.guests(RECORDING, 1).restore(&order, stop)?;
        let mut present = reports.into_iter().map(|report| report.present);
        Ok(present.next().unwrap_or_default())
    }
}

fn draft(request: &Request, bench: &Bench<'_>, lines: &[LineRuns], load: HostLoad) -> Draft {
    let most = request.vcpus.iter().chain(&request.clones).max();
    let crowded = *most.unwrap_or(&1) as usize > host::allowed_cpus().len();
    let crowding = crowded.then(|| rows::crowding(host::allowed_cpus().len()));
    let notes = rows::notes(request, &bench.recorded.runs);
    let notes = crowding.into_iter().chain(notes);
    let rows = rows::rows(request, &bench.recorded, bench.eager_pages, lines);
    host::guest_draft(Route::Restore, &request.order, rows, notes, load)
}
