use super::*;

fn read(text: &str) -> Observation {
    super::read(text.as_bytes(), Capture::default()).unwrap()
}

type Figures<'a> = Vec<(Group, &'a str, u64, Option<f64>)>;

fn items(observation: &Observation) -> Figures<'_> {
    observation
        .items()
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
