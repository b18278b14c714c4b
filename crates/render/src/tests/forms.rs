//! The sample bill in every form.

use pagetoll_bill::row::{Operation, RowKey};
use pagetoll_bill::{Bill, HostLoad, Role, Row, Unavailable};

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
    golden("restore-live.txt", &text(samples::restore_live()));
    golden("discard-live.txt", &text(samples::discard_live()));
    golden("dirty-live.txt", &text(samples::dirty_live()));
    golden("migrate-live.txt", &text(samples::migrate_live()));
    golden("demand-sim.txt", &text(samples::demand_sim()));
    golden("pin.txt", &text(samples::pin()));
}

#[test]
fn rounds_over_time_are_drawn_on_a_page_alone() {
    let page = rendered(&samples::dirty_live(), Format::Html);
    assert_eq!(page.matches("ms since rewriting began").count(), 4);
    golden("dirty-live.html", &page);
    let text = rendered(&samples::dirty_live(), Format::Text);
    assert!(!text.contains("rounds that rewrite"));
}

#[test]
fn a_saved_bill_is_read_back_to_the_very_numbers() {
    for bill in samples::all() {
        let again: Bill = serde_json::from_str(&rendered(&bill, Format::Json)).unwrap();
        assert_eq!(again, bill);
    }
}

/// The second costs half of the first.
fn on_two_kernels() -> Bill {
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
    bill
}

#[test]
fn two_kernels_are_compared_with_the_first_in_one_notation() {
    let text = rendered(&on_two_kernels(), Format::Text);
    let of_fix = |line: &&str| line.starts_with("  munmap-zero") && line.contains("fix:a");
    let line = text.lines().find(of_fix).unwrap();
    assert!(
        line.matches("-50.00 %").count() == 2 && !line.contains("2.00x"),
        "{line}"
    );
    let costs = text.lines().find(|line| line.contains("3.73x")).unwrap();
    assert!(costs.contains("  fix:none  "), "{costs}");
    let page = rendered(&on_two_kernels(), Format::Html);
    assert!(
        page.contains("-50.00 % on fix:a against fix:none"),
        "{page}"
    );
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
            let cells = record.iter().skip(4).take(13);
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
            waited: None,
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
    assert!(
        text.contains(
            "Rows without figures\n  page-in exit, 1 vCPUs, ring 3, kvm-guest: no userfaultfd\n"
        ),
        "{text}"
    );
}

#[test]
fn rows_without_figures_are_a_line_for_each_reason_below_those_with() {
    let mut bill = on_two_kernels();
    let of_first = |row: &&mut Row| row.key.kernel.as_deref() == Some("fix:none");
    for row in bill.rows.iter_mut().filter(of_first) {
        row.result = Err(Unavailable("the suite has no headers".into()));
    }
    for format in [Format::Text, Format::Md, Format::Html] {
        let text = rendered(&bill, format);
        let reason = text.find("the suite has no headers").unwrap();
        let costs = text.find("what each mechanism costs").unwrap();
        assert!(costs < reason, "{format}: {text}");
        assert_eq!(
            text.matches("the suite has no headers").count(),
            1,
            "{format}"
        );
        let named = text[..reason].ends_with("all 24 rows of fix:none: ");
        assert!(named, "{format}: {}", &text[reason - 200..reason]);
    }
}

/// Nothing of a batch is compared with another mechanism's at a smaller one.
#[test]
fn gains_are_those_of_the_same_batch_and_those_of_batches_are_apart() {
    let bill = samples::demand_sim();
    for format in [Format::Text, Format::Md, Format::Html] {
        let text = rendered(&bill, format);
        assert!(text.contains("over uffd at batch 16: exit 1.14x"), "{text}");
        // 660378 pages/s of exit at batch 16, 150268 of uffd at batch 1.
        assert!(!text.contains("4.39x"), "{format}: {text}");
    }
    let md = rendered(&bill, Format::Md);
    assert!(
        md.contains("\n- gain with 1 vCPU, 1 reader: over uffd: exit 1.90x, exit-on-missing 2.27x (not in released kernels);"),
        "{md}"
    );
    let page = rendered(&bill, Format::Html);
    let head = &page[..page.find("</dl>").unwrap()];
    for fact in [
        "<dt>gain with 1 vCPU, 1 reader</dt><dd>over uffd: exit 1.90x, exit-on-missing 2.27x (not in released kernels); over uffd at batch 16: exit 1.14x",
        "<dt>gain of batch 16 with 32 vCPUs, 32 readers</dt><dd>uffd 17.53x, exit 3.32x",
    ] {
        assert!(head.contains(fact), "{head}");
    }
}

