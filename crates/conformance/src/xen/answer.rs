//! Answers of a system to a case, and their text, in which two systems can be compared.

use super::case::{Case, Operation, Step, Symbol};
use super::names::{ERRNOS, FLAGS};
use crate::names::Names;

/// The address bits of an entry.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Result of a step in the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The return value of a hypercall; for an instruction 0, or `EFAULT` for a page fault.
    pub code: i64,
    /// The done counter after `mmu_update` and `mmuext_op`; for others 0.
    pub done: u32,
    /// Value that an instruction read from memory; for others 0.
    pub value: u64,
}

/// Machine frame numbers of a case's frames in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames(pub Vec<(Symbol, u64)>);

impl Frames {
    /// The number of a frame.
    #[must_use]
    pub fn number(&self, symbol: Symbol) -> Option<u64> {
        let found = self.0.iter().find(|(known, _)| *known == symbol);
        found.map(|(_, number)| *number)
    }

    fn symbol(&self, number: u64) -> Option<Symbol> {
        let found = self.0.iter().find(|(_, known)| *known == number);
        found.map(|(symbol, _)| *symbol)
    }
}

/// Answers to all steps of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaseAnswers {
    /// Frame numbers of this run.
    pub frames: Frames,
    /// An answer for each step.
    pub answers: Vec<Answer>,
}

/// The answers in words, one for each step, with frames by name.
#[must_use]
pub fn describe(case: &Case, answered: &CaseAnswers) -> Vec<String> {
    let pairs = case.steps.iter().zip(&answered.answers);
    let text = |(step, answer): (&Step, &Answer)| match step.operation {
        Operation::MmuUpdate(_) | Operation::MmuExtOp(_) => {
            format!("{} done {}", code(answer.code), answer.done)
        }
        Operation::UpdateVaMapping(_) | Operation::Multicall(_) => code(answer.code),
        Operation::Native { .. } if answer.code != 0 => "page fault".to_owned(),
        Operation::Native { .. } => entry(case, answer.value, &answered.frames),
        Operation::MachineToPhys(_) => format!("{:#x}", answer.value),
    };
    pairs.map(text).collect()
}

fn code(code: i64) -> String {
    let known = ERRNOS.name(code);
    known.map_or_else(|| code.to_string(), str::to_owned)
}

/// An entry in the words of a script.
fn entry(case: &Case, value: u64, frames: &Frames) -> String {
    let mut words = Vec::new();
    let mut rest = value & !ADDRESS;
    match (value & ADDRESS) >> 12 {
        0 => {}
        number => words.push(match frames.symbol(number) {
            Some(Symbol::Page(index)) => {
                let name = case.pages.get(usize::from(index)).cloned();
                name.unwrap_or_default()
            }
            Some(fixed) => Names(&Symbol::FIXED)
                .name(fixed)
                .unwrap_or_default()
                .to_owned(),
            None => format!("{:#x}", number << 12),
        }),
    }
    for (letter, bit) in FLAGS.0 {
        if rest & bit != 0 {
            words.push((*letter).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 || words.is_empty() {
        words.push(format!("{rest:#x}"));
    }
    words.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn answers_are_described_as_scripts_name_things() {
        let script = "case c\nabout x\npages l1\nmmuext pin-l1=l1\nload l1[0]\nload l1[1]\n";
        let case = &parse("x", script).unwrap()[0];
        let answer = |code, value| Answer {
            code,
            done: 1,
            value,
        };
        let answered = CaseAnswers {
            frames: Frames(vec![(Symbol::Page(0), 0x77)]),
            answers: vec![
                answer(-16, 0),
                answer(0, 0x8000_0000_0007_7021),
                answer(0, 0),
            ],
        };
        assert_eq!(
            describe(case, &answered),
            ["EBUSY done 1", "l1+P+A+NX", "0x0"]
        );
    }
}
