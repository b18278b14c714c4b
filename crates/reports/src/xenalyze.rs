//! The text of `xenalyze --summary`: what each vCPU of each domain did, by runstate, exit, trap and hypercall.
//!
//! Times are cycles of the time-stamp counter: xenalyze's seconds assume a clock of 2.4 GHz where `--cpu-hz` gives no other. Its
//! volumes, domains' runstates, memory operations, interrupts and the details of each reason are passed over.
//! Hypercalls include those inside multicalls.
//!
//! Source: `summary`, `vcpu_summary`, `hvm_summary`, `sched_summary_vcpu`, `pv_summary` and `PRINT_SUMMARY` of
//! `tools/xentrace/xenalyze.c`, Xen 4.6 to 4.21.

mod observation;

use std::borrow::Cow;

use pagetoll_text::{LeftOut, Position, ReadError, Truncated, first_lines};
use pagetoll_units::budget::{Budget, in_vector};
use pagetoll_xentrace::{HypercallOp, Runstate, exit_names};

pub use observation::observe;

/// Bytes that the observation of a row takes. Assumed.
const REPORTED: usize = 384;
/// Bytes that the observation of a vCPU takes. Assumed.
const REPORTED_VCPU: usize = 256;

const TOTAL: &str = "Total time:";
const EXITS: &str = "Exit reasons:";
const RUNSTATES: &str = "Runstates:";
const PV_EVENTS: &str = "PV events:";

/// A vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vcpu {
    /// `d1v0`, as a trace's reader calls it, and the number of its summary where there are several.
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
}

/// A kind of what a vCPU did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) count: u64,
    /// Cycles of one.
    pub(crate) cycles: Option<u64>,
}

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Runstate,
    Exit,
    Trap,
    Hypercall,
    Subcall,
}

/// The vCPUs of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summaries {
    pub(crate) vcpus: Vec<Vcpu>,
    pub(crate) left_out: LeftOut,
    pub(crate) truncated: Option<Truncated>,
}

/// Recognises text that begins as a summary, or as a part of one.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes);
    let first = lines.next().unwrap_or_default();
    let mut is_vcpus = || {
        let next = lines.next().unwrap_or_default();
        next == RUNSTATES || next == EXITS
    };
    first.starts_with(TOTAL) && first.contains("cpu speed")
        || first == "--- Log volume summary ---"
        || domain(first).is_some()
        || first == EXITS
        || vcpu(first).is_some() && is_vcpus()
}

/// Reads the summaries of a text.
///
/// # Errors
/// [`ReadError`] when there is no vCPU with a row.
pub(crate) fn read(bytes: &[u8]) -> Result<Summaries, ReadError> {
    let mut reader = Reader::new(bytes.len());
    for (number, line) in (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        let place = Position::Line(number);
        let text = String::from_utf8_lossy(line);
        let is_whole = line.ends_with(b"\n") || text.ends_with(['}', 'c']);
        let ended = match is_whole {
            true => reader.line(place, text.trim()),
            false => Err(Truncated::Ended(place)),
        };
        if let Err(truncated) = ended {
            reader.found.truncated = Some(truncated);
            break;
        }
    }
    reader.drop_wrapped();
    let mut found = reader.found;
    found.vcpus.retain(|vcpu| !vcpu.rows.is_empty());
    match found.vcpus.is_empty() && found.truncated.is_none() {
        false => Ok(found),
        true => {
            let problem = format!("none; expected {EXITS}, {RUNSTATES} or {PV_EVENTS} of a vCPU");
            Err(ReadError::new(Position::Byte(0), "vCPU", problem))
        }
    }
}

/// `|-- Domain 1 --|`, `|-- Default domain --|`.
fn domain(line: &str) -> Option<&str> {
    let name = line.strip_prefix("|-- ")?.strip_suffix(" --|")?;
    if name == "Default domain" {
        return Some("default ");
    }
    let number = name.strip_prefix("Domain ")?;
    is_number(number).then_some(number)
}

/// `-- v0 --`.
fn vcpu(line: &str) -> Option<&str> {
    let number = line.strip_prefix("-- v")?.strip_suffix(" --")?;
    is_number(number).then_some(number)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Part of a summary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Other,
    Runstates,
    Exits,
    PvEvents,
}

struct Reader {
    found: Summaries,
    part: Part,
    domain: Option<String>,
    /// The rows are of this one; a domain's own are not kept.
    is_vcpus: bool,
    summaries: u64,
    /// A row of exits whose end is on the next line.
    wrapped: Option<(Position, String)>,
    budget: Budget,
}

