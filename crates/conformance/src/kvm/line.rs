//! Reads a step: one line of a script.

use super::Place;
use super::case::{
    Actor, Binding, Call, Case, Memslot, MemslotCall, O_NONBLOCK, PageCall, Step, Touch,
    UFFD_USER_MODE_ONLY, UserfaultfdCall,
};
use crate::names::Names;

type Problem = String;

const PAGE: u64 = 4096;
/// Threads, and vCPUs, of a case.
const MOST_ACTORS: usize = 4;
/// `UFFD_API`, `sizeof(struct uffd_msg)`: include/uapi/linux/userfaultfd.h.
const API: u64 = 0xaa;
const MESSAGE: u64 = 32;
/// `UFFDIO_REGISTER_MODE_*`.
const REGISTER: Names<u64> = Names(&[("missing", 1), ("wp", 2), ("minor", 4)]);
/// `UFFDIO_COPY_MODE_*`, `UFFDIO_CONTINUE_MODE_*`; of `UFFDIO_ZEROPAGE_MODE_*` there is only the first.
const FILL: Names<u64> = Names(&[("dontwake", 1), ("wp", 2)]);
/// `UFFDIO_WRITEPROTECT_MODE_*`.
const PROTECT: Names<u64> = Names(&[("wp", 1), ("dontwake", 2)]);
/// `UFFD_FEATURE_*`.
const FEATURES: Names<u64> = Names(&[
    ("sigbus", 1 << 7),
    ("exact-address", 1 << 11),
    ("wp-unpopulated", 1 << 13),
]);
/// `KVM_MEM_*` of include/uapi/linux/kvm.h, and the exit-on-missing series' (kvm@vger.kernel.org, 15 February 2024).
const SLOT: Names<u64> = Names(&[
    ("log-dirty", 1),
    ("readonly", 2),
    ("guest-memfd", 4),
    ("exit-on-missing", 8),
]);
/// `GUEST_MEMFD_FLAG_MMAP`, `GUEST_MEMFD_FLAG_INIT_SHARED`.
const GMEM: Names<u64> = Names(&[("mmap", 1), ("init-shared", 2)]);

/// Reads a step; names that it brings are added to the case.
pub(super) fn step(text: &str, case: &mut Case) -> Result<Step, Problem> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole = (Place::default(), 0);
    let (call, (at, bytes)) = match words[..] {
        ["userfaultfd", name, ref flags @ ..] => (open(name, flags, case)?, whole),
        ["gmem", name, size, ref flags @ ..] => {
            case.gmems.push(name.to_owned());
            let gmem = case.gmems.len() - 1;
            let flags = bits(flags, &GMEM)?;
            let call = Call::Memslot(MemslotCall::CreateGmem { gmem, flags });
            (call, (Place::default(), self::bytes(size)?))
        }
        ["close-gmem", name] => {
            let gmem = found(&case.gmems, name, "guest_memfd")?;
            (Call::Memslot(MemslotCall::CloseGmem { gmem }), whole)
        }
        ["dirty", slot] => {
            let slot = narrow(number(slot)?)?;
            (Call::Memslot(MemslotCall::Dirty { slot }), whole)
        }
        ["slot" | "slot2", id, at, size, "at", gpa, ref rest @ ..] => {
            let call = slot(words[0], id, gpa, rest, case)?;
            (call, range(case, at, size)?)
        }
        ["show", name] => {
            let at = place(case, name)?;
            let memory = at.memory.map(|memory| &case.memories[memory]);
            let bytes = memory.map_or(0, super::Memory::bytes);
            (Call::Pages(PageCall::Show), (at, bytes))
        }
        ["discard", at, size] => (Call::Pages(PageCall::Discard), range(case, at, size)?),
        ["munmap", at, size] => (Call::Pages(PageCall::Unmap), range(case, at, size)?),
        [who, what, ref rest @ ..] if actor(who).is_some() => {
            (touch(who, what, rest, case)?, whole)
        }
        [what, name, ref rest @ ..] => userfaultfd(what, name, rest, case)?,
        _ => return Err(unknown(text)),
    };
    let text = text.to_owned();
    Ok(Step {
        text,
        call,
        at,
        bytes,
    })
}

