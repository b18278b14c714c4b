//! The vCPU threads of one run: started together, timed, watched, and always joined.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuFd;
use pagetoll_backend::{Stop, Stopped};
use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::live::Demand;
use pagetoll_bill::spec::{Placement, Ring};
use pagetoll_vmm::arch::{self, Privilege};
use pagetoll_vmm::guest::{self, Layout, Parameters, Program};
use pagetoll_vmm::{ExitReason, Kicker};

use super::content::Content;
use super::entry::Entry;
use super::place::{self, Role};
use crate::cpu_time::thread_time;
use crate::routes::demand::request::patience;
use crate::{LiveError, host};
use pagetoll_pager::Counts;

/// Interval between checks for a stop, a failure and the deadline.
const POLL: Duration = Duration::from_millis(20);

/// State that all vCPU threads of a run share.
#[derive(Debug)]
pub(crate) struct Crew<'a> {
    pub(crate) mechanism: Demand,
    pub(crate) layout: Layout,
    pub(crate) content: Content,
    pub(crate) orders: &'a [Vec<u64>],
    pub(crate) ring: Ring,
    pub(crate) placement: Placement,
    /// Interrupts the vCPUs' `KVM_RUN`.
    pub(crate) kicker: &'a Kicker,
    pub(crate) stop: &'a Stop,
}

/// Times and counts of a vCPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// CPU time of the thread between both.
    pub(crate) worked: Duration,
    pub(crate) counts: Counts,
    /// Set where it read something else than it should have.
    pub(crate) misread: bool,
    /// Pages in which it found a wrong word afterwards.
    pub(crate) wrong: u64,
}

type Ended = (usize, Result<Touched, LiveError>);

impl Crew<'_> {
    /// Lets every vCPU touch its pages. `sound` is false once a reader has failed.
    pub(crate) fn run<'p>(
        &self,
        vcpus: Vec<VcpuFd>,
        entries: Vec<Entry<'p>>,
        sound: &dyn Fn() -> bool,
    ) -> Result<Vec<Touched>, LiveError> {
        let (barrier, cancelled) = (Barrier::new(vcpus.len()), AtomicBool::new(false));
        let watch = Watch {
            barrier: &barrier,
            cancelled: &cancelled,
        };
        let count = vcpus.len();
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for (number, (vcpu, entry)) in vcpus.into_iter().zip(entries).enumerate() {
                let (sender, watch): (Sender<Ended>, _) = (sender.clone(), &watch);
                scope.spawn(move || {
                    let _enlisted = self.kicker.enlist();
                    let mut member = Member {
                        crew: self,
                        watch,
                        number,
                        vcpu,
                        entry,
                    };
                    // The receiver is gone only where the run has ended early.
                    let _ = sender.send((number, member.work()));
                });
            }
            drop(sender);
            self.wait_for(count, &receiver, &watch, sound)
        })
    }

    /// Waits for all vCPUs; whatever fails, they are kicked until all have ended.
    fn wait_for(
        &self,
        vcpus: usize,
        receiver: &Receiver<Ended>,
        watch: &Watch<'_>,
        sound: &dyn Fn() -> bool,
    ) -> Result<Vec<Touched>, LiveError> {
        let patience = patience(self.layout.data_bytes() / 4096);
        let deadline = Instant::now() + patience;
        let mut results: Vec<Option<Touched>> = vec![None; vcpus];
        let mut failure = None;
        loop {
            match receiver.recv_timeout(POLL) {
                Ok((number, Ok(touched))) => results[number] = Some(touched),
                Ok((_, Err(LiveError::Stopped(_)))) => {}
                Ok((_, Err(error))) => failure = failure.or(Some(error)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let asked = self.stop.requested();
            let late = Instant::now() > deadline;
            if asked || late || failure.is_some() || !sound() {
                if late && failure.is_none() && !asked {
                    failure = Some(self.hung(vcpus, patience));
                }
                watch.cancelled.store(true, Ordering::SeqCst);
                self.kicker.kick();
            }
        }
        let touched: Option<Vec<Touched>> = results.into_iter().collect();
        match failure {
            Some(failure) => Err(failure),
            None => touched.ok_or(Stopped.into()),
        }
    }

    fn hung(&self, vcpus: usize, patience: Duration) -> LiveError {
        LiveError::Hung {
            mechanism: self.mechanism.properties().name.to_owned(),
            vcpus,
            seconds: patience.as_secs(),
        }
    }
}

/// Synchronisation of the threads of a crew.
struct Watch<'a> {
    barrier: &'a Barrier,
    cancelled: &'a AtomicBool,
}

