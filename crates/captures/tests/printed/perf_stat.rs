//! Counts of perf stat.

use pagetoll_captures::observe;
use pagetoll_observation::Observation;
use pagetoll_xentrace::symbols::Symbols;
use proptest::prelude::*;

use super::{Damage, losses};

fn rows(observation: &Observation) -> Vec<(&str, u64)> {
    let items = observation.items();
    items.map(|item| (&*item.name, item.count)).collect()
}

/// A layout of perf stat.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Text,
    Runs,
    Intervals,
    Csv(char),
    CsvIntervals,
}

fn grouped(number: u64, separator: &str) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text += separator;
        }
        text.push(digit);
    }
    text
}

fn print(counts: &[(String, u64)], layout: Layout, separator: &str) -> String {
    let row = |time: &str, event: &str, count: u64| {
        let count = grouped(count, separator);
        format!("{time}{count:>18}      kvm:{event:<32} ( +-  0.10% )\n")
    };
    let csv = |time: &str, s: char, event: &str, count: u64| {
        format!("{time}{count}{s}{s}kvm:{event}{s}4000{s}100.00{s}{s}\n")
    };
    let mut text = match layout {
        Layout::Text => "\n Performance counter stats for 'system wide':\n\n".to_owned(),
        Layout::Runs => "\n Performance counter stats for 'sleep 10' (3 runs):\n\n".to_owned(),
        Layout::Intervals => "#           time             counts unit events\n".to_owned(),
        Layout::Csv(_) | Layout::CsvIntervals => String::new(),
    };
    for (event, count) in counts {
        text += &match layout {
            Layout::Text | Layout::Runs => row("", event, *count),
            Layout::Csv(separator) => csv("", separator, event, *count),
            Layout::Intervals => row("     1.000123456 ", event, count / 3),
            Layout::CsvIntervals => csv("     1.000123456,", ',', event, count / 3),
        };
    }
    for (event, count) in counts {
        text += &match layout {
            Layout::Intervals => row("     2.000123456 ", event, count - count / 3),
            Layout::CsvIntervals => csv("     2.000123456,", ',', event, count - count / 3),
            _ => String::new(),
        };
    }
    match layout {
        Layout::Text => text + "\n       2.000123456 seconds time elapsed\n\n",
        Layout::Runs => {
            text + "\n           2.000123 +- 0.000012 seconds time elapsed  ( +-  0.02% )\n"
        }
        _ => text,
    }
}

/// The text with its damage; a mailer breaks rows before their deviation.
fn damaged(text: &str, damage: Damage) -> String {
    match damage {
        Damage::Wrapped => text.replace(" ( +-", "\n( +-"),
        damage => damage.to(text),
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Text),
        Just(Layout::Runs),
        Just(Layout::Intervals),
        prop_oneof![Just(','), Just(';'), Just('|')].prop_map(Layout::Csv),
        Just(Layout::CsvIntervals),
    ]
}

proptest! {
    /// Every layout gives what was counted, or less with a word. Where a text is cut between lines, nothing can tell.
    #[test]
    fn what_is_printed_is_read_or_missing_by_name(
        counts in prop::collection::btree_map("kvm_[a-z_]{1,9}", 1..1_u64 << 45, 1..6),
        layout in layout(),
        damage in prop_oneof![7 => losses("#"), 1 => Just(Damage::Wrapped)],
        separator in prop_oneof![Just(""), Just(","), Just("."), Just(" "), Just("\u{202f}"), Just("\u{2019}")],
    ) {
        let counts: Vec<_> = counts.into_iter().collect();
        // Only a summary is copied as a comment: lines of the others begin with the sign themselves, or with a count.
        let damage = match (layout, damage) {
            (Layout::Text | Layout::Runs, damage) => damage,
            (_, Damage::Prefixed(_)) => Damage::Quoted,
            (_, damage) => damage,
        };
        let text = damaged(&print(&counts, layout, separator), damage);
        let observed = observe("f", std::io::Cursor::new(text.as_bytes()), &Symbols::default());
        let Ok(observed) = observed else {
            prop_assert!(damage.loses_lines(), "{text}: {observed:?}");
            return Ok(());
        };
        prop_assert_eq!(&observed.capture.format, "perf stat", "{}", text);
        let said = damage.loses_lines() && (observed.capture.truncated.is_some()
            || !observed.capture.left_out.is_none()
            || !observed.capture.unknown.is_empty()
            || matches!(damage, Damage::Cut(_)) && text.trim_end().len() + 1 < print(&counts, layout, separator).len());
        let found = rows(&observed);
        for (name, count) in &counts {
            let read = found.iter().find(|row| row.0 == name).map(|row| row.1);
            match read {
                Some(read) if read == *count => {}
                read => prop_assert!(said && read.is_none_or(|read| read < *count), "{name} {count} {read:?}: {text}"),
            }
        }
        let seconds = observed.parties.first().and_then(|party| party.seconds);
        let has_seconds = seconds.is_some_and(|seconds| (seconds - 2.000_123).abs() < 1e-5);
        prop_assert!(has_seconds || said || matches!(layout, Layout::Csv(_)), "{seconds:?}: {text}");
    }
}
