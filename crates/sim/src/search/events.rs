//! Enabling events while Xen sends some: whether any is left unseen. A step is one access to a word that both share,
//! and is done by the very functions that the simulated Xen and its guests are made of.
//!
//! Xen runs elsewhere, so it interrupts the guest's CPU after it has set the upcall pending; the interrupt is taken between
//! two steps of the guest, at any time after.

use std::collections::HashSet;

use pagetoll_models::xen::{Port, SharedInfo, VcpuInfo};

/// Order of the steps by which a guest enables events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Enabling {
    /// Unmask, then the hypercall.
    Always,
    /// Unmask, look for pending events, then the hypercall if there are any.
    IfPending,
    /// Look first, unmask afterwards: the negative control.
    LookFirst,
}

impl Enabling {
    /// All mechanisms.
    pub const ALL: [Self; 3] = [Self::Always, Self::IfPending, Self::LookFirst];

    const fn program(self) -> &'static [Guest] {
        match self {
            Self::Always => &[Guest::Unmask, Guest::Enter],
            Self::IfPending => &[Guest::Unmask, Guest::Look, Guest::Enter],
            Self::LookFirst => &[Guest::Look, Guest::Unmask, Guest::Enter],
        }
    }
}

/// The result over all orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExploredEvents {
    /// Different states that were met.
    pub states: u64,
    /// Final states in which an event is pending that the guest never looks at.
    pub lost: u64,
    /// The shortest order that loses one, a line each step.
    pub losing: Option<Vec<&'static str>>,
}

/// A step of the enabling guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Guest {
    Unmask,
    Look,
    Enter,
}

/// A step of the guest's event callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Handler {
    ClearAndSelect,
    TakeWords,
    Again,
}

/// A step of Xen that sends an event (`evtchn_2l_set_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Send {
    SetPending,
    Select,
    SetUpcall,
    Interrupt,
}

/// Guest and sender, with the state that they share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Race {
    shared: SharedInfo,
    info: VcpuInfo,
    guest: &'static [Guest],
    seen_pending: bool,
    handler: Option<Handler>,
    words: Vec<usize>,
    sending: &'static [u16],
    send: Send,
    interrupt: bool,
}

/// The side that goes next.
#[derive(Clone, Copy)]
enum Side {
    Guest,
    Xen,
    Interrupt,
}

/// Ports that are sent one after the other: once, twice, in one word, in two.
const SENT: [&[u16]; 4] = [&[5], &[5, 5], &[5, 6], &[5, 70]];

/// Explores all orders of enabling events and sending some.
#[must_use]
pub fn search_events(enabling: Enabling) -> ExploredEvents {
    let mut explored = ExploredEvents::default();
    for sending in SENT {
        let race = Race {
            shared: SharedInfo::default(),
            info: VcpuInfo {
                upcall_mask: true,
                ..VcpuInfo::default()
            },
            guest: enabling.program(),
            seen_pending: enabling == Enabling::Always,
            handler: None,
            words: Vec::new(),
            sending,
            send: Send::SetPending,
            interrupt: false,
        };
        explored.explore(race);
    }
    explored
}

impl ExploredEvents {
    /// Breadth first, so that the first order that loses is a shortest one.
    fn explore(&mut self, race: Race) {
        let mut known = HashSet::from([race.clone()]);
        let mut layer = vec![(race, Vec::new())];
        while !layer.is_empty() {
            let mut next = Vec::new();
            for (race, order) in layer {
                self.states += 1;
                let before = next.len();
                for side in [Side::Guest, Side::Xen, Side::Interrupt] {
                    let mut after = race.clone();
                    if let Some(step) = after.step(side)
                        && known.insert(after.clone())
                    {
                        let longer = order.iter().copied().chain([step]);
                        next.push((after, longer.collect()));
                    }
                }
                if next.len() == before && race.is_at_end() {
                    self.end(&race, order);
                }
            }
            layer = next;
        }
    }

    fn end(&mut self, race: &Race, order: Vec<&'static str>) {
        let pending = race.shared.pending.iter().any(|word| *word != 0);
        self.lost += u64::from(pending);
        let shorter = |known: &Vec<_>| order.len() < known.len();
        if pending && self.losing.as_ref().is_none_or(shorter) {
            self.losing = Some(order);
        }
    }
}

