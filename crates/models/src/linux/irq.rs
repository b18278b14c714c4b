//! The irq route: events are masked and unmasked. Source: Linux 6.1, arch/x86/xen/xen-asm.S, `xen_irq_disable_direct`,
//! `xen_irq_enable_direct`, `check_events` and `xen_iret`; arch/x86/xen/irq.c, `xen_force_evtchn_callback`;
//! drivers/xen/events/events_2l.c, `evtchn_2l_handle_events`.

use std::num::NonZeroU64;

use super::kernel::Kernel;
use super::route_run::{Comparison, RouteRun};
use crate::Error;
use crate::xen::{Layout, Port};

/// A way to enable events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnableEvents {
    /// Unmask, then the `xen_version` hypercall, whose exit delivers.
    Always,
    /// Unmask, then the hypercall if an event is pending.
    IfPending,
}

/// Mechanism that enables events, and the rate of events while they are disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irq {
    /// Mechanism that enables events.
    pub mechanism: EnableEvents,
    /// Number of enables from one with a pending event to the next; `None`: no event is pending.
    pub pending_every: Option<NonZeroU64>,
}

/// Disables and enables events of a new guest.
///
/// # Errors
/// Xen refuses what a kernel boots with, which would be a mistake in this crate.
pub fn irq(enables: u64, asked: Irq) -> Result<RouteRun, Error> {
    let mut kernel = Kernel::boot(Layout::default())?;
    let ports = [5, 64, 4095].map(Port::new);
    let before = kernel.tolls();
    let mut sent = 0u64;
    let mut checked = Comparison::default();
    for (number, port) in (1..=enables).zip(ports.into_iter().flatten().cycle()) {
        kernel.irq_disable();
        if asked.pending_every.is_some_and(|every| number % every == 0) {
            kernel.interrupt(port);
            sent += 1;
        }
        kernel.irq_enable(asked.mechanism)?;
        let handled = kernel.handled.values().sum::<u64>();
        checked.items += 1;
        checked.lost_events += u64::from(handled != sent);
    }
    Ok(RouteRun {
        items: enables,
        tolls: kernel.tolls() - before,
        checked,
    })
}

impl Kernel {
    /// Masks upcalls.
    pub fn irq_disable(&mut self) {
        self.xen.vcpu_info(self.vcpu).upcall_mask = true;
    }

    /// Unmasks upcalls. The mask goes before the look at what is pending: an event that comes between is seen by one or
    /// the other.
    ///
    /// # Errors
    /// Never: `xen_version` is not refused.
    pub fn irq_enable(&mut self, how: EnableEvents) -> Result<(), Error> {
        self.xen.vcpu_info(self.vcpu).upcall_mask = false;
        let pending = self.xen.vcpu_info(self.vcpu).upcall_pending;
        if how == EnableEvents::IfPending && !pending {
            return Ok(());
        }
        let outcome = self.xen.xen_version(self.vcpu);
        self.must("xen_version", outcome)
    }

    /// A device's event comes in.
    pub fn interrupt(&mut self, port: Port) {
        self.xen.evtchn_set_pending(self.vcpu, port, None);
        self.take_upcalls();
    }

    /// Runs the event callback if Xen has entered it, and once more whenever something came meanwhile.
    pub(super) fn take_upcalls(&mut self) {
        while self.xen.take_upcall(self.vcpu) {
            while self.xen.vcpu_info(self.vcpu).upcall_pending {
                for word in self.xen.vcpu_info(self.vcpu).take_selected() {
                    for port in self.xen.shared_info().take_active(word) {
                        *self.handled.entry(port).or_default() += 1;
                    }
                }
            }
            let _ = self.xen.iret(self.vcpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(mechanism: EnableEvents, every: u64) -> RouteRun {
        let pending_every = NonZeroU64::new(every);
        irq(
            12,
            Irq {
                mechanism,
                pending_every,
            },
        )
        .unwrap()
    }

    #[test]
    fn the_dummy_hypercall_is_made_always_or_when_an_event_is_pending() {
        for (mechanism, every, calls) in [
            (EnableEvents::Always, 0, 12),
            (EnableEvents::Always, 3, 12),
            (EnableEvents::IfPending, 0, 0),
            (EnableEvents::IfPending, 3, 4),
            (EnableEvents::IfPending, 1, 12),
        ] {
            let walked = walked(mechanism, every);
            let upcalls = 12u64.checked_div(every).unwrap_or(0);
            let tolls = walked.tolls;
            assert_eq!((tolls.xen_version, tolls.upcalls), (calls, upcalls));
            // Each upcall ends by an iret, which is a hypercall too.
            assert_eq!((tolls.iret, tolls.hypercalls), (upcalls, calls + upcalls));
            assert_eq!((walked.checked.items, walked.checked.failed()), (12, 0));
        }
    }

    #[test]
    fn events_come_at_once_while_they_are_enabled() {
        let mut kernel = Kernel::boot(Layout::default()).unwrap();
        let port = Port::new(9).unwrap();
        kernel.interrupt(port);
        kernel.interrupt(port);
        assert_eq!(kernel.handled[&port], 2);
        kernel.irq_disable();
        kernel.interrupt(port);
        assert_eq!(kernel.handled[&port], 2);
        kernel.irq_enable(EnableEvents::IfPending).unwrap();
        assert_eq!(kernel.handled[&port], 3);
    }
}
