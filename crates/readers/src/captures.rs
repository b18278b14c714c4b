//! Captures of any format, as `pagetoll read` reads them: observed, advised on, compared and dumped.

use std::io::{Cursor, sink};

use pagetoll_advice::Rules;
use pagetoll_captures::{Comparison, dump, observe};
use pagetoll_xentrace::symbols::Symbols;

use crate::{counters, seeds};

pub(crate) fn read(file: &[u8]) {
    let symbols = Symbols::default();
    let _dumped = dump(file, &symbols, &mut sink());
    let Ok(observation) = observe("capture", Cursor::new(file), &symbols) else {
        return;
    };
    if let Ok(rules) = Rules::embedded() {
        let _advice = serde_json::to_writer(sink(), &rules.on(&observation));
    }
    if let Ok(comparison) = Comparison::new(&observation, &observation) {
        let _json = serde_json::to_writer(sink(), &comparison);
    }
    let _json = serde_json::to_writer(sink(), &observation);
}

pub(crate) fn binary() -> Vec<Vec<u8>> {
    [seeds::traces(), seeds::perf_data(), counters::stats_fds()].concat()
}

pub(crate) fn text() -> Vec<Vec<u8>> {
    let ftrace = [seeds::ftrace(), seeds::trace_texts()].concat();
    let counters = [
        counters::kvm_stats(),
        counters::query_stats(),
        counters::debugfs_dumps(),
        counters::domstats_dumps(),
    ];
    let reports = [counters::perf_kvm_reports(), counters::bpftrace_outputs()];
    [ftrace, counters.concat(), reports.concat()].concat()
}
