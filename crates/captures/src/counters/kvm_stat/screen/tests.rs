use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Observation {
    super::read(text.as_bytes(), Capture::default()).unwrap()
}

type Figures<'a> = Vec<(Group, &'a str, u64, Option<f64>)>;

fn items(observation: &Observation) -> Figures<'_> {
    let items = observation.parties.iter().flat_map(|party| &party.items);
    items
        .map(|item| (item.group, &*item.name, item.count, item.per_second))
        .collect()
}

#[test]
fn a_screen_has_totals_and_rates_and_children_are_exits() {
    let text = "\
kvm statistics - pid 4711 (demo)
                 regex filter: kvm

 Event                                         Total %Total CurAvg/s
 kvm_entry                                     50000   50.0      900
 kvm_exit                                      49990   50.0      899
   kvm_exit(EPT_VIOLATION)                     40000   80.0      700
 exit_instruction                                276    0.2
   instruction_diag_44                           256   92.8       11
 Total                                        100300            1799
";
    assert!(is(text.as_bytes()));
    let screen = read(text);
    assert_eq!(screen.parties[0].name, "VM 4711 (demo)");
    let expected = [
        (Group::Counters, "kvm_entry", 50_000, Some(900.0)),
        (Group::Counters, "kvm_exit", 49_990, Some(899.0)),
        (Group::Exits, "EPT_VIOLATION", 40_000, Some(700.0)),
        (Group::Counters, "exit_instruction", 276, None),
        (
            Group::Counters,
            "exit_instruction: instruction_diag_44",
            256,
            Some(11.0),
        ),
    ];
    assert_eq!(items(&screen), expected);
    let notes: Vec<_> = screen.capture.unknown.into_iter().collect();
    let notes: Vec<_> = notes
        .iter()
        .map(|(what, count)| (&**what, *count))
        .collect();
    assert_eq!(
        notes,
        [
            ("(counted in Total and in no row)", 34),
            ("(rows that the filter kvm leaves out)", 1)
        ]
    );
}

#[test]
fn the_oldest_screens_and_the_batch_are_read() {
    for text in [
        "      |kvm statistics\n      |exits                  4003074   31272\n      |host_state_reload\t1638354   24893\n",
        "exits   4003074  31272\nhost_state_reload   1638354  24893\n",
        "some prose\nkvm statistics\n\n Event   Total Current\n\n exits 4003074 31272\n host_state_reload 1638354 24893\n",
    ] {
        assert!(is(text.as_bytes()), "{text}");
        let expected = [
            (Group::Counters, "exits", 4_003_074, Some(31_272.0)),
            (
                Group::Counters,
                "host_state_reload",
                1_638_354,
                Some(24_893.0),
            ),
        ];
        assert_eq!(items(&read(text)), expected, "{text}");
    }
    assert!(!is(b"exits 12\n") && !is(b"hello\n") && !is(b"") && !is(b"a b\nc d\n"));
}

#[test]
fn a_second_screen_is_a_party_of_its_own() {
    let screen = " Event Total %Total CurAvg/s\n kvm_exit 10 100.0 5\n";
    let later = screen.replace("10 1", "25 1");
    for text in [
        format!("{screen}{later}"),
        format!("{screen} kvm_exit 25 100.0 5\n"),
    ] {
        let both = read(&text);
        let names: Vec<_> = both.parties.iter().map(|party| &*party.name).collect();
        assert_eq!(names, ["all VMs", "all VMs, screen 2"]);
    }
    let guests = read(" Guest Name Total %Total CurAvg/s\n my vm 10 50.0 5\n other 10 50.0\n");
    let names: Vec<_> = items(&guests).iter().map(|item| item.1).collect();
    assert_eq!(names, ["my vm, all counters", "other, all counters"]);
}

#[test]
fn numbers_that_touch_are_refused_and_what_is_no_row_is_counted() {
    let error = super::read(
        b"exits 1 2\npf_fixed 12345678901234567890\n",
        Capture::default(),
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "line 2: line: expected NAME TOTAL CHANGE, two numbers that do not touch, found `pf_fixed 12345678901234567890`"
    );
    let odd = read("exits 1 2\nperf: 7 events were late\n");
    assert_eq!(odd.capture.left_out.lines, 1);
    let cut = read("exits 1 2\npf_fixed 7 1");
    assert_eq!(items(&cut).len(), 1);
    assert!(cut.capture.truncated.is_some());
}