impl Reader {
    fn new(bytes: usize) -> Self {
        Self {
            found: Summaries::default(),
            part: Part::Other,
            domain: None,
            is_vcpus: false,
            summaries: 0,
            wrapped: None,
            budget: Budget::new(bytes),
        }
    }

    fn line(&mut self, place: Position, line: &str) -> Result<(), Truncated> {
        if line.starts_with(TOTAL) {
            self.summaries += 1;
            (self.part, self.is_vcpus, self.domain) = (Part::Other, false, None);
        } else if let Some(domain) = domain(line) {
            self.domain = Some(domain.to_owned());
            (self.part, self.is_vcpus) = (Part::Other, false);
        } else if let Some(number) = vcpu(line) {
            return self.begin(place, number);
        } else {
            self.part = match line {
                RUNSTATES => Part::Runstates,
                EXITS => Part::Exits,
                PV_EVENTS => Part::PvEvents,
                _ if ends_part(line) => Part::Other,
                _ => return self.content(place, line),
            };
        }
        self.drop_wrapped();
        Ok(())
    }

    fn begin(&mut self, place: Position, number: &str) -> Result<(), Truncated> {
        self.drop_wrapped();
        (self.part, self.is_vcpus) = (Part::Other, true);
        let of = match self.domain.as_deref() {
            Some("default ") => Cow::Borrowed("default "),
            Some(domain) => format!("d{domain}").into(),
            None => "".into(),
        };
        let mut name = format!("{of}v{number}");
        if self.summaries > 1 {
            name += &format!(" of summary {}", self.summaries);
        }
        self.take(place, in_vector::<Vcpu>() + 2 * name.len() + REPORTED_VCPU)?;
        let rows = Vec::new();
        self.found.vcpus.push(Vcpu { name, rows });
        Ok(())
    }

    fn take(&mut self, place: Position, memory: usize) -> Result<(), Truncated> {
        self.budget.take(memory).ok_or(Truncated::TooLarge(place))
    }

    /// Takes in a line of a part. Those of a domain, and the rest of a row, are passed over.
    fn content(&mut self, place: Position, line: &str) -> Result<(), Truncated> {
        let row = match self.part {
            Part::Other => return Ok(()),
            Part::Runstates => runstate(line),
            Part::Exits => return self.exit(place, line),
            Part::PvEvents => pv_event(line),
        };
        match row {
            Read::Row(row) => self.keep(place, row),
            Read::Passed => Ok(()),
            Read::Unknown => {
                self.found.left_out.add(place, line);
                Ok(())
            }
        }
    }

    fn exit(&mut self, place: Position, line: &str) -> Result<(), Truncated> {
        if let Some((start, text)) = self.wrapped.take() {
            let whole = format!("{text} {line}");
            match exit(&whole) {
                Read::Row(row) => return self.keep(start, row),
                _ if may_go_on(&whole) => {
                    self.wrapped = Some((start, whole));
                    return Ok(());
                }
                _ => self.found.left_out.add(start, &text),
            }
        }
        match exit(line) {
            Read::Row(row) => self.keep(place, row),
            Read::Passed => Ok(()),
            Read::Unknown if may_go_on(line) => {
                self.wrapped = Some((place, line.to_owned()));
                Ok(())
            }
            Read::Unknown => {
                self.found.left_out.add(place, line);
                Ok(())
            }
        }
    }

    /// Counts a row whose end does not follow.
    fn drop_wrapped(&mut self) {
        if let Some((place, line)) = self.wrapped.take() {
            self.found.left_out.add(place, &line);
        }
    }

    fn keep(&mut self, place: Position, row: Row) -> Result<(), Truncated> {
        let has_no_head = self.domain.is_none() && self.part == Part::Exits;
        if !self.is_vcpus && !has_no_head {
            return Ok(());
        }
        if !self.is_vcpus {
            self.begin(place, "?")?;
            self.part = Part::Exits;
        }
        self.take(place, in_vector::<Row>() + 2 * row.name.len() + REPORTED)?;
        if let Some(vcpu) = self.found.vcpus.last_mut() {
            vcpu.rows.push(row);
        }
        Ok(())
    }
}

/// Content of a line.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Row(Row),
    /// Known, but in another row or of no use.
    Passed,
    Unknown,
}