fn unknown(text: &str) -> Problem {
    format!("'{text}': expected a step, of those that conformance/kvm/README.md lists")
}

fn open(name: &str, flags: &[&str], case: &mut Case) -> Result<Call, Problem> {
    let mut bits = O_NONBLOCK;
    for flag in flags {
        match *flag {
            "blocking" => bits &= !O_NONBLOCK,
            "user-mode-only" => bits |= UFFD_USER_MODE_ONLY,
            other => return Err(format!("'{other}': expected blocking or user-mode-only")),
        }
    }
    case.userfaultfds.push(name.to_owned());
    let call = UserfaultfdCall::Open { flags: bits };
    Ok(Call::Userfaultfd(case.userfaultfds.len() - 1, call))
}

fn userfaultfd(
    what: &str,
    name: &str,
    rest: &[&str],
    case: &Case,
) -> Result<(Call, (Place, u64)), Problem> {
    use UserfaultfdCall as Uffd;
    let none = (Place::default(), 0);
    let (call, range) = match (what, rest) {
        ("api", options) => (api(options)?, none),
        ("poll", []) => (Uffd::Poll, none),
        ("read", []) => (Uffd::Read { bytes: MESSAGE }, none),
        ("read", ["bytes", bytes]) => {
            let bytes = self::bytes(bytes)?;
            (Uffd::Read { bytes }, none)
        }
        ("close", []) => (Uffd::Close, none),
        ("register", [at, size, modes @ ..]) => {
            let mode = bits(modes, &REGISTER)?;
            (Uffd::Register { mode }, range(case, at, size)?)
        }
        ("unregister", [at, size]) => (Uffd::Unregister, range(case, at, size)?),
        ("wake", [at, size]) => (Uffd::Wake, range(case, at, size)?),
        ("copy", [at, size, "from", from, modes @ ..]) => {
            let from = place(case, from)?;
            let mode = bits(modes, &FILL)?;
            (Uffd::Copy { from, mode }, range(case, at, size)?)
        }
        ("zeropage", [at, size, modes @ ..]) => {
            let mode = bits(modes, &FILL)?;
            (Uffd::Zeropage { mode }, range(case, at, size)?)
        }
        ("continue", [at, size, modes @ ..]) => {
            let mode = bits(modes, &FILL)?;
            (Uffd::Continue { mode }, range(case, at, size)?)
        }
        ("writeprotect", [at, size, modes @ ..]) => {
            let mode = bits(modes, &PROTECT)?;
            (Uffd::Writeprotect { mode }, range(case, at, size)?)
        }
        _ => return Err(unknown(what)),
    };
    let uffd = found(&case.userfaultfds, name, "userfaultfd")?;
    Ok((Call::Userfaultfd(uffd, call), range))
}

fn api(options: &[&str]) -> Result<UserfaultfdCall, Problem> {
    let (version, names) = match options {
        ["version", version, rest @ ..] => (number(version)?, rest),
        rest => (API, rest),
    };
    let features = bits(names, &FEATURES)?;
    Ok(UserfaultfdCall::Api { version, features })
}

fn slot(form: &str, id: &str, gpa: &str, rest: &[&str], case: &Case) -> Result<Call, Problem> {
    let (flags, gmem) = match rest {
        [flags @ .., "gmem", name, offset] => (flags, Some((*name, *offset))),
        flags => (flags, None),
    };
    let binding = match (form, gmem) {
        ("slot", None) => None,
        ("slot", Some(_)) => return Err("only slot2 has a gmem".to_owned()),
        (_, None) => Some(Binding {
            gmem: None,
            offset: 0,
        }),
        (_, Some((name, offset))) => Some(Binding {
            gmem: Some(found(&case.gmems, name, "guest_memfd")?),
            offset: bytes(offset)?,
        }),
    };
    Ok(Call::Memslot(MemslotCall::Set(Memslot {
        slot: narrow(number(id)?)?,
        flags: narrow(bits(flags, &SLOT)?)?,
        gpa: bytes(gpa)?,
        binding,
    })))
}

