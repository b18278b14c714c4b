//! Events that were not recorded: their texts follow the kernel's sources, and so do their records.

use pagetoll_ftrace::tracepoint::{
    FastPageFault, Iova, KvmEntry, KvmExit, KvmGuestFault, KvmPageFault, McFlush, PageFault,
    Payload, SplitHugePage, SpteChanged, UserspaceExit, Xen, XenMmuOp,
};
use pagetoll_units::{Bytes, Gfn, Gpa, MachineAddress, VirtualAddress};

use super::pipe::{Pipe, Raw, id};
use super::{Read, data, perf, text};

fn payloads(read: &Read) -> Vec<Payload> {
    read.events()
        .iter()
        .map(|event| event.payload.clone())
        .collect()
}

fn made(name: &str) -> Read {
    let read = text(&data(&format!("made/{name}.txt")));
    assert_eq!(read.failure, None, "{name}");
    assert_eq!(read.tally.first_unreadable, None, "{name}");
    assert_eq!(read.tally.other_lines, 0, "{name}");
    read
}

/// The formats of a file, each with the system that it belongs to.
fn formats(file: &str, system: fn(&str) -> &'static str) -> Vec<(&'static str, String)> {
    let text = String::from_utf8(data(&format!("made/{file}.format"))).unwrap();
    let each = text.split("name: ").skip(1);
    each.map(|format| {
        (
            system(format.lines().next().unwrap()),
            format!("name: {format}"),
        )
    })
    .collect()
}

fn x86_system(name: &str) -> &'static str {
    match name {
        "map" | "unmap" => "iommu",
        "page_fault_kernel" => "exceptions",
        "fast_page_fault" | "kvm_tdp_mmu_spte_changed" | "kvm_mmu_split_huge_page" => "kvmmmu",
        _ => "kvm",
    }
}

/// Samples of a file's formats, by name, a microsecond apart from `time` on.
fn binary(formats: &[(&str, String)], time: u64, samples: &[(&str, Raw)]) -> Read {
    let mut pipe = Pipe::new(formats);
    pipe.comm(4250, "CPU 0/KVM");
    for (index, (name, raw)) in samples.iter().enumerate() {
        let head = format!("name: {name}\n");
        let (_, format) = formats
            .iter()
            .find(|(_, format)| format.starts_with(&head))
            .unwrap();
        pipe.sample(id(format), time + 1000 * index as u64, raw);
    }
    let read = perf(pipe.bytes()).unwrap();
    assert_eq!(
        (&read.failure, &read.tally.first_unreadable),
        (&None, &None)
    );
    assert!(read.tally.unknown.is_empty());
    read
}

fn nested_page_fault() -> Payload {
    Payload::KvmExit(KvmExit {
        reason: "npf".into(),
        pc: VirtualAddress(0xfff0),
        info1: Some(0x1_0000_0014),
        info2: Some(0xf800_1000),
    })
}

#[test]
fn all_generations_of_kvm_exit_are_the_same_event() {
    let read = made("kvm-exit");
    assert_eq!(payloads(&read), vec![nested_page_fault(); 6]);
    for event in read.events() {
        assert_eq!(
            (event.task.comm.as_ref(), event.task.tid),
            ("CPU 0/KVM", Some(4250))
        );
        let time = event.time.time().map(|time| time.0);
        assert_eq!((event.cpu, time), (Some(1), Some(1_769_000_001_000)));
    }
    assert_eq!(read.events()[5].task.pid, Some(4242));
}

#[test]
fn a_record_of_kvm_exit_is_that_event_too() {
    const VMX: u32 = 1;
    const SVM: u32 = 2;
    let exit = |reason, isa| {
        let raw = Raw::new().word(8, reason).long(16, 0xfff0).word(24, isa);
        (
            "kvm_exit",
            raw.long(32, 0x1_0000_0014).long(40, 0xf800_1000),
        )
    };
    let samples = [
        exit(0x400, SVM),
        exit(48, VMX),
        exit(0x8000_0021, VMX),
        exit(0x4e, SVM),
        exit(u32::MAX, SVM),
        exit(0xffff, VMX),
    ];
    let read = binary(&formats("x86", x86_system), 1_769_000_001_000, &samples);
    assert_eq!(read.items[0], made("kvm-exit").items[5]);
    let reasons = payloads(&read).into_iter().map(|payload| match payload {
        Payload::KvmExit(exit) => exit.reason,
        other => panic!("{other:?}"),
    });
    let reasons: Vec<_> = reasons.collect();
    let expected = [
        "npf",
        "EPT_VIOLATION",
        "INVALID_STATE",
        "PF excp",
        "invalid_guest_state",
        "0xffff",
    ];
    assert!(
        reasons.iter().map(AsRef::as_ref).eq(expected),
        "{reasons:?}"
    );
}