/// The reference of gains, and the toll that limits, are those of the number of readers that costs least.
#[test]
fn the_headline_takes_the_best_number_of_readers_and_names_it() {
    let mut bill = samples::demand_sim();
    let mut rows = bill.rows.iter();
    let of_uffd = rows.find(|row| row.key.readers == Some(32) && row.key.batch == 1);
    let mut best = of_uffd.unwrap().clone();
    best.key.readers = Some(1);
    let figures = best.figures_mut().unwrap();
    figures.cost_per_page /= 4.0;
    let tolls = figures.tolls.iter_mut();
    tolls.for_each(|toll| toll.cost_each /= 4.0);
    let rate = figures.rate.as_mut().unwrap();
    rate.pages_per_second *= 4.0;
    bill.rows.push(best);
    let md = rendered(&bill, Format::Md);
    // A quarter of the gains over 32 readers; at batch 16 there is but the one number.
    for said in [
        "- gain with 32 vCPUs, 1 reader: over uffd: exit 3.50x, exit-on-missing 6.31x (not in released kernels); \
         over uffd at batch 16, 32 readers: exit 2.65x, ",
        "- gain of batch 16 with 32 vCPUs, 1 reader: uffd 4.38x, exit 3.32x, ",
        " of uffd with 32 vCPUs, 1 reader: ",
        "\n- 32 vCPUs, 1 reader: the largest toll of uffd is ",
    ] {
        assert!(md.contains(said), "{said}: {md}");
    }
    assert!(!md.contains("14.00x"), "{md}");
}