/// A layout that kvm_stat has had.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Oldest,
    Batch,
    Current,
    Shares,
    Children,
}

/// Damage that a paste has.
#[derive(Clone, Debug)]
enum Damage {
    None,
    Quoted,
    Barred,
    Prompt,
    Returns,
    Elided(usize),
    Cut(usize),
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

fn damaged(text: String, damage: &Damage) -> String {
    let lines = |prefix: &str| {
        text.lines()
            .map(|line| format!("{prefix}{line}\n"))
            .collect()
    };
    match damage {
        Damage::None => text,
        Damage::Quoted => lines("> "),
        Damage::Barred => lines("|"),
        Damage::Prompt => format!("root@host1:~# kvm_stat\n{text}root@host1:~# "),
        Damage::Returns => text.replace('\n', "\r\n"),
        Damage::Elided(at) => {
            let count = text.lines().count();
            let elided = text.lines().enumerate().map(|(number, line)| match number {
                number if number == at % count => "[...]\n".to_owned(),
                _ => format!("{line}\n"),
            });
            elided.collect()
        }
        Damage::Cut(at) => text[..at % (text.len() + 1)].to_owned(),
    }
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

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::None),
        Just(Damage::Quoted),
        Just(Damage::Barred),
        Just(Damage::Prompt),
        Just(Damage::Returns),
        any::<usize>().prop_map(Damage::Elided),
        any::<usize>().prop_map(Damage::Cut),
    ]
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
        damage in damage(),
    ) {
        parents.push(("kvm_exit".to_owned(), exits.iter().map(|row| row.1).sum(), 9));
        let text = damaged(print(&parents, &exits, layout), &damage);
        let observed = crate::observe(
            "f",
            std::io::Cursor::new(text.as_bytes()),
            &pagetoll_xentrace::symbols::Symbols::default(),
        );
        let Ok(observed) = observed else {
            prop_assert!(matches!(damage, Damage::Cut(_) | Damage::Elided(_)), "{text}");
            return Ok(());
        };
        prop_assert_eq!(&observed.capture.format, "kvm_stat");
        let found = items(&observed);
        let counters = parents.iter().map(|row| (Group::Counters, row.0.clone(), row));
        let of_reasons = exits.iter().map(|row| (Group::Exits, row.0.clone(), row));
        let mut missing = 0;
        for (group, name, (_, count, rate)) in counters.chain(of_reasons) {
            if *count == 0 {
                continue;
            }
            let item = found.iter().find(|item| (item.0, item.1) == (group, &*name));
            let Some((_, _, found, per_second)) = item else {
                missing += 1;
                continue;
            };
            prop_assert_eq!(*found, u64::try_from(*count).unwrap(), "{}", text);
            let rate = Some(super::rate(*rate)).filter(|rate| *rate > 0.0);
            prop_assert_eq!(per_second.filter(|rate| *rate > 0.0), rate, "{}", text);
        }
        let may_lack = matches!(damage, Damage::Cut(_) | Damage::Elided(_));
        prop_assert!(missing == 0 || may_lack, "{missing} of {text}");
        let said = observed.capture.truncated.is_some()
            || !observed.capture.left_out.is_none()
            || !observed.capture.unknown.is_empty();
        let between_lines = matches!(damage, Damage::Cut(_)) && text.trim_end_matches(' ').ends_with('\n');
        prop_assert!(missing == 0 || said || between_lines, "{missing} of {text}");
    }
}

#[test]
fn the_first_row_of_a_screen_that_is_indented_as_a_whole_is_no_child() {
    let screen = read(
        "    Event  Total %Total CurAvg/s\n    exit_instruction 276 100.0 12\n      instruction_diag_44 256 92.8 11\n    Total 276 12\n",
    );
    let found = items(&screen);
    let names: Vec<_> = found.iter().map(|item| item.1).collect();
    assert_eq!(
        names,
        ["exit_instruction", "exit_instruction: instruction_diag_44"]
    );
    assert!(screen.capture.unknown.is_empty(), "{:?}", screen.capture);
}
