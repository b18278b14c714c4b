//! Sections of a text that was pasted: each is what one tool printed, and begins with a line by which its format is known.
//!
//! Sections are looked for in the first 64 KiB, which is more than a mail or a comment has. Lines before the first are prose.

use pagetoll_observation::{Observation, Party};
use pagetoll_text::{LeftOut, Position, paste};
use pagetoll_xentrace::symbols::Symbols;

use crate::format::{Format, HEAD, recognise, unknown};
use crate::source::CaptureError;

/// Sections that are read of one text.
const MOST: usize = 16;
/// Bytes by which the beginning of a section is known: each line is looked at.
const WINDOW: usize = 4 << 10;

/// A part of a text.
struct Section<'a> {
    format: &'static Format,
    /// Lines of the text before it.
    lines_before: usize,
    text: &'a [u8],
}

/// Reads a text without what a mailer, a page or a terminal has put around it.
pub(crate) fn observe(
    file: &str,
    text: Vec<u8>,
    symbols: &Symbols,
) -> Result<Observation, CaptureError> {
    let (text, mut left_out) = paste::unwrap(text);
    let sections = sections(&text, &mut left_out);
    if sections.is_empty() {
        return Err(refusal(&text));
    }
    let several = sections.len() > 1;
    let mut whole: Option<Observation> = None;
    let mut failures = Vec::new();
    for section in sections {
        match section.observe(file, symbols) {
            Err(error) => failures.push((section.line(), section.format.name, error)),
            Ok(mut found) => {
                if several {
                    let line = section.line();
                    found
                        .parties
                        .iter_mut()
                        .for_each(|party| located(party, line));
                }
                match &mut whole {
                    Some(whole) => whole.add(found),
                    None => whole = Some(found),
                }
            }
        }
    }
    let Some(mut whole) = whole else {
        let first = failures.into_iter().next();
        return Err(first.map_or_else(unknown, |(_, _, error)| error));
    };
    let failures = failures.into_iter();
    let failures =
        failures.map(|(line, name, error)| (format!("{name} from line {line}: {error}"), 1));
    whole.capture.unknown.extend(failures);
    left_out.extend(std::mem::take(&mut whole.capture.left_out));
    whole.capture.left_out = left_out;
    Ok(whole)
}

/// Where two sections are of one kind, their parties have the same names.
fn located(party: &mut Party, line: usize) {
    party.name = format!("{}, from line {line}", party.name);
}

/// The reason that a text without a section is none that is read.
fn refusal(text: &[u8]) -> CaptureError {
    recognise(&text[..text.len().min(HEAD)])
        .err()
        .unwrap_or_else(unknown)
}

/// The sections of a text. Lines before the first are left out, except comments above a trace, which belong to it.
fn sections<'a>(text: &'a [u8], left_out: &mut LeftOut) -> Vec<Section<'a>> {
    let mut search = Search::new(left_out);
    let mut place = Place::default();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if place.at >= HEAD || search.starts.len() == MOST {
            break;
        }
        let to = text.len().min(place.at.saturating_add(WINDOW));
        if is_of_any_trace(line) {
            search.comments.get_or_insert(place);
        } else if let Some(format) = Format::beginning(&text[place.at..to]) {
            search.begin(place, format);
        } else if !line.trim_ascii().is_empty() {
            search.pass_over(place, line);
        }
        place = place.after(line);
    }
    let starts = search.finish();
    let ends = starts.iter().skip(1).map(|start| start.0.at);
    let ends: Vec<_> = ends.chain([text.len()]).collect();
    let section = |(&(place, format), end): (&(Place, _), usize)| Section {
        format,
        lines_before: place.lines_before,
        text: &text[place.at..end],
    };
    starts.iter().zip(ends).map(section).collect()
}

/// Beginning of a line.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    at: usize,
    lines_before: usize,
}

impl Place {
    const fn after(self, line: &[u8]) -> Self {
        Self {
            at: self.at + line.len(),
            lines_before: self.lines_before + 1,
        }
    }
}