#[test]
fn a_measured_gain_has_its_interval_or_is_undecided() {
    let mut bill = samples::demand_live();
    bill.provenance.inputs.host_load = None;
    let text = rendered(&bill, Format::Text);
    let uffd = text
        .split("1 vCPU, 1 reader: ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap();
    assert!(
        uffd.contains("gain over uffd: exit 0.68x (undecided)"),
        "{uffd}"
    );
    assert!(uffd.contains("uffd 6.24x ("), "{uffd}");
    assert!(!uffd.contains("uffd 6.24x (undecided)"), "{uffd}");
    let exact = rendered(&samples::sample(), Format::Text);
    assert!(!exact.contains("undecided"), "{exact}");
}

#[test]
fn no_gain_of_a_busy_host_is_decided() {
    let bill = samples::demand_live();
    let text = rendered(&bill, Format::Text);
    let sentence = text
        .lines()
        .find(|line| line.contains("gain over uffd:"))
        .unwrap();
    let doubt = "; all undecided: the host was busy (42 % taken by others, 0 % stolen)";
    assert!(sentence.ends_with(doubt), "{sentence}");
    let gains = text
        .lines()
        .filter(|line| line.starts_with("  exit ") && line.contains("after"));
    assert!(
        gains.clone().count() == 4 && gains.clone().all(|line| line.contains("(undecided)")),
        "{text}"
    );
}

#[test]
fn a_page_of_restores_draws_memory_over_time_for_each_setting() {
    let page = rendered(&samples::restore_live(), Format::Html);
    for setting in ["warm, 1 guest of 1 vCPU", "Which leads"] {
        assert!(page.contains(setting), "{setting}");
    }
    let plots = page.matches("ms since the order to restore: ").count();
    assert_eq!(plots, 1, "memory of clones is not drawn");
}

#[test]
fn a_migration_that_is_not_its_parts_says_so_and_its_rounds_are_drawn_on_a_page_alone() {
    let text = rendered(&samples::migrate_live(), Format::Text);
    assert!(
        text.contains("precopy-uffd-wp, total: 23 % more than composed\n"),
        "{text}"
    );
    assert!(!text.contains("precopy-bitmap, total"), "{text}");
    assert!(!text.contains("since the order to migrate"));
    let page = rendered(&samples::migrate_live(), Format::Html);
    assert!(page.contains("ms since the order to migrate"));
}

#[test]
fn discards_say_what_is_free_and_what_goes_with_it() {
    let text = rendered(&samples::discard_live(), Format::Text);
    for sentence in [
        "frees nothing: memfd by madv-dontneed\n",
        "frees once memory is short: thp by madv-dontneed of 4K\n",
        "a call of 4K takes 511 pages of stage 2 beside: madv-dontneed on thp",
        "madv-dontneed, punch-hole on hugetlb-2m: ",
        "punch-hole on thp: fallocate(FALLOC_FL_PUNCH_HOLE) takes a file",
    ] {
        assert!(text.contains(sentence), "no {sentence:?} in {text}");
    }
    assert!(!text.contains("Rows without figures"), "{text}");
}

#[test]
fn a_page_of_several_vcpus_begins_with_its_curves_and_every_bar_is_seen() {
    let page = rendered(&samples::demand_sim(), Format::Html);
    let curve = page.find("<figure class=\"plot\">").unwrap();
    let bars = page.find("<div class=\"bar\">").unwrap();
    assert!(page.find("</dl>").unwrap() < curve && curve < bars);
    let legend = &page[..bars];
    let legend = &legend[legend.rfind("<ul class=\"legend\">").unwrap()..];
    assert_eq!(legend.matches("<li>").count(), 8, "{legend}");
    assert!(legend.contains("</svg> others</li>"), "{legend}");
    // Another number of readers at each number of vCPUs is one curve, in the live bill as well.
    let live = rendered(&samples::demand_live(), Format::Html);
    assert!(!live.contains("</svg> uffd, 1 reader</li>"), "{live}");
}

#[test]
fn a_spread_is_an_error_bar() {
    let mut bill = samples::demand_live();
    bill.rows.retain(|row| row.key.vcpus == Some(1));
    let page = rendered(&bill, Format::Html);
    let bars = page.matches("<div class=\"bar\">").count();
    assert_eq!(page.matches("<path class=\"e\"").count(), bars);
    assert!(page.contains("90 % of other bills of the order, or a standard deviation either way"));
}

#[test]
fn the_page_counts_checks_as_the_table_names_them() {
    let page = rendered(&samples::demand_live(), Format::Html);
    assert!(
        page.contains("<dt>verdict</dt><dd>all 3 checks pass</dd>"),
        "{page}"
    );
    let mut bill = samples::demand_live();
    for row in &mut bill.rows {
        row.checks.truncate(1);
    }
    let page = rendered(&bill, Format::Html);
    assert!(
        page.contains("the check passes: content-in-guest"),
        "{page}"
    );
}

#[test]
fn a_bill_of_two_profiled_kernels_names_the_functions_that_moved() {
    let mut bill: Bill =
        serde_json::from_str(include_str!("../../tests/data/sample-profile.json")).unwrap();
    let mut newer = bill.rows.clone();
    for (rows, kernel) in [(&mut bill.rows, "6.17"), (&mut newer, "6.18")] {
        for row in rows {
            row.key.kernel = Some(kernel.to_owned());
        }
    }
    let profile = newer
        .iter_mut()
        .find_map(|row| row.profile.as_mut())
        .unwrap();
    let function = &mut profile.functions[0];
    function.cost_per_page += 7.0;
    let name = function.name.clone();
    for row in &mut newer {
        if let Some(figures) = row.figures_mut() {
            figures.cost_per_page *= 1.1;
        }
    }
    bill.rows.extend(newer);
    let text = rendered(&bill, Format::Text);
    let table = text
        .split("Which function it was: 6.18 against 6.17")
        .nth(1)
        .unwrap();
    let line = table.lines().nth(3).unwrap();
    assert!(line.contains(&name) && line.ends_with("+7.0"), "{line}");
}

#[test]
fn what_has_no_picture_says_what_to_do() {
    let bill = samples::pin();
    let error = crate::bill(&bill, Format::Svg, Width::Unlimited).unwrap_err();
    assert!(error.to_string().contains("--format html"), "{error}");
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
    let mut emulated = bill;
    let kvm = Bill::SHADOW_PAGING.to_owned();
    emulated.stack.insert("kvm".to_owned(), kvm);
    let text = rendered(&emulated, Format::Text);
    let beside = text.split("Beside the kernel's own").nth(1).unwrap();
    assert!(
        beside.contains("not comparable") && !beside.contains("1.24x"),
        "{beside}"
    );
}
