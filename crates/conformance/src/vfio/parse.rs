//! Reads scripts. The format: `conformance/vfio/README.md`.

use super::case::{Call, Case, DmaFlags, MapDma, Memory, Shape, Step, UnmapDma};
use crate::names::Names;
use crate::script::{self, ScriptError};

type Problem = String;

/// `sizeof(struct vfio_iommu_type1_dma_map)` and `..._unmap`: include/uapi/linux/vfio.h.
const MAP_ARGSZ: u64 = 32;
const UNMAP_ARGSZ: u64 = 24;
/// `VFIO_DMA_UNMAP_FLAG_ALL`: the same file.
const UNMAP_FLAG_ALL: u64 = 2;
/// `VFIO_DMA_MAP_FLAG_READ` and `_WRITE`, as scripts say them.
const PROTECTIONS: Names<u64> = Names(&[("-", 0), ("r", 1), ("w", 2), ("rw", 3)]);
const PAGE: u64 = 4096;
/// Capacity of the probe.
const MOST_MEMORIES: usize = 4;
const MOST_STEPS: usize = 48;

/// Reads the cases of a script.
///
/// # Errors
/// [`ScriptError`] for the first malformed line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, ScriptError> {
    script::read(file, text, take)
}

fn take(line: &str, cases: &mut Vec<Case>) -> Result<(), Problem> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    if word == "case" {
        cases.push(Case {
            name: rest.to_owned(),
            about: String::new(),
            memories: Vec::new(),
            limit: None,
            steps: Vec::new(),
        });
        return Ok(());
    }
    let case = cases.last_mut().ok_or("expected `case NAME` first")?;
    match word {
        "about" => rest.clone_into(&mut case.about),
        "memory" => {
            let words: Vec<_> = rest.split_whitespace().collect();
            let [name, shape, pages] = words[..] else {
                return Err(format!("memory {rest}: expected NAME SHAPE PAGES"));
            };
            let shape = Names(&Shape::ALL).one_of("shape", shape)?;
            if case.memories.len() == MOST_MEMORIES {
                return Err(format!("more than {MOST_MEMORIES} memories"));
            }
            case.memories.push(Memory {
                name: name.to_owned(),
                shape,
                pages: number(pages)?,
            });
        }
        "limit" => case.limit = Some(number(rest)?),
        _ => add_step(line, case)?,
    }
    Ok(())
}

fn add_step(line: &str, case: &mut Case) -> Result<(), Problem> {
    if case.steps.len() == MOST_STEPS {
        return Err(format!("more than {MOST_STEPS} steps"));
    }
    let words: Vec<_> = line.split_whitespace().collect();
    let call = match words[..] {
        ["map", at, size, "at", iova, prot, ref rest @ ..] => {
            map(case, at, size, iova, prot, rest)?
        }
        ["unmap", iova, range, ref rest @ ..] => Call::Unmap(UnmapDma {
            iova: bytes(iova)?,
            size: bytes(range)?,
            argument: argument(rest, 0, UNMAP_ARGSZ)?,
        }),
        ["unmap-all"] => Call::Unmap(UnmapDma {
            iova: 0,
            size: 0,
            argument: DmaFlags {
                flags: UNMAP_FLAG_ALL,
                argsz: UNMAP_ARGSZ,
            },
        }),
        ["read", iova] => Call::Read { iova: bytes(iova)? },
        ["write", iova, at] => write(case, iova, at)?,
        _ => {
            return Err(format!(
                "'{line}': expected map, unmap, unmap-all, read or write"
            ));
        }
    };
    let text = line.to_owned();
    case.steps.push(Step { text, call });
    Ok(())
}

fn map(
    case: &Case,
    at: &str,
    size: &str,
    iova: &str,
    prot: &str,
    rest: &[&str],
) -> Result<Call, Problem> {
    let access = PROTECTIONS.find(prot);
    let access = access.ok_or_else(|| format!("'{prot}': expected rw, r, w or -"))?;
    let (memory, offset) = place(case, at)?;
    Ok(Call::Map(MapDma {
        memory,
        offset,
        iova: bytes(iova)?,
        size: bytes(size)?,
        argument: argument(rest, access, MAP_ARGSZ)?,
    }))
}

fn write(case: &Case, iova: &str, at: &str) -> Result<Call, Problem> {
    let (memory, offset) = place(case, at)?;
    Ok(Call::Write {
        iova: bytes(iova)?,
        memory: memory.ok_or_else(|| format!("'{at}': expected a memory of the case"))?,
        offset,
    })
}

/// `NAME`, `NAME+SIZE`, or an address.
fn place(case: &Case, at: &str) -> Result<(Option<usize>, u64), Problem> {
    let (name, offset) = at.split_once('+').unwrap_or((at, "0"));
    match case.memories.iter().position(|memory| memory.name == name) {
        Some(memory) => Ok((Some(memory), bytes(offset)?)),
        None if name.starts_with("0x") => Ok((None, bytes(name)?)),
        None => Err(format!(
            "'{name}': expected a memory of the case, or an address"
        )),
    }
}

/// `flags N` and `argsz N`, in any order.
fn argument(words: &[&str], flags: u64, argsz: u64) -> Result<DmaFlags, Problem> {
    let mut argument = DmaFlags { flags, argsz };
    for pair in words.chunks(2) {
        match pair {
            ["flags", value] => argument.flags |= bytes(value)?,
            ["argsz", value] => argument.argsz = bytes(value)?,
            _ => return Err(format!("'{}': expected flags N or argsz N", pair.join(" "))),
        }
    }
    Ok(argument)
}

/// Pages with a `p`, else bytes.
fn bytes(text: &str) -> Result<u64, Problem> {
    let pages = text.strip_suffix('p').map(number);
    match pages {
        Some(pages) => pages?
            .checked_mul(PAGE)
            .ok_or_else(|| format!("'{text}': beyond 64 bits")),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, Problem> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}': expected a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "case c\nmemory a 4K 8\n";

    fn step(line: &str) -> Result<Call, String> {
        parse("x", &format!("{HEAD}{line}\n"))
            .map(|cases| cases[0].steps[0].call)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn sizes_are_bytes_or_pages() {
        let map = step("map a+3p 0x1800 at 2p rw").unwrap();
        let expected = Call::Map(MapDma {
            memory: Some(0),
            offset: 3 * PAGE,
            iova: 2 * PAGE,
            size: 0x1800,
            argument: DmaFlags {
                flags: 3,
                argsz: 32,
            },
        });
        assert_eq!(map, expected);
    }

    #[test]
    fn malformed_input_is_reported_with_its_line() {
        for (line, problem) in [
            ("map b 1p at 0 rw", "x:3: 'b': expected a memory"),
            ("map a 1p at 0 x", "'x': expected rw, r, w or -"),
            ("read now", "'now': expected a number"),
            ("unmap 0 1p size 3", "expected flags N or argsz N"),
            ("memory b 3M 1", "shape '3M': expected one of 4K"),
            ("jump", "expected map, unmap"),
        ] {
            let error = step(line).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        let early = parse("x", "read 0\n").unwrap_err();
        assert_eq!(early.to_string(), "x:1: expected `case NAME` first");
    }
}
