//! Events: bits that become pending, and the upcall that notifies a vCPU. Source: xen/common/event_2l.c,
//! `evtchn_2l_set_pending`; xen/arch/x86/domain.c, `vcpu_mark_events_pending` and `vcpu_kick`;
//! xen/arch/x86/x86_64/entry.S, `test_guest_events` and `create_bounce_frame`, 4.17.
//!
//! The two-level ABI of a 64-bit guest. Both sides write the same words; each function here is one of their steps or
//! the real order of several. Not here: binding, FIFO channels, pollers, priorities.

use super::domain::VcpuId;
use super::machine::Xen;

/// Bits of a word of the bitmaps (`BITS_PER_EVTCHN_WORD`), and words of a bitmap.
const WORD: usize = 64;

/// An event channel's number, below 4096 (`EVTCHN_2L_NR_CHANNELS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(u16);

impl Port {
    /// A port; `None` beyond the last.
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if (number as usize) < WORD * WORD {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    const fn word(self) -> usize {
        self.0 as usize / WORD
    }

    const fn bit(self) -> u64 {
        1 << (self.0 as usize % WORD)
    }
}

/// State of events that a domain shares with Xen (`struct shared_info`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedInfo {
    /// `evtchn_pending`: what has happened and was not looked at.
    pub pending: [u64; WORD],
    /// `evtchn_mask`: ports that raise no upcall.
    pub mask: [u64; WORD],
}

impl Default for SharedInfo {
    fn default() -> Self {
        Self {
            pending: [0; WORD],
            mask: [0; WORD],
        }
    }
}

impl SharedInfo {
    /// Sets a port's pending bit; whether it was set before.
    pub fn test_and_set_pending(&mut self, port: Port) -> bool {
        let before = self.is_pending(port);
        self.pending[port.word()] |= port.bit();
        before
    }

    /// Returns whether a port is pending.
    #[must_use]
    pub const fn is_pending(&self, port: Port) -> bool {
        self.pending[port.word()] & port.bit() != 0
    }

    /// Returns whether a port is masked.
    #[must_use]
    pub const fn is_masked(&self, port: Port) -> bool {
        self.mask[port.word()] & port.bit() != 0
    }

    /// Takes the pending ports of a word that are not masked, as a guest's handler does.
    pub fn take_active(&mut self, word: usize) -> impl Iterator<Item = Port> {
        let active = self.pending[word] & !self.mask[word];
        self.pending[word] &= !active;
        let bits = (0..WORD).filter(move |bit| active >> bit & 1 == 1);
        bits.filter_map(move |bit| Port::new(u16::try_from(word * WORD + bit).ok()?))
    }
}

/// State of events that a vCPU shares with Xen (`struct vcpu_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VcpuInfo {
    /// `evtchn_upcall_pending`: there is something to look at.
    pub upcall_pending: bool,
    /// `evtchn_upcall_mask`: no upcall now; a PV guest's interrupt flag, the other way round.
    pub upcall_mask: bool,
    /// `evtchn_pending_sel`: in which words of the bitmap.
    pub pending_sel: u64,
}

impl VcpuInfo {
    /// Selects the word of a port; whether it was selected before.
    pub const fn test_and_select(&mut self, port: Port) -> bool {
        let bit = 1 << port.word();
        let before = self.pending_sel & bit != 0;
        self.pending_sel |= bit;
        before
    }

    /// Returns whether a guest that leaves Xen now gets an upcall (`test_guest_events`).
    #[must_use]
    pub const fn wants_upcall(&self) -> bool {
        self.upcall_pending && !self.upcall_mask
    }

    /// The words that were selected, as a guest's handler takes them: the flag first, so that a later event raises
    /// another upcall.
    pub fn take_selected(&mut self) -> impl Iterator<Item = usize> + use<> {
        self.upcall_pending = false;
        let selected = std::mem::take(&mut self.pending_sel);
        (0..WORD).filter(move |word| selected >> word & 1 == 1)
    }
}

impl Xen {
    /// Makes a port of dom0's pending for a vCPU (`evtchn_2l_set_pending`), sent by `current`, or by a device.
    pub fn evtchn_set_pending(&mut self, to: VcpuId, port: Port, current: Option<VcpuId>) {
        if self.shared_info.test_and_set_pending(port) {
            return;
        }
        self.tolls.events += 1;
        if self.shared_info.is_masked(port) {
            return;
        }
        if !self.vcpus[to.0].info.test_and_select(port) {
            self.mark_events_pending(to, current);
        }
    }

