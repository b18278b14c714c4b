//! Migrations, as the monitors of QEMU print them.

use pagetoll_captures::observe;
use pagetoll_xentrace::symbols::Symbols;
use proptest::prelude::*;

/// Figures of a migration that both forms of the monitor print.
#[derive(Clone, Debug)]
struct Truth {
    total: u64,
    down: u64,
    normal: u64,
    zero: u64,
    requests: u64,
    blocktimes: Vec<u64>,
    dist: Vec<u64>,
}

fn old_form(truth: &Truth) -> String {
    format!(
        "Migration status: completed\ntotal time: {} ms\ndowntime: {} ms\nduplicate: {} pages\nnormal: {} pages\n\
         postcopy request count: {}\n",
        truth.total, truth.down, truth.zero, truth.normal, truth.requests
    )
}

fn new_form(truth: &Truth) -> String {
    let mut text = format!(
        "Status: \t\tcompleted\nTime (ms): \t\ttotal={}, down={}\nRAM info:\n    Page Types: \tnormal={}, zero={}\n  \
         Others: \t\tdirty_syncs=2, postcopy_req={}\nPostcopy vCPU Blocktime (ms):\n [",
        truth.total, truth.down, truth.normal, truth.zero, truth.requests
    );
    for (vcpu, time) in truth.blocktimes.iter().enumerate() {
        text += match vcpu {
            0 => "",
            vcpu if vcpu % 10 == 0 => ",\n  ",
            _ => ", ",
        };
        text += &time.to_string();
    }
    text += "]\nPostcopy Latency Distribution:\n";
    for (power, count) in truth.dist.iter().enumerate() {
        let shown = |us: u64| match us {
            0..1000 => format!("{us} us"),
            1000..1_000_000 => format!("{} ms", us / 1000),
            _ => format!("{} sec", us / 1_000_000),
        };
        text += &format!(
            "  [ {:>8} - {:>8} ]: {count:10}\n",
            shown(1 << power),
            shown(2 << power)
        );
    }
    text
}

fn reply(truth: &Truth) -> String {
    format!(
        "{{\"return\": {{\"status\": \"completed\", \"total-time\": {}, \"downtime\": {}, \"ram\": {{\"normal\": {}, \"duplicate\": {},\n \
         \"postcopy-requests\": {}}}, \"postcopy-vcpu-blocktime\": {:?}, \"postcopy-latency-dist\": {:?}}}}}\n",
        truth.total,
        truth.down,
        truth.normal,
        truth.zero,
        truth.requests,
        truth.blocktimes,
        truth.dist
    )
}

fn truth() -> impl Strategy<Value = Truth> {
    (
        [
            1..1_u64 << 40,
            1..1_u64 << 40,
            1..1_u64 << 40,
            1..1_u64 << 40,
            1..1_u64 << 40,
        ],
        prop::collection::vec(1..1_u64 << 30, 1..25),
        prop::collection::vec(1..1_u64 << 30, 1..24),
    )
        .prop_map(
            |([total, down, normal, zero, requests], blocktimes, dist)| Truth {
                total,
                down,
                normal,
                zero,
                requests,
                blocktimes,
                dist,
            },
        )
}

proptest! {
    /// Each form, quoted, below a prompt, with CRLF, or cut: every figure is the truth, and where one is missing, the cut is said.
    #[test]
    fn what_is_printed_is_read_or_missing_by_name(truth in truth(), form in 0..3_u8, damage in 0..5_u8, cut in any::<usize>()) {
        let text = match form {
            0 => old_form(&truth),
            1 => new_form(&truth),
            _ => reply(&truth),
        };
        let lines = text.lines().count();
        let text = match damage {
            0 => text,
            1 => text.lines().map(|line| format!("> {line}\n")).collect(),
            2 => format!("(qemu) info migrate\n{text}(qemu) "),
            3 => text.replace('\n', "\r\n"),
            _ => text[..cut % (text.len() + 1)].to_owned(),
        };
        let Ok(observed) = observe("f", std::io::Cursor::new(text.as_bytes()), &Symbols::default()) else {
            prop_assert!(damage == 4, "{text}");
            return Ok(());
        };
        let mut expected = vec![
            ("total-time".to_owned(), 1, Some(truth.total * 1_000_000)),
            ("downtime".to_owned(), 1, Some(truth.down * 1_000_000)),
            ("ram.normal, pages".to_owned(), truth.normal, None),
            ("ram.duplicate, pages".to_owned(), truth.zero, None),
            ("ram.postcopy-requests".to_owned(), truth.requests, None),
        ];
        if form > 0 {
            for time in &truth.blocktimes {
                expected.push(("postcopy-blocktime".to_owned(), 1, Some(time * 1_000_000)));
            }
            for (power, count) in truth.dist.iter().enumerate() {
                let name = format!("of postcopy, {} us to {} us", 1_u64 << power, 2_u64 << power);
                expected.push((name, *count, None));
            }
        }
        let found = observed.items().map(|item| (item.name.clone(), item.count, item.nanos));
        let found: Vec<_> = found.collect();
        for item in &found {
            prop_assert!(item.0 == "ram.dirty-sync-count" || expected.contains(item), "{item:?} of {text}");
        }
        let whole = expected.iter().all(|item| found.contains(item));
        let is_shorter = text.lines().filter(|line| !line.trim().is_empty()).count() < lines;
        let between_lines = damage == 4 && is_shorter && text.trim_end_matches([' ', '\t']).ends_with('\n');
        let at_a_unit = damage == 4 && is_shorter && text.trim_end().ends_with([']', 's']);
        let said = observed.capture.truncated.is_some() || !observed.capture.unknown.is_empty();
        prop_assert!(whole || damage == 4, "{text}");
        prop_assert!(whole || said || between_lines || at_a_unit, "{text}");
    }
}
