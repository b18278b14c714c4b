//! Files that are taken for captures, each with what to do instead.

use std::io::{self, Read, Seek};

use pagetoll_text::first_lines;

/// A kind of file that is no capture.
#[derive(Debug)]
pub struct Lookalike {
    /// Name of the kind, to follow `is`.
    pub(crate) name: &'static str,
    /// Remedy, in the imperative.
    pub(crate) remedy: &'static str,
    /// Recognises a file by its first bytes, up to 64 KiB.
    is: fn(&[u8]) -> bool,
}

/// First bytes of a trace.dat (trace-cmd.dat.v7(5)).
const TRACE_DAT: &[u8] = b"\x17\x08Dtracing";

/// Recognises a file that only trace-cmd can print, and goes back to its start.
///
/// # Errors
/// Errors of reading.
pub fn is_trace_dat(source: &mut (impl Read + Seek)) -> io::Result<bool> {
    let mut head = Vec::new();
    source.take(TRACE_DAT.len() as u64).read_to_end(&mut head)?;
    source.rewind()?;
    Ok(head == TRACE_DAT)
}

/// Every kind. A file that could be of two is of the first.
#[rustfmt::skip]
pub(crate) static LOOKALIKES: [Lookalike; 9] = [
    Lookalike { name: "empty", remedy: "record a capture; `pagetoll read --how` prints the commands", is: |head| head.trim_ascii().is_empty() },
    Lookalike { name: "JSON of perf stat", remedy: "record it as text: perf stat without -j", is: |head| has_line(head, "\"counter-value\" : ") },
    Lookalike { name: "a trace.dat of trace-cmd", remedy: "have trace-cmd print its events: --trace-cmd, or trace-cmd report -t -i FILE > FILE.txt", is: |head| head.starts_with(TRACE_DAT) },
    Lookalike { name: "a log of QEMU's trace events", remedy: "record the host kernel's; `pagetoll read --how kvm` prints the commands", is: is_qemu_log },
    Lookalike { name: "records of an xentrace as text", remedy: "give the trace itself, or summarise it: xenalyze --summary TRACE > FILE", is: is_xentrace_text },
    Lookalike { name: "a bill", remedy: "print it with `pagetoll report FILE`", is: |head| has_line(head, "pagetoll.bill/") },
    Lookalike { name: "an HTML page", remedy: "save the capture that it shows", is: is_html },
    Lookalike { name: "compressed", remedy: "decompress it", is: is_compressed },
    Lookalike { name: "a file of symbols", remedy: "give it as --symbols", is: is_symbols },
];

impl Lookalike {
    /// Recognises a file by its first bytes, up to 64 KiB.
    pub(crate) fn recognise(head: &[u8]) -> Option<&'static Self> {
        LOOKALIKES.iter().find(|lookalike| (lookalike.is)(head))
    }
}

/// Lines that are looked at for a heading.
const LINES: usize = 16;

fn has_line(head: &[u8], text: &str) -> bool {
    first_lines(head)
        .take(LINES)
        .any(|line| line.contains(text))
}

/// `12345@1700000000.123456:kvm_run_exit cpu_index 0, reason 2`, since 6.2 also without process and time (`scripts/tracetool/backend/log.py`
/// of QEMU).
fn is_qemu_log(head: &[u8]) -> bool {
    let is_event = |line: &str| {
        let (start, event) = line.split_once(':')?;
        let (process, time) = start.split_once('@')?;
        let digits = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        (!process.is_empty() && digits(process) && digits(time) && !event.starts_with(' '))
            .then_some(())
    };
    let mut lines = first_lines(head).take(LINES);
    lines.any(|line| line.starts_with("kvm_run_exit cpu_index ") || is_event(line).is_some())
}

