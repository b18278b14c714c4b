//! The text of `perf kvm stat report`, of exits, ports or MMIO, and of `perf kvm stat live`: a table for each interval.
//!
//! Columns are recognised by the heading, so that the table of the browser, which counts in nanoseconds since 6.4, is read
//! too when its heading was copied with it. The smallest time of a single vCPU is 0 in 6.1 and is no measurement.
//!
//! Source: `print_result`, `print_vcpu_info` and `kvm_hists__init` of `tools/perf/builtin-kvm.c`, Linux 3.10 to 7.3.

mod column;
mod observation;
mod row;

use pagetoll_text::{
    LeftOut, Line, Position, ReadError, Stop, Truncated, each_line, excerpt, first_lines,
    is_closed, marker,
};
use pagetoll_units::Nanos;
use pagetoll_units::budget::{Budget, in_vector};

use column::Heading;
pub use observation::observe;
pub(crate) use row::Reason;

/// Bytes that the observation of a reason takes. Assumed.
const REPORTED: usize = 160;
/// Bytes that the observation of a table takes. Assumed.
const REPORTED_TABLE: usize = 256;

/// Name of the format.
pub const NAME: &str = "perf kvm stat report";

const ANALYZE: &str = "Analyze events for ";
const TOTAL: &str = "Total Samples:";
const LOST: &str = "Lost events:";

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitReport {
    /// VMs and vCPUs, as perf says: `all VMs, all VCPUs`.
    pub(crate) of: String,
    /// Line of the text above the table, which perf did not print.
    pub(crate) above: Option<String>,
    /// Event that was counted, as perf says: `VM-EXIT`, `IO Port Access`, `MMIO Access`.
    pub(crate) event: String,
    /// A line for each reason.
    pub(crate) reasons: Vec<Reason>,
    /// Samples of all reasons, by the line below the table.
    pub(crate) samples: Option<u64>,
    /// Time of all reasons, by the line below the table.
    pub(crate) time: Option<Nanos>,
    /// Events that perf lost, where it says so.
    pub(crate) lost: Option<u64>,
}

/// The tables of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExitReports {
    /// In the order of the file.
    pub(crate) reports: Vec<ExitReport>,
    /// Lines that are none of a table, such as messages of perf.
    pub(crate) left_out: LeftOut,
    /// End of the file, if the reader stopped before it.
    pub(crate) truncated: Option<Truncated>,
}

/// Recognises a file that begins as such a report.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes);
    lines
        .next()
        .is_some_and(|line| line.contains(ANALYZE) || heading(line).is_some())
}

/// The heading of a table, or of a row without one.
fn heading(line: &str) -> Option<Heading> {
    Heading::read(line).or_else(|| Heading::of_row(line))
}

/// Reads the tables of a file.
///
/// # Errors
/// [`ReadError`] with line and column, where a line of a table is none; when there is no table.
pub(crate) fn read(bytes: &[u8]) -> Result<ExitReports, ReadError> {
    let mut reader = Reader {
        reports: Vec::new(),
        of: String::new(),
        above: None,
        heading: None,
        left_out: LeftOut::default(),
        held: None,
        budget: Budget::new(bytes.len()),
    };
    let truncated = marker(reader.record(bytes))?;
    let Reader {
        reports, left_out, ..
    } = reader;
    if reports.is_empty() && !(is(bytes) && truncated.is_some()) {
        return Err(ReadError::new(
            Position::Byte(0),
            "table",
            "none; expected what perf kvm stat report writes",
        ));
    }
    Ok(ExitReports {
        reports,
        left_out,
        truncated,
    })
}

struct Reader {
    reports: Vec<ExitReport>,
    /// VMs and vCPUs of the next table.
    of: String,
    above: Option<String>,
    /// Heading of the table that is open.
    heading: Option<Heading>,
    left_out: LeftOut,
    /// A line that may be the beginning of a row or of a heading that a mailer wrapped.
    held: Option<(Position, String)>,
    budget: Budget,
}

