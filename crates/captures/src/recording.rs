//! Recording of captures: for each source, the commands for a host, of the events that it has.

use std::collections::BTreeSet;

use pagetoll_causes::IOCTLS;
use pagetoll_observation::{Group, Recorded, USERFAULTFD};
use serde::Serialize;

/// Tools and events that a host has to record with.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Tracepoints such as `kvm:kvm_exit`; why they are not known where they may not be looked at.
    pub tracepoints: Result<BTreeSet<String>, String>,
    /// The programs that are there, of [`Recorder::PROGRAMS`].
    pub programs: BTreeSet<&'static str>,
    /// True if KVM uses hardware virtualisation: without it, it emits no exit.
    pub kvm_is_hardware: bool,
    /// True if KVM's counters are in debugfs.
    pub kvm_counters: bool,
}

/// Recording of a source on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recording {
    /// Its name.
    pub source: &'static str,
    /// Content of its captures.
    pub tells: &'static str,
    /// Script that the commands run.
    #[serde(skip)]
    pub script: Option<Script>,
    /// Commands, one after the other; the last ones read what was recorded.
    pub commands: Vec<String>,
    /// Remedies that are needed before that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Notes on the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Script of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its text.
    pub text: &'static str,
}

/// Causes of faults, by bpftrace.
pub const WHY_SCRIPT: Script = Script {
    text: include_str!("recording/why.bt"),
};

/// A source, as it is recorded anywhere.
struct Source {
    name: &'static str,
    tells: &'static str,
    with: With,
    /// `{events}` is replaced by those that the host has, `{ioctls}` by a filter for userfaultfd's, `{calls}` by the calls
    /// that take memory away.
    commands: &'static [&'static str],
    notes: &'static [&'static str],
}