/// Recognises the heading of a part that is passed over.
fn ends_part(line: &str) -> bool {
    const HEADINGS: [&str; 9] = [
        "cpu affinity",
        "Guest interrupt counts",
        "IPI latency",
        "IO address summary",
        "MMIO address summary",
        "Grant table ops",
        "Populate-on-demand",
        "Emulate eip list",
        "Interrupt eip",
    ];
    HEADINGS.iter().any(|heading| line.starts_with(heading))
}

/// Intel's reasons, AMD's, or a number that xenalyze has no name for. Details of a reason are in lower case, or have
/// signs.
fn is_reason(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.chars().all(is_part)
}

/// ` HLT    3  0.00s 39.67% 50400 cyc {50400|50400|50400}`.
fn exit(line: &str) -> Read {
    let words: Vec<_> = line.split_ascii_whitespace().take(6).collect();
    let [name, count, seconds, percent, cycles, "cyc"] = words[..] else {
        return passed(line);
    };
    let is_row = is_reason(name) && seconds.ends_with('s') && percent.ends_with('%');
    let (true, Ok(count), Ok(cycles)) = (is_row, count.parse(), cycles.parse()) else {
        return passed(line);
    };
    Read::Row(Row {
        kind: Kind::Exit,
        name: reason(name).into_owned(),
        count,
        cycles: Some(cycles),
    })
}

/// Passes over the details of a reason, whole or wrapped, and the end of such a line.
fn passed(line: &str) -> Read {
    let is_figure = |word: &str| {
        let is_part = |c: char| c.is_ascii_digit() || ".%s{}|-".contains(c);
        word == "cyc" || word == "-nan%" || word.chars().all(is_part)
    };
    let words: Vec<_> = line.split_ascii_whitespace().take(6).collect();
    let first = words.first().copied().unwrap_or_default();
    let is_last = words.get(1) == Some(&"cyc");
    let is_end = words.iter().copied().all(is_figure) && (!is_number(first) || is_last);
    let count = words.iter().position(|word| is_number(word));
    let figures = count.map(|count| &words[count + 1..]);
    let is_within =
        !is_reason(first) && figures.is_some_and(|words| words.iter().copied().all(is_figure));
    match is_end || is_within {
        true => Read::Passed,
        false => Read::Unknown,
    }
}

/// True of the beginning of a row of exits: `HLT 3 0.00s`.
fn may_go_on(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.next().is_some_and(is_reason)
        && words.next().is_none_or(is_number)
        && words.next().is_none_or(|seconds| seconds.ends_with('s'))
        && words.next().is_none_or(|percent| percent.ends_with('%'))
        && words.next().is_none_or(is_number)
        && words.next().is_none()
}

/// The name that Linux, and a trace's reader, have for a reason.
fn reason(name: &str) -> Cow<'_, str> {
    const OTHERS: [(&str, &str); 9] = [
        ("INIT", "INIT_SIGNAL"),
        ("SIPI", "SIPI_SIGNAL"),
        ("PENDING_VIRT_INTR", "INTERRUPT_WINDOW"),
        ("PENDING_VIRT_NMI", "NMI_WINDOW"),
        ("VMXOFF", "VMOFF"),
        ("VMXON", "VMON"),
        ("INVALID_GUEST_STATE", "INVALID_STATE"),
        ("MSR_LOADING", "MSR_LOAD_FAIL"),
        ("VMX_PREEMPTION_TIMER_EXPIRED", "PREEMPTION_TIMER"),
    ];
    if let Ok(number) = name.parse() {
        return exit_names::vmx(number)
            .map_or_else(|| format!("exit reason {number:#x}").into(), Cow::Borrowed);
    }
    let other = OTHERS.iter().find(|(theirs, _)| *theirs == name);
    let Some(of_amd) = name.strip_prefix("VMEXIT_") else {
        return other.map_or(name, |(_, ours)| ours).into();
    };
    let register = of_amd
        .split_once('_')
        .filter(|(register, _)| register.starts_with("CR") || register.starts_with("DR"));
    match register {
        Some((register, way @ ("READ" | "WRITE"))) => format!("{way}_{register}"),
        _ => of_amd.to_owned(),
    }
    .to_ascii_lowercase()
    .into()
}