fn xen_events() -> Vec<Xen> {
    let page = VirtualAddress(0x7f00_0000_1000);
    vec![
        Xen::McEntry {
            op: 1,
            args: [0xffff_8880_0a5f_0000, 2],
        },
        Xen::Mmu(XenMmuOp::SetPteAt(0x8000_0000_1234_5067)),
        Xen::McFlush(McFlush {
            hypercalls: 1,
            arg_bytes: 32,
            callbacks: 0,
        }),
        Xen::FlushTlbMulti {
            cpus: 2,
            start: page,
            end: VirtualAddress(0x7f00_0000_2000),
        },
    ]
}

#[test]
fn events_of_a_pv_guest_are_understood_in_both_forms() {
    let read = made("xen");
    let xen = payloads(&read).into_iter().map(|payload| match payload {
        Payload::Xen(xen) => xen,
        other => panic!("{other:?}"),
    });
    let [entry, set_pte_at, flush, flush_tlb] = xen_events()[..] else {
        panic!("four")
    };
    let expected = [
        Xen::McBatch,
        entry,
        Xen::McExtendArgs { op: 1, bytes: 16 },
        set_pte_at,
        Xen::McIssue,
        Xen::McFlushReason,
        flush,
        flush_tlb,
        Xen::FlushTlbOne(VirtualAddress(0x7f00_0000_1000)),
        Xen::Mmu(XenMmuOp::PgdPin),
        Xen::WriteCr3(0x1234_5000),
        Xen::McBatch,
    ];
    assert_eq!(xen.collect::<Vec<_>>(), expected);
    assert_eq!(read.tally.unknown["xen:xen_cpu_write_gdt_entry"], 1);
}

#[test]
fn records_of_a_pv_guest_are_those_events() {
    let samples = [
        (
            "xen_mc_entry",
            Raw::new()
                .word(8, 1)
                .word(12, 4)
                .long(16, 0xffff_8880_0a5f_0000)
                .long(24, 2),
        ),
        (
            "xen_mmu_set_pte_at",
            Raw::new()
                .long(16, 0x7f00_0000_1000)
                .long(32, 0x8000_0000_1234_5067),
        ),
        ("xen_mc_flush", Raw::new().word(8, 1).word(12, 32)),
        (
            "xen_mmu_flush_tlb_multi",
            Raw::new()
                .word(8, 2)
                .long(24, 0x7f00_0000_1000)
                .long(32, 0x7f00_0000_2000),
        ),
    ];
    let read = binary(&formats("xen", |_| "xen"), 0, &samples);
    let expected: Vec<_> = xen_events().into_iter().map(Payload::Xen).collect();
    assert_eq!(payloads(&read), expected);
}

fn arm64_events() -> Vec<Payload> {
    let exit = |reason: &str, pc| {
        Payload::KvmExit(KvmExit {
            reason: reason.into(),
            pc: VirtualAddress(pc),
            info1: None,
            info2: None,
        })
    };
    vec![
        exit("DABT_LOW", 0xffff_8001_0004),
        Payload::KvmGuestFault(KvmGuestFault {
            ipa: Gpa(0x8000_1000),
            hsr: 0x9200_0047,
            pc: VirtualAddress(0xffff_8001_0004),
        }),
        exit("IRQ", 0xffff_8001_0008),
    ]
}

