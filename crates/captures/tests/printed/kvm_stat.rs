//! Screens of kvm_stat.

use pagetoll_captures::observe;
use pagetoll_observation::Group;
use pagetoll_xentrace::symbols::Symbols;
use proptest::prelude::*;

use super::{Damage, losses};

/// A layout that kvm_stat has had.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Oldest,
    Batch,
    Current,
    Shares,
    Children,
}

type Truth = Vec<(String, i64, i64)>;

fn print(parents: &Truth, exits: &Truth, layout: Layout) -> String {
    let mut text = match layout {
        Layout::Oldest => "kvm statistics\n".to_owned(),
        Layout::Batch => String::new(),
        Layout::Current => format!(" {:<40} {:>10} {:>8}\n", "Event", "Total", "Current"),
        Layout::Shares | Layout::Children => format!(
            "kvm statistics - summary\n\n {:<40} {:>10}{:>7} {:>8}\n",
            "Event", "Total", "%Total", "CurAvg/s"
        ),
    };
    let total: i64 = parents.iter().map(|row| row.1).sum();
    let row = |name: &str, value: i64, rate: i64| {
        let shown = match rate {
            0 => String::new(),
            rate => rate.to_string(),
        };
        match layout {
            Layout::Batch => format!("{name:<42}{value:10}{rate:10}\n"),
            Layout::Oldest | Layout::Current => format!(" {name:<40}{value:10}{rate:8}\n"),
            Layout::Shares | Layout::Children => {
                format!(" {name:<40} {value:10}{:7.1} {shown:>8}\n", 12.5)
            }
        }
    };
    for (name, value, rate) in parents {
        text += &row(name, *value, *rate);
        if name == "kvm_exit" {
            for (name, value, rate) in exits {
                let indent = if matches!(layout, Layout::Children) {
                    "  "
                } else {
                    ""
                };
                text += &row(&format!("{indent}kvm_exit({name})"), *value, *rate);
            }
        }
    }
    if matches!(layout, Layout::Children) {
        text += &format!(" {:<40} {total:10}        {:>8}\n", "Total", 7);
    }
    text
}

fn truth() -> impl Strategy<Value = Truth> {
    let names =
        prop::collection::btree_map("kvm_[a-z_]{1,9}", (0..1_i64 << 33, 0..99_999_i64), 1..5);
    names.prop_map(|rows| {
        let rows = rows
            .into_iter()
            .map(|(name, (value, rate))| (name, value + rate, rate));
        rows.collect()
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Oldest),
        Just(Layout::Batch),
        Just(Layout::Current),
        Just(Layout::Shares),
        Just(Layout::Children),
    ]
}

proptest! {
    /// Every screen gives what was counted, or says that something is missing. Where it is cut between two lines, or its
    /// heading was, nothing can tell.
    #[test]
    fn what_is_printed_is_read_or_missing_by_name(
        mut parents in truth(),
        exits in truth(),
        layout in layout(),
        damage in losses("|"),
    ) {
        parents.push(("kvm_exit".to_owned(), exits.iter().map(|row| row.1).sum(), 9));
        let text = damage.to(&print(&parents, &exits, layout));
        let observed = observe("f", std::io::Cursor::new(text.as_bytes()), &Symbols::default());
        let Ok(observed) = observed else {
            prop_assert!(damage.loses_lines(), "{text}");
            return Ok(());
        };
        prop_assert_eq!(&observed.capture.format, "kvm_stat");
        let counters = parents.iter().map(|row| (Group::Counters, row.0.clone(), row));
        let of_reasons = exits.iter().map(|row| (Group::Exits, row.0.clone(), row));
        let mut missing = 0;
        for (group, name, (_, count, rate)) in counters.chain(of_reasons) {
            if *count == 0 {
                continue;
            }
            let item = observed.items().find(|item| item.group == group && item.name == name);
            let Some(item) = item else {
                missing += 1;
                continue;
            };
            prop_assert_eq!(item.count, u64::try_from(*count).unwrap(), "{}", text);
            let rate = Some(f64::from(u32::try_from(*rate).unwrap())).filter(|rate| *rate > 0.0);
            prop_assert_eq!(item.per_second.filter(|rate| *rate > 0.0), rate, "{}", text);
        }
        prop_assert!(missing == 0 || damage.loses_lines(), "{missing} of {text}");
        let said = observed.capture.truncated.is_some()
            || !observed.capture.left_out.is_none()
            || !observed.capture.unknown.is_empty();
        let between_lines = matches!(damage, Damage::Cut(_)) && text.trim_end_matches(' ').ends_with('\n');
        prop_assert!(missing == 0 || said || between_lines, "{missing} of {text}");
    }
}
