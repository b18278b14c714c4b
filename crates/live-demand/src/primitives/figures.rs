//! From what was measured to the figures of a cost table. Pure.
//!
//! A figure that is a difference is taken within each round. What one process on one host cannot measure is assumed,
//! and marked so.

use std::collections::BTreeMap;

use pagetoll_cost::{CostKey, Derived, Kind, Nearness};

use super::{Estimate, Measurements, MmuLock, Primitive, WithoutReader};

type Samples = BTreeMap<Primitive, f64>;

/// A figure, how it follows from a round's samples, and that in words.
struct Rule {
    key: CostKey,
    of: fn(&Get<'_>) -> Option<f64>,
    words: &'static str,
}

/// A round's samples by primitive.
struct Get<'a>(&'a Samples);

impl Get<'_> {
    fn of(&self, primitive: Primitive) -> Option<f64> {
        self.0.get(&primitive).copied()
    }

    /// A page of a copy, without the call.
    fn copied_page(&self) -> Option<f64> {
        let (one, most) = (self.of(Primitive::Copy(1))?, self.of(Primitive::Copy(512))?);
        Some((512.0 * most - one) / 511.0)
    }

    /// What waking a thread adds to a write.
    fn wake(&self) -> Option<f64> {
        Some(self.of(Primitive::EventfdWake)? - self.of(Primitive::EventfdWrite)?)
    }

    /// What mapping a page alone takes a vCPU beyond touching one of many that are there.
    fn mapped_alone(&self) -> Option<f64> {
        let alone = self.of(Primitive::GuestZeroFill)? - self.of(Primitive::FirstTouch)?;
        Some((alone - self.of(Primitive::GuestTouch)?).max(0.0))
    }

    /// What the pager's own code does for a page.
    fn user(&self) -> Option<f64> {
        let all = self.of(Primitive::PopulateByHandler)? - self.of(Primitive::ReadSource)?;
        Some(all - self.of(Primitive::Copy(1))?)
    }

    /// Work of a reader for a fault, apart from the switch to it.
    fn served(&self) -> Option<f64> {
        let asked = 2.0 * self.of(Primitive::Poll)? + self.of(Primitive::ReadMessage)?;
        Some(self.wake()? + self.user()? + asked + self.of(Primitive::Copy(1))?)
    }

    fn eventfd(&self) -> Option<f64> {
        Some(self.of(Primitive::EventfdWrite)? + self.of(Primitive::EventfdRead)?)
    }
}