/// Recorder of a source.
enum With {
    /// perf, of those of these tracepoints that there are.
    Perf(&'static [&'static [&'static str]]),
    /// A program.
    Program(&'static str),
    /// bpftrace, by this script.
    Bpftrace(Script),
    /// KVM's files in debugfs.
    Counters,
}

const PERF: &str = "perf";
/// The source whose events tell causes of faults.
const WHY: &str = "why";
const TRACE_CMD: &str = "trace-cmd";
const XENTRACE: &str = "xentrace";
const BPFTRACE: &str = "bpftrace";

/// The tracepoints of ioctl(2). A command names them itself, as the first has a filter.
const ENTER_IOCTL: &str = "syscalls:sys_enter_ioctl";
const EXIT_IOCTL: &str = "syscalls:sys_exit_ioctl";

/// Events that KVM emits where the processor runs guests, and only there.
const OF_HARDWARE: [&str; 4] = [
    "kvm:kvm_exit",
    "kvm:kvm_entry",
    "kvm:kvm_page_fault",
    "kvm:kvm_guest_fault",
];

/// Events of pages that KVM maps, and of large ones that it splits.
const MAPPED: [&str; 3] = [
    "kvmmmu:kvm_mmu_set_spte",
    "kvmmmu:fast_page_fault",
    "kvmmmu:kvm_mmu_split_huge_page",
];

const SOURCES: &[Source] = &[
    Source {
        name: "kvm",
        tells: "which vCPU exits how often and for how long; pages mapped, by size and order, and taken away",
        with: With::Perf(&[
            &OF_HARDWARE,
            &["kvm:kvm_userspace_exit", "kvm:kvm_unmap_hva_range"],
            &["kvm:kvm_dirty_ring_push"],
            &MAPPED,
            &["tlb:tlb_flush"],
        ]),
        commands: &[
            "perf record -a -m 16M -o vm.data -e {events} -- sleep 10",
            "pagetoll read vm.data",
        ],
        notes: &[],
    },
    Source {
        name: "demand",
        tells: "how a guest's memory is populated: pages mapped, by size and order, and copied by its VMM; exits with their time",
        with: With::Perf(&[
            &OF_HARDWARE,
            &["kvm:kvm_userspace_exit", "kvm:kvm_unmap_hva_range"],
            &MAPPED,
            &[ENTER_IOCTL, EXIT_IOCTL],
        ]),
        commands: &[
            "perf record -a -m 16M -o demand.data -e {events} -e syscalls:sys_enter_ioctl --filter '{ioctls}' -e syscalls:sys_exit_ioctl -- sleep 10",
            "pagetoll read demand.data",
            "pagetoll advise demand.data",
        ],
        notes: &[],
    },
    Source {
        name: WHY,
        tells: "the cause of each fault of a guest: what takes pages away, and what maps them again",
        with: With::Perf(&[&[
            "kvm:kvm_exit",
            "kvm:kvm_entry",
            "kvm:kvm_page_fault",
            "kvm:kvm_unmap_hva_range",
            "kvmmmu:kvm_mmu_set_spte",
            "kvmmmu:kvm_mmu_spte_requested",
            "kvmmmu:fast_page_fault",
            "kvmmmu:kvm_mmu_split_huge_page",
            "kvmmmu:kvm_tdp_mmu_spte_changed",
            "kvmmmu:kvm_mmu_zap_all_fast",
            "compaction:mm_compaction_begin",
            "compaction:mm_compaction_end",
            "vmscan:mm_vmscan_direct_reclaim_begin",
            "vmscan:mm_vmscan_direct_reclaim_end",
            "vmscan:mm_vmscan_memcg_reclaim_begin",
            "vmscan:mm_vmscan_memcg_reclaim_end",
            "migrate:mm_migrate_pages_start",
            "migrate:mm_migrate_pages",
        ]]),
        commands: &[
            "perf record -a -k CLOCK_MONOTONIC -m 16M -o why.data -e {events} {calls} -- sleep 10",
            "pagetoll read why.data --why",
        ],
        notes: &[
            "begin before the VM does, where that can be: pages mapped before are first seen, not first touched",
            "where memory slots cannot be inferred, --memory GPA=HVA:SIZE says them to the reader. As a VMM sets them: bpftrace -e 'struct slot { uint32_t n; uint32_t flags; uint64_t gpa; uint64_t size; uint64_t hva; } tracepoint:syscalls:sys_enter_ioctl /args->cmd == 0x4020ae46 || args->cmd == 0x40a0ae49/ { $s = (struct slot *)uptr(args->arg); if ($s->size) { printf(\"%d --memory 0x%lx=0x%lx:0x%lx\\n\", pid, $s->gpa, $s->hva, $s->size); } }'",
        ],
    },
    Source {
        name: "why-bpftrace",
        tells: "the causes of one VM's faults and the stalls that they were, counted in the kernel: nothing is lost, however long it runs",
        with: With::Bpftrace(WHY_SCRIPT),
        commands: &[
            "pagetoll read --how why-bpftrace --script > why.bt",
            "BPFTRACE_MAP_KEYS_MAX=4194304 BPFTRACE_MAX_MAP_KEYS=4194304 timeout -s INT 60 bpftrace why.bt 0 > why.txt",
            "pagetoll read why.txt --why",
        ],
        notes: &[
            "0 is the next VM that is made; of one that runs, PID GPA HVA SIZE are its VMM and its memory slot",
            "the numbers of keys are pages of the guest at most, here 16 GiB, and take 70 bytes each",
            "kernel threads are not told apart by VM: let the host have one",
        ],
    },
    Source {
        name: "userfaultfd",
        tells: "pages copied by a VMM into its guest, by call and time",
        with: With::Perf(&[&[ENTER_IOCTL, EXIT_IOCTL]]),
        commands: &[
            "perf record -m 16M -o uffd.data -p PID -e syscalls:sys_enter_ioctl --filter '{ioctls}' -e syscalls:sys_exit_ioctl -- sleep 10",
            "pagetoll read uffd.data",
        ],
        notes: &["PID is the VMM's"],
    },
    Source {
        name: "iommu",
        tells: "pages mapped for devices and taken from them, by size",
        with: With::Perf(&[&["iommu:map", "iommu:unmap"]]),
        commands: &[
            "perf record -a -m 16M -o iommu.data -e {events} -- sleep 10",
            "pagetoll read iommu.data",
        ],
        notes: &[],
    },
    Source {
        name: "vfio",
        tells: "each function of VFIO and the IOMMU, by its own time",
        with: With::Program(TRACE_CMD),
        commands: &[
            "trace-cmd record -p function_graph -l 'vfio_*' -l 'iommu_*' -o vfio.dat sleep 10",
            "trace-cmd report vfio.dat > vfio.txt",
            "pagetoll read vfio.txt",
        ],
        notes: &[
            "tracing each call takes time of its own: compare such captures with each other alone",
        ],
    },
    Source {
        name: "xen-guest",
        tells: "in a PV guest: multicalls, what is in them, changes of page tables, flushes",
        with: With::Perf(&[&[
            "xen:xen_mc_flush",
            "xen:xen_mc_entry",
            "xen:xen_mmu_set_pte",
        ]]),
        commands: &[
            "perf record -a -m 16M -o guest.data -e 'xen:*' -- sleep 10",
            "pagetoll read guest.data",
        ],
        notes: &["a guest does not see that Xen traps it: xentrace does"],
    },
    Source {
        name: "xentrace",
        tells: "in dom0: traps and hypercalls of each PV vCPU, by function, for each page-table entry changed",
        with: With::Program(XENTRACE),
        commands: &[
            "xentrace -D -e 0x2bf000 -T 10 dom0.xentrace",
            "pagetoll read dom0.xentrace",
        ],
        notes: &[],
    },
    Source {
        name: "counters",
        tells: "KVM's counters of every VM: exits, page faults, pages mapped, flushes",
        with: With::Counters,
        commands: &[
            "(grep -rs . /sys/kernel/debug/kvm; sleep 10; grep -rs . /sys/kernel/debug/kvm) > kvm.txt",
            "pagetoll read kvm.txt",
        ],
        notes: &["pagetoll read --live PID does both for one VMM"],
    },
];

impl Recorder {
    /// The programs that record.
    pub const PROGRAMS: [&str; 4] = [PERF, TRACE_CMD, XENTRACE, BPFTRACE];

    /// The names of all sources.
    #[must_use]
    pub fn sources() -> Vec<&'static str> {
        SOURCES.iter().map(|source| source.name).collect()
    }

    /// Recordings of each source, or of the one of this name.
    #[must_use]
    pub fn recordings(&self, source: Option<&str>) -> Vec<Recording> {
        let named = |candidate: &&Source| source.is_none_or(|name| candidate.name == name);
        let sources = SOURCES.iter().filter(named);
        sources.map(|source| self.recording(source)).collect()
    }

    /// Events that a capture of this source has; none of a source that does not exist.
    #[must_use]
    pub fn records(source: &str) -> Recorded {
        let source = SOURCES.iter().find(|candidate| candidate.name == source);
        let causes = source.is_some_and(|source| source.name == WHY);
        match source.map(|source| &source.with) {
            Some(With::Perf(events)) => {
                let mut recorded = Recorded::tracepoints(events.concat());
                if causes {
                    let calls = CALLS.map(|call| format!("syscalls:sys_enter_{call}"));
                    recorded.extend(Recorded::tracepoints(calls.iter().map(String::as_str)));
                    recorded.extend(Recorded::groups([Group::Causes]));
                }
                recorded
            }
            Some(With::Program(XENTRACE)) => {
                Recorded::groups([Group::Traps, Group::Hypercalls, Group::Subcalls])
            }
            _ => Recorded::default(),
        }
    }

    fn recording(&self, source: &Source) -> Recording {
        let mut notes: Vec<String> = source.notes.iter().map(|note| (*note).to_owned()).collect();
        let (events, mut lacks) = match source.with {
            With::Perf(events) => self.perf(&events.concat(), source.commands[0], &mut notes),
            With::Program(program) => (String::new(), self.lacks_program(program)),
            With::Bpftrace(script) => (String::new(), self.lacks_of_script(script)),
            With::Counters if self.kvm_counters => (String::new(), Vec::new()),
            With::Counters => (
                String::new(),
                vec!["/sys/kernel/debug/kvm: not there; as root, modprobe kvm and mount -t debugfs none /sys/kernel/debug".to_owned()],
            ),
        };
        lacks.sort();
        let commands = source.commands.iter();
        Recording {
            source: source.name,
            tells: source.tells,
            script: match source.with {
                With::Bpftrace(script) => Some(script),
                _ => None,
            },
            commands: commands
                .map(|command| {
                    command
                        .replace("{events}", &events)
                        .replace("{ioctls}", &filter(USERFAULTFD.map(|(number, _)| number)))
                        .replace("{calls}", &self.calls())
                })
                .collect(),
            lacks,
            notes,
        }
    }

    /// The events that this host has and the command does not name, and what it lacks.
    fn perf(
        &self,
        wanted: &[&str],
        command: &str,
        notes: &mut Vec<String>,
    ) -> (String, Vec<String>) {
        let mut lacks = self.lacks_program(PERF);
        let emitted = wanted
            .iter()
            .copied()
            .filter(|event| self.kvm_is_hardware || !OF_HARDWARE.contains(event));
        let (named, wanted): (Vec<_>, Vec<_>) = emitted.partition(|event| command.contains(event));
        let tracepoints = match &self.tracepoints {
            Ok(tracepoints) => tracepoints,
            Err(why) => {
                lacks.push(format!("tracepoints: {why}"));
                return (wanted.join(","), lacks);
            }
        };
        let has = |event: &&str| tracepoints.contains(*event);
        let missing: Vec<_> = named.into_iter().filter(|event| !has(event)).collect();
        lacks.extend(lacks_tracepoints(&missing));
        let needs_some = !wanted.is_empty();
        let (present, absent): (Vec<_>, Vec<_>) = wanted.into_iter().partition(has);
        if present.is_empty() && needs_some {
            lacks.push(format!(
                "tracepoints: this kernel has none of {}",
                absent.join(", ")
            ));
        } else if present.iter().any(|event| event.starts_with("kvm:")) && !self.kvm_is_hardware {
            notes.push(format!(
                "KVM uses no hardware virtualisation here and emits none of {}: pages are counted by kvm_mmu_set_spte",
                OF_HARDWARE.join(", ")
            ));
        }
        (present.join(","), lacks)
    }

    /// For perf: the calls that this host has, each filtered.
    fn calls(&self) -> String {
        let known = |event: &String| match &self.tracepoints {
            Ok(tracepoints) => tracepoints.contains(event),
            Err(_) => true,
        };
        let mut events = Vec::new();
        for call in CALLS {
            let enter = format!("syscalls:sys_enter_{call}");
            if !known(&enter) {
                continue;
            }
            events.push(match call {
                // MAP_FIXED.
                "mmap" => format!("-e {enter} --filter 'flags & 0x10'"),
                "ioctl" => format!("-e {enter} --filter '{}'", filter(IOCTLS)),
                _ => format!("-e {enter}"),
            });
            events.push(format!("-e syscalls:sys_exit_{call}"));
        }
        events.join(" ")
    }

    /// Tracepoints of a script, all of which bpftrace has to find.
    fn lacks_of_script(&self, script: Script) -> Vec<String> {
        let mut lacks = self.lacks_program(BPFTRACE);
        if !self.kvm_is_hardware {
            lacks.push("KVM: its TDP MMU, which says of each entry that it goes; KVM uses no hardware virtualisation here".to_owned());
        }
        let Ok(tracepoints) = &self.tracepoints else {
            return lacks;
        };
        let probes = script.text.split_whitespace();
        let probes = probes.filter_map(|word| word.strip_prefix("tracepoint:"));
        let probes: BTreeSet<_> = probes.map(|probe| probe.trim_end_matches(',')).collect();
        let missing = probes.iter().filter(|probe| !tracepoints.contains(**probe));
        let missing: Vec<_> = missing.copied().collect();
        lacks.extend(lacks_tracepoints(&missing));
        lacks
    }

    fn lacks_program(&self, program: &'static str) -> Vec<String> {
        let there = self.programs.contains(program);
        let package = match program {
            PERF => "linux-perf",
            XENTRACE => "xen-utils-common",
            other => other,
        };
        let lack = (!there).then(|| format!("{program}: not found; apt-get install {package}"));
        lack.into_iter().collect()
    }
}

/// System calls that take memory away, of which entries and ends are recorded.
const CALLS: [&str; 14] = [
    "madvise",
    "fallocate",
    "munmap",
    "mmap",
    "mremap",
    "mprotect",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "mbind",
    "move_pages",
    "process_madvise",
    "ioctl",
];

/// The lack of tracepoints that a command or a script names itself.
fn lacks_tracepoints(missing: &[&str]) -> Option<String> {
    let names = missing.join(", ");
    (!missing.is_empty()).then(|| format!("tracepoints: this kernel lacks {names}"))
}

/// For perf: numbers of ioctl(2).
fn filter(numbers: impl IntoIterator<Item = u32>) -> String {
    let numbers = numbers
        .into_iter()
        .map(|number| format!("cmd=={number:#x}"));
    numbers.collect::<Vec<_>>().join("||")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(tracepoints: &[&str], kvm_is_hardware: bool) -> Recorder {
        let named = |name: &&str| (*name).to_owned();
        Recorder {
            tracepoints: Ok(tracepoints.iter().map(named).collect()),
            programs: Recorder::PROGRAMS.into_iter().collect(),
            kvm_is_hardware,
            kvm_counters: true,
        }
    }

    fn recording(recorder: &Recorder, source: &str) -> Recording {
        let [recording] = recorder.recordings(Some(source)).try_into().unwrap();
        recording
    }

    #[test]
    fn only_events_that_the_host_has_are_recorded() {
        let all = ["kvm:kvm_exit", "kvm:kvm_entry", "kvmmmu:kvm_mmu_set_spte"];
        let recording = recording(&host(&all, true), "kvm");
        assert_eq!(
            recording.commands[0],
            "perf record -a -m 16M -o vm.data -e kvm:kvm_exit,kvm:kvm_entry,kvmmmu:kvm_mmu_set_spte -- sleep 10"
        );
        assert_eq!((recording.lacks.len(), recording.notes.len()), (0, 0));
    }

    #[test]
    fn without_hardware_no_exits_are_asked_for_and_that_is_said() {
        let all = [
            "kvm:kvm_exit",
            "kvm:kvm_userspace_exit",
            "kvmmmu:kvm_mmu_set_spte",
        ];
        let recording = recording(&host(&all, false), "kvm");
        assert!(
            recording.commands[0].contains("-e kvm:kvm_userspace_exit,kvmmmu:kvm_mmu_set_spte --")
        );
        assert!(recording.notes[0].contains("no hardware virtualisation"));
    }

    #[test]
    fn what_is_lacking_is_named_with_its_remedy() {
        let nothing = Recorder {
            tracepoints: Err("only root may look".to_owned()),
            programs: BTreeSet::new(),
            kvm_is_hardware: true,
            kvm_counters: false,
        };
        for recording in nothing.recordings(None) {
            assert!(!recording.lacks.is_empty(), "{}", recording.source);
            assert!(recording.commands.len() > 1);
        }
        let kvm = recording(&nothing, "kvm");
        assert_eq!(
            kvm.lacks,
            [
                "perf: not found; apt-get install linux-perf",
                "tracepoints: only root may look"
            ]
        );
        let none = recording(&host(&["kvm:kvm_exit"], true), "iommu");
        assert!(none.lacks[0].contains("none of iommu:map, iommu:unmap"));
    }

    #[test]
    fn demand_has_ioctls_behind_the_events_of_kvm() {
        let has = ["kvm:kvm_exit", "kvm:kvm_entry", ENTER_IOCTL, EXIT_IOCTL];
        let demand = recording(&host(&has, true), "demand");
        let command = &demand.commands[0];
        assert!(
            command.contains(
                "-e kvm:kvm_exit,kvm:kvm_entry -e syscalls:sys_enter_ioctl --filter 'cmd=="
            ),
            "{command}"
        );
        assert!(!command.contains("tlb") && demand.lacks.is_empty());
        let demand = recording(&host(&has[..3], true), "demand");
        assert_eq!(
            demand.lacks,
            ["tracepoints: this kernel lacks syscalls:sys_exit_ioctl"]
        );
    }

    #[test]
    fn a_script_needs_a_tdp_mmu_and_each_of_its_tracepoints() {
        let why = recording(&host(&["kvm:kvm_exit"], false), "why-bpftrace");
        assert_eq!(why.script, Some(WHY_SCRIPT));
        assert!(
            why.lacks[0].starts_with("KVM: its TDP MMU"),
            "{:?}",
            why.lacks
        );
        let missing = why.lacks[1].strip_prefix("tracepoints: this kernel lacks ");
        let missing: Vec<_> = missing.unwrap().split(", ").collect();
        assert!(missing.contains(&"kvmmmu:kvm_tdp_mmu_spte_changed"));
        assert!(!missing.contains(&"kvm:kvm_exit"));
        let why = recording(&host(&missing, true), "why-bpftrace");
        assert_eq!(why.lacks, ["tracepoints: this kernel lacks kvm:kvm_exit"]);
    }

    #[test]
    fn the_last_commands_read_what_the_first_wrote() {
        for recording in host(&["kvm:kvm_exit"], true).recordings(None) {
            let (reads, records): (Vec<_>, Vec<_>) = recording
                .commands
                .iter()
                .partition(|command| command.starts_with("pagetoll ") && !command.contains(" > "));
            assert!(reads[0].starts_with("pagetoll read "), "{reads:?}");
            for command in reads {
                let file = command.split(' ').nth(2).unwrap();
                assert!(records.iter().any(|command| command.contains(file)));
            }
        }
    }
}
