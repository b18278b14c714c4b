//! A case as the numbers that the guest's init reads (`guests/init/conformance.c`), and frames back from theirs.

use std::fmt::Write;

use pagetoll_conformance::{
    Case, Ext, ExtArgument, Flush, Native, Operation, Place, Symbol, Target, Update, Value,
};

/// `XEN_PROBE_PAGES`: the numbers of the fixed frames follow, in the order of [`Symbol::FIXED`].
const PAGES: usize = 8;
/// `XEN_PROBE_NO_FRAME`.
const NO_FRAME: usize = 255;
/// `enum xen_probe_meaning`.
const PLAIN: u32 = 0;
const MASK: u32 = 1;
const UNREADABLE: u32 = 2;

/// One `struct xen_probe_request`.
#[derive(Clone, Copy, Default)]
struct Request {
    bits: [u64; 2],
    frame: [Option<Symbol>; 2],
    command: u32,
    meaning: u32,
    is_address: bool,
}

/// One `struct xen_probe_step`, without its requests.
#[derive(Clone, Copy, Default)]
struct Step {
    operation: u32,
    domain: u32,
    count: u32,
    done: u32,
    flags: u64,
    mask: u64,
    meaning: u32,
}

/// The lines of a case.
pub(super) fn case(index: usize, case: &Case) -> String {
    let mut steps = String::new();
    let mut requests = String::new();
    let mut first = 0;
    for step in &case.steps {
        let (step, own) = encode(&step.operation);
        let Step {
            operation,
            domain,
            count,
            done,
            flags,
            mask,
            meaning,
        } = step;
        let len = own.len();
        // Writing to a string does not fail.
        let _ = writeln!(
            steps,
            "step {operation} {domain} {first} {len} {count} {done} {flags} {mask} {meaning}"
        );
        for request in own {
            requests += &line(request);
        }
        first += len;
    }
    format!("case {index} {}\n{steps}{requests}end\n", case.pages.len())
}

fn line(request: Request) -> String {
    let Request {
        bits,
        frame,
        command,
        meaning,
        is_address,
    } = request;
    let [first, second] = frame.map(number);
    let is_address = u32::from(is_address);
    format!(
        "request {} {} {first} {second} {command} {meaning} {is_address}\n",
        bits[0], bits[1]
    )
}

fn number(symbol: Option<Symbol>) -> usize {
    let fixed = |symbol| Symbol::FIXED.iter().position(|(_, known)| *known == symbol);
    match symbol {
        None => NO_FRAME,
        Some(Symbol::Page(index)) => usize::from(index),
        Some(other) => fixed(other).map_or(NO_FRAME, |index| PAGES + index),
    }
}

/// Which frame lay where.
pub(super) fn frames(case: &Case, numbers: &[u64]) -> Vec<(Symbol, u64)> {
    let own = (0..).map(Symbol::Page).take(case.pages.len());
    let fixed = Symbol::FIXED.iter().map(|(_, symbol)| *symbol);
    let named = own.chain(fixed);
    named
        .filter_map(|symbol| Some((symbol, *numbers.get(number(Some(symbol)))?)))
        .collect()
}

fn encode(operation: &Operation) -> (Step, Vec<Request>) {
    match operation {
        Operation::MmuUpdate(batch) => {
            let step = call(1, batch.count, batch.done, batch.domain);
            (step, batch.requests.iter().map(update).collect())
        }
        Operation::MmuExtOp(batch) => {
            let step = call(2, batch.count, batch.done, u32::from(batch.domain));
            (step, batch.requests.iter().map(ext).collect())
        }
        Operation::UpdateVaMapping(update) => {
            let (meaning, mask, flag) = flags(update.flush);
            let step = Step {
                operation: if update.domain.is_none() { 3 } else { 4 },
                domain: update.domain.map_or(0, u32::from),
                flags: u64::from(update.flush_type) | flag,
                mask,
                meaning,
                ..Step::default()
            };
            (step, vec![va(update.at, update.value)])
        }
        Operation::Multicall(count) => {
            let count = u32::try_from(*count).unwrap_or(u32::MAX);
            (call(5, count, 0, 0), Vec::new())
        }
        Operation::Native {
            native,
            place,
            bytes,
        } => instruction(*native, *place, *bytes),
        Operation::MachineToPhys(symbol) => {
            let request = Request {
                frame: [Some(*symbol), None],
                ..Request::default()
            };
            (call(10, 0, 0, 0), vec![request])
        }
    }
}

