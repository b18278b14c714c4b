//! Reads scripts. The format: `conformance/kvm/README.md`.

use super::case::{Case, Content, Kind, Memory, Need, Version};
use super::line;
use crate::names::Names;
use crate::script::{self, ScriptError};

type Problem = String;

/// Pages that a memory has at most, so that a case stays small.
const MOST_PAGES: u64 = 1024;

/// Reads the cases of a script.
///
/// # Errors
/// [`ScriptError`] for the first malformed line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, ScriptError> {
    script::read(file, text, take)
}

fn take(text: &str, cases: &mut Vec<Case>) -> Result<(), Problem> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let rest = rest.trim();
    if word == "case" {
        cases.push(Case {
            name: rest.to_owned(),
            about: String::new(),
            needs: Vec::new(),
            memories: Vec::new(),
            userfaultfds: Vec::new(),
            gmems: Vec::new(),
            steps: Vec::new(),
        });
        return Ok(());
    }
    let case = cases.last_mut().ok_or("expected `case NAME` first")?;
    match word {
        "about" => rest.clone_into(&mut case.about),
        "needs" => case.needs.push(need(rest)?),
        "memory" => case.memories.push(memory(rest)?),
        _ => {
            let step = line::step(text, case)?;
            case.steps.push(step);
        }
    }
    Ok(())
}

fn need(rest: &str) -> Result<Need, Problem> {
    let (need, release): (fn(Version) -> Need, _) = match rest.split_once(' ') {
        Some(("linux", release)) => (Need::Linux, release),
        Some(("linux-before", release)) => (Need::LinuxBefore, release),
        _ => return Names(&Need::NAMED).one_of("need", rest),
    };
    let unknown = || format!("'{release}': expected a version of Linux, as 6.17");
    Version::from_release(release).map(need).ok_or_else(unknown)
}

fn memory(rest: &str) -> Result<Memory, Problem> {
    let words: Vec<_> = rest.split_whitespace().collect();
    let (name, kind, pages, content) = match words[..] {
        [name, kind, pages] => (name, kind, pages, Content::Empty),
        [name, kind, pages, "filled"] => (name, kind, pages, Content::Filled),
        [name, kind, pages, "cached"] => (name, kind, pages, Content::Cached),
        _ => {
            return Err(format!(
                "memory {rest}: expected NAME KIND PAGES [filled|cached]"
            ));
        }
    };
    let kind = Names(&Kind::ALL).one_of("kind", kind)?;
    let pages = line::number(pages)?;
    if pages == 0 || pages > MOST_PAGES {
        return Err(format!("{pages} pages: expected 1 to {MOST_PAGES}"));
    }
    let file = matches!(kind, Kind::Shmem | Kind::Hugetlb);
    match (kind, content) {
        (Kind::None, Content::Empty) => {}
        (Kind::None, _) => return Err("no memory has no content".to_owned()),
        (_, Content::Cached) if !file => return Err("only a file's pages are cached".to_owned()),
        _ => {}
    }
    Ok(Memory {
        name: name.to_owned(),
        kind,
        pages,
        content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kvm::{Actor, Binding, Call, Memslot, MemslotCall, Place, Touch, UserfaultfdCall};

    const HEAD: &str = "case c\nmemory a anonymous 8\nuserfaultfd u\ngmem g 8p\n";

    fn step(line: &str) -> Result<Call, String> {
        parse("x", &format!("{HEAD}{line}\n"))
            .map(|cases| cases[0].steps[2].call)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_call_has_its_range_and_its_bits() {
        let text = format!("{HEAD}copy u a+1p 0x2000 from a+3p dontwake mode 0x8\n");
        let cases = parse("x", &text).unwrap();
        let step = &cases[0].steps[2];
        let place = |offset| Place {
            memory: Some(0),
            offset,
        };
        assert_eq!((step.at, step.bytes), (place(0x1000), 0x2000));
        let from = place(0x3000);
        let call = UserfaultfdCall::Copy { from, mode: 9 };
        assert_eq!(step.call, Call::Userfaultfd(0, call));
    }

    #[test]
    fn slots_are_set_with_names_or_bits() {
        let set = |flags, binding| {
            Call::Memslot(MemslotCall::Set(Memslot {
                slot: 3,
                flags,
                gpa: 1 << 32,
                binding,
            }))
        };
        let ordinary = step("slot 3 a 4p at 0x100000000 readonly log-dirty");
        assert_eq!(ordinary.unwrap(), set(3, None));
        let second = step("slot2 3 a 4p at 0x100000000 guest-memfd gmem g 2p");
        assert_eq!(
            second.unwrap(),
            set(
                4,
                Some(Binding {
                    gmem: Some(0),
                    offset: 0x2000
                })
            )
        );
        let unbound = step("slot2 3 a 4p at 0x100000000 0x10");
        assert_eq!(
            unbound.unwrap(),
            set(
                0x10,
                Some(Binding {
                    gmem: None,
                    offset: 0
                })
            )
        );
    }

    #[test]
    fn actors_are_numbered_from_one() {
        let at = Place {
            memory: Some(0),
            offset: 8,
        };
        let read = Call::Touch(Actor::Thread(1), Touch::Read(at));
        assert_eq!(step("t2 load a+8").unwrap(), read);
        let at = Place {
            memory: None,
            offset: 0x1000,
        };
        let write = Call::Touch(Actor::Vcpu(0), Touch::Write(at, 7));
        assert_eq!(step("v1 write 0x1000 7").unwrap(), write);
    }

    #[test]
    fn a_case_may_need_a_version_of_the_kernel() {
        let needs = |text: &str| parse("x", text).map(|cases| cases[0].needs.clone());
        let version = |major, minor| Need::Linux(Version { major, minor });
        let script = "case c\nneeds linux 6.17\nneeds linux-before 7.2\nneeds wp\n";
        let (major, minor) = (7, 2);
        let before = Need::LinuxBefore(Version { major, minor });
        assert_eq!(needs(script).unwrap(), [version(6, 17), before, Need::Wp]);
        assert_eq!(version(6, 17).to_string(), "linux 6.17");
        assert_eq!(before.to_string(), "linux-before 7.2");
        assert!(version(6, 4).lacking().contains("Linux 6.4"));
        assert!(Version::from_release("6.18.9-amd64") > Version::from_release("6.2-rc1"));
        let error = needs("case c\nneeds linux six\n").unwrap_err();
        assert!(error.to_string().contains("'six': expected a version"));
    }

    #[test]
    fn malformed_input_is_reported_with_its_line() {
        for (line, problem) in [
            (
                "memory b sand 1",
                "x:5: kind 'sand': expected one of anonymous",
            ),
            ("memory b anonymous 1 cached", "only a file's pages"),
            ("needs luck", "need 'luck': expected one of"),
            ("poll w", "'w': expected a userfaultfd of the case"),
            ("register u a 1p sometimes", "'sometimes': expected"),
            ("t9 load a", "'t9': expected t1 to t4"),
            ("t1 load b", "'b': expected a memory of the case"),
            ("slot x a 1p at 0", "'x': expected a number"),
            ("slot 1 a 1p at 0 quickly", "'quickly': expected"),
            ("copy u a 1p from a slowly", "'slowly': expected"),
            ("jump", "'jump': expected a step"),
        ] {
            let error = step(line).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let early = parse("x", "poll u\n").unwrap_err();
        assert_eq!(early.to_string(), "x:1: expected `case NAME` first");
    }
}
