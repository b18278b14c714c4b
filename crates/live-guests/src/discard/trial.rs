//! A guest whose memory is discarded: what it finds, by its own touches, and what KVM counts meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuFd;
use pagetoll_backend::Stop;
use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::Discard;
use pagetoll_bill::row::Found;
use pagetoll_bill::spec::{Placement, Ring};
use pagetoll_vmm::arch::Privilege;
use pagetoll_vmm::guest::{self, Parameters, Program};
use pagetoll_vmm::{Kicker, Statistics};
use vm_memory::{Bytes, GuestAddress};

use super::chunks::Chunks;
use super::line::{Contents, Line, Run, Singles, Touches};
use super::memory::Memory;
use crate::restore::image::{Image, nonce};
use pagetoll_live_host::LiveError;
use pagetoll_live_host::vcpus::content::Content;
use pagetoll_live_host::vcpus::crew::{Crew, Member};
use pagetoll_live_host::vcpus::entry::Entry;
use pagetoll_live_host::vcpus::warm::warmed;

/// Time between two calls while the guest runs. Assumed: longer than the guest takes to touch a block again.
const BETWEEN: Duration = Duration::from_millis(2);

/// A guest whose memory a line is about.
pub(super) struct Trial<'a> {
    line: Line,
    /// The call that is made: that of the line, or one that is known to free.
    call: Discard,
    pages: u64,
    words: Content,
    image: &'a Image,
    stop: &'a Stop,
}

/// A part of the order of touches: first entry and number.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    count: usize,
}

/// Place of the calls of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The chunks that are looked at afterwards.
    Right,
    /// The chunks beside them; the guest's own words are spoilt where the line's call may keep them.
    Wrong,
}

impl<'a> Trial<'a> {
    /// A trial of a line, on as many pages of a guest with words that no other has.
    pub(super) fn new(line: Line, pages: u64, image: &'a Image, stop: &'a Stop) -> Self {
        Self {
            line,
            call: line.call,
            pages,
            words: Content::new_words(nonce()),
            image,
            stop,
        }
    }

    /// A call that is known to free, in place of the line's.
    pub(super) fn by_known(self) -> Self {
        let call = Discard::known_to_free(self.line.backing);
        Self { call, ..self }
    }

    /// The memory of a guest, without a guest.
    ///
    /// # Errors
    /// The host lacks what the backing needs.
    pub(super) fn memory(&self) -> Result<Memory, LiveError> {
        Memory::new(self.line.backing, self.pages, self.words, self.image)
    }

    /// Discards every second chunk of a guest that stands still; the guest touches all again.
    ///
    /// # Errors
    /// The host lacks something, a call fails, or a stop.
    pub(super) fn run(&self, place: Place) -> Result<Run, LiveError> {
        let memory = self.memory()?;
        let chunks = Chunks::half(self.pages, self.line.batch.into());
        let beside = Chunks::beside(&[&chunks]);
        self.on_vcpu(&memory, &[&chunks], |visit, member| {
            visit.run(member, &chunks, &beside, place)
        })
    }

    /// Discards single chunks, while the guest stands still and while it runs.
    ///
    /// # Errors
    /// Errors of [`run`](Self::run).
    pub(super) fn singles(&self) -> Result<Singles, LiveError> {
        let memory = self.memory()?;
        let [looked_at, running] = Chunks::singles(self.pages, self.line.batch.into());
        self.on_vcpu(&memory, &[&looked_at, &running], |visit, member| {
            visit.singles(member, &looked_at, &running)
        })
    }

