//! Parser of scripts. Format: `conformance/README.md`.

use super::case::{
    Batch, Case, Ext, ExtArgument, Flush, Native, Operation, Place, Step, Symbol, Target, Update,
    VaUpdate, Value,
};
use super::names::{DOMAINS, DOMID_SELF, EXT_COMMANDS, FLAGS, UPDATE_COMMANDS, number};
use crate::names::Names;
use crate::script::{self, ScriptError};

/// Limits of a case: pages, steps and requests. The guest's probe has room for these.
pub(crate) const MOST_PAGES: usize = 8;
/// Limit of steps, see [`MOST_PAGES`].
pub(crate) const MOST_STEPS: usize = 32;

type Problem = String;

/// Reads the cases of a script.
///
/// # Errors
/// [`ScriptError`] for the first malformed line.
pub fn parse(file: &str, text: &str) -> Result<Vec<Case>, ScriptError> {
    let cases = script::read(file, text, take)?;
    for case in &cases {
        check_multicalls(case).map_err(|problem| ScriptError {
            file: file.to_owned(),
            line: text.lines().count(),
            problem,
        })?;
    }
    Ok(cases)
}

/// Checks that a multicall is followed by its calls, all of them hypercalls.
fn check_multicalls(case: &Case) -> Result<(), Problem> {
    for (index, step) in case.steps.iter().enumerate() {
        let Operation::Multicall(count) = step.operation else {
            continue;
        };
        let calls = case.steps[index + 1..].iter().take(count);
        let fitting = calls.filter(|call| {
            matches!(
                call.operation,
                Operation::MmuUpdate(_) | Operation::MmuExtOp(_) | Operation::UpdateVaMapping(_)
            )
        });
        if fitting.count() != count {
            let name = &case.name;
            return Err(format!(
                "case {name}: '{}': expected that many hypercalls next",
                step.text
            ));
        }
    }
    Ok(())
}

fn take(line: &str, cases: &mut Vec<Case>) -> Result<(), Problem> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    if word == "case" {
        cases.push(Case {
            name: rest.trim().to_owned(),
            about: String::new(),
            pages: Vec::new(),
            steps: Vec::new(),
        });
        return Ok(());
    }
    let case = cases.last_mut().ok_or("expected 'case NAME' first")?;
    match word {
        "about" => rest.trim().clone_into(&mut case.about),
        "pages" => case.pages = pages(rest)?,
        "table" => {
            for name in rest.split_whitespace() {
                let text = format!("update-va {name}={name}+P+A+D+NX flush=invlpg on=all");
                add(case, &text, &format!("table {name}"))?;
            }
        }
        _ => add(case, line, line)?,
    }
    Ok(())
}

fn pages(rest: &str) -> Result<Vec<String>, Problem> {
    let names: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
    if names.len() > MOST_PAGES {
        return Err(format!("expected at most {MOST_PAGES} pages"));
    }
    Ok(names)
}

fn add(case: &mut Case, line: &str, text: &str) -> Result<(), Problem> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let operation = Words {
        case,
        words: &words[1..],
    }
    .operation(words[0])?;
    if case.steps.len() == MOST_STEPS {
        return Err(format!("expected at most {MOST_STEPS} steps"));
    }
    case.steps.push(Step {
        text: text.to_owned(),
        operation,
    });
    Ok(())
}

/// The words of a step after the first.
struct Words<'a> {
    case: &'a Case,
    words: &'a [&'a str],
}

const OPTIONS: [&str; 8] = [
    "dom", "tables", "count", "done", "flush", "on", "bytes", "mask",
];

