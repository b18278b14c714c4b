use super::*;

fn read(text: &str) -> Result<Observation, ReadError> {
    observe(text.as_bytes(), Capture::default())
}

fn rows(observation: &Observation) -> Vec<(&str, u64)> {
    let items = observation.items();
    items.map(|item| (&*item.name, item.count)).collect()
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn a_summary_has_counts_and_seconds() {
    let text = "\
 Performance counter stats for 'system wide' (5 runs):

         3,358,451      kvm:kvm_exit              #  335.8 K/sec   ( +-  0.50% )  (75.00%)
     <not counted>      kvm:kvm_entry
   <not supported>      kvmmmu:fast_page_fault
         40,012.34 msec task-clock                #    4.0 CPUs utilized
              1.50 Joules power/energy-pkg/
            34,863      kvmmmu:kvm_mmu_set_spte   web
                12      cycles

           10.0012 +- 0.0005 seconds time elapsed  ( +-  0.01% )

";
    assert!(is(text.as_bytes()));
    let stat = read(text).unwrap();
    let expected = [
        ("kvm_exit", 3_358_451),
        ("task-clock", 1),
        ("kvm_mmu_set_spte", 34_863),
        ("cycles", 12),
    ];
    assert_eq!(rows(&stat), expected);
    let party = &stat.parties[0];
    assert_eq!(
        (&*party.name, party.seconds),
        ("system wide, mean of 5 runs", Some(10.0012))
    );
    let time = &party.items[1];
    assert_eq!(
        (time.group, time.nanos),
        (Group::Times, Some(40_012_340_000))
    );
    assert_eq!(party.per_second(time), None);
    let notes: Vec<_> = stat.capture.unknown.keys().map(|what| &**what).collect();
    assert_eq!(
        notes,
        [
            "(counts that perf estimated: the event did not run all the time)",
            "(kvm:kvm_entry: <not counted> )",
            "(kvmmmu:fast_page_fault: <not supported> )",
            "(power/energy-pkg/: 1.50 Joules)",
        ]
    );
}

#[test]
fn intervals_are_summed() {
    let text = "\
#           time             counts unit events
     1.000123456              5,000      kvm:kvm_exit
     1.000123456                 20      kvm:kvm_exit
     2.000234567              6,001      kvm:kvm_exit
     2.000234567                  1      kvm:kvm_exit
^C   2.500234567      <not counted>      kvm:kvm_entry

 Performance counter stats for 'system wide':

            11,001      kvm:kvm_exit

       2.500234567 seconds time elapsed
";
    let stat = read(text).unwrap();
    assert_eq!(
        rows(&stat),
        [("kvm_exit", 11_001), ("kvm_exit", 21), ("kvm_exit", 11_001)]
    );
    let seconds: Vec<_> = stat.parties.iter().map(|party| party.seconds).collect();
    assert_eq!(seconds, [Some(2.000_234_567), Some(2.500_234_567)]);
    assert_eq!(stat.capture.left_out.lines, 1);
}

#[test]
fn csv_is_read_by_its_separator() {
    for text in [
        "3358451,,kvm:kvm_exit,40001234567,100.00,,\n<not counted>,,kvm:kvm_entry,0,0.00,,\n",
        "3358451;;kvm:kvm_exit;0.50%;40001234567;100.00;;\n",
        "1.000123456,3358450,,kvm:kvm_exit,1,100.00,,\n2.000123456,1,,kvm:kvm_exit,1,100.00,,\n",
        "# started on Fri Nov 27 00:00:00 2026\n\n3358451\t\tkvm:kvm_exit\tweb\t40001234567\t100.00\t\t\n",
    ] {
        assert!(is(text.as_bytes()), "{text}");
        let stat = read(text).unwrap();
        assert_eq!(rows(&stat), [("kvm_exit", 3_358_451)], "{text}");
    }
    let scaled = read("7,,kvm:kvm_exit,40,75.00,,\n").unwrap();
    assert_eq!(scaled.capture.unknown.values().sum::<u64>(), 1);
}

#[test]
fn parts_of_the_whole_are_refused_with_their_option() {
    for (text, option) in [
        (
            "S0        4          1,234      kvm:kvm_exit",
            "--per-socket",
        ),
        (
            "S0-D0-C3  2          1,234      kvm:kvm_exit",
            "--per-core or --per-die",
        ),
        ("N1        4          1,234      kvm:kvm_exit", "--per-node"),
        ("CPU12                1,234      kvm:kvm_exit", "--no-aggr"),
        (
            "      CPU 0/KVM-4711      1,234      kvm:kvm_exit",
            "--per-thread",
        ),
        (
            "S0,4,1234,,kvm:kvm_exit,40001234567,100.00,,",
            "--per-socket",
        ),
        (
            "1.000123456,CPU0,1234,,kvm:kvm_exit,40001234567,100.00,,",
            "--no-aggr",
        ),
        (
            "#           time CPU                    counts unit events",
            "--no-aggr",
        ),
        (
            "#           time node   cpus             counts unit events",
            "--per-socket or another --per-",
        ),
        (
            "     1.000123456 S0        4              1,234      kvm:kvm_exit",
            "--per-socket",
        ),
    ] {
        let message = refused(&format!("Performance counter stats for 'x':\n{text}\n"));
        assert!(
            message.starts_with(&format!("line 2: rows: of {option}; expected")),
            "{text}: {message}"
        );
    }
    assert!(is(b"S0,4,1234,,kvm:kvm_exit,40001234567,100.00,,\n"));
}

#[test]
fn errors_name_line_and_event() {
    let error = refused("Performance counter stats for 'x':\n 1,23 kvm:kvm_exit\n");
    assert_eq!(
        error,
        "line 2: kvm:kvm_exit: expected a whole number, in groups of three digits or in none, found `1,23`"
    );
    assert!(
        refused("Performance counter stats for 'x':\n")
            .contains("none; expected counts of perf stat")
    );
    let whole =
        read("Performance counter stats for 'x':\n 7 kvm:kvm_exit\n 2.5 seconds time elapsed")
            .unwrap();
    assert_eq!(
        (whole.parties[0].seconds, whole.capture.truncated),
        (Some(2.5), None)
    );
}