struct Member<'a, 'p> {
    crew: &'a Crew<'a>,
    watch: &'a Watch<'a>,
    number: usize,
    vcpu: VcpuFd,
    entry: Entry<'p>,
}

impl Member<'_, '_> {
    fn work(&mut self) -> Result<Touched, LiveError> {
        let ready = self.make_ready();
        self.watch.barrier.wait();
        let touched = ready.and_then(|()| self.touch());
        self.watch.barrier.wait();
        let mut touched = touched?;
        arch::set_privilege(&self.vcpu, Privilege::User)?;
        touched.wrong = self.run(Program::Verify)?;
        Ok(touched)
    }

    fn make_ready(&mut self) -> Result<(), LiveError> {
        let crew = self.crew;
        let role = Role::Vcpu(self.number);
        place::pin(place::cpu_for(role, crew.placement, &host::allowed_cpus()))?;
        let privilege = match crew.ring {
            Ring::Zero => Privilege::Kernel,
            Ring::Three => Privilege::User,
        };
        arch::set_privilege(&self.vcpu, privilege)?;
        self.run(Program::Warm).map(drop)
    }

    fn touch(&mut self) -> Result<Touched, LiveError> {
        self.start(Program::Touch)?;
        let (began, before) = (Instant::now(), thread_time());
        self.until_done()?;
        let (worked, ended) = (thread_time() - before, Instant::now());
        let crew = self.crew;
        let first_page = self.number as u64 * crew.layout.pages;
        let expected = crew.content.sum_read(&crew.orders[self.number], first_page);
        Ok(Touched {
            began,
            ended,
            worked,
            counts: self.entry.counts(),
            misread: self.result()? != expected,
            wrong: 0,
        })
    }

    /// Runs a program to its end; returns its result.
    fn run(&mut self, program: Program) -> Result<u64, LiveError> {
        self.start(program)?;
        self.until_done()?;
        self.result()
    }

    fn start(&mut self, program: Program) -> Result<(), LiveError> {
        let (layout, content) = (self.crew.layout, self.crew.content);
        let first_page = self.number as u64 * layout.pages;
        let parameters = Parameters {
            data: layout.data_of(self.number),
            order: layout.order_of(self.number),
            pages: layout.pages,
            step: content.step,
            first: content.word(first_page * 512),
        };
        Ok(guest::start(&self.vcpu, program, parameters)?)
    }

    fn until_done(&mut self) -> Result<(), LiveError> {
        loop {
            if self.watch.cancelled.load(Ordering::SeqCst) {
                return Err(Stopped.into());
            }
            match self.entry.enter(&mut self.vcpu)? {
                ExitReason::Done => return Ok(()),
                ExitReason::Interrupted => {}
                ExitReason::Failed(how) => return Err(self.failed(how)),
            }
        }
    }

    /// The program's result, after the exit that ended it has been completed.
    fn result(&mut self) -> Result<u64, LiveError> {
        self.vcpu.set_kvm_immediate_exit(1);
        let entered = self.entry.enter(&mut self.vcpu);
        self.vcpu.set_kvm_immediate_exit(0);
        entered?;
        Ok(arch::result(&self.vcpu)?)
    }

    /// With where the guest stands, and its last fault.
    fn failed(&self, how: String) -> LiveError {
        let place = arch::place(&self.vcpu);
        LiveError::Guest {
            mechanism: self.crew.mechanism.properties().name.to_owned(),
            vcpu: self.number,
            how: format!("{how} at {place}"),
        }
    }
}