impl Words<'_> {
    fn operation(&self, word: &str) -> Result<Operation, Problem> {
        match word {
            "mmu-update" => self.mmu_update(),
            "mmuext" => self.mmuext(),
            "update-va" => self.update_va(),
            "multicall" => number(self.only()?)
                .and_then(|count| usize::try_from(count).ok())
                .map(Operation::Multicall)
                .ok_or_else(|| "expected a number of steps".to_owned()),
            "load" | "store" | "xchg" | "cmpxchg" => self.native(word),
            "machine-to-phys" => Ok(Operation::MachineToPhys(self.symbol(self.only()?)?)),
            _ => Err(format!(
                "unknown word '{word}': expected mmu-update, mmuext, update-va, multicall, load, store, xchg, cmpxchg, \
                 machine-to-phys, table"
            )),
        }
    }

    /// The value of an option `name=value`.
    fn option(&self, name: &str) -> Option<&str> {
        let value = |word: &&'_ str| word.strip_prefix(name)?.strip_prefix('=').map(str::len);
        let found = self
            .words
            .iter()
            .find_map(|word| value(word).map(|len| (word, len)));
        found.map(|(word, len)| &word[word.len() - len..])
    }

    /// Words other than options.
    fn requests(&self) -> impl Iterator<Item = &str> {
        let is_option = |word: &str| {
            let name = word.split('=').next().unwrap_or_default();
            OPTIONS.contains(&name) && !self.case.pages.iter().any(|page| page == name)
        };
        self.words
            .iter()
            .copied()
            .filter(move |word| !is_option(word))
    }

    fn only(&self) -> Result<&str, Problem> {
        let mut requests = self.requests();
        match (requests.next(), requests.next()) {
            (Some(only), None) => Ok(only),
            _ => Err("expected one operand".to_owned()),
        }
    }

    fn number_option(&self, name: &str, default: u64) -> Result<u32, Problem> {
        let value = match self.option(name) {
            None => Some(default),
            Some(word) => number(word),
        };
        value
            .and_then(|value| u32::try_from(value).ok())
            .ok_or_else(|| format!("{name}: expected a number of 32 bits"))
    }

    fn domain(&self, name: &str) -> Result<Option<u16>, Problem> {
        let Some(word) = self.option(name) else {
            return Ok(None);
        };
        let by_number = || number(word).and_then(|value| u16::try_from(value).ok());
        let found = DOMAINS.find(word).or_else(by_number);
        found
            .map(Some)
            .ok_or_else(|| format!("{name}: expected self, io, xen or a number"))
    }

    fn symbol(&self, word: &str) -> Result<Symbol, Problem> {
        let page = self.case.pages.iter().position(|page| page == word);
        let page = page
            .and_then(|index| u8::try_from(index).ok())
            .map(Symbol::Page);
        page.or_else(|| Names(&Symbol::FIXED).find(word))
            .ok_or_else(|| format!("'{word}' is neither a page of this case nor a known frame"))
    }

    /// `FRAME+FLAG+..`, `0`, `0x..`.
    fn value(&self, word: &str) -> Result<Value, Problem> {
        let mut value = Value::default();
        for (index, part) in word.split('+').enumerate() {
            if let Some(bits) = number(part).or_else(|| FLAGS.find(part)) {
                value.bits |= bits;
            } else if index == 0 {
                value.frame = Some(self.symbol(part)?);
            } else {
                return Err(format!("unknown flag '{part}'"));
            }
        }
        Ok(value)
    }

    /// `PAGE[SLOT]` or `PAGE[SLOT].BYTE`.
    fn place(&self, word: &str) -> Result<Place, Problem> {
        let malformed = || format!("'{word}': expected PAGE[SLOT] or PAGE[SLOT].BYTE");
        let (name, rest) = word.split_once('[').ok_or_else(malformed)?;
        let (slot, rest) = rest.split_once(']').ok_or_else(malformed)?;
        let byte = rest.strip_prefix('.').unwrap_or("0");
        let slot = number(slot)
            .filter(|slot| *slot < 512)
            .ok_or_else(malformed)?;
        let byte = number(byte)
            .filter(|byte| *byte < 8)
            .ok_or_else(malformed)?;
        Ok(Place {
            frame: self.symbol(name)?,
            offset: slot * 8 + byte,
        })
    }

    fn mmu_update(&self) -> Result<Operation, Problem> {
        let requests: Vec<Update> = self
            .requests()
            .map(|word| self.update(word))
            .collect::<Result<_, _>>()?;
        let pages = self.domain("dom")?.unwrap_or(DOMID_SELF);
        let tables = self
            .domain("tables")?
            .map_or(0, |domain| u32::from(domain) + 1);
        let domain = tables << 16 | u32::from(pages);
        Ok(Operation::MmuUpdate(self.batch(requests, domain)?))
    }

    /// `[COMMAND:]PAGE[SLOT]=VALUE`; for m2p the slot may be left out.
    fn update(&self, word: &str) -> Result<Update, Problem> {
        let (place, value) = word.split_once('=').ok_or("expected PAGE[SLOT]=VALUE")?;
        let (command, place) = place.split_once(':').unwrap_or(("normal", place));
        let command = UPDATE_COMMANDS
            .find(command)
            .ok_or("unknown command before ':'")?;
        let place = match place.contains('[') {
            true => self.place(place)?,
            false => Place {
                frame: self.symbol(place)?,
                offset: 0,
            },
        };
        Ok(Update {
            command,
            place,
            value: self.value(value)?,
        })
    }

    fn mmuext(&self) -> Result<Operation, Problem> {
        let requests: Vec<Ext> = self
            .requests()
            .map(|word| self.ext(word))
            .collect::<Result<_, _>>()?;
        let domain = self.domain("dom")?.unwrap_or(DOMID_SELF);
        Ok(Operation::MmuExtOp(self.batch(requests, domain)?))
    }

    fn batch<R, D>(&self, requests: Vec<R>, domain: D) -> Result<Batch<R, D>, Problem> {
        Ok(Batch {
            count: self.number_option("count", requests.len() as u64)?,
            done: self.number_option("done", 0)?,
            domain,
            requests,
        })
    }

    /// `COMMAND[=FIRST[,SECOND]]`.
    fn ext(&self, word: &str) -> Result<Ext, Problem> {
        let (command, arguments) = word.split_once('=').unwrap_or((word, "0"));
        let (first, second) = arguments.split_once(',').unwrap_or((arguments, "0"));
        Ok(Ext {
            command: EXT_COMMANDS
                .find(command)
                .ok_or_else(|| format!("unknown command '{command}'"))?,
            first: self.argument(first)?,
            second: self.argument(second)?,
        })
    }

    /// `FRAME`, `&PAGE`, `mask:BITS`, `unreadable`, or a number.
    fn argument(&self, word: &str) -> Result<ExtArgument, Problem> {
        if let Some(page) = word.strip_prefix('&') {
            return self.symbol(page).map(ExtArgument::Address);
        }
        if let Some(bits) = word.strip_prefix("mask:") {
            return number(bits)
                .map(ExtArgument::Mask)
                .ok_or_else(|| "expected mask:BITS".to_owned());
        }
        if word == "unreadable" {
            return Ok(ExtArgument::ReadError);
        }
        match number(word) {
            Some(number) => Ok(ExtArgument::Number(number)),
            None => self.symbol(word).map(ExtArgument::Frame),
        }
    }

    fn update_va(&self) -> Result<Operation, Problem> {
        let (at, value) = self
            .only()?
            .split_once('=')
            .ok_or("expected PAGE=VALUE or @ADDRESS=VALUE")?;
        let at = match at.strip_prefix('@') {
            Some(address) => Target::Address(number(address).ok_or("expected @ADDRESS")?),
            None => Target::Page(self.symbol(at)?),
        };
        let flush_type = match self.option("flush") {
            None | Some("none") => 0,
            Some("tlb") => 1,
            Some("invlpg") => 2,
            Some("3") => 3,
            Some(_) => return Err("flush: expected none, tlb, invlpg or 3".to_owned()),
        };
        let flush = match self.option("on") {
            None | Some("local") => Flush::Local,
            Some("all") => Flush::All,
            Some("unreadable") => Flush::ReadError,
            Some(word) => word
                .strip_prefix("mask:")
                .and_then(number)
                .map(Flush::Mask)
                .ok_or("on: expected local, all, mask:BITS or unreadable")?,
        };
        Ok(Operation::UpdateVaMapping(VaUpdate {
            at,
            value: self.value(value)?,
            flush_type,
            flush,
            domain: self.domain("dom")?,
        }))
    }

    fn native(&self, word: &str) -> Result<Operation, Problem> {
        let only = self.only()?;
        let (place, value) = only.split_once('=').unwrap_or((only, "0"));
        let native = match word {
            "load" => Native::Load,
            "store" => Native::Store(self.value(value)?),
            "xchg" => Native::Exchange(self.value(value)?),
            _ => {
                let (old, new) = value
                    .split_once("->")
                    .ok_or("expected PAGE[SLOT]=OLD->NEW")?;
                Native::CompareExchange {
                    old: self.value(old)?,
                    new: self.value(new)?,
                }
            }
        };
        let bytes = self.number_option("bytes", 8)?;
        if bytes != 4 && bytes != 8 {
            return Err("bytes: expected 4 or 8".to_owned());
        }
        let place = self.place(place)?;
        if !matches!(place.frame, Symbol::Page(_)) {
            return Err("expected a page of this case: no other is mapped".to_owned());
        }
        Ok(Operation::Native {
            native,
            place,
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(step: &str) -> Result<Operation, String> {
        let script = format!("case c\npages a l1\n{step}\n");
        let cases = parse("x", &script).map_err(|error| error.to_string())?;
        Ok(cases[0].steps[0].operation.clone())
    }

    #[test]
    fn updates_have_commands_frames_and_flags() {
        let Operation::MmuUpdate(Batch {
            requests,
            count,
            domain,
            ..
        }) = operation("mmu-update ad:l1[3]=a+P+W+NX dom=io count=0x80000001").unwrap()
        else {
            panic!("not an update");
        };
        assert_eq!((count, domain), (0x8000_0001, 0x7ff1));
        let update = requests[0];
        assert_eq!((update.command, update.place.offset), (2, 24));
        assert_eq!(update.value.frame, Some(Symbol::Page(0)));
        assert_eq!(update.value.bits, 1 << 63 | 3);
    }

    #[test]
    fn malformed_input_is_reported_with_its_line() {
        for (step, problem) in [
            ("load b[0]", "x:3: 'b' is neither a page of this case"),
            ("load a[512]", "x:3: 'a[512]': expected PAGE[SLOT]"),
            ("store a[0]=a+Q", "x:3: unknown flag 'Q'"),
            ("mmuext pin-l5=a", "x:3: unknown command 'pin-l5'"),
            ("jump a", "x:3: unknown word 'jump'"),
            ("store foreign[0]=0", "x:3: expected a page of this case"),
            ("multicall 2", "x:3: case c: 'multicall 2': expected"),
        ] {
            let error = operation(step).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
        assert!(parse("x", "load a[0]").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(case|pages|load|mmuext|mmu-update|store|update-va|[a-z=+:,@\\[\\]0-9]| |\n){0,60}") {
            let _ = parse("x", &text);
        }
    }
}
