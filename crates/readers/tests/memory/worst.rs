//! Files of some megabytes, each of what takes most memory for its size in one of the formats.

use pagetoll_readers::Reader;
use pagetoll_units::budget::check_text;

/// Bytes of a file.
const SIZE: usize = 4 << 20;

/// Description of a file's content, and the file.
type Files = Vec<(&'static str, Vec<u8>)>;

/// The files for a reader.
pub(super) fn files(reader: &str) -> Files {
    match reader {
        "xentrace" | "windows" => xentrace(),
        "perf-data" => perf_data(),
        "query-stats-of-qmp" => qmp(),
        "query-migrate-of-qmp" => query_migrate(),
        "info-migrate-of-qemu" => info_migrate(),
        "info-stats-of-qemu" => info_stats(),
        "perf-stat" => perf_stat(),
        "kvmexit-of-bcc" => kvmexit(),
        "virsh-domstats" => domstats(),
        "kvm-stat" => kvm_stat(),
        "debugfs-of-kvm" => debugfs(),
        "perf-kvm-stat-report" => perf_kvm(),
        "bpftrace-f-json" => bpftrace(),
        "histograms-of-bcc" => bcc(),
        "bpftrace-as-text" => bpftrace_text(),
        "function-graph" => function_graphs(),
        "tracepoints-as-text" => trace_texts(),
        "lock-profile" | "lock-profile-of-xen" => lock_profiles(),
        "summary-of-xenalyze" => xenalyze(),
        "bill" => bills(),
        "diff" => pairs_of_bills(),
        "cost-table" | "published" => tomls(),
        "console" => consoles(),
        "script" => scripts(),
        "patch" => patches(),
        // Formats have their own; a binary of this one has 65,535 counters at most; what kernels unpack has its limits; files of
        // memory have 256 blocks at most.
        "capture" | "kvm-get-stats-fd" | "kernel" | "xen" | "mapped-ram" => Vec::new(),
        other => panic!("{other}: no worst file; every reader has some"),
    }
}

/// A head, as many items as fit, by their numbers, and a tail.
fn many(head: &str, item: impl Fn(u64) -> String, tail: &str) -> Vec<u8> {
    let mut text = head.to_owned();
    for number in 0.. {
        text += &item(number);
        if text.len() >= SIZE {
            break;
        }
    }
    (text + tail).into_bytes()
}

fn same(text: &str) -> impl Fn(u64) -> String {
    move |_| text.to_owned()
}

/// A short name for each number.
fn name(mut number: u64) -> String {
    let mut name = String::new();
    loop {
        name.push(char::from(b'a' + u8::try_from(number % 26).unwrap()));
        number /= 26;
        if number == 0 {
            return name;
        }
    }
}

fn qmp() -> Files {
    let reply = |item: fn(u64) -> String| many(r#"{"return":["#, item, "0]}\n");
    let of_kvm = |item: fn(u64) -> String| {
        let head = r#"{"return":[{"provider":"kvm","stats":["#;
        many(head, item, r#"{"name":"x","value":1}]}]}"#)
    };
    let schema = r#"{"return":[{"provider":"kvm","target":"vm","stats":["#;
    let histogram = r#"{"return":[{"provider":"kvm","stats":[{"name":"x","value":[0"#;
    vec![
        ("objects", reply(|_| r#"{"":0},"#.into())),
        ("arrays", reply(|_| "[],".into())),
        ("numbers", reply(|_| "0,".into())),
        ("replies", many("", same("{\"return\":[]}"), "")),
        ("keys", reply(|n| format!(r#"{{"{}":0}},"#, name(n)))),
        (
            "members",
            many(r#"{"return":[]"#, |n| format!(r#","{}":0"#, name(n)), "}"),
        ),
        (
            "counters",
            of_kvm(|n| format!(r#"{{"name":"{}","value":1}},"#, name(n))),
        ),
        ("samples", of_kvm(|_| r#"{"name":"a","value":1},"#.into())),
        (
            "histograms",
            of_kvm(|n| format!(r#"{{"name":"{}","value":[]}},"#, name(n))),
        ),
        ("a histogram", many(histogram, same(",0"), "]}]}]}")),
        (
            "vcpus",
            reply(|n| {
                let stats = r#""stats":[{"name":"x","value":1}]"#;
                format!(r#"{{"provider":"kvm","qom-path":"{}",{stats}}},"#, name(n))
            }),
        ),
        (
            "a schema",
            many(
                schema,
                |n| format!(r#"{{"name":"{}","type":"peak"}},"#, name(n)),
                "{}]}]}",
            ),
        ),
    ]
}

/// A window of records.
fn window(records: impl Fn(u32) -> Vec<u32>) -> Vec<u8> {
    let mut words = Vec::new();
    for number in 0.. {
        words.extend(records(number));
        if 4 * words.len() >= SIZE {
            break;
        }
    }
    let bytes = u32::try_from(4 * words.len()).unwrap();
    let words = [0x2001_f003, 0, bytes].into_iter().chain(words);
    words.flat_map(u32::to_le_bytes).collect()
}

/// A record that a vCPU, another one for each number, goes on to run.
fn runs(number: u32) -> [u32; 2] {
    let (domain, vcpu) = (number / 0x4000, number % 0x4000);
    [1 << 28 | 0x2_1002, domain << 16 | vcpu]
}

fn xentrace() -> Files {
    const TSC: u32 = 1 << 31;
    let fault = |n: u32| [5 << 28 | 0x20_1104, n, 0, n, 0, 0];
    let exit = |n: u32| [TSC | 2 << 28 | 0x8_1002, n, 0, n, 0];
    let ptwr = |n: u32| [6 << 28 | 0x20_110b, n, 0, n << 12, n >> 20, n, 0];
    vec![
        (
            "vcpus",
            window(|n| [&runs(n)[..], &[1 << 28 | 0x20_100d, 1]].concat()),
        ),
        (
            "runstates",
            window(|n| vec![TSC | 1 << 28 | 0x2_1020 | 1, n, 0, runs(n / 2)[1]]),
        ),
        (
            "exits",
            window(|n| [&runs(n)[..], &exit(n), &[TSC | 0x8_1001, n, 1]].concat()),
        ),
        ("faults", window(|n| fault(n).to_vec())),
        ("page tables", window(|n| ptwr(n).to_vec())),
        (
            "faults of vcpus",
            window(|n| match n % 500 {
                0 => runs(n / 500).to_vec(),
                _ => fault(n).to_vec(),
            }),
        ),
    ]
}

/// A stream of `perf record -o -`, of records by their numbers: kind and body.
fn perf(record: impl Fn(u32) -> (u32, Vec<u8>)) -> Vec<u8> {
    let mut file = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    for number in 0.. {
        let (kind, body) = record(number);
        file.extend(kind.to_le_bytes());
        file.extend([0, 0]);
        file.extend(u16::try_from(8 + body.len()).unwrap().to_le_bytes());
        file.extend(body);
        if file.len() >= SIZE {
            break;
        }
    }
    file
}

fn perf_data() -> Files {
    const COMM: u32 = 3;
    const LOST: u32 = 2;
    const HEADER_ATTR: u32 = 64;
    let comm = |n: u32, name: &str| {
        let thread = [n.to_le_bytes(), n.to_le_bytes()].concat();
        (COMM, [&thread[..], name.as_bytes(), b"\0"].concat())
    };
    let attribute = |ids: Vec<u64>| {
        let head = [2_u32, 64].map(u32::to_le_bytes).concat();
        let ids: Vec<u8> = ids.into_iter().flat_map(u64::to_le_bytes).collect();
        (HEADER_ATTR, [&head[..], &[0; 56], &ids].concat())
    };
    let ids = |n: u32| (0..8000).map(|id| u64::from(n) * 8000 + id).collect();
    vec![
        ("comms", perf(|n| comm(n, ""))),
        ("named comms", perf(|n| comm(n, &name(n.into())))),
        ("attributes", perf(|n| attribute(vec![n.into()]))),
        ("ids", perf(|n| attribute(ids(n)))),
        ("gaps", perf(|_| (LOST, vec![0; 16]))),
        ("formats", formats(|n| format!("name: a\nID: {n}\n"))),
        (
            "known formats",
            formats(|n| {
                format!(
                    "name: map\nID: {n}\n{}",
                    "field:;offset:0;size:0\n".repeat(99)
                )
            }),
        ),
        (
            "a table",
            formats(|_| {
                format!(
                    "name: map\nID: 1\nprint fmt: __print_symbolic(a{}\n",
                    ",{0,\"\"}".repeat(SIZE / 6)
                )
            }),
        ),
        (
            "tables",
            formats(|n| {
                format!(
                    "name: map\nID: {n}\nprint fmt: {}\n",
                    "__print_symbolic(a,{0,\"\"}".repeat(99)
                )
            }),
        ),
    ]
}

/// A stream that begins with formats of system iommu.
fn formats(format: impl Fn(u64) -> String) -> Vec<u8> {
    let mut events = Vec::new();
    let mut count = 0_u32;
    while events.len() < SIZE {
        let format = format(count.into());
        events.extend((format.len() as u64).to_le_bytes());
        events.extend(format.into_bytes());
        count += 1;
    }
    let mut data = b"\x17\x08Dtracing0.6\0\0\x08\0\x10\0\0".to_vec();
    data.extend(b"header_page\0\0\0\0\0\0\0\0\0header_event\0\0\0\0\0\0\0\0\0");
    data.extend([0_u32, 1].map(u32::to_le_bytes).concat());
    data.extend(b"iommu\0");
    data.extend(count.to_le_bytes());
    data.extend(events);
    let mut file = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    file.extend(66_u32.to_le_bytes());
    file.extend([0, 0, 12, 0]);
    file.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
    [file, data].concat()
}

fn bpftrace() -> Files {
    let map = |first: &str, item: &dyn Fn(u64) -> String, end: &str| {
        let head = format!(r#"{{"type":"map","data":{{"@":{first}"#);
        many(&head, item, &format!("{end}}}}}\n"))
    };
    vec![
        ("objects", many("", same("{\"type\":\"\"}\n"), "")),
        (
            "types",
            many("", |n| format!("{{\"type\":\"{}\"}}\n", name(n)), ""),
        ),
        (
            "prints",
            many("", same("{\"type\":\"map\",\"data\":{\"\":{}}}\n"), ""),
        ),
        (
            "keys",
            map(r#"{"a":0"#, &|n| format!(r#","{}":0"#, name(n)), "}"),
        ),
        (
            "other keys",
            map(r#"{"a":[]"#, &|n| format!(r#","{}":[]"#, name(n)), "}"),
        ),
        ("maps", map("0", &|n| format!(r#","{}":0"#, name(n)), "")),
        ("a list", map("[0", &same(",0"), "]")),
        (
            "objects in a list",
            map(r#"[{"":0}"#, &same(r#",{"":0}"#), "]"),
        ),
        (
            "buckets",
            map(r#"[{"count":0}"#, &same(r#",{"count":0}"#), "]"),
        ),
        (
            "printf",
            many("", same("{\"type\":\"printf\",\"data\":\"\"}\n"), ""),
        ),
    ]
}

fn bcc() -> Files {
    let head = |unit: &str| format!("{unit}:count distribution\n");
    vec![
        ("histograms", many("", |n| head(&name(n)), "")),
        (
            "sections",
            many("", |n| format!("a = {}\n{}1:1\n", name(n), head("u")), ""),
        ),
        ("other lines", many(&head("u"), same("a\n"), "")),
    ]
}

fn bpftrace_text() -> Files {
    let bucket = "[1]  1 |@|\n";
    vec![
        ("keys", many("", |n| format!("@[{}]: 1\n", name(n)), "")),
        ("maps", many("", |n| format!("@{}: 1\n", name(n)), "")),
        ("other values", many("", |n| format!("@{}:\n", name(n)), "")),
        ("texts", many("", |n| format!("@{0}:{0}\n", name(n)), "")),
        ("prints", many("", same("@: 1\n\n"), "")),
        ("buckets", many("@:\n", same(bucket), "")),
        (
            "histograms",
            many("", |n| format!("@[{}]:\n{bucket}", name(n)), ""),
        ),
        ("open keys", many("", same("@[\n"), "@: 1\n")),
        ("a long key", many("@[\n", same("f\n"), "]: 1\n")),
        ("other lines", many("@: 1\n", same("a\n"), "")),
    ]
}

fn kvm_stat() -> Files {
    let columns: String = (0..1000).map(|n| format!(",{}", name(n))).collect();
    let row = format!("2026-11-26 00:00:01{}\n", ",1".repeat(1000));
    let commas = format!("timestamp,a\n2026-11-26 00:00:01{}\n", ",".repeat(SIZE));
    vec![
        (
            "columns",
            many("timestamp", |n| format!(",{}", name(n)), "\n"),
        ),
        (
            "short rows",
            many("timestamp,a\n", same("2026-11-26 00:00:01,0\n"), ""),
        ),
        (
            "wide rows",
            many(&format!("timestamp{columns}\n"), same(&row), ""),
        ),
        ("commas", commas.into_bytes()),
        ("a table", many("a b\n", same("0 0\n"), "")),
        ("a list", many("", |n| format!("{} 0 1\n", name(n)), "")),
        ("screens", many("", same("a 1 1\na 2 1\n"), "")),
        (
            "words of a row",
            many("kvm statistics\na 1 1\n", same("a "), "1 1\n"),
        ),
        (
            "filters",
            many(
                "kvm statistics\n",
                |n| format!("regex filter: {}\n", name(n)),
                "a 1 1\n",
            ),
        ),
    ]
}

fn query_migrate() -> Files {
    let reply = r#"{"return":{"total-time":1"#;
    vec![
        (
            "replies",
            many(
                "",
                same("{\"return\":{\"downtime\":1,\"total-time\":1}}\n"),
                "",
            ),
        ),
        (
            "members",
            many(reply, |n| format!(r#","{}":0"#, name(n)), "}}\n"),
        ),
        ("empty members", many(reply, same(r#","":0"#), "}}\n")),
        (
            "objects",
            many(reply, same(r#","ram":{"normal":1}"#), "}}\n"),
        ),
        (
            "values",
            many(
                &format!(r#"{reply},"postcopy-latency-dist":[1"#),
                same(",1"),
                "]}}\n",
            ),
        ),
        (
            "vCPUs",
            many(
                reply,
                |_| format!(r#","postcopy-vcpu-blocktime":[1{}]"#, ",1".repeat(9999)),
                "}}\n",
            ),
        ),
        ("prose", many(&format!("{reply}}}}}\n"), same("a\n"), "")),
    ]
}

fn info_migrate() -> Files {
    let head = "Migration status: completed\n";
    vec![
        (
            "migrations",
            many("", same("Migration status: a\nsetup: 1 ms\n"), ""),
        ),
        ("figures", many(head, same("setup: 1 ms\n"), "")),
        (
            "labels",
            many(head, |n| format!("{}: 1\n", name(n)), "setup: 1 ms\n"),
        ),
        (
            "pairs",
            many(
                &format!("{head}Time (ms): total=1"),
                |n| format!(",{}=1", name(n)),
                "\n",
            ),
        ),
        (
            "values",
            many(
                &format!("{head}Postcopy vCPU Blocktime (ms):\n[1"),
                same(",1"),
                "]\n",
            ),
        ),
        ("buckets", many(head, same("[ 1 us - 2 us ]: 1\n"), "")),
        (
            "vCPUs",
            many(
                head,
                same("Postcopy vCPU Blocktime (ms): [1,1,1,1,1,1,1,1]\n"),
                "",
            ),
        ),
    ]
}

fn info_stats() -> Files {
    vec![
        (
            "counters",
            many("", |n| format!("{} (peak): 1\n", name(n)), ""),
        ),
        (
            "vCPUs",
            many("", |n| format!("vcpu_{n} (kvm-vcpu):\na (peak): 1\n"), ""),
        ),
        (
            "buckets",
            many("a (log2-histogram): ", |n| format!("[{}]=0 ", n + 1), "\n"),
        ),
        (
            "others",
            many("a (peak): 1\n", |n| format!("{}\n", name(n)), ""),
        ),
    ]
}

fn perf_stat() -> Files {
    let heading = "Performance counter stats for 'a':\n";
    vec![
        ("events", many(heading, |n| format!("1 {}\n", name(n)), "")),
        ("one event", many(heading, same("1 a\n"), "")),
        (
            "not counted",
            many(heading, |n| format!("<not counted> {}\n", name(n)), "1 a\n"),
        ),
        (
            "summaries",
            many("", same("Performance counter stats for \n1 a\n"), ""),
        ),
        (
            "csv",
            many("", |n| format!("1,,{},1,100.00\n", name(n)), ""),
        ),
        ("fields", many("1,,a,1,100.00", same(","), "\n")),
        ("prose", many(heading, same("a\n"), "1 a\n")),
    ]
}

fn kvmexit() -> Files {
    let heading = "PID TID KVM_EXIT_REASON COUNT\n";
    vec![
        ("threads", many(heading, |n| format!("1 {n} A 1\n"), "")),
        (
            "reasons",
            many(heading, |n| format!("1 1 A{} 1\n", name(n)), ""),
        ),
        ("tables", many("", same("KVM_EXIT_REASON COUNT\nA 1\n"), "")),
    ]
}

fn debugfs() -> Files {
    vec![
        (
            "counters",
            many("kvm/exits:1\n", |n| format!("{}:1\n", name(n)), ""),
        ),
        ("VMs", many("kvm/exits:1\n", |n| format!("{n}-1/a:1\n"), "")),
        (
            "refused",
            many("kvm/exits:1\n", |n| format!("grep: {}: \n", name(n)), ""),
        ),
    ]
}

fn domstats() -> Files {
    let of_one = |n| format!("vm.{}.sum=1\n", name(n));
    vec![
        (
            "domains",
            many("", |n| format!("Domain: '{}'\nvm.a.sum=1\n", name(n)), ""),
        ),
        ("counters", many("Domain: 'a'\n", of_one, "")),
    ]
}

fn function_graphs() -> Files {
    let of_one = |n| format!("0)1.0us|{}();\n", name(n));
    let invalid = [&b" 0) 0.1 us | f();\n"[..], &[0xff; SIZE]].concat();
    vec![
        ("functions", many("", of_one, "")),
        ("calls", many("", same("0)1.0us|f();\n"), "")),
        ("nesting", many("0)1.0us|f();\n", same("0)|f(){\n"), "")),
        (
            "CPUs",
            many("0)1.0us|f();\n", |n| format!("{n})|f(){{\n"), ""),
        ),
        (
            "functions of a call",
            many(" 0) | f() {\n", of_one, " 0) 1.0 us | }\n"),
        ),
        ("no text", invalid),
    ]
}

fn trace_texts() -> Files {
    let map = "1.000000: iommu:map: IOMMU: iova=0x0 - 0x1 paddr=0x0 size=1\n";
    let exit = "1.000000: kvm:kvm_exit: reason";
    vec![
        (
            "threads",
            many("", |n| format!("{} {n} [0] {map}", name(n)), ""),
        ),
        (
            "reasons",
            many(
                "",
                |n| format!("a 1 [0] {exit} {} rip 0x0 info 0 0\n", name(n)),
                "",
            ),
        ),
        (
            "unknown",
            many(
                &format!("a 1 [0] {map}"),
                |n| format!("1.000000: {}:\n", name(n)),
                "",
            ),
        ),
        ("lines", many(&format!("a 1 [0] {map}"), same("\n"), "")),
    ]
}

fn perf_kvm() -> Files {
    let heading = "Analyze events for all VMs, all VCPUs:\nVM-EXIT Samples Avg time\n";
    vec![
        (
            "reasons",
            many(heading, |n| format!("{} 1 1.00us\n", name(n)), ""),
        ),
        ("tables", many(heading, same("a Samples Avg time\n"), "")),
        ("words", many(heading, same("a "), "1 1.00us\n")),
        (
            "columns",
            many(
                "Analyze events for all VMs, all VCPUs:\na Samples Avg time",
                same(" Time%"),
                "\n",
            ),
        ),
    ]
}

fn lock_profiles() -> Files {
    let profile = "Global a: addr=0, lockval=0, not locked\nlock:0(0), block:0(0)\n";
    vec![
        ("lines", many("", same("\n"), "")),
        ("profiles", many("", same(profile), "")),
        ("no text", vec![0xff; SIZE]),
        ("heads", many("", same("Global a: addr=0\n"), "")),
        (
            "lines of counts",
            many("Global a: addr=0\n", same("lock:\n"), ""),
        ),
        (
            "locks",
            many(
                "",
                |n| format!("Global {}:\nlock:1(1), block:0(0)\n", name(n)),
                "",
            ),
        ),
        ("times", many("", same("Xen lock profile info SHOW\n"), "")),
    ]
}

fn xenalyze() -> Files {
    let exits = "|-- Domain 1 --|\n-- v0 --\nExit reasons:\n";
    let vcpu = "-- v0 --\nPV events:\na 1\n";
    vec![
        ("vcpus", many("|-- Domain 1 --|\n", same(vcpu), "")),
        (
            "vcpus without rows",
            many("|-- Domain 1 --|\n", same("-- v0 --\n"), ""),
        ),
        ("exits", many(exits, same("H 1 1s 1% 1 cyc\n"), "")),
        ("beginnings of exits", many(exits, same("H\n"), "")),
        ("traps", many(vcpu, |n| format!("{} 1\n", name(n)), "")),
    ]
}

/// A valid bill with another member in each row's place of tolls.
fn bill_with(first: &str, item: impl Fn(u64) -> String, end: &str) -> Vec<u8> {
    let bill = Reader::named("bill").unwrap().seeds[0].clone();
    let bill = String::from_utf8(bill).unwrap();
    let (head, tail) = bill.split_once("\"tolls\":").unwrap();
    many(
        &format!("{head}{first}"),
        item,
        &format!("{end},\"tolls\":{tail}"),
    )
}

fn bills() -> Files {
    let folio = |n| format!(",\"{}\":0", name(n));
    vec![
        ("runs", bill_with("\"runs\":[0", same(",0"), "]")),
        ("folios", bill_with("\"folios\":{\"4K\":0", folio, "}")),
        ("objects", bill_with("\"unknown\":[0", same(",{}"), "]")),
        ("members", bill_with("\"unknown\":0", same(",\"\":0"), "")),
    ]
}

fn pairs_of_bills() -> Files {
    let twice = |(what, bill): (_, Vec<u8>)| (what, [b"[", &bill[..], b",", &bill, b"]"].concat());
    bills().into_iter().map(twice).collect()
}

/// Each file as it is, which is refused for what it holds, and as much of it as a file allows: a small one, and a large one
/// with a comment behind it.
fn and_allowed(files: Files) -> Files {
    let allowed = |text: &[u8], padding: &[u8]| {
        let fits = |&bytes: &usize| {
            let part = [&text[..bytes], padding].concat();
            check_text(&String::from_utf8(part).unwrap()).is_ok()
        };
        let steps: Vec<_> = (0..text.len()).step_by(1 << 10).collect();
        let bytes = steps[steps.partition_point(fits) - 1];
        [&text[..bytes], padding].concat()
    };
    let padding = [b"\n#".as_slice(), &vec![b'x'; SIZE]].concat();
    let all = |(what, text): (_, Vec<u8>)| {
        let (small, large) = (allowed(&text, b""), allowed(&text, &padding));
        [(what, small), (what, large), (what, text)]
    };
    files.into_iter().flat_map(all).collect()
}

fn tomls() -> Files {
    and_allowed(vec![
        ("arrays", many("a=[0", same(",[]"), "]\n")),
        ("numbers", many("a=[0", same(",0"), "]\n")),
        ("tables in an array", many("a=[0", same(",{a=0}"), "]\n")),
        ("keys", many("", |n| format!("{}=0\n", name(n)), "")),
        ("dots", many("a", same(".a"), "=0\n")),
        ("tables", many("", |n| format!("[{}]\n", name(n)), "")),
        ("array of tables", many("", same("[[a]]\n"), "")),
        ("comments", many("", same("#\n"), "")),
    ])
}

fn scripts() -> Files {
    and_allowed(vec![
        ("lines", many("", same("a\n"), "")),
        ("cases", many("", same("case a\n"), "")),
    ])
}

fn patches() -> Files {
    let head = "--- a/a\n+++ b/a\n";
    let all = vec![
        ("files", many("--- a/a\n", same("+++ b/\n"), "")),
        (
            "a hunk",
            many(
                &format!("{head}@@ -1,9999999 +1,9999999 @@\n"),
                same(" \n"),
                "",
            ),
        ),
        ("hunks", many(head, same("@@ -1 +1 @@\n-\n+\n"), "")),
    ];
    // Each file of a patch is applied to the whole text.
    let short = |(what, text): (_, Vec<u8>)| [(what, text[..32 << 10].to_vec()), (what, text)];
    all.into_iter().flat_map(short).collect()
}

fn consoles() -> Files {
    let case = r#"{"kind":"case","index":1,"unclean":0,"frames":[1],"answers":[[1]"#;
    vec![
        ("objects", many("", same("{}\n"), "")),
        ("ends", many("", same("{\"kind\":\"done\"}\n"), "")),
        ("answers", many(case, same(",[1]"), "]}\n")),
    ]
}
