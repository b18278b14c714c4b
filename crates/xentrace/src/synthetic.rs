//! Traces made by hand, for tests.

use super::EventId;

/// The bytes of a trace under construction.
#[derive(Default)]
pub(super) struct Trace(Vec<u8>);

/// The records of one window.
#[derive(Default)]
pub(super) struct Window(Vec<u32>);

impl Trace {
    pub(super) fn window(mut self, cpu: u32, fill: impl FnOnce(Window) -> Window) -> Self {
        let records = fill(Window::default()).0;
        let bytes = u32::try_from(records.len() * 4).unwrap();
        for word in [0x2001_f003, cpu, bytes].into_iter().chain(records) {
            self.0.extend(word.to_le_bytes());
        }
        self
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Window {
    /// A record with a time stamp.
    pub(super) fn record(mut self, event: u32, words: &[u32]) -> Self {
        self.0.push(1 << 31 | header(event, words));
        self.0.extend([7, 0]);
        self.0.extend(words);
        self
    }

    /// A record without a time stamp.
    pub(super) fn bare_record(mut self, event: u32, words: &[u32]) -> Self {
        self.0.push(header(event, words));
        self.0.extend(words);
        self
    }

    pub(super) fn hypercall(self, op: u32) -> Self {
        self.record(0x20_100d, &[op])
    }

    pub(super) fn subcall(self, op: u32) -> Self {
        self.record(0x20_200e, &[op])
    }

    pub(super) fn sched_op(self, cmd: u32) -> Self {
        self.record(0x20_100d, &[29 | 1 << 20, cmd])
    }

    pub(super) fn ptwr(self) -> Self {
        self.record(0x20_110b, &[1, 0, 2, 0, 3, 0])
    }

    pub(super) fn page_fault(self) -> Self {
        self.record(0x20_1104, &[1, 0, 2, 0, 3])
    }

    /// `old` and `new` as Xen numbers runstates: 0 running, 1 runnable, 2 blocked, 3 offline.
    pub(super) fn runstate(self, domain: u32, vcpu: u32, old: u32, new: u32) -> Self {
        self.record(0x2_1001 | old << 8 | new << 4, &[domain << 16 | vcpu])
    }

    pub(super) fn lost(self, count: u32, domain: u32, vcpu: u32) -> Self {
        self.record(EventId::LOST_RECORDS.0, &[count, vcpu << 16 | domain, 1, 0])
    }
}

fn header(event: u32, words: &[u32]) -> u32 {
    event | u32::try_from(words.len()).unwrap() << 28
}