const RULES: &[Rule] = &[
    Rule {
        key: CostKey::DEMAND_TOUCH,
        of: |round| round.of(Primitive::GuestTouch),
        words: "a vCPU touches pages that the host has",
    },
    Rule {
        key: CostKey::DEMAND_ZERO_FILL,
        of: |round| Some(round.of(Primitive::GuestZeroFill)? - round.of(Primitive::GuestTouch)?),
        words: "a vCPU touches pages that the kernel fills with zeroes, less demand.touch",
    },
    Rule {
        key: CostKey::DEMAND_SLEEP,
        of: |round| Some(round.of(Primitive::GuestSleep)? - round.of(Primitive::GuestTouch)?),
        words: "CPU time of a vCPU thread whose pages a reader populates, less demand.touch",
    },
    Rule {
        key: CostKey::DEMAND_EXIT,
        of: |round| Some(round.of(Primitive::EfaultRoundTrip)? + round.mapped_alone()?),
        words: "KVM_RUN on a page that stays missing; and what mapping a page alone takes beyond demand.touch, for which KVM maps neighbours at once: a touch that the kernel fills with zeroes, less such a touch by a process",
    },
    Rule {
        key: CostKey::DEMAND_RESOLVE,
        of: |round| round.of(Primitive::FindPage),
        words: "finding the page of each fault of exit on one vCPU",
    },
    Rule {
        key: CostKey::DEMAND_USER,
        of: |round| round.user(),
        words: "populating a page by the pager's handler, less its UFFDIO_COPY and the source",
    },
    Rule {
        key: CostKey::DEMAND_SOURCE_PAGE,
        of: |round| round.of(Primitive::ReadSource),
        words: "the handler's own timing of its source, which is memory; the clock is in it",
    },
    Rule {
        key: CostKey::DEMAND_COPY_PAGE,
        of: |round| round.copied_page(),
        words: "UFFDIO_COPY with DONTWAKE of 1 and of 512 pages: the slope",
    },
    Rule {
        key: CostKey::DEMAND_COPY_CALL,
        of: |round| Some(round.of(Primitive::Copy(1))? - round.copied_page()?),
        words: "UFFDIO_COPY with DONTWAKE of 1 and of 512 pages: what is left at no pages",
    },
    Rule {
        key: CostKey::DEMAND_POLL,
        of: |round| round.of(Primitive::Poll),
        words: "poll of a userfaultfd with a message",
    },
    Rule {
        key: CostKey::DEMAND_READ,
        of: |round| round.of(Primitive::ReadMessage),
        words: "read of a userfaultfd's message",
    },
    Rule {
        key: CostKey::DEMAND_READ_SWITCH,
        of: |round| Some(round.of(Primitive::GuestReader)? - round.served()?),
        words: "CPU time of a reader that serves a vCPU of its own CPU, less demand.wake, demand.user, demand.read, two demand.poll, and UFFDIO_COPY of a page: the switch from the vCPU's thread, and what the reader finds cold",
    },
    Rule {
        key: CostKey::DEMAND_WAKE,
        of: |round| round.wake(),
        words: "a write to an eventfd that a thread of the same CPU sleeps on, less one without waiters",
    },
    Rule {
        key: CostKey::DEMAND_WAKE_LATENCY_SAME,
        of: |round| {
            let work = round.wake()? + round.eventfd()?;
            Some(round.of(Primitive::OneWaySameCpu)? - work)
        },
        words: "from eventfd to eventfd on one CPU, less write, demand.wake and read",
    },
    Rule {
        key: CostKey::DEMAND_WAKE_LATENCY_OTHER,
        of: |round| {
            let work = round.wake()? + round.eventfd()? / 2.0;
            Some(round.of(Primitive::OneWayOtherCpu)? - work)
        },
        words: "from eventfd to eventfd on two CPUs that sleep meanwhile, less demand.wake and half of write and read",
    },
    Rule {
        key: CostKey::DEMAND_LINE_HIT,
        of: |round| round.of(Primitive::LineHit),
        words: "lock xadd of 256 lines that the CPU has just written",
    },
    Rule {
        key: CostKey::DEMAND_LINE_SMT,
        of: |round| round.of(Primitive::LineFrom(Nearness::Core)),
        words: "lock xadd of 256 lines that another thread of the core has just written",
    },
    Rule {
        key: CostKey::DEMAND_LINE_L3,
        of: |round| round.of(Primitive::LineFrom(Nearness::L3)),
        words: "lock xadd of 256 lines that another core on the same L3 has just written",
    },
    Rule {
        key: CostKey::DEMAND_LINE_SOCKET,
        of: |round| round.of(Primitive::LineFrom(Nearness::Socket)),
        words: "lock xadd of 256 lines that a core on another L3 of the socket has just written",
    },
    Rule {
        key: CostKey::DEMAND_LINE_REMOTE,
        of: |round| round.of(Primitive::LineFrom(Nearness::Machine)),
        words: "lock xadd of 256 lines that a core of another socket has just written",
    },
    Rule {
        key: CostKey::DEMAND_QUEUE_ENTRY,
        of: |round| round.of(Primitive::QueueEntry),
        words: "UFFDIO_WAKE of another page with and without 32 faults in the queue: each of them",
    },
];

/// Figures that one process cannot measure: low, likely, high, and their source.
const ASSUMED: &[(CostKey, [f64; 3], &str)] = &[
    (
        CostKey::DEMAND_LINE_SMT,
        [8.0, 16.0, 40.0],
        "no two threads of a core to measure between: about three hits of a first-level cache",
    ),
    (
        CostKey::DEMAND_LINE_L3,
        [20.0, 50.0, 120.0],
        "no two cores on one L3 to measure between: as of server CPUs of 2020 to 2025",
    ),
    (
        CostKey::DEMAND_LINE_SOCKET,
        [60.0, 120.0, 250.0],
        "no two L3 groups to measure between: as of server CPUs of 2020 to 2025",
    ),
    (
        CostKey::DEMAND_LINE_REMOTE,
        [120.0, 200.0, 400.0],
        "no two sockets to measure between: as of server CPUs of 2020 to 2025",
    ),
    (
        CostKey::DEMAND_WAKE_LATENCY_OTHER,
        [1000.0, 5000.0, 50_000.0],
        "one CPU only to measure on",
    ),
    (
        CostKey::DEMAND_LINE_HIT,
        [2.0, 5.0, 10.0],
        "one CPU only to measure on: about 20 cycles",
    ),
    (
        CostKey::DEMAND_NEAR_GRANTS,
        [1.0, 4.0, 8.0],
        "only a machine with several L3 groups shows it",
    ),
    (
        CostKey::DEMAND_HAND_OFF,
        [1.0, 3.0, 5.0],
        "the line is read, taken and released: queued_spin_lock_slowpath",
    ),
    (
        CostKey::DEMAND_LOCK_LINES,
        [1.0, 2.0, 4.0],
        "the list's head and the neighbouring entry: list_add, list_del",
    ),
    (
        CostKey::DEMAND_LINE_LOADED,
        [1.0, 1.0, 1.3],
        "lines were measured on this machine, with nothing else on its interconnect",
    ),
    (
        CostKey::DEMAND_OTHER_LINES,
        [0.5, 2.0, 8.0],
        "counters, flags and their neighbours, beside the lines that are modelled one by one",
    ),
    (
        CostKey::DEMAND_OTHERS_SHARE,
        [0.0, 0.1, 0.3],
        "struct mm_struct, memslots, free lists and counters come from another CPU's cache; also what CPUs share that look like cores and are threads of one",
    ),
    (
        CostKey::DEMAND_EPOLL_CALLBACK,
        [15.0, 35.0, 90.0],
        "about a hundred instructions of ep_poll_callback",
    ),
    (
        CostKey::DEMAND_EPOLL_CALLBACK_LINES,
        [0.5, 1.5, 3.0],
        "the entry's link, and the ready list",
    ),
    (
        CostKey::DEMAND_SMT_SLOWDOWN,
        [1.2, 1.5, 1.9],
        "two threads of a core do 1.05 to 1.7 times the work of one",
    ),
];