impl Reader {
    fn record(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let ended = each_line(bytes, is_closed, |line| self.line(line));
        self.leave_out_held();
        ended
    }

    fn leave_out_held(&mut self) {
        if let Some((place, text)) = self.held.take() {
            self.leave_out(&Line { place, text: &text });
        }
    }

    fn leave_out(&mut self, line: &Line<'_>) {
        self.left_out.add(line.place, line.text);
        // Prose between rows without a heading parts two tables.
        self.heading = self.heading.take().filter(|heading| !heading.is_assumed);
        self.above = Some(excerpt(line.text.trim()));
    }

    /// Takes in a line, or joins it to the one before, if they are a row or a heading together.
    fn line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let Some((place, text)) = self.held.take() else {
            return self.whole_line(line);
        };
        let joined = format!("{text} {}", line.text.trim());
        if !self.is_whole(line.text) && self.is_whole(&joined) {
            let text = &joined;
            return self.whole_line(&Line { place, text });
        }
        self.leave_out(&Line { place, text: &text });
        self.whole_line(line)
    }

    /// True if a line is a row or a heading by itself.
    fn is_whole(&self, text: &str) -> bool {
        let heading = self.heading.as_ref();
        heading.is_some_and(|heading| heading.is_row(text)) || self::heading(text).is_some()
    }

    /// Takes in a line. Text outside of a table, such as messages of perf, is passed over.
    fn whole_line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let text = line.text.trim();
        if let Some((_, of)) = text.split_once(ANALYZE) {
            self.of = of.trim_end_matches(':').to_owned();
            self.heading = None;
        } else if let Some(heading) = Heading::read(text) {
            self.begin(line.place, heading)?;
        } else if self.heading.is_none()
            && let Some(heading) = Heading::of_row(text)
        {
            self.begin(line.place, heading)?;
            self.reason(line)?;
        } else if text.starts_with(TOTAL) {
            self.total(line.place, text)?;
        } else if let Some(lost) = text.strip_prefix(LOST) {
            self.lost(line.place, lost.trim())?;
        } else if !text.is_empty() {
            self.reason(line)?;
        }
        Ok(())
    }

    fn keep(&mut self, place: Position, memory: usize) -> Result<(), Truncated> {
        self.budget.take(memory).ok_or(Truncated::TooLarge(place))
    }

    fn begin(&mut self, place: Position, heading: Heading) -> Result<(), Truncated> {
        let above = self.above.take();
        let names = 2 * (self.of.len() + heading.event.len());
        self.keep(place, in_vector::<ExitReport>() + names + REPORTED_TABLE)?;
        self.reports.push(ExitReport {
            of: self.of.clone(),
            above,
            event: heading.event.clone(),
            ..ExitReport::default()
        });
        self.heading = Some(heading);
        Ok(())
    }

    fn reason(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let (Some(heading), Some(report)) = (&self.heading, self.reports.last_mut()) else {
            self.held = Some((line.place, line.text.trim().to_owned()));
            return Ok(());
        };
        if row::is_deviation(line.text) {
            return Ok(());
        }
        if !heading.is_row(line.text) {
            self.held = Some((line.place, line.text.trim().to_owned()));
            return Ok(());
        }
        let reason = Reason::read(line, heading)?;
        let memory = in_vector::<Reason>() + REPORTED + 2 * reason.name.len();
        report.reasons.push(reason);
        Ok(self.keep(line.place, memory)?)
    }

    /// `Total Samples:1913, Total events handled time:1723075.60us.`
    fn total(&mut self, place: Position, text: &str) -> Result<(), Stop> {
        let total = || {
            let rest = text.strip_prefix(TOTAL)?;
            let (samples, time) = rest.split_once(", Total events handled time:")?;
            Some((
                samples.parse().ok()?,
                column::time(time.trim_end_matches('.'))?,
            ))
        };
        let Some((samples, time)) = total() else {
            let expected = "Total Samples:N, Total events handled time:Nus.";
            return Err(ReadError::expected(place, "total", expected, text).into());
        };
        if let Some(report) = self.reports.last_mut() {
            (report.samples, report.time) = (Some(samples), Some(time));
        }
        self.heading = None;
        Ok(())
    }

    fn lost(&mut self, place: Position, lost: &str) -> Result<(), Stop> {
        let lost = lost
            .parse()
            .map_err(|_| ReadError::expected(place, LOST, "a number", lost))?;
        if let Some(report) = self.reports.last_mut() {
            report.lost = Some(lost);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPORT: &str = "

Analyze events for all VMs, all VCPUs:

             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time 

                 npf       1483    77.52%    15.98%     14.62us  16029.99us    185.72us ( +-  17.04% )
  External interrupt         19     0.99%     0.63%      8.59us   8303.95us    570.60us ( +-   -nan% )

Total Samples:1502, Total events handled time:1723075.60us.


Lost events: 7

";

    #[test]
    fn a_report_has_rows_totals_and_what_was_lost() {
        assert!(is(REPORT.as_bytes()));
        let read = read(REPORT.as_bytes()).unwrap();
        let [report] = &read.reports[..] else {
            panic!("one table");
        };
        assert_eq!(
            (report.of.as_str(), report.event.as_str()),
            ("all VMs, all VCPUs", "VM-EXIT")
        );
        assert_eq!(
            (report.samples, report.time, report.lost),
            (Some(1502), Some(Nanos(1_723_075_600)), Some(7))
        );
        let names: Vec<_> = report
            .reasons
            .iter()
            .map(|reason| (reason.name.as_str(), reason.samples))
            .collect();
        assert_eq!(names, [("npf", 1483), ("External interrupt", 19)]);
        assert_eq!(report.reasons[0].mean, Some(Nanos(185_720)));
        assert_eq!(read.truncated, None);
    }

    #[test]
    fn a_report_that_is_cut_gives_whole_lines_and_says_so() {
        for length in 0..REPORT.trim_end().len() {
            match read(&REPORT.as_bytes()[..length]) {
                Ok(read) => assert!(
                    read.truncated.is_some()
                        || REPORT[..length]
                            .trim_end_matches(' ')
                            .ends_with(['\n', ')']),
                    "{length}"
                ),
                Err(error) => assert_eq!(error.field, "table"),
            }
        }
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = |from, to| {
            read(REPORT.replace(from, to).as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("1483 ", "many "),
            "line 7: Samples: expected a number, found `many`"
        );
        assert_eq!(
            error("14.62us", "14.62"),
            "line 7: Min Time: expected a time in us or ns, found `14.62`"
        );
        assert_eq!(
            error("77.52%", "-"),
            "line 7: Samples%: expected a percentage, found `-`"
        );
        assert!(error("1502", "x").starts_with("line 10: total: expected Total Samples:N"));
        assert!(
            error("Lost events: 7", "Lost events: x")
                .starts_with("line 13: Lost events:: expected a number")
        );
        assert!(read(b"hello\n").is_err());
    }

    #[test]
    fn messages_between_rows_are_passed_over_and_counted() {
        let message = "  External interrupt";
        let text = REPORT.replace(
            message,
            &format!("perf: 3 events were late, they said\n{message}"),
        );
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.reports[0].reasons.len(), 2);
        assert_eq!(read.left_out.lines, 1);
        assert_eq!(
            read.left_out.first.unwrap().to_string(),
            "line 8: `perf: 3 events were late, they said`"
        );
    }

    #[test]
    fn rows_without_a_heading_are_tables_parted_by_prose() {
        let text = "Before:\n HLT 10 50.00% 60.00% 1.00us 9.00us 3.00us ( +- 1.00% )\n\
                    After:\n HLT 12 50.00% 60.00% 1.00us 9.00us 2.00us ( +- 1.00% )\n";
        let reports = read(text.as_bytes()).unwrap().reports;
        let found = reports.iter().map(|report| {
            let reason = &report.reasons[0];
            (report.above.as_deref(), reason.samples, reason.mean)
        });
        let expected = [
            (Some("Before:"), 10, Some(Nanos(3000))),
            (Some("After:"), 12, Some(Nanos(2000))),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn rows_and_headings_that_a_mailer_wrapped_are_joined() {
        let wrapped = REPORT
            .replace("    Min Time", "\nMin Time")
            .replace("     15.98%", "\n15.98%")
            .replace("( +-  17.04% )", "\n( +-  17.04% )");
        let (whole, wrapped) = (
            read(REPORT.as_bytes()).unwrap(),
            read(wrapped.as_bytes()).unwrap(),
        );
        assert_eq!(wrapped.left_out, LeftOut::default());
        let without_error = |report: &ExitReport| {
            let reasons = report.reasons.iter().cloned();
            let reasons = reasons.map(|reason| Reason {
                error: None,
                ..reason
            });
            reasons.collect::<Vec<_>>()
        };
        assert_eq!(
            without_error(&wrapped.reports[0]),
            without_error(&whole.reports[0])
        );
    }

    /// The browser in a narrow window, above rows that were copied with a rule below the heading.
    #[test]
    fn a_table_without_a_mean_has_the_time_of_all() {
        for time in ["Time (ns)", "Time(ns)"] {
            let text = format!(
                "Event name   Samples  Sample%  {time}\n----------  -------  -------  ---------\nIRQ_S_EXT  2802  50.00%  13288\nIRQ_S_SOFT  4  0.00%  42\n"
            );
            assert!(is(text.as_bytes()));
            let read = read(text.as_bytes()).unwrap();
            let reasons = read.reports[0].reasons.iter();
            let found = reasons.map(|reason| (&*reason.name, reason.samples, reason.whole_time()));
            let expected = [
                ("IRQ_S_EXT", 2802, Some(Nanos(13288))),
                ("IRQ_S_SOFT", 4, Some(Nanos(42))),
            ];
            assert_eq!(found.collect::<Vec<_>>(), expected);
            assert_eq!(read.left_out.lines, 1);
        }
    }

    #[test]
    fn intervals_of_live_are_tables_of_their_own() {
        let text =
            format!("\u{1b}[H\u{1b}[2J12:00:01.5{REPORT}\u{1b}[H\u{1b}[2J12:00:02.5{REPORT}");
        assert_eq!(read(text.as_bytes()).unwrap().reports.len(), 2);
    }

    proptest! {
        /// Text as `print_result` prints it.
        #[test]
        fn what_is_printed_is_read(rows in prop::collection::vec(("[A-Z]([A-Z_]| [A-Z]){0,9}", 1u64..1 << 40, 0u64..1 << 40), 0..9)) {
            let mut text = REPORT.lines().take(6).map(|line| format!("{line}\n")).collect::<String>();
            for (name, samples, time) in &rows {
                let (whole, part) = (time / 100, time % 100);
                let percent = samples % 100;
                text += &format!("{name:>20} {samples:10} {percent:5}.25% {percent:5}.50% {whole}.{part:02}us {whole}.{part:02}us {whole}.{part:02}us ( +-   1.00% )\n");
            }
            let read = read(text.as_bytes()).unwrap();
            prop_assert_eq!(read.reports[0].reasons.len(), rows.len());
            for (reason, (name, samples, time)) in read.reports[0].reasons.iter().zip(&rows) {
                prop_assert_eq!((&reason.name, reason.samples), (name, *samples));
                prop_assert_eq!(reason.longest, Some(Nanos(time * 10)));
            }
        }
    }
}