/// `CPU0  7123 (+  50)  vmexit  [ .. ]` of xentrace_format, `  0.000123456 x- d1v0 vmexit exit_reason HLT eip ..` of xenalyze.
fn is_xentrace_text(head: &[u8]) -> bool {
    const RECORDS: [&str; 3] = [
        " vmexit exit_reason ",
        " runstate_change d",
        " runstate_continue d",
    ];
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    first_lines(head).take(LINES).any(|line| {
        let of_cpu = line.strip_prefix("CPU").unwrap_or_default();
        let mut words = of_cpu.split_whitespace();
        let is_formatted = words.next().is_some_and(is_number)
            && words.next().is_some_and(is_number)
            && words.next().is_some_and(|since| since.starts_with("(+"));
        is_formatted || RECORDS.iter().any(|record| line.contains(record))
    })
}

fn is_html(head: &[u8]) -> bool {
    let start = first_lines(head).next().unwrap_or_default();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// gzip, zstd, xz, bzip2, zip.
fn is_compressed(head: &[u8]) -> bool {
    const MAGIC: [&[u8]; 5] = [
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
        b"\xfd7zXZ\0",
        b"BZh",
        b"PK\x03\x04",
    ];
    MAGIC.iter().any(|magic| head.starts_with(magic))
}

/// An ELF file, or lines such as `ffffffff81000000 T _text`.
fn is_symbols(head: &[u8]) -> bool {
    let mut words = first_lines(head).next().unwrap_or_default().split(' ');
    let is_address = |word: &str| word.len() == 16 && u64::from_str_radix(word, 16).is_ok();
    let is_line =
        words.next().is_some_and(is_address) && words.next().is_some_and(|kind| kind.len() == 1);
    is_line || head.starts_with(b"\x7fELF")
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use pagetoll_xentrace::symbols::Symbols;

    use crate::observe;

    #[test]
    fn each_kind_is_refused_with_its_remedy() {
        for (content, message) in [
            (&b""[..], "is empty; record a capture; `pagetoll read --how` prints the commands"),
            (b"{\"counter-value\" : \"52.000000\", \"unit\" : \"\", \"event\" : \"kvm:kvm_exit\"}\n", "is JSON of perf stat; record it as text: perf stat without -j"),
            (b"\x17\x08Dtracing6\0\0\x08", "is a trace.dat of trace-cmd; have trace-cmd print its events: --trace-cmd, or trace-cmd report -t -i FILE > FILE.txt"),
            (b"kvm_run_exit cpu_index 0, reason 2\n", "is a log of QEMU's trace events; record the host kernel's; `pagetoll read --how kvm` prints the commands"),
            (b"4711@1700000000.000123:kvm_run_exit cpu_index 0, reason 2\n", "is a log of QEMU's trace events; record the host kernel's; `pagetoll read --how kvm` prints the commands"),
            (b"CPU0  71234567 (+      50)  VMEXIT  [ exitcode = 0x0000000c ]\n", "is records of an xentrace as text; give the trace itself, or summarise it: xenalyze --summary TRACE > FILE"),
            (b"]  0.000123456 x- d1v0 vmexit exit_reason HLT eip ffffffff81000000\n", "is records of an xentrace as text; give the trace itself, or summarise it: xenalyze --summary TRACE > FILE"),
            (b"{\n  \"schema\": \"pagetoll.bill/1\",\n", "is a bill; print it with `pagetoll report FILE`"),
            (b"<!DOCTYPE html>\n<html lang=en>", "is an HTML page; save the capture that it shows"),
            (b"\x1f\x8b\x08\0", "is compressed; decompress it"),
            (b"\x7fELF\x02\x01\x01", "is a file of symbols; give it as --symbols"),
            (b"ffffffff81000000 T _text\n", "is a file of symbols; give it as --symbols"),
        ] {
            let refused = observe("f", Cursor::new(content), &Symbols::default());
            assert_eq!(refused.unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn other_files_are_refused_with_all_formats() {
        for content in [&b"hello\n"[..], b"# a comment\n", b"{}", &[0; 100]] {
            let refused = observe("f", Cursor::new(content), &Symbols::default());
            let message = refused.unwrap_err().to_string();
            assert!(
                message.starts_with("unrecognised capture format; expected one of: xentrace, "),
                "{message}"
            );
        }
    }
}