    /// Does `work` on the thread of the guest's vCPU, with orders of touches for all pages, those beside, and those
    /// discarded.
    fn on_vcpu<T: Clone + Send>(
        &self,
        memory: &Memory,
        discarded: &[&Chunks],
        work: impl Fn(&Visit<'_>, &mut Member<'_, '_>) -> Result<T, LiveError> + Sync,
    ) -> Result<T, LiveError> {
        let backing = memory.machine.backing();
        let beside = Chunks::beside(discarded);
        let again = discarded.iter().flat_map(|chunks| chunks.pages());
        let all = (0..self.pages).chain(beside.iter().copied());
        let mut entries: Vec<u64> = all.map(|page| page * 4096).collect();
        // Discarded pages are written.
        entries.extend(again.map(|page| page * 4096 + 1));
        guest::write(&backing.memory, backing.layout.order_of(0), &entries)?;
        let vcpu = warmed(&memory.machine, 0, entries.len() as u64, "discard")?;
        let visit = Visit {
            trial: self,
            memory,
            stage2: Stage2::new(memory, &vcpu),
            all: Part::new(0, self.pages),
            beside: Part::new(self.pages, beside.len() as u64),
            again: Part::new(
                self.pages + beside.len() as u64,
                self.pages - beside.len() as u64,
            ),
        };
        let kicker = Kicker::new()?;
        let crew = Crew {
            mechanism: self.line.call.properties().name,
            pages: self.pages,
            ring: Ring::Three,
            placement: Placement::Anywhere,
            kicker: &kicker,
            stop: self.stop,
        };
        let done = crew.run(vec![vcpu], vec![Entry::Plain], &|| true, |member| {
            member.make_ready()?;
            work(&visit, member)
        })?;
        let one = done.into_iter().next();
        one.ok_or_else(|| LiveError::Session("a run without a vCPU".into()))
    }
}

impl Part {
    fn new(first: u64, count: u64) -> Self {
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            first: number(first),
            count: number(count),
        }
    }
}

/// KVM's count of what its tables map, and of the faults of the vCPU.
struct Stage2 {
    vm: Option<Statistics>,
    vcpu: Option<Statistics>,
}

impl Stage2 {
    fn new(memory: &Memory, vcpu: &VcpuFd) -> Self {
        Self {
            vm: Statistics::new(&memory.machine.vm().fd).ok(),
            vcpu: Statistics::new(vcpu).ok(),
        }
    }

    /// Pages of 4 KiB that are mapped, by leaves of each size; `None` where KVM does not count them.
    fn pages(&self) -> Option<u64> {
        let vm = self.vm.as_ref()?;
        let sizes = [("pages_4k", 1), ("pages_2m", 512), ("pages_1g", 512 * 512)];
        let leaves = |name| vm.value(name).ok().flatten();
        let pages = sizes.map(|(name, size)| Some(leaves(name)? * size));
        pages.into_iter().sum()
    }

    /// Faults that KVM has fixed.
    fn faults(&self) -> Option<u64> {
        self.vcpu.as_ref()?.value("pf_fixed").ok().flatten()
    }
}

/// The guest at work, as its vCPU's thread sees it.
struct Visit<'a> {
    trial: &'a Trial<'a>,
    memory: &'a Memory,
    stage2: Stage2,
    all: Part,
    beside: Part,
    again: Part,
}