    /// A vCPU that runs elsewhere is interrupted, so that it leaves Xen anew; the caller leaves it anyway.
    fn mark_events_pending(&mut self, to: VcpuId, current: Option<VcpuId>) {
        let info = &mut self.vcpus[to.0].info;
        if std::mem::replace(&mut info.upcall_pending, true) {
            return;
        }
        if current != Some(to) {
            self.tolls.kicks += 1;
            self.test_events(to);
        }
    }

    /// Enters the guest's callback on the way back to it, and masks further upcalls, if an event is pending.
    pub(super) fn test_events(&mut self, current: VcpuId) {
        let vcpu = &mut self.vcpus[current.0];
        if vcpu.info.wants_upcall() {
            vcpu.info.upcall_mask = true;
            vcpu.in_upcall = true;
            self.tolls.upcalls += 1;
        }
    }

    /// Returns whether the guest's event callback was entered since the last call.
    pub fn take_upcall(&mut self, current: VcpuId) -> bool {
        std::mem::take(&mut self.vcpus[current.0].in_upcall)
    }

    /// State that a vCPU and Xen share. Writing to it is a store to memory, no crossing.
    pub fn vcpu_info(&mut self, vcpu: VcpuId) -> &mut VcpuInfo {
        &mut self.vcpus[vcpu.0].info
    }

    /// State that dom0 and Xen share. Writing to it is a store to memory, no crossing.
    pub fn shared_info(&mut self) -> &mut SharedInfo {
        &mut self.shared_info
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xen::Layout;

    const CPU: VcpuId = VcpuId(0);

    fn port(number: u16) -> Port {
        Port::new(number).unwrap()
    }

    #[test]
    fn ports_end_at_4095() {
        assert_eq!((port(4095).word(), port(4095).bit()), (63, 1 << 63));
        assert_eq!(Port::new(4096), None);
    }

    #[test]
    fn an_event_interrupts_a_vcpu_that_runs_elsewhere_and_masks_further_upcalls() {
        let mut xen = Xen::boot(Layout::default());
        xen.evtchn_set_pending(CPU, port(70), None);
        assert!(xen.take_upcall(CPU) && !xen.take_upcall(CPU));
        let info = *xen.vcpu_info(CPU);
        assert!(info.upcall_pending && info.upcall_mask);
        assert_eq!(info.pending_sel, 1 << 1);
        assert_eq!((xen.tolls().upcalls, xen.tolls().kicks), (1, 1));
        // A second one of the same word raises no further upcall.
        xen.evtchn_set_pending(CPU, port(71), None);
        assert_eq!((xen.tolls().kicks, xen.tolls().events), (1, 2));
    }

    #[test]
    fn a_masked_port_is_pending_but_raises_no_upcall() {
        let mut xen = Xen::boot(Layout::default());
        xen.shared_info().mask[0] |= port(3).bit();
        xen.evtchn_set_pending(CPU, port(3), None);
        assert!(xen.shared_info().is_pending(port(3)) && !xen.take_upcall(CPU));
        assert_eq!(xen.tolls().events, 1);
    }

    #[test]
    fn an_event_that_came_while_upcalls_were_masked_is_delivered_at_the_next_exit() {
        let mut xen = Xen::boot(Layout::default());
        xen.vcpu_info(CPU).upcall_mask = true;
        xen.evtchn_set_pending(CPU, port(5), None);
        assert!(!xen.take_upcall(CPU));
        xen.vcpu_info(CPU).upcall_mask = false;
        assert!(!xen.take_upcall(CPU));
        let outcome = xen.xen_version(CPU);
        assert_eq!((outcome.code(), outcome.tolls.upcalls), (0, 1));
        assert!(xen.take_upcall(CPU));
    }

    #[test]
    fn a_handler_takes_what_is_pending_and_not_masked() {
        let mut shared = SharedInfo::default();
        for number in [64, 65, 127] {
            assert!(!shared.test_and_set_pending(port(number)));
        }
        shared.mask[1] |= port(65).bit();
        let taken: Vec<_> = shared.take_active(1).map(Port::number).collect();
        assert_eq!(taken, [64, 127]);
        assert!(shared.is_pending(port(65)));
    }
}
