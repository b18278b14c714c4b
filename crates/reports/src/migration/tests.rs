use pagetoll_observation::{Capture, Observation};
use pagetoll_text::ReadError;

use super::*;

type Rows = Vec<(String, String, u64, Option<u64>)>;

fn rows(observation: &Observation) -> Rows {
    let parties = observation.parties.iter();
    let rows = parties.flat_map(|party| {
        let items = party.items.iter();
        items.map(|item| {
            (
                party.name.clone(),
                item.name.clone(),
                item.count,
                item.nanos,
            )
        })
    });
    rows.collect()
}

fn notes(observation: &Observation) -> Vec<&str> {
    let notes = observation.capture.unknown.keys();
    notes.map(String::as_str).collect()
}

fn hmp(text: &str) -> Observation {
    hmp::read(text.as_bytes(), Capture::default()).unwrap()
}

fn row(
    party: &str,
    name: &str,
    count: u64,
    nanos: Option<u64>,
) -> (String, String, u64, Option<u64>) {
    (party.to_owned(), name.to_owned(), count, nanos)
}

#[test]
fn the_form_until_10_0_is_read() {
    let text = "\
(qemu) info migrate
globals:
store-global-state: on
Migration status: completed
total time: 6522 ms
downtime: 16 ms
transferred ram: 720896 kbytes
throughput: 949.60 mbps
duplicate: 508031 pages
normal: 178447 pages
dirty sync count: 2
page size: 4 kbytes
postcopy request count: 1652
postcopy blocktime: 712
postcopy vcpu blocktime: 0-1,4,10
";
    assert!(is(text.as_bytes()));
    let migration = hmp(text);
    let of = "migration, completed";
    assert_eq!(
        rows(&migration),
        [
            row(of, "total-time", 1, Some(6_522_000_000)),
            row(of, "downtime", 1, Some(16_000_000)),
            row(of, "ram.transferred, KiB", 720_896, None),
            row(of, "ram.duplicate, pages", 508_031, None),
            row(of, "ram.normal, pages", 178_447, None),
            row(of, "ram.dirty-sync-count", 2, None),
            row(of, "ram.postcopy-requests", 1652, None),
            row(of, "postcopy-blocktime", 1, Some(712_000_000)),
        ]
    );
    assert_eq!(migration.parties[0].items[4].pages, Some(178_447));
    assert_eq!(
        notes(&migration),
        [
            "(postcopy-blocktime: of vCPUs, which QEMU sorted and merged)",
            "(ram.mbps: 949.60)",
        ]
    );
}

#[test]
fn the_form_since_10_1_is_read() {
    let text = "\
(qemu) info migrate -a
Status: \t\tpostcopy-active
Time (ms): \t\ttotal=6522, setup=33, down=16
RAM info:
  Throughput (Mbps): \t949.60
  Sizes: \t\tpagesize=4 KiB, total=16 GiB
  Transfers: \t\ttransferred=703 MiB, remain=5.5 GiB
    Channels: \t\tprecopy=111 MiB, multifd=0 B,
postcopy=592 MiB
    Page Types: \tnormal=178447, zero=508031
  Page Rates (pps): \ttransfer=167581
  Others: \t\tdirty_syncs=2, postcopy_req=1652
Globals:
  store-global-state: on
Postcopy Blocktime (ms): 134
Postcopy vCPU Blocktime (ms):
 [1310, 1064, 0,
  1420]
Postcopy Latency (ns): 16075
Postcopy non-vCPU Latencies (ns): 14743
Postcopy vCPU Latencies (ns):
 [24730, 25350]
Postcopy Latency Distribution:
  [     1 us -     2 us ]:          0
  [   256 us -   512 us ]:         40
  [     1 ms -     2 ms ]:          3
  [   524 ms -    1 sec ]:          1
";
    assert!(is(text.as_bytes()));
    let migration = hmp(text);
    let of = "migration, postcopy-active";
    let (mib, gib) = (1 << 20, 1 << 30);
    let rounded =
        |name: &str, bytes| row(of, &format!("{name}, bytes to three digits"), bytes, None);
    assert_eq!(
        rows(&migration),
        [
            row(of, "total-time", 1, Some(6_522_000_000)),
            row(of, "setup-time", 1, Some(33_000_000)),
            row(of, "downtime", 1, Some(16_000_000)),
            rounded("ram.total", 16 * gib),
            rounded("ram.transferred", 703 * mib),
            rounded("ram.remaining", 11 * gib / 2),
            rounded("ram.precopy-bytes", 111 * mib),
            rounded("ram.postcopy-bytes", 592 * mib),
            row(of, "ram.normal, pages", 178_447, None),
            row(of, "ram.duplicate, pages", 508_031, None),
            row(of, "ram.dirty-sync-count", 2, None),
            row(of, "ram.postcopy-requests", 1652, None),
            row(of, "postcopy-blocktime", 1, Some(134_000_000)),
            row(of, "postcopy-latency, mean", 1, Some(16_075)),
            row(of, "postcopy-non-vcpu-latency, mean", 1, Some(14_743)),
            row(of, "of postcopy, 256 us to 512 us", 40, None),
            row(of, "of postcopy, 1024 us to 2048 us", 3, None),
            row(of, "of postcopy, 524288 us to 1048576 us", 1, None),
            row(
                "migration, vCPU 0",
                "postcopy-blocktime",
                1,
                Some(1_310_000_000)
            ),
            row(
                "migration, vCPU 0",
                "postcopy-latency, mean",
                1,
                Some(24_730)
            ),
            row(
                "migration, vCPU 1",
                "postcopy-blocktime",
                1,
                Some(1_064_000_000)
            ),
            row(
                "migration, vCPU 1",
                "postcopy-latency, mean",
                1,
                Some(25_350)
            ),
            row(
                "migration, vCPU 3",
                "postcopy-blocktime",
                1,
                Some(1_420_000_000)
            ),
        ]
    );
    assert_eq!(
        notes(&migration),
        ["(ram.mbps: 949.60)", "(rates/transfer: 167581)"]
    );
    let cut = hmp(text.split_once("\n  1420").unwrap().0);
    assert!(cut.capture.truncated.is_some() && cut.parties.len() == 1);
    for bucket in [
        "[     1 ms",
        "[     1 ms -     2 ms",
        "[     1 ms -     2 ms ]",
    ] {
        let at = text.find(bucket).unwrap() + bucket.len();
        assert!(hmp(&text[..at]).capture.truncated.is_some(), "{bucket}");
    }
    let elided = hmp(&text.replace(" [1310, 1064, 0,\n", " [1310, 1064, 0,\n\n"));
    assert!(
        elided
            .capture
            .unknown
            .contains_key("(postcopy-blocktime: of vCPUs, a list that is not whole)")
    );
    assert!(
        !rows(&elided)
            .iter()
            .any(|row| row.2 == 1 && row.3 == Some(1_310_000_000))
    );
}

