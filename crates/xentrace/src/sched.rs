//! Scheduler records that name a vcpu's runstate.
//!
//! Other scheduler records (the schedulers' own, and the verbose ones such as `TRC_SCHED_SWITCH`)
//! are not decoded: xenalyze does not attribute by them either.
//!
//! Source: `trace_runstate_change` and `trace_continue_running` of `xen/common/sched/core.c`,
//! Xen 4.17.

use std::fmt;

use super::record::halves;
use super::{Record, XentraceError};

/// A virtual CPU of a domain. The idle vcpus belong to domain 32767 (`DOMID_IDLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vcpu {
    /// Xen's `domid_t`.
    pub domain: u16,
    /// The vcpu's number within it.
    pub vcpu: u16,
}

impl fmt::Display for Vcpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "d{}v{}", self.domain, self.vcpu)
    }
}

/// State of a vcpu (`RUNSTATE_*` of `xen/include/public/vcpu.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runstate {
    /// On a physical CPU.
    Running,
    /// Waits for a CPU.
    Runnable,
    /// Waits for an event.
    Blocked,
    /// Paused, or not up.
    Offline,
}

impl Runstate {
    /// Every state, in order.
    pub const ALL: [Self; 4] = [Self::Running, Self::Runnable, Self::Blocked, Self::Offline];

    /// Name in xenalyze's output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Blocked => "blocked",
            Self::Offline => "offline",
        }
    }

    const fn from_bits(bits: u32) -> Option<Self> {
        match bits {
            0 => Some(Self::Running),
            1 => Some(Self::Runnable),
            2 => Some(Self::Blocked),
            3 => Some(Self::Offline),
            _ => None,
        }
    }
}

/// A scheduler record that says whether a vcpu runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedEvent {
    /// `TRC_SCHED_RUNSTATE_CHANGE`. Records of a vcpu that leaves or takes a physical CPU are
    /// written on that CPU; all others anywhere.
    RunstateChange {
        /// The vcpu that the event is about.
        vcpu: Vcpu,
        /// State before.
        old: Runstate,
        /// State from now on.
        new: Runstate,
    },
    /// `TRC_SCHED_CONTINUE_RUNNING`: the scheduler chose the vcpu that was running already.
    ContinueRunning {
        /// The vcpu that the event is about.
        vcpu: Vcpu,
    },
}

impl SchedEvent {
    /// Decodes a record, or `None` when it is neither of the two.
    ///
    /// # Errors
    ///
    /// [`XentraceError::ShortPayload`] when it names no vcpu.
    pub fn decode(record: &Record<'_>) -> Result<Option<Self>, XentraceError> {
        // Bits 4-7 hold the new and 8-11 the old runstate; 0x21001 and 0x21002 the events.
        let event = record.event.0;
        match event & !0xff0 {
            0x2_1001 => {
                let states = (event >> 8 & 0xf, event >> 4 & 0xf);
                let (old, new) = (Runstate::from_bits(states.0), Runstate::from_bits(states.1));
                let (Some(old), Some(new)) = (old, new) else {
                    return Ok(None);
                };
                let vcpu = vcpu_of(record)?;
                Ok(Some(Self::RunstateChange { vcpu, old, new }))
            }
            0x2_1002 => {
                let vcpu = vcpu_of(record)?;
                Ok(Some(Self::ContinueRunning { vcpu }))
            }
            _ => Ok(None),
        }
    }
}

/// The vcpu's number stands in the lower half, its domain in the upper.
fn vcpu_of(record: &Record<'_>) -> Result<Vcpu, XentraceError> {
    let [word] = record.payload()?;
    let (vcpu, domain) = halves(word);
    Ok(Vcpu { domain, vcpu })
}

#[cfg(test)]
mod tests {
    use super::super::{EventId, Pcpu, Words};
    use super::*;

    fn decode(event: u32, words: &[[u8; 4]]) -> Result<Option<SchedEvent>, XentraceError> {
        SchedEvent::decode(&Record {
            cpu: Pcpu(0),
            tsc: None,
            event: EventId(event),
            words: Words(words),
            offset: 0,
        })
    }

    #[test]
    fn runstates_stand_in_the_event() {
        let words = [0x7fff_0001_u32.to_le_bytes()];
        let vcpu = Vcpu {
            domain: 32767,
            vcpu: 1,
        };
        assert_eq!(vcpu.to_string(), "d32767v1");
        let (old, new) = (Runstate::Running, Runstate::Blocked);
        let change = SchedEvent::RunstateChange { vcpu, old, new };
        assert_eq!(decode(0x2_1021, &words).unwrap(), Some(change));
        let goes_on = SchedEvent::ContinueRunning { vcpu };
        assert_eq!(decode(0x2_1002, &words).unwrap(), Some(goes_on));
    }

    #[test]
    fn other_events_are_not_decoded_and_short_ones_refused() {
        let words = [[0; 4]];
        for other in [0x2_1003, 0x2_1041, 0x2_1401, 0x2_800a, 0x20_1001] {
            assert_eq!(decode(other, &words).unwrap(), None);
        }
        assert!(decode(0x2_1101, &[]).is_err());
    }
}
