//! Actors that touch memory: each is a thread of its own, which may sleep while the case goes on.

#![allow(unsafe_code, reason = "system calls on memory that may be missing")]

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use kvm_ioctls::{VcpuExit, VcpuFd};
use pagetoll_conformance::kvm::Answer;
use pagetoll_vmm::arch;

use super::guest;
use pagetoll_live_host::LiveError;

const WORD: usize = 8;

/// An access by a thread or a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// Reads the word at an address.
    Read(u64),
    /// Writes a word there.
    Write(u64, u64),
    /// Enters the guest again, with this in `kvm_run.mmio.data`.
    Run(u64),
}

/// State of its last job.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    Busy,
    Finished(Answer),
}

/// A thread that runs one job after another.
#[derive(Debug)]
pub(super) struct Actor {
    jobs: Option<Sender<Job>>,
    doing: Arc<Mutex<Doing>>,
    thread: Option<JoinHandle<()>>,
}

impl Actor {
    /// A thread of the process.
    pub(super) fn thread() -> Result<Self, LiveError> {
        Self::new(|jobs, doing| {
            for job in jobs {
                set(doing, Doing::Finished(by_system_call(job)));
            }
        })
    }

    /// A thread that runs a vCPU.
    pub(super) fn vcpu(mut vcpu: VcpuFd) -> Result<Self, LiveError> {
        Self::new(move |jobs, doing| {
            for job in jobs {
                let answer = by_vcpu(&mut vcpu, job);
                let answer = answer.unwrap_or_else(|error| Answer::Other(error.to_string()));
                set(doing, Doing::Finished(answer));
            }
        })
    }

    fn new(
        work: impl FnOnce(&Receiver<Job>, &Mutex<Doing>) + Send + 'static,
    ) -> Result<Self, LiveError> {
        let (jobs, receiver) = channel();
        let doing = Arc::new(Mutex::new(Doing::Nothing));
        let theirs = Arc::clone(&doing);
        let thread = std::thread::Builder::new()
            .name("conformance".into())
            .spawn(move || work(&receiver, &theirs))
            .map_err(LiveError::system("making a thread"))?;
        Ok(Self {
            jobs: Some(jobs),
            doing,
            thread: Some(thread),
        })
    }

    /// Starts a job. A case that starts one while the last one sleeps is wrong, and gets no answer to the last one.
    pub(super) fn start(&self, job: Job) {
        set(&self.doing, Doing::Busy);
        if let Some(jobs) = &self.jobs {
            // A thread that has died is never done, which the next wait reports.
            let _received = jobs.send(job);
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        *lock(&self.doing) == Doing::Busy
    }

    /// The result of its last job, or that it sleeps.
    pub(super) fn answer(&self) -> Answer {
        match &*lock(&self.doing) {
            Doing::Nothing => Answer::Idle,
            Doing::Busy => Answer::Sleeps,
            Doing::Finished(answer) => answer.clone(),
        }
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.jobs = None;
        // One that still sleeps, which only happens when a case was given up, is left to end with the process.
        if let Some(thread) = self.thread.take()
            && !self.is_busy()
        {
            let _panicked = thread.join();
        }
    }
}

fn set(doing: &Mutex<Doing>, to: Doing) {
    *lock(doing) = to;
}

fn lock(doing: &Mutex<Doing>) -> std::sync::MutexGuard<'_, Doing> {
    doing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Through a pipe, so that memory which cannot be had is an error of read(2) or write(2).
fn by_system_call(job: Job) -> Answer {
    let moved = match job {
        Job::Read(at) => load(at),
        Job::Write(at, word) => store(at, word).map(|()| word),
        Job::Run(_) => return Answer::Idle,
    };
    moved.map_or_else(refused, Answer::Word)
}

fn load(at: u64) -> std::io::Result<u64> {
    let (mut from, to) = std::io::pipe()?;
    let at = ptr::without_provenance(usize::try_from(at).unwrap_or(usize::MAX));
    // SAFETY: the kernel checks the address, which is no Rust memory, and only reads.
    let moved = unsafe { libc::write(to.as_raw_fd(), at, WORD) };
    check(moved)?;
    let mut word = [0; WORD];
    from.read_exact(&mut word)?;
    Ok(u64::from_ne_bytes(word))
}

fn store(at: u64, word: u64) -> std::io::Result<()> {
    let (from, mut to) = std::io::pipe()?;
    to.write_all(&word.to_ne_bytes())?;
    let at = ptr::without_provenance_mut(usize::try_from(at).unwrap_or(usize::MAX));
    // SAFETY: the kernel checks the address, which is a case's memory, to which there are no references.
    check(unsafe { libc::read(from.as_raw_fd(), at, WORD) })
}

fn check(moved: isize) -> std::io::Result<()> {
    match usize::try_from(moved) {
        Ok(WORD) => Ok(()),
        Ok(other) => Err(std::io::Error::other(format!("{other} of {WORD} bytes"))),
        Err(_) => Err(std::io::Error::last_os_error()),
    }
}

fn refused(error: std::io::Error) -> Answer {
    match error.raw_os_error() {
        Some(errno) => Answer::Refused(errno),
        None => Answer::Other(error.to_string()),
    }
}

fn by_vcpu(vcpu: &mut VcpuFd, job: Job) -> Result<Answer, kvm_ioctls::Error> {
    match job {
        Job::Read(gpa) => guest::begin_read(vcpu, gpa)?,
        Job::Write(gpa, word) => guest::begin_write(vcpu, gpa, word)?,
        Job::Run(word) => {
            let run = vcpu.get_kvm_run();
            if run.exit_reason == kvm_bindings::KVM_EXIT_MMIO {
                run.__bindgen_anon_1.mmio.data = word.to_ne_bytes();
            }
        }
    }
    match vcpu.run() {
        Ok(exit) if arch::is_done(&exit) => {}
        Ok(VcpuExit::MmioRead(gpa, data)) => return Ok(Answer::MmioRead(gpa, data.len())),
        Ok(VcpuExit::MmioWrite(gpa, data)) => return Ok(mmio_write(gpa, data)),
        Ok(VcpuExit::MemoryFault { gpa, size, flags }) => {
            return Ok(Answer::MemoryFault(gpa, size, flags));
        }
        Ok(other) => return Ok(Answer::Other(format!("{other:?}"))),
        Err(error) => return Ok(run_failed(vcpu, error)),
    }
    // What was read, or what was written.
    Ok(Answer::Word(arch::accessed_word(vcpu)?))
}

fn mmio_write(gpa: u64, data: &[u8]) -> Answer {
    match data.try_into() {
        Ok(word) => Answer::MmioWrite(gpa, u64::from_ne_bytes(word)),
        Err(_) => Answer::Other(format!("MMIO write of {} bytes at {gpa:#x}", data.len())),
    }
}

fn run_failed(vcpu: &mut VcpuFd, error: kvm_ioctls::Error) -> Answer {
    match (error.errno(), vcpu.get_kvm_run().exit_reason) {
        (libc::EFAULT, 0) => Answer::RunFailed,
        (errno, reason) => Answer::Other(format!("errno {errno}, exit reason {reason}")),
    }
}
