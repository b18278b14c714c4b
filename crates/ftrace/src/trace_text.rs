//! Tracepoints as text: what `perf script`, `trace-cmd report`, and tracefs's `trace` and `trace_pipe` print.
//!
//! One parser reads all of them: a line has the thread, perhaps its process, CPU and flags, the time, the event's name and
//! what its print format makes of it.
//!
//! ```text
//!  CPU 0/KVM  4242/4250  [001]  1769.955963:  kvm:kvm_exit: reason EPT_VIOLATION rip 0xfff0 info 184 0
//!  CPU 0/KVM-4250        [001] d..1.  1769.955963: kvm_exit: vcpu 0 reason EPT_VIOLATION rip 0xfff0 info1 ..
//! ```
//!
//! Missing in texts: `perf script` is silent about lost records unless asked (`--show-lost-events`), and prints times
//! in microseconds unless asked (`--ns`).
//!
//! Excerpts may lack columns, the time among them: then there are counts alone. Clocks that count no seconds (`trace_clock` of `counter`,
//! `uptime` or `x86-tsc`) give ticks.
//!
//! Not here: function_graph, which [`FunctionGraph`](crate::FunctionGraph) reads.
//!
//! Sources: `tools/perf/builtin-script.c`; `kernel/trace/trace_output.c`, `trace_print_context`, `kernel/trace/trace.c`,
//! `print_trace_line`, Linux 6.18; trace-cmd 3.1.

mod error;
mod head;
mod line;
mod lines;
mod reader;

pub use error::TraceTextError;
pub use lines::MAX_LINE_BYTES;
pub use reader::{Parser, Reader};

use crate::tracepoint::Lost;

/// Records that a line of ftrace says were lost or overwritten.
pub(crate) fn lost(line: &str) -> Option<Lost> {
    if !line.starts_with("CPU:") && !line.starts_with('#') {
        return None;
    }
    match line::Line::read(line) {
        line::Line::Lost { time, cpu, records } => Some(Lost { time, cpu, records }),
        line::Line::Overwritten(records) => Some(Lost {
            time: None,
            cpu: None,
            records: Some(records),
        }),
        _ => None,
    }
}

/// Recognises a text by its first bytes.
#[must_use]
pub fn is_capture(head: &[u8]) -> bool {
    let mut reader = Reader::new(head);
    let has_event = matches!(reader.next_item(), Ok(Some(_)));
    let tally = reader.tally();
    let first = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let is_wrapped = matches!(
        line::Line::read(&String::from_utf8_lossy(first)),
        line::Line::Columns
    );
    has_event || is_wrapped || tally.unknown_events() > 0 || tally.unreadable > 0
}