fn touch(who: &str, what: &str, rest: &[&str], case: &Case) -> Result<Call, Problem> {
    let actor = actor(who).ok_or("")??;
    let touch = match (actor, what, rest) {
        (_, "await", []) => Touch::Await,
        (Actor::Thread(_), "load", [at]) | (Actor::Vcpu(_), "read", [at]) => {
            Touch::Read(place(case, at)?)
        }
        (Actor::Thread(_), "store", [at, word]) | (Actor::Vcpu(_), "write", [at, word]) => {
            Touch::Write(place(case, at)?, number(word)?)
        }
        (Actor::Vcpu(_), "run", []) => Touch::Run(0),
        (Actor::Vcpu(_), "run", [word]) => Touch::Run(number(word)?),
        _ => {
            return Err(format!(
                "'{who} {what}': expected load, store or await of a thread; read, write, run or await of a vCPU"
            ));
        }
    };
    Ok(Call::Touch(actor, touch))
}

/// `t1` to `t4`, `v1` to `v4`; `None` for words that look like neither.
fn actor(word: &str) -> Option<Result<Actor, Problem>> {
    let kind = word
        .chars()
        .next()
        .filter(|kind| matches!(kind, 't' | 'v'))?;
    let number: usize = word.get(1..)?.parse().ok()?;
    Some(match (kind, number) {
        (_, n) if n == 0 || n > MOST_ACTORS => {
            Err(format!("'{word}': expected {kind}1 to {kind}{MOST_ACTORS}"))
        }
        ('t', n) => Ok(Actor::Thread(n - 1)),
        (_, n) => Ok(Actor::Vcpu(n - 1)),
    })
}

fn found(names: &[String], name: &str, what: &str) -> Result<usize, Problem> {
    let found = names.iter().rposition(|known| known == name);
    found.ok_or_else(|| format!("'{name}': expected a {what} of the case"))
}

fn range(case: &Case, at: &str, size: &str) -> Result<(Place, u64), Problem> {
    Ok((place(case, at)?, bytes(size)?))
}

/// `NAME`, `NAME+SIZE`, or an address.
fn place(case: &Case, at: &str) -> Result<Place, Problem> {
    let (name, offset) = at.split_once('+').unwrap_or((at, "0"));
    let memory = case.memories.iter().position(|memory| memory.name == name);
    match memory {
        Some(_) => Ok(Place {
            memory,
            offset: bytes(offset)?,
        }),
        None if name.starts_with("0x") => Ok(Place {
            memory,
            offset: bytes(name)?,
        }),
        None => Err(format!(
            "'{name}': expected a memory of the case, or an address"
        )),
    }
}

/// Names and numbers, together; `mode`, `flags` and `features` may stand before a number.
fn bits(words: &[&str], known: &Names<u64>) -> Result<u64, Problem> {
    let mut bits = 0;
    let plain = words
        .iter()
        .filter(|word| !matches!(**word, "mode" | "flags" | "features"));
    for word in plain.flat_map(|word| word.split(',')) {
        let expected = |_| format!("'{word}': expected {} or a number", known.listed());
        bits |= match known.find(word) {
            Some(bit) => bit,
            None => number(word).map_err(expected)?,
        };
    }
    Ok(bits)
}

/// Pages with a `p`, else bytes.
fn bytes(text: &str) -> Result<u64, Problem> {
    match text.strip_suffix('p').map(number) {
        Some(pages) => pages?
            .checked_mul(PAGE)
            .ok_or_else(|| format!("'{text}': beyond 64 bits")),
        None => number(text),
    }
}

fn narrow(number: u64) -> Result<u32, Problem> {
    u32::try_from(number).map_err(|_| format!("'{number:#x}': beyond 32 bits"))
}

pub(super) fn number(text: &str) -> Result<u64, Problem> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}': expected a number"))
}