/// Search for the sections of a text.
struct Search<'a> {
    starts: Vec<(Place, &'static Format)>,
    /// Comments that may be those of the next trace.
    comments: Option<Place>,
    /// The last line before the first section.
    title: Option<(Place, &'a [u8])>,
    left_out: &'a mut LeftOut,
}

impl<'a> Search<'a> {
    const fn new(left_out: &'a mut LeftOut) -> Self {
        Self {
            starts: Vec::new(),
            comments: None,
            title: None,
            left_out,
        }
    }

    fn begin(&mut self, place: Place, format: &'static Format) {
        let comments = self.comments.take();
        let begun = self.starts.last().map(|start| start.1);
        if begun.is_some_and(|begun| begun.continues(format)) {
            return;
        }
        let title = self.title.take_if(|_| format.has_title());
        let above = title.map(|(place, _)| place).or(comments);
        self.starts.push((above.unwrap_or(place), format));
    }

    fn pass_over(&mut self, place: Place, line: &'a [u8]) {
        self.comments = None;
        if self.starts.is_empty() {
            self.leave_out_title();
            self.title = Some((place, line));
        }
    }

    fn leave_out_title(&mut self) {
        if let Some((place, line)) = self.title.take() {
            let text = String::from_utf8_lossy(line);
            let number = place.lines_before + 1;
            self.left_out.add(Position::Line(number), &text);
        }
    }

    /// The beginnings of the sections.
    fn finish(mut self) -> Vec<(Place, &'static Format)> {
        self.leave_out_title();
        self.starts
    }
}

/// A comment, records that a CPU lost, or trace-cmd's number of CPUs: each may begin any trace.
fn is_of_any_trace(line: &[u8]) -> bool {
    [b"#".as_slice(), b"CPU:", b"cpus="]
        .iter()
        .any(|start| line.starts_with(start))
}

impl Section<'_> {
    /// The number of its first line, from 1.
    const fn line(&self) -> usize {
        self.lines_before + 1
    }

    /// Reads it, with its lines numbered as those of the whole.
    fn observe(&self, file: &str, symbols: &Symbols) -> Result<Observation, CaptureError> {
        let format = self.format.of_trace(self.text);
        if self.lines_before == 0 {
            return format.observe(file, self.text, symbols);
        }
        let mut text = vec![b'\n'; self.lines_before];
        text.extend(self.text);
        format.observe(file, &text, symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "Analyze events for all VMs, all VCPUs:\n\n VM-EXIT Samples Samples% Time% Min Time Max Time Avg time\n HLT 10 100.00% 100.00% 1.00us 3.00us 2.00us ( +- 1.00% )\n\nTotal Samples:10, Total events handled time:20.00us.\n";
    const TRACE: &str = "vmm-4711 [001] 5.000001: kvm_exit: reason HLT rip 0x1 info 0 0\nvmm-4711 [001] 5.000004: kvm_entry: vcpu 0\n";
    const COUNTERS: &str = "/sys/kernel/debug/kvm/12-9/exits:11\n";

    fn observed(text: &str) -> Result<Observation, CaptureError> {
        observe("mail", text.into(), &Symbols::default())
    }

    fn parties(observation: &Observation) -> Vec<(&str, u64)> {
        let parties = observation.parties.iter();
        let counts = parties.map(|party| (&*party.name, party.items[0].count));
        counts.collect()
    }

    #[test]
    fn a_form_is_found_below_prose_and_the_prose_is_counted() {
        for form in [TABLE, TRACE, COUNTERS] {
            let alone = observed(form).unwrap();
            assert!(alone.capture.left_out.is_none());
            let below = observed(&format!("On 6.1 I see:\n\n{form}")).unwrap();
            assert_eq!(below.parties[0].items, alone.parties[0].items);
            assert_eq!(below.capture.left_out.lines, 1);
            let first = below.capture.left_out.first.unwrap().to_string();
            assert_eq!(first, "line 1: `On 6.1 I see:`");
        }
    }

    #[test]
    fn all_forms_of_a_text_are_read() {
        let text = format!(
            "> before:\n> {}\nand\n{COUNTERS}{TRACE}",
            TABLE.replace('\n', "\n> ")
        );
        let all = observed(&text).unwrap();
        assert_eq!(
            all.capture.format,
            "perf kvm stat report, debugfs of KVM, tracepoints as text"
        );
        assert_eq!(
            parties(&all),
            [
                (
                    "all VMs, all VCPUs, VM-EXIT (below `before:`), from line 1",
                    10
                ),
                ("VM 12-9, from line 10", 11),
                ("vmm 4711, from line 11", 1),
            ]
        );
        assert_eq!(all.capture.left_out.lines, 2);
    }

    #[test]
    fn an_error_names_the_line_of_the_whole_text() {
        let text = format!("hello\n{}", TABLE.replace(" 10 ", " 1x "));
        let error = observed(&text).unwrap_err().to_string();
        assert!(error.starts_with("line 5: Samples:"), "{error}");
        let both = observed(&format!("{text}{COUNTERS}")).unwrap();
        assert_eq!(parties(&both), [("VM 12-9, from line 8", 11)]);
        let failures: Vec<_> = both.capture.unknown.keys().collect();
        assert!(
            failures[0].contains("from line 1: line 5: Samples"),
            "{failures:?}"
        );
    }

    #[test]
    fn a_text_without_a_form_is_refused() {
        assert!(matches!(
            observed("hello\nworld\n"),
            Err(CaptureError::Unknown { .. })
        ));
        assert!(matches!(observed("\n"), Err(CaptureError::Lookalike(_))));
    }
}
