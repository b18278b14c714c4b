//! The vCPU threads of one run: started together, watched, and always joined.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuFd;
use pagetoll_backend::{Stop, Stopped};
use pagetoll_bill::spec::{Placement, Ring};
use pagetoll_pager::Counts;
use pagetoll_vmm::arch::{self, Privilege};
use pagetoll_vmm::guest::{self, Parameters, Program};
use pagetoll_vmm::{ExitReason, Kicker};

use super::entry::Entry;
use super::place::{self, Role};
use crate::patience::{Patience, patience};
use crate::{LiveError, host};

/// Interval between checks for a stop, a failure and the deadline.
const POLL: Duration = Duration::from_millis(20);
/// Runs of a program of one page, the shortest of which is the time of entering.
const ENTRIES: u32 = 16;
/// State that all vCPU threads of a run share.
#[derive(Debug)]
pub struct Crew<'a> {
    /// The mechanism's name, for errors.
    pub mechanism: &'static str,
    /// Pages of all vCPUs.
    pub pages: u64,
    /// Ring in which the guest runs.
    pub ring: Ring,
    /// Placement of vCPUs and readers.
    pub placement: Placement,
    /// Interrupts the vCPUs' `KVM_RUN`.
    pub kicker: &'a Kicker,
    /// Ends the run.
    pub stop: &'a Stop,
}

type Ended<T> = (usize, Result<T, LiveError>);

impl Crew<'_> {
    /// Runs `task` on a thread for each vCPU. `sound` is false once a reader has failed.
    ///
    /// A task waits for the others ([`Member::wait`]) as often as they do, even where it fails.
    pub fn run<'p, T: Clone + Send>(
        &self,
        vcpus: Vec<VcpuFd>,
        entries: Vec<Entry<'p>>,
        sound: &dyn Fn() -> bool,
        task: impl Fn(&mut Member<'_, 'p>) -> Result<T, LiveError> + Sync,
    ) -> Result<Vec<T>, LiveError> {
        let (barrier, cancelled) = (Barrier::new(vcpus.len()), AtomicBool::new(false));
        let watch = Watch {
            barrier: &barrier,
            cancelled: &cancelled,
        };
        let count = vcpus.len();
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for (number, (vcpu, entry)) in vcpus.into_iter().zip(entries).enumerate() {
                let (sender, watch): (Sender<Ended<T>>, _) = (sender.clone(), &watch);
                let task = &task;
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
                    let _ = sender.send((number, task(&mut member)));
                });
            }
            drop(sender);
            self.wait_for(count, &receiver, &watch, sound)
        })
    }

    /// Waits for all vCPUs; whatever fails, they are kicked until all have ended.
    fn wait_for<T: Clone>(
        &self,
        vcpus: usize,
        receiver: &Receiver<Ended<T>>,
        watch: &Watch<'_>,
        sound: &dyn Fn() -> bool,
    ) -> Result<Vec<T>, LiveError> {
        let limit = patience(self.pages);
        let mut patience = Patience::new(limit);
        let mut results: Vec<Option<T>> = vec![None; vcpus];
        let mut failure = None;
        loop {
            match receiver.recv_timeout(POLL) {
                Ok((number, Ok(result))) => results[number] = Some(result),
                Ok((_, Err(LiveError::Stopped(_)))) => {}
                Ok((_, Err(error))) => failure = failure.or(Some(error)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let asked = self.stop.requested();
            let late = patience.is_over();
            if asked || late || failure.is_some() || !sound() {
                if late && failure.is_none() && !asked {
                    failure = Some(self.hung(vcpus, limit));
                }
                watch.cancelled.store(true, Ordering::SeqCst);
                self.kicker.kick();
            }
        }
        let results: Option<Vec<T>> = results.into_iter().collect();
        match failure {
            Some(failure) => Err(failure),
            None => results.ok_or(Stopped.into()),
        }
    }

    fn hung(&self, vcpus: usize, patience: Duration) -> LiveError {
        LiveError::Hung {
            mechanism: self.mechanism.to_owned(),
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

/// A vCPU on its thread.
pub struct Member<'a, 'p> {
    crew: &'a Crew<'a>,
    watch: &'a Watch<'a>,
    number: usize,
    vcpu: VcpuFd,
    entry: Entry<'p>,
}

impl Member<'_, '_> {
    /// The vCPU's number, from 0.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// The vCPU.
    pub const fn vcpu(&self) -> &VcpuFd {
        &self.vcpu
    }

    /// Waits until the task of every vCPU waits.
    pub fn wait(&self) {
        self.watch.barrier.wait();
    }

    /// The faults that this thread has resolved.
    pub fn counts(&self) -> Counts {
        self.entry.counts()
    }

    /// Goes to the thread's CPU, and to the privilege of the workload.
    pub fn make_ready(&self) -> Result<(), LiveError> {
        let role = Role::Vcpu(self.number);
        let cpu = place::cpu_for(role, self.crew.placement, &host::allowed_cpus());
        place::pin(cpu)?;
        self.set_privilege(match self.crew.ring {
            Ring::Zero => Privilege::Kernel,
            Ring::Three => Privilege::User,
        })
    }

    /// Sets the privilege in which the guest goes on.
    ///
    /// # Errors
    /// KVM refuses it.
    pub fn set_privilege(&self, privilege: Privilege) -> Result<(), LiveError> {
        Ok(arch::set_privilege(&self.vcpu, privilege)?)
    }

    /// Runs a program to its end; returns its result.
    pub fn run(&mut self, program: Program, parameters: Parameters) -> Result<u64, LiveError> {
        self.start(program, parameters)?;
        self.until_done()?;
        self.result()
    }

    /// Runs a program to its end; returns the time until it has left the guest.
    pub fn timed(
        &mut self,
        program: Program,
        parameters: Parameters,
    ) -> Result<Duration, LiveError> {
        self.start(program, parameters)?;
        let began = Instant::now();
        self.until_done()?;
        let time = began.elapsed();
        self.result()?;
        Ok(time)
    }

    /// Time of entering the guest and coming back: the shortest of some runs over a single entry of the order.
    pub fn entering(&mut self, one: Parameters) -> Result<Duration, LiveError> {
        let times = (0..ENTRIES).map(|_| self.timed(Program::Warm, one));
        let times: Result<Vec<Duration>, LiveError> = times.collect();
        Ok(times?.into_iter().min().unwrap_or_default())
    }

    /// Puts the vCPU at the start of a program.
    ///
    /// # Errors
    /// KVM refuses its registers.
    pub fn start(&mut self, program: Program, parameters: Parameters) -> Result<(), LiveError> {
        Ok(guest::start(&self.vcpu, program, parameters)?)
    }

    /// Runs the program that was started to its end.
    ///
    /// # Errors
    /// An exit that the program does not cause; a stop; a guest that hangs.
    pub fn until_done(&mut self) -> Result<(), LiveError> {
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
    pub fn result(&mut self) -> Result<u64, LiveError> {
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
            mechanism: self.crew.mechanism.to_owned(),
            vcpu: self.number,
            how: format!("{how} at {place}"),
        }
    }
}