#[test]
fn events_of_arm64_are_understood_in_both_forms() {
    let entry = Payload::KvmEntry(KvmEntry {
        pc: Some(VirtualAddress(0xffff_8001_0000)),
    });
    assert_eq!(
        payloads(&made("arm64")),
        [vec![entry], arm64_events()].concat()
    );

    let samples = [
        (
            "kvm_exit",
            Raw::new()
                .word(8, 2)
                .word(12, 0x24)
                .long(16, 0xffff_8001_0004),
        ),
        (
            "kvm_guest_fault",
            Raw::new()
                .long(8, 0xffff_8001_0004)
                .long(16, 0x9200_0047)
                .long(32, 0x8000_1000),
        ),
        ("kvm_exit", Raw::new().word(8, 0).long(16, 0xffff_8001_0008)),
    ];
    let read = binary(&formats("arm64", |_| "kvm"), 0, &samples);
    assert_eq!(payloads(&read), arm64_events());
}

/// The events of `x86.txt` of which tracefs has a format on a machine without `syscalls`.
fn x86_events() -> [Payload; 10] {
    let (old_spte, new_spte) = (0x0600_0001_1220_0b75, 0x0600_0001_1220_0b77);
    let (iova, size) = (Iova(0), Bytes(2 << 20));
    let paddr = MachineAddress(0x1_1220_0000);
    [
        Payload::IommuMap { iova, paddr, size },
        Payload::IommuUnmap {
            iova,
            size,
            unmapped_size: size,
        },
        Payload::KvmPageFault(KvmPageFault {
            address: 0xf800_1000,
            error_code: 0x14,
        }),
        Payload::FastPageFault(FastPageFault {
            address: 0xf800_1000,
            error_code: 3,
            old_spte,
            new_spte,
            spurious: false,
            fixed: true,
        }),
        Payload::SplitHugePage(SplitHugePage {
            gfn: Gfn(0xf8000),
            level: 2,
            spte: 0x0600_0001_1220_0bf7,
            errno: 0,
        }),
        Payload::SpteChanged(SpteChanged {
            gfn: Gfn(0xf8000),
            level: 1,
            old_spte: 0,
            new_spte,
        }),
        Payload::KvmDirtyRingPush {
            slot: 65538,
            offset: 0x1ff,
        },
        Payload::KvmEntry(KvmEntry {
            pc: Some(VirtualAddress(0xfff0)),
        }),
        Payload::KvmUserspaceExit(UserspaceExit {
            reason: "KVM_EXIT_MEMORY_FAULT".into(),
            errno: None,
        }),
        Payload::PageFaultKernel(PageFault {
            address: Some(VirtualAddress(0x7ffd_1234_5000)),
            ip: None,
            error_code: 2,
        }),
    ]
}

#[test]
fn events_of_x86_are_understood_in_print() {
    let read = payloads(&made("x86"));
    let (calls, rest): (Vec<_>, Vec<_>) = read.into_iter().partition(|payload| {
        matches!(
            payload,
            Payload::IoctlEnter { .. } | Payload::IoctlExit { .. }
        )
    });
    assert_eq!(rest, x86_events());
    let enter = Payload::IoctlEnter {
        fd: 7,
        cmd: 0xc028_aa03,
        arg: 0x7ffd_1234_5678,
    };
    assert_eq!(calls, [enter, Payload::IoctlExit { ret: -11 }]);
}

/// Value that `KVM_RUN` returns.
const EFAULT: i32 = -14;

/// ftrace has no reason, but the errno.
#[test]
fn an_exit_with_an_errno_is_understood_in_ftraces_words() {
    let read = text(b"vmm-3 [000] ..... 1.000000: kvm_userspace_exit: reason error (14)\n");
    let expected = Payload::KvmUserspaceExit(UserspaceExit {
        reason: "error".into(),
        errno: Some(EFAULT),
    });
    assert_eq!(payloads(&read), [expected]);
}

