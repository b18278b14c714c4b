//! The sample bill in every form.

use pagetoll_bill::row::{Operation, RowKey};
use pagetoll_bill::{Bill, HostLoad, Role, Unavailable};

use super::{golden, samples};
use crate::{Format, Width};

fn rendered(bill: &Bill, format: Format) -> String {
    crate::bill(bill, format, Width::Unlimited).unwrap()
}

fn narrow(bill: &Bill) -> String {
    crate::bill(bill, Format::Text, Width::Columns(60)).unwrap()
}

#[test]
fn the_sample_in_every_format_has_a_golden_text() {
    for format in Format::ALL {
        let name = format!("sample-bill.{}", format.extension());
        golden(&name, &rendered(&samples::sample(), format));
    }
    golden("sample-bill-60.txt", &narrow(&samples::sample()));
}

#[test]
fn measured_modelled_and_shaped_rows_have_golden_texts() {
    let text = |bill| rendered(&bill, Format::Text);
    golden("demand-live.txt", &text(samples::demand_live()));
    golden("demand-sim.txt", &text(samples::demand_sim()));
    golden("pin.txt", &text(samples::pin()));
}

#[test]
fn a_saved_bill_is_read_back_to_the_very_numbers() {
    for bill in samples::all() {
        let again: Bill = serde_json::from_str(&rendered(&bill, Format::Json)).unwrap();
        assert_eq!(again, bill);
    }
}

#[test]
fn two_kernels_are_compared_with_the_first() {
    let mut bill = samples::sample();
    let mut fixed = bill.rows.clone();
    for row in &mut bill.rows {
        row.key.kernel = Some("fix:none".into());
    }
    for row in &mut fixed {
        row.key.kernel = Some("fix:a".into());
        if let Some(figures) = row.figures_mut() {
            figures.cost_per_page /= 2.0;
        }
    }
    bill.rows.extend(fixed);
    let text = rendered(&bill, Format::Text);
    let of_fix = |line: &&str| line.starts_with("  munmap-zero") && line.contains("fix:a");
    let line = text.lines().find(of_fix).unwrap();
    assert!(
        line.contains("2.00x") && line.ends_with("-50.00 %"),
        "{line}"
    );
    let costs = text.lines().find(|line| line.contains("3.73x")).unwrap();
    assert!(costs.contains("  fix:none  "), "{costs}");
}

#[test]
fn the_backend_is_printed_and_decides_nothing() {
    for bill in samples::all() {
        for &backend in pagetoll_bill::Backend::ALL {
            let other = Bill {
                backend,
                ..bill.clone()
            };
            let lines = |bill: &Bill| {
                let text = rendered(bill, Format::Text);
                let lines = text.lines().skip(1).map(str::to_owned);
                let lines = lines.filter(|line| !line.starts_with("  backend "));
                lines.collect::<Vec<_>>()
            };
            assert_eq!(lines(&other), lines(&bill), "{} on {backend}", bill.route);
        }
    }
}

#[test]
fn a_single_run_has_no_deviation_and_a_bill_without_rows_is_still_printed() {
    let mut single = samples::sample();
    for figures in single.rows.iter_mut().filter_map(|row| row.figures_mut()) {
        figures.stddev = None;
    }
    assert!(!rendered(&single, Format::Text).contains("+-"));
    single.rows.clear();
    // Of nothing there is no picture.
    for format in Format::ALL
        .into_iter()
        .filter(|format| *format != Format::Svg)
    {
        let text = rendered(&single, format);
        assert!(text.contains("unmap") || format == Format::Csv, "{text}");
    }
}

#[test]
fn every_line_of_the_csv_has_a_cell_for_each_column_and_every_row_its_key() {
    for bill in samples::all() {
        let text = rendered(&bill, Format::Csv);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let records: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
        assert_eq!(records.len(), bill.rows.len());
        let key = |record: &::csv::StringRecord| {
            let cells = record.iter().skip(4).take(10);
            cells.collect::<Vec<_>>().join(",")
        };
        let keys: std::collections::HashSet<_> = records.iter().map(key).collect();
        assert_eq!(keys.len(), bill.rows.len());
    }
}

#[test]
fn a_spreadsheet_finds_no_formula() {
    let mut bill = samples::sample();
    bill.rows[0].key.kernel = Some("=cmd|' /C calc'!A0".into());
    bill.stack.insert("linux".into(), "@SUM(A1)".into());
    let text = rendered(&bill, Format::Csv);
    assert!(text.contains(",'=cmd|"), "{text}");
    assert!(text.contains(",'@SUM(A1)"));
    assert!(!text.contains(",@") && !text.contains(",="));
}

#[test]
fn a_busy_host_is_warned_of_and_an_idle_one_is_not() {
    let with = |others| {
        let mut bill = samples::sample();
        let load = HostLoad {
            load_average: 0.3,
            others,
            steal: 0.0,
        };
        bill.provenance.inputs.host_load = Some(load);
        rendered(&bill, Format::Text)
    };
    let idle = with(0.02);
    assert!(
        idle.contains("host load  0.3 before the run, 2 % taken by others, 0 % stolen"),
        "{idle}"
    );
    assert!(!idle.contains("warning"));
    assert!(with(0.1).contains("warning    the host was busy"));
}

#[test]
fn guest_ram_is_a_line_of_its_own() {
    let mut bill = samples::sample();
    bill.stack.insert("guest-ram".into(), "900 MiB".into());
    let text = rendered(&bill, Format::Text);
    assert!(text.contains("guest RAM  900 MiB"), "{text}");
    assert!(!text.contains("guest-ram"));
}

#[test]
fn a_row_without_figures_says_why() {
    let mut bill = samples::demand_live();
    let exit = bill.rows.iter_mut().find(|row| row.role() == Role::After);
    exit.unwrap().result = Err(Unavailable("no userfaultfd".into()));
    let text = rendered(&bill, Format::Text);
    assert!(text.contains("none (1)"), "{text}");
    assert!(text.contains("(1) unavailable: no userfaultfd"));
}

#[test]
fn the_selftest_is_beside_the_row_of_the_same_order() {
    let bill = samples::demand_live();
    let theirs = bill
        .rows
        .iter()
        .find(|row| row.key.operation == Operation::DemandPagingTest);
    let own = RowKey {
        operation: Operation::PageIn,
        ..theirs.unwrap().key.clone()
    };
    assert!(bill.row(&own).is_some());
    let text = rendered(&bill, Format::Text);
    let beside = text.split("Beside the kernel's own").nth(1).unwrap();
    assert!(
        beside.contains("8000 +- 12") && beside.contains("1.24x"),
        "{beside}"
    );
}
