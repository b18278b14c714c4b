//! Each record of a capture of xentrace, in the file's order: what xenalyze prints with `-a`, and the functions that were in.

use std::io::{self, Read, Write};

use pagetoll_xentrace::symbols::Symbols;
use pagetoll_xentrace::{
    HvmEvent, Hypercall, LostRecords, PvEvent, Reader, Record, SchedEvent, XentraceError,
};

/// Failure of a dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Another file, or a capture that is damaged or ends early.
    #[error(transparent)]
    Capture(#[from] XentraceError),
    /// Writing a line failed.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

/// Writes a line for each record: time stamp, CPU, event.
///
/// # Errors
/// [`DumpError`]; what precedes was written.
pub fn dump(source: impl Read, symbols: &Symbols, out: &mut impl Write) -> Result<(), DumpError> {
    let mut reader = Reader::new(source);
    while let Some(record) = reader.next_record()? {
        let event = described(&record, symbols)?;
        match record.tsc {
            Some(tsc) => writeln!(out, "{tsc:>16} cpu{:<3} {event}", record.cpu.0)?,
            None => writeln!(out, "{:>16} cpu{:<3} {event}", "-", record.cpu.0)?,
        }
    }
    Ok(())
}

fn described(record: &Record<'_>, symbols: &Symbols) -> Result<String, XentraceError> {
    if let Some(event) = PvEvent::decode(record)? {
        return Ok(of_pv(&event, symbols));
    }
    if let Some(event) = HvmEvent::decode(record)? {
        return Ok(match event {
            HvmEvent::Exit { reason, rip } => {
                format!("exit {} {}", reason.name(), at(rip, symbols))
            }
            HvmEvent::Entry => "entry".to_owned(),
        });
    }
    if let Some(event) = SchedEvent::decode(record)? {
        return Ok(match event {
            SchedEvent::RunstateChange { vcpu, old, new } => {
                format!("runstate {vcpu} {} -> {}", old.name(), new.name())
            }
            SchedEvent::ContinueRunning { vcpu } => format!("continues {vcpu}"),
        });
    }
    if let Some(lost) = LostRecords::decode(record)? {
        return Ok(format!(
            "lost {} records; {} runs",
            lost.count, lost.running
        ));
    }
    let event = record.event;
    Ok(format!("{} {event} {:x?}", event.class(), record.words))
}

fn of_pv(event: &PvEvent<'_>, symbols: &Symbols) -> String {
    match event {
        PvEvent::Hypercall(call) => format!("hypercall {}", of_call(call)),
        PvEvent::Subcall(call) => format!("subcall {}", of_call(call)),
        PvEvent::PtwrEmulation { pte, addr, rip } => {
            format!("ptwr {} entry {addr:#x} = {pte:#x}", at(*rip, symbols))
        }
        PvEvent::PageFault {
            rip,
            addr,
            error_code,
        } => format!(
            "page_fault {} address {addr:#x} error {error_code:#x}",
            at(*rip, symbols)
        ),
        PvEvent::EmulatePrivop { rip } => format!("emulate_privop {}", at(*rip, symbols)),
        PvEvent::Trap { rip, trapnr, .. } => format!("trap {trapnr} {}", at(*rip, symbols)),
        other => format!("{other:x?}"),
    }
}

/// Its name, and its arguments by number.
fn of_call(call: &Hypercall<'_>) -> String {
    let arguments = (0..6).filter_map(|index| Some(format!(" {index}:{:#x}", call.arg(index)?)));
    let arguments: String = arguments.collect();
    format!("{}{arguments}", call.op)
}

fn at(address: u64, symbols: &Symbols) -> String {
    match symbols.at(address) {
        Some(symbol) => format!("{address:#x} {}", symbol.name),
        None => format!("{address:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURE: &[u8] = include_bytes!("../../xentrace/tests/data/xentrace-unmap.bin");

    fn dumped(bytes: &[u8], symbols: &str) -> (Result<(), DumpError>, String) {
        let mut out = Vec::new();
        let ended = dump(bytes, &Symbols::from_kallsyms(symbols), &mut out);
        (ended, String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_record_is_a_line_and_traps_name_their_function() {
        let (ended, text) = dumped(CAPTURE, "ffffffff812cb000 T zap\n");
        ended.unwrap();
        let mut reader = Reader::new(CAPTURE);
        let mut records = 0;
        while reader.next_record().unwrap().is_some() {
            records += 1;
        }
        assert_eq!(text.lines().count(), records);
        let traps = text
            .lines()
            .filter(|line| line.contains(" ptwr 0xffffffff812cb845 zap entry 0x"));
        assert_eq!(traps.count(), 768);
        assert!(text.contains("hypercall xen_version"));
    }

    #[test]
    fn what_precedes_an_end_is_written() {
        let (ended, text) = dumped(&CAPTURE[..1000], "");
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("the trace ends inside"), "{error}");
        assert!(text.lines().count() > 10);
    }
}