#[test]
fn records_of_x86_are_those_events() {
    let raw = Raw::new;
    let (old_spte, new_spte) = (0x0600_0001_1220_0b75, 0x0600_0001_1220_0b77);
    let samples = [
        ("map", raw().long(16, 0x1_1220_0000).long(24, 2 << 20)),
        ("unmap", raw().long(16, 2 << 20).long(24, 2 << 20)),
        (
            "kvm_page_fault",
            raw().long(16, 0xfff0).long(24, 0xf800_1000).long(32, 0x14),
        ),
        (
            "fast_page_fault",
            raw()
                .long(16, 0xf800_1000)
                .long(24, 3)
                .long(40, old_spte)
                .long(48, new_spte)
                .word(56, 5),
        ),
        (
            "kvm_mmu_split_huge_page",
            raw()
                .long(8, 0xf8000)
                .long(16, 0x0600_0001_1220_0bf7)
                .word(24, 2),
        ),
        (
            "kvm_tdp_mmu_spte_changed",
            raw().long(8, 0xf8000).long(24, new_spte).word(32, 1),
        ),
        ("kvm_dirty_ring_push", raw().word(20, 65538).long(24, 0x1ff)),
        ("kvm_entry", raw().long(16, 0xfff0)),
        (
            "kvm_userspace_exit",
            raw().word(8, 39).word(12, EFAULT.cast_unsigned()),
        ),
        (
            "page_fault_kernel",
            raw()
                .long(8, 0x7ffd_1234_5000)
                .long(16, 0xffff_ffff_8100_0000)
                .long(24, 2),
        ),
    ];
    let mut read = payloads(&binary(&formats("x86", x86_system), 0, &samples));
    for payload in &mut read {
        if let Payload::KvmUserspaceExit(exit) = payload {
            assert_eq!(exit.errno.take(), Some(EFAULT));
        }
    }
    assert_eq!(read, x86_events());
}

#[test]
fn threads_have_the_name_of_the_one_that_made_them() {
    let formats = formats("x86", x86_system);
    let mut pipe = Pipe::new(&formats);
    pipe.comm(4242, "vmm");
    let fork: Vec<u8> = [4242_u32, 4242, 4250, 4242, 0, 0]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let map = id(&formats
        .iter()
        .find(|(_, format)| format.starts_with("name: map\n"))
        .unwrap()
        .1);
    pipe.sample(map, 1, &Raw::new());
    let last = [0, 2, 1, 0_u64].iter().flat_map(|word| word.to_le_bytes());
    pipe.record(7, 0, &fork.into_iter().chain(last).collect::<Vec<_>>());
    pipe.sample(map, 3, &Raw::new());
    let read = perf(pipe.bytes()).unwrap();
    let names: Vec<_> = read
        .events()
        .iter()
        .map(|event| event.task.comm.to_string())
        .collect();
    assert_eq!(names, [":4250", "vmm"]);
}

/// Records lost after the last one are only in perf's sums; those that the user's filter refused were not lost.
#[test]
fn sums_without_a_gap_are_lost_too() {
    let mut pipe = Pipe::new(&formats("x86", x86_system));
    let last = [0_u8; 32];
    pipe.record(13, 0, &[&130_u64.to_le_bytes()[..], &last].concat());
    pipe.record(13, 1 << 15, &[&7_u64.to_le_bytes()[..], &last].concat());
    let read = perf(pipe.bytes()).unwrap();
    assert_eq!((read.lost().len(), read.lost()[0].records), (1, Some(130)));
    assert_eq!(read.tally.lost, 130);
}

#[test]
fn a_record_without_a_field_is_counted_with_its_place() {
    let formats = formats("x86", x86_system);
    let (_, exit) = formats
        .iter()
        .find(|(_, format)| format.starts_with("name: kvm_exit\n"))
        .unwrap();
    let without = exit.replace("guest_rip;", "other;");
    let mut pipe = Pipe::new(&[("kvm", without.clone())]);
    let at = pipe.bytes().len();
    pipe.sample(id(&without), 1, &Raw::new());
    let read = perf(pipe.bytes()).unwrap();
    assert_eq!((read.tally.unreadable, read.tally.events), (1, 0));
    let expected = format!("byte {at}: kvm:kvm_exit has no field guest_rip");
    assert_eq!(read.tally.first_unreadable, Some(expected));

    let read = text(b" a 1 [000] 1.000000: kvm:kvm_exit: reason HLT rip zero\n");
    let expected = "line 1: kvm:kvm_exit has no readable `rip`";
    assert_eq!(read.tally.first_unreadable.as_deref(), Some(expected));
}