/// `running:     106  0.26s 2500000 {..}`. What is runnable is divided further.
fn runstate(line: &str) -> Read {
    let Some((name, figures)) = line.split_once(':') else {
        return match line.is_empty() || line.starts_with('{') {
            true => Read::Passed,
            false => Read::Unknown,
        };
    };
    let words: Vec<_> = figures.split_ascii_whitespace().take(3).collect();
    let [count, seconds, cycles] = words[..] else {
        return Read::Unknown;
    };
    let (Ok(count), Ok(cycles), true) = (count.parse(), cycles.parse(), seconds.ends_with('s'))
    else {
        return Read::Unknown;
    };
    match Runstate::ALL.iter().any(|state| state.name() == name) {
        true => Read::Row(Row {
            kind: Kind::Runstate,
            name: name.to_owned(),
            count,
            cycles: Some(cycles),
        }),
        false => Read::Passed,
    }
}

/// `ptwr  13811`, `mmu_update                   [ 1]:  13644`, `[14] 22` of a trap.
fn pv_event(line: &str) -> Read {
    let row = |kind, name: String, count| {
        let cycles = None;
        Read::Row(Row {
            kind,
            name,
            count,
            cycles,
        })
    };
    if line.is_empty() || line.starts_with('[') {
        return Read::Passed;
    }
    let Some((name, count)) = line.rsplit_once(' ') else {
        return Read::Unknown;
    };
    let (name, Ok(count)) = (name.trim(), count.parse()) else {
        return Read::Unknown;
    };
    if let Some((_, number)) = name
        .strip_suffix("]:")
        .and_then(|name| name.split_once('['))
    {
        return match number.trim().parse() {
            Ok(number) => row(Kind::Hypercall, HypercallOp(number).to_string(), count),
            Err(_) => Read::Unknown,
        };
    }
    match name {
        "hypercall" => Read::Passed,
        "hypercall (subcall)" => row(Kind::Subcall, "(all)".to_owned(), count),
        name => row(Kind::Trap, name.replace(' ', "_"), count),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HVM: &str = include_str!("../../xentrace/tests/data/made/xentrace-hvm.xenalyze.txt");
    const PV: &str = include_str!("../../xentrace/tests/data/xentrace-all.xenalyze.txt");

    fn row(kind: Kind, name: &str, count: u64, cycles: impl Into<Option<u64>>) -> Row {
        Row {
            kind,
            name: name.to_owned(),
            count,
            cycles: cycles.into(),
        }
    }

    #[test]
    fn exits_and_runstates_are_those_of_each_vcpu() {
        assert!(is(HVM.as_bytes()));
        let found = read(HVM.as_bytes()).unwrap();
        let [guest, idle] = &found.vcpus[..] else {
            panic!("{:?}", found.vcpus);
        };
        assert_eq!(
            (guest.name.as_str(), idle.name.as_str()),
            ("d1v0", "d32767v0")
        );
        assert_eq!(
            guest.rows,
            [
                row(Kind::Runstate, "running", 4, 57_770),
                row(Kind::Runstate, "runnable", 3, 10),
                row(Kind::Runstate, "blocked", 3, 50_000),
                row(Kind::Exit, "HLT", 3, 50_400),
                row(Kind::Exit, "IO_INSTRUCTION", 7, 900),
                row(Kind::Exit, "EPT_VIOLATION", 40, 3019),
            ]
        );
        assert_eq!(found.left_out, LeftOut::default());
    }

    #[test]
    fn traps_and_hypercalls_are_counted() {
        let found = read(PV.as_bytes()).unwrap();
        let mut vcpus = found.vcpus.iter();
        let vcpu = vcpus.find(|vcpu| vcpu.name == "d0v1").unwrap();
        let faults = vcpu.rows.iter().find(|row| row.name == "page_fault");
        assert_eq!(faults.map(|row| row.count), Some(621));
        assert!(vcpu.rows.iter().any(|row| row.name == "mmu_update"));
        assert_eq!(found.left_out, LeftOut::default());
        let twice = format!("{PV}{PV}");
        let found = read(twice.as_bytes()).unwrap();
        let last = found.vcpus.last().unwrap();
        assert!(last.name.ends_with(" of summary 2"));
    }

    #[test]
    fn reasons_have_the_names_of_a_trace() {
        for (theirs, ours) in [
            ("PENDING_VIRT_INTR", "INTERRUPT_WINDOW"),
            ("HLT", "HLT"),
            ("45", "EOI_INDUCED"),
            ("999", "exit reason 0x3e7"),
            ("VMEXIT_CR0_WRITE", "write_cr0"),
            ("VMEXIT_NPF", "npf"),
        ] {
            assert_eq!(reason(theirs), ours);
        }
    }

    #[test]
    fn lines_that_are_no_row_are_told() {
        let text = HVM.replace(
            " IO_INSTRUCTION              7  0.00s",
            " Strange, vcpu 7: lost",
        );
        let text = text.replace("900 cyc", "");
        let found = read(text.as_bytes()).unwrap();
        assert_eq!((found.vcpus[0].rows.len(), found.left_out.lines), (5, 1));
        let error = read(b"Exit reasons:\n").unwrap_err().to_string();
        assert!(error.starts_with("byte 0: vCPU: none; expected"), "{error}");
    }

    /// Exits of one vCPU: reason, count and cycles of one.
    type Exits = Vec<(&'static str, u64, u64)>;

    /// Text as `summary` prints it, sampled or not.
    fn printed(vcpus: &[Exits], is_sampled: bool) -> String {
        let mut text = "Total time: 8.72 seconds (using cpu speed 2.40 GHz)\n\
                        --- Log volume summary ---\n - cpu 0 -\n hvm   :       1812\n\
                        |-- Domain 7 --|\n Runstates:\n   blocked:       3  0.00s  50000\n"
            .to_owned();
        for (number, exits) in vcpus.iter().enumerate() {
            text += &format!(
                "-- v{number} --\n Runstates:\n   running:{number:8}  0.00s  57770\n\
                 \x20       wake:       3  0.00s     10\nExit reasons:\n"
            );
            for (name, count, cycles) in exits {
                let sample = match is_sampled {
                    true => format!(" {{{cycles:5}|{cycles:5}|{cycles:5}}}"),
                    false => String::new(),
                };
                let figures = format!("{count:7}  1.50s  2.50% {cycles:5} cyc{sample}\n");
                text += &format!(" {name:<20}  {figures}   (no handler)  {figures}");
            }
            text += "Guest interrupt counts:\n  [ 49] 7\nEmulate eip list\n";
        }
        text
    }

    /// Lines of at most so many characters, broken at spaces as a mailer does.
    fn wrapped(text: &str, width: usize) -> String {
        let mut wrapped = String::new();
        for line in text.lines() {
            let mut rest = line;
            let space = |rest: &str| rest.get(..width).and_then(|start| start.rfind(' '));
            while let Some(at) = space(rest).filter(|at| *at > 24) {
                wrapped += rest[..at].trim_end();
                wrapped += "\n";
                rest = &rest[at + 1..];
            }
            wrapped += rest;
            wrapped += "\n";
        }
        wrapped
    }

    fn exits() -> impl Strategy<Value = Exits> {
        const REASONS: [&str; 5] = [
            "HLT",
            "EPT_VIOLATION",
            "VMEXIT_NPF",
            "PENDING_VIRT_INTR",
            "46",
        ];
        let number = || prop_oneof![1_u64..1000, any::<u64>()];
        let exit = (prop::sample::select(&REASONS[..]), number(), number());
        prop::collection::vec(exit, 1..6)
    }

    fn rows(found: &Summaries) -> Vec<(String, String, u64, Option<u64>)> {
        let mut rows = Vec::new();
        for vcpu in &found.vcpus {
            let exits = vcpu.rows.iter().filter(|row| row.kind == Kind::Exit);
            rows.extend(
                exits.map(|row| (vcpu.name.clone(), row.name.clone(), row.count, row.cycles)),
            );
        }
        rows
    }

    proptest! {
        #[test]
        fn what_is_printed_and_wrapped_is_read(
            vcpus in prop::collection::vec(exits(), 1..5),
            is_sampled in any::<bool>(),
            width in prop::option::of(44_usize..90),
            indent in prop::sample::select(vec!["", "    ", "\t"]),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let mut text = printed(&vcpus, is_sampled);
            if let Some(width) = width {
                text = wrapped(&text, width);
            }
            let text: String = text.lines().map(|line| format!("{indent}{line}\r\n")).collect();
            let text = cut.map_or(text.as_str(), |cut| &text[..cut.index(text.len())]);
            let Ok(found) = read(text.as_bytes()) else {
                prop_assert!(cut.is_some());
                return Ok(());
            };
            let mut truth = Vec::new();
            for (number, exits) in vcpus.iter().enumerate() {
                let of = |(name, count, cycles): &(&str, u64, u64)| {
                    (format!("d7v{number}"), reason(name).into_owned(), *count, Some(*cycles))
                };
                truth.extend(exits.iter().map(of));
            }
            prop_assert!(truth.starts_with(&rows(&found)), "{}: {:?}", text, found);
            if cut.is_none() {
                prop_assert_eq!(rows(&found).len(), truth.len());
                prop_assert!(found.left_out.is_none() && found.truncated.is_none(), "{:?}", found);
            }
        }
    }
}