impl Visit<'_> {
    fn run(
        &self,
        member: &mut Member<'_, '_>,
        chunks: &Chunks,
        beside: &[u64],
        place: Place,
    ) -> Result<Run, LiveError> {
        self.touch(member, self.all)?;
        let present = self.touch(member, self.beside)?;
        let before = self.memory.held()?;
        let calls = self.discard(chunks, place)?;
        let after = self.memory.held()?;
        let beside_again = self.touch(member, self.beside)?;
        let again = self.touch(member, self.again)?;
        if place == Place::Wrong && self.trial.line.promised().contains(&Found::Old) {
            self.spoil(chunks)?;
        }
        let words = self.trial.words;
        Ok(Run {
            discarded: self.again.count as u64,
            beside: beside.len() as u64,
            calls,
            before,
            after,
            present,
            beside_again,
            again,
            contents: self.contents(member)?,
            wrong_beside: self.differing(member, self.beside, words)?,
        })
    }

    /// Makes all calls; returns their time in nanoseconds.
    fn discard(&self, chunks: &Chunks, place: Place) -> Result<f64, LiveError> {
        let shift = match place {
            Place::Right => 0,
            Place::Wrong => chunks.size,
        };
        let began = Instant::now();
        for first in &chunks.firsts {
            let offset = (first + shift) * 4096;
            self.memory
                .discard(offset, chunks.size * 4096, self.trial.call)?;
        }
        Ok(began.elapsed().as_nanos() as f64)
    }

    /// Writes a word that is of no content into each discarded page.
    fn spoil(&self, chunks: &Chunks) -> Result<(), LiveError> {
        let memory = self.memory.machine.backing();
        for page in chunks.pages() {
            let word = GuestAddress(memory.layout.data + page * 4096 + 2048);
            memory.memory.write_obj(!page, word)?;
        }
        Ok(())
    }

    fn singles(
        &self,
        member: &mut Member<'_, '_>,
        looked_at: &Chunks,
        running: &Chunks,
    ) -> Result<Singles, LiveError> {
        self.touch(member, self.all)?;
        let before = self.stage2.pages();
        self.discard(looked_at, Place::Right)?;
        let after = self.stage2.pages();
        self.touch(member, self.beside)?;
        let faults = self.while_running(member, running)?;
        Ok(Singles {
            calls: looked_at.firsts.len() as u64,
            taken: before
                .zip(after)
                .map(|(before, after)| before.saturating_sub(after)),
            running: running.firsts.len() as u64,
            faults,
        })
    }

    /// Discards chunks while the guest touches what is beside, again and again; returns its faults.
    fn while_running(
        &self,
        member: &mut Member<'_, '_>,
        chunks: &Chunks,
    ) -> Result<Option<u64>, LiveError> {
        let over = AtomicBool::new(false);
        let before = self.stage2.faults();
        thread::scope(|scope| {
            let calls = scope.spawn(|| {
                let done = chunks.firsts.iter().try_for_each(|first| {
                    thread::sleep(BETWEEN);
                    let bytes = chunks.size * 4096;
                    self.memory.discard(first * 4096, bytes, self.trial.call)
                });
                over.store(true, Ordering::SeqCst);
                done
            });
            let mut touched = Ok(Touches::default());
            loop {
                // After the last call all is touched once more.
                let is_last = over.load(Ordering::SeqCst);
                touched = touched.and_then(|_| self.touch(member, self.beside));
                if is_last || touched.is_err() {
                    break;
                }
            }
            let done = calls.join();
            touched?;
            done.map_err(|_| LiveError::Session("the thread of the calls panicked".into()))?
        })?;
        let after = self.stage2.faults();
        Ok(before.zip(after).map(|(before, after)| after - before))
    }

    /// Touches a part of the pages.
    fn touch(&self, member: &mut Member<'_, '_>, part: Part) -> Result<Touches, LiveError> {
        if part.count == 0 {
            return Ok(Touches::default());
        }
        let before = self.stage2.faults();
        member.start(Program::Touch, self.parameters(part, Content::ZERO))?;
        let began = Instant::now();
        member.until_done()?;
        let nanos = began.elapsed().as_nanos() as f64;
        member.result()?;
        let after = self.stage2.faults();
        Ok(Touches {
            nanos,
            faults: before.zip(after).map(|(before, after)| after - before),
        })
    }

    /// Content of the pages that were discarded.
    fn contents(&self, member: &mut Member<'_, '_>) -> Result<Contents, LiveError> {
        let all = self.again.count as u64;
        let mut alike = |content| -> Result<u64, LiveError> {
            Ok(all - self.differing(member, self.again, content)?)
        };
        let of_file = self.trial.image.content().unwrap_or(Content::ZERO);
        Ok(Contents {
            zeroes: alike(Content::ZERO)?,
            old: alike(self.trial.words)?,
            file: alike(of_file)?,
        })
    }

    /// Pages that hold something else, as the guest sees them.
    fn differing(
        &self,
        member: &mut Member<'_, '_>,
        part: Part,
        content: Content,
    ) -> Result<u64, LiveError> {
        member.set_privilege(Privilege::User)?;
        member.run(Program::Verify, self.parameters(part, content))
    }

    fn parameters(&self, part: Part, content: Content) -> Parameters {
        let layout = self.memory.machine.backing().layout;
        Parameters {
            data: layout.data,
            order: layout.order_of(0) + 8 * part.first as u64,
            pages: part.count as u64,
            step: content.step,
            first: content.first,
        }
    }
}
