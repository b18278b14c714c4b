//! Getting vCPU threads out of `KVM_RUN`: a signal that does nothing but interrupt.
//!
//! A signal that arrives just before `KVM_RUN` is lost on it, so kicks are repeated until the vCPUs are out.

#![allow(unsafe_code, reason = "signals to threads of this process")]

use std::sync::{Mutex, PoisonError};

use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

use crate::Error;

/// Threads that may be kicked.
#[derive(Debug)]
pub struct Kicker {
    threads: Mutex<Vec<libc::pthread_t>>,
    signal: libc::c_int,
}

/// A thread that may be kicked until this is dropped.
#[derive(Debug)]
pub struct Enlistment<'a> {
    kicker: &'a Kicker,
    thread: libc::pthread_t,
}

extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

impl Kicker {
    /// Installs the handler of the signal.
    ///
    /// # Errors
    /// sigaction(2) fails.
    pub fn new() -> Result<Self, Error> {
        let signal = SIGRTMIN();
        register_signal_handler(signal, nothing).map_err(Error::system("sigaction"))?;
        Ok(Self {
            threads: Mutex::new(Vec::new()),
            signal,
        })
    }

    /// Enlists the calling thread, until the result is dropped.
    #[must_use]
    pub fn enlist(&self) -> Enlistment<'_> {
        // SAFETY: always succeeds (pthread_self(3)).
        let thread = unsafe { libc::pthread_self() };
        self.lock().push(thread);
        Enlistment {
            kicker: self,
            thread,
        }
    }

    /// Interrupts all of them once.
    pub fn kick(&self) {
        for thread in self.lock().iter() {
            // SAFETY: a thread leaves the list before it ends, for which it needs the lock that is held here.
            unsafe { libc::pthread_kill(*thread, self.signal) };
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<libc::pthread_t>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Enlistment<'_> {
    fn drop(&mut self) {
        self.kicker.lock().retain(|thread| *thread != self.thread);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_kick_interrupts_a_sleeping_thread() {
        let kicker = Kicker::new().unwrap();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let _enlisted = kicker.enlist();
                rustix::event::poll(&mut [], None)
            });
            while !sleeper.is_finished() {
                kicker.kick();
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(sleeper.join().unwrap(), Err(rustix::io::Errno::INTR));
        });
        assert!(kicker.lock().is_empty());
    }
}