#[test]
fn a_title_above_the_status_begins_no_migration() {
    let text = "Sample output:\n\n(qemu) info migrate\nStatus: completed\nTime (ms): total=7, setup=2\nSigned-off-by: A\n";
    let migration = hmp(text);
    let of = "migration, completed";
    assert_eq!(
        rows(&migration),
        [
            row(of, "total-time", 1, Some(7_000_000)),
            row(of, "setup-time", 1, Some(2_000_000)),
        ]
    );
    assert_eq!(
        notes(&migration),
        ["(sample output: )", "(signed-off-by: A)"]
    );
}

const REPLY: &str = r#"{"return": {"status": "completed", "total-time": 6522, "downtime": 16, "ram": {"normal": 178447,
 "page-size": 4096, "transferred": 738197504, "mbps": 949.6, "postcopy-requests": 1652}, "postcopy-blocktime": 134,
 "postcopy-vcpu-blocktime": [1310, 0], "postcopy-latency": 16075, "postcopy-latency-dist": [0, 0, 7], "new-figure": 5}}
"#;

#[test]
fn replies_are_read_with_and_without_their_command() {
    for above in [
        "",
        "{\"execute\": \"query-migrate\"}\n",
        "-> {\"execute\": \"query-migrate\"}\n<- ",
        "(QEMU) query-migrate\n",
        "10:47:07.8+0000: 7: info : qemuMonitorJSONIOProcessLine:240 : QEMU_MONITOR_RECV_REPLY: mon=0x7f reply=",
    ] {
        let text = format!("{above}{REPLY}");
        assert!(is_qmp(text.as_bytes()), "{text}");
        let migration = observe_qmp(text.as_bytes(), Capture::default()).unwrap();
        let of = "migration, completed";
        assert_eq!(
            rows(&migration),
            [
                row(of, "total-time", 1, Some(6_522_000_000)),
                row(of, "downtime", 1, Some(16_000_000)),
                row(of, "ram.normal, pages", 178_447, None),
                row(of, "ram.transferred, bytes", 738_197_504, None),
                row(of, "ram.postcopy-requests", 1652, None),
                row(of, "postcopy-blocktime", 1, Some(134_000_000)),
                row(of, "postcopy-latency, mean", 1, Some(16_075)),
                row(of, "of postcopy, 4 us to 8 us", 7, None),
                row(
                    "migration, vCPU 0",
                    "postcopy-blocktime",
                    1,
                    Some(1_310_000_000)
                ),
            ]
        );
        assert_eq!(notes(&migration), ["(new-figure: 5)", "(ram.mbps: 949.6)"]);
    }
    let error = |from: &str, to: &str| -> ReadError {
        observe_qmp(REPLY.replace(from, to).as_bytes(), Capture::default()).unwrap_err()
    };
    assert_eq!(
        error("6522", "-1").to_string(),
        "line 1: total-time: expected a number below 2^64, found `-1`"
    );
    assert!(
        error("[1310, 0]", "[true]")
            .to_string()
            .contains("a list of numbers")
    );
    assert!(observe_qmp(b"{\"return\": {}}\n", Capture::default()).is_err());
}