fn call(operation: u32, count: u32, done: u32, domain: u32) -> Step {
    Step {
        operation,
        count,
        done,
        domain,
        ..Step::default()
    }
}

fn update(update: &Update) -> Request {
    Request {
        bits: [
            update.place.offset | u64::from(update.command),
            update.value.bits,
        ],
        frame: [Some(update.place.frame), update.value.frame],
        ..Request::default()
    }
}

fn ext(ext: &Ext) -> Request {
    let (bits, frame, _, is_address) = argument(ext.first);
    let (second_bits, second_frame, meaning, _) = argument(ext.second);
    Request {
        bits: [bits, second_bits],
        frame: [frame, second_frame],
        command: ext.command,
        meaning,
        is_address,
    }
}

fn argument(argument: ExtArgument) -> (u64, Option<Symbol>, u32, bool) {
    match argument {
        ExtArgument::Number(number) => (number, None, PLAIN, false),
        ExtArgument::Frame(symbol) => (0, Some(symbol), PLAIN, false),
        ExtArgument::Address(symbol) => (0, Some(symbol), PLAIN, true),
        ExtArgument::Mask(bits) => (bits, None, MASK, false),
        ExtArgument::ReadError => (0, None, UNREADABLE, false),
    }
}

/// The number of the flush, the bitmap, and `UVMF_ALL`.
const fn flags(flush: Flush) -> (u32, u64, u64) {
    match flush {
        Flush::Local => (PLAIN, 0, 0),
        Flush::All => (PLAIN, 0, 1 << 2),
        Flush::Mask(bits) => (MASK, bits, 0),
        Flush::ReadError => (UNREADABLE, 0, 0),
    }
}

fn va(at: Target, value: Value) -> Request {
    let (bits, frame) = match at {
        Target::Page(symbol) => (0, Some(symbol)),
        Target::Address(address) => (address, None),
    };
    Request {
        bits: [bits, value.bits],
        frame: [frame, value.frame],
        ..Request::default()
    }
}

fn instruction(native: Native, place: Place, bytes: u32) -> (Step, Vec<Request>) {
    let request = |value: Value| Request {
        bits: [place.offset, value.bits],
        frame: [Some(place.frame), value.frame],
        ..Request::default()
    };
    let (operation, requests) = match native {
        Native::Load => (6, vec![request(Value::default())]),
        Native::Store(value) => (7, vec![request(value)]),
        Native::Exchange(value) => (8, vec![request(value)]),
        Native::CompareExchange { old, new } => (9, vec![request(new), request(old)]),
    };
    (call(operation, bytes, 0, 0), requests)
}

#[cfg(test)]
mod tests {
    use pagetoll_conformance::{all, parse};

    use super::*;

    #[test]
    fn a_case_is_told_in_numbers() {
        let script = "case c\npages a l1\nmmu-update ad:l1[2]=a+P done=5\nmmuext invlpg-multi=&a,mask:0x3\nstore l1[0]=7\n";
        let cases = parse("x", script).unwrap();
        let expected = "case 4 2\n\
            step 1 32752 0 1 1 5 0 0 0\n\
            step 2 32752 1 1 1 0 0 0 0\n\
            step 7 0 2 1 8 0 0 0 0\n\
            request 18 1 1 0 0 0 0\n\
            request 0 3 0 255 9 1 1\n\
            request 0 7 1 255 0 0 0\n\
            end\n";
        assert_eq!(case(4, &cases[0]), expected);
    }

    #[test]
    fn every_case_has_room_in_the_probe() {
        for (index, one) in all().unwrap().iter().enumerate() {
            let lines = case(index, one);
            let requests = lines
                .lines()
                .filter(|line| line.starts_with("request"))
                .count();
            assert!(requests <= 64 && one.steps.len() <= 32, "{}", one.name);
        }
    }

    #[test]
    fn frames_come_back_by_name() {
        let cases = parse("x", "case c\npages a\n").unwrap();
        let numbers: Vec<u64> = (100..116).collect();
        let frames = frames(&cases[0], &numbers);
        assert_eq!(frames[0], (Symbol::Page(0), 100));
        assert_eq!(frames[1], (Symbol::Foreign, 108));
        assert_eq!(frames.len(), 9);
    }
}