/// Assumed figures of a KVM that holds `mmu_lock` for writing where it maps.
const ASSUMED_OF_MMU_LOCK: &[(CostKey, [f64; 3], &str)] = &[
    (
        CostKey::DEMAND_MMU_LOCK_SHARE,
        [0.1, 0.2, 0.35],
        "shadow paging maps, looks neighbours up and adds reverse maps under write_lock(&kvm->mmu_lock): 0.4 of 2 us",
    ),
    (
        CostKey::DEMAND_MMU_LOCK_ALONE,
        [2.0, 3.5, 5.0],
        "under the lock a fault walks and links the levels once, and tries eight neighbours, whether the host has them or not (PTE_PREFETCH_NUM)",
    ),
];

/// The figures that this host gives, by key.
#[must_use]
pub fn figures(found: &Measurements) -> Vec<Derived> {
    let of_mmu_lock = match found.mmu_lock {
        MmuLock::Written => ASSUMED_OF_MMU_LOCK,
        MmuLock::Read => &[],
    };
    let mut figures: BTreeMap<CostKey, Derived> = ASSUMED
        .iter()
        .chain(of_mmu_lock)
        .map(|&(key, range, why)| (key, assumed(key, range, why)))
        .collect();
    let threads = f64::from(found.topology.cpus() / found.topology.sockets);
    figures.insert(
        CostKey::DEMAND_NODE_THREADS,
        assumed(
            CostKey::DEMAND_NODE_THREADS,
            [threads; 3],
            "the CPUs of a socket of this host: the scheduler fills one socket first",
        ),
    );
    let measured = RULES.iter().filter_map(|rule| derived(rule, found));
    figures.extend(measured.map(|figure| (figure.key, figure)));
    figures.extend(rates(found).map(|figure| (figure.key, figure)));
    figures.into_values().collect()
}

/// Known rates, on one vCPU and on as many as have a CPU each.
fn rates(found: &Measurements) -> impl Iterator<Item = Derived> {
    let mechanisms = [
        WithoutReader::Populated,
        WithoutReader::Kernel,
        WithoutReader::Exit,
    ];
    let all = mechanisms.into_iter().flat_map(|mechanism| {
        found
            .vcpus()
            .into_iter()
            .map(move |vcpus| (mechanism, vcpus))
    });
    all.filter_map(|(mechanism, vcpus)| {
        let page = Primitive::GuestPage(mechanism, vcpus);
        let estimate = found.estimate(|round| round.get(&page).copied())?;
        Some(Derived {
            key: CostKey::named(&format!("demand.page.{}.{vcpus}", mechanism.key()))?,
            value: estimate.median,
            low: estimate.low,
            high: estimate.high,
            kind: Kind::Measured,
            source: format!(
                "CPU time of a vCPU's thread for a page, each vCPU on a CPU of its own; median of {} rounds, 80 % of them between low and high",
                estimate.samples
            ),
        })
    })
}

fn assumed(key: CostKey, [low, value, high]: [f64; 3], why: &str) -> Derived {
    Derived {
        key,
        value,
        low,
        high,
        kind: Kind::Assumed,
        source: why.to_owned(),
    }
}

/// A measured figure. A difference whose median is not above zero is not resolved from the noise of its two terms,
/// which is at least as large as what the rounds show on either side of zero: that is its upper bound.
fn derived(rule: &Rule, found: &Measurements) -> Option<Derived> {
    let Estimate {
        median,
        low,
        high,
        samples,
    } = found.estimate(|round| (rule.of)(&Get(round)))?;
    let is_resolved = median > 0.0;
    let high = if is_resolved { high } else { high.max(-low) };
    let doubt = match is_resolved {
        true => String::new(),
        false => format!("; not resolved from noise: at most {high:.0} ns"),
    };
    let source = format!(
        "{}; median of {samples} rounds, 80 % of them between low and high{doubt}",
        rule.words
    );
    Some(Derived {
        key: rule.key,
        value: median.max(0.0),
        low: low.max(0.0),
        high,
        kind: Kind::Measured,
        source,
    })
}