impl Race {
    const fn is_at_end(&self) -> bool {
        self.guest.is_empty()
            && self.sending.is_empty()
            && self.handler.is_none()
            && !self.interrupt
    }

    /// Lets one side do its next step, and describes it; `None`: it has none.
    fn step(&mut self, side: Side) -> Option<&'static str> {
        match (side, self.handler) {
            (Side::Guest, Some(step)) => Some(self.handle(step)),
            (Side::Guest, None) => self.enable(),
            (Side::Xen, _) => self.send(),
            (Side::Interrupt, _) => {
                let taken = std::mem::take(&mut self.interrupt);
                taken.then(|| self.leave("the guest's CPU takes Xen's interrupt"))
            }
        }
    }

    /// The way out of Xen (`test_guest_events`), after which the callback runs if it was entered.
    fn leave(&mut self, step: &'static str) -> &'static str {
        if self.info.wants_upcall() {
            self.info.upcall_mask = true;
            self.handler = Some(Handler::ClearAndSelect);
        }
        step
    }

    fn enable(&mut self) -> Option<&'static str> {
        let (&step, rest) = self.guest.split_first()?;
        self.guest = rest;
        Some(match step {
            Guest::Unmask => {
                self.info.upcall_mask = false;
                "the guest unmasks upcalls"
            }
            Guest::Look => {
                self.seen_pending = self.info.upcall_pending;
                "the guest looks whether anything is pending"
            }
            Guest::Enter if self.seen_pending => self.leave("the guest enters Xen"),
            Guest::Enter => "the guest has seen nothing pending and goes on",
        })
    }

    fn handle(&mut self, step: Handler) -> &'static str {
        let (done, next) = match step {
            Handler::ClearAndSelect => {
                self.words = self.info.take_selected().collect();
                (
                    "the callback takes the selected words",
                    Some(Handler::TakeWords),
                )
            }
            Handler::TakeWords => {
                let Some(word) = self.words.pop() else {
                    self.handler = Some(Handler::Again);
                    return "the callback has looked at all words";
                };
                self.shared.take_active(word).for_each(drop);
                (
                    "the callback takes the events of a word",
                    Some(Handler::TakeWords),
                )
            }
            Handler::Again if self.info.upcall_pending => (
                "the callback begins again: more is pending",
                Some(Handler::ClearAndSelect),
            ),
            Handler::Again => {
                self.handler = None;
                self.info.upcall_mask = false;
                return self.leave("the callback ends by iret");
            }
        };
        self.handler = next;
        done
    }

    fn send(&mut self) -> Option<&'static str> {
        let (&number, rest) = self.sending.split_first()?;
        let port = Port::new(number)?;
        let (done, next) = match self.send {
            Send::SetPending => {
                let before = self.shared.test_and_set_pending(port);
                let next = (!before && !self.shared.is_masked(port)).then_some(Send::Select);
                ("Xen sets an event pending", next)
            }
            Send::Select => {
                let before = self.info.test_and_select(port);
                ("Xen selects its word", (!before).then_some(Send::SetUpcall))
            }
            Send::SetUpcall => {
                let before = std::mem::replace(&mut self.info.upcall_pending, true);
                (
                    "Xen sets the upcall pending",
                    (!before).then_some(Send::Interrupt),
                )
            }
            Send::Interrupt => {
                self.interrupt = true;
                ("Xen interrupts the guest's CPU", None)
            }
        };
        if next.is_none() {
            self.sending = rest;
        }
        self.send = next.unwrap_or(Send::SetPending);
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_after_unmasking_loses_no_event_in_any_order() {
        for enabling in [Enabling::Always, Enabling::IfPending] {
            let explored = search_events(enabling);
            assert!(explored.states > 100, "{explored:?}");
            assert_eq!(
                (explored.lost, &explored.losing),
                (0, &None),
                "{enabling:?}"
            );
        }
    }

    #[test]
    fn looking_before_unmasking_loses_an_event_and_the_order_is_reported() {
        let explored = search_events(Enabling::LookFirst);
        assert!(explored.lost > 0, "{explored:?}");
        let losing = explored.losing.unwrap();
        let at = |part: &str| losing.iter().position(|line| line.contains(part)).unwrap();
        assert!(at("looks whether") < at("sets the upcall"), "{losing:#?}");
        assert!(at("takes Xen's interrupt") < at("unmasks"), "{losing:#?}");
    }
}
