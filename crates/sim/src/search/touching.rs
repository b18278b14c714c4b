//! The other CPU: a program's loads and stores, by its TLB or by page walks. An access that comes too late faults and
//! is dropped.

use pagetoll_models::x86::{Access, Cpu, Memory, Request, Walk};

use super::race::{PAGES, address};

/// Accesses, each with its page.
pub(super) type Script = &'static [(usize, Access)];

/// Accesses of programs: the last ones have a translation before they write.
pub(super) const SCRIPTS: [Script; 6] = [
    &[(0, Access::Read)],
    &[(0, Access::Write)],
    &[(0, Access::Read), (0, Access::Write)],
    &[(0, Access::Write), (0, Access::Write)],
    &[(0, Access::Write), (1, Access::Write)],
    &[(1, Access::Read), (0, Access::Write), (1, Access::Write)],
];

/// Progress of an access.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Begin,
    /// The entries were read.
    Walked(Walk),
    /// A and D were set, the translation is there.
    Translated,
}

/// The other CPU's program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Touching {
    script: Script,
    next: usize,
    phase: Phase,
    /// Numbers of reads and writes of each page.
    pub(super) touches: [u8; PAGES],
    /// Pages that were written.
    pub(super) written: [bool; PAGES],
}

impl Touching {
    pub(super) const fn new(script: Script) -> Self {
        Self {
            script,
            next: 0,
            phase: Phase::Begin,
            touches: [0; PAGES],
            written: [false; PAGES],
        }
    }

    /// Returns whether no access is left.
    pub(super) const fn is_done(&self) -> bool {
        self.next == self.script.len()
    }

    /// Returns whether an interrupt would be taken now: not in the middle of an instruction.
    pub(super) fn is_between_instructions(&self) -> bool {
        self.phase == Phase::Begin
    }

    /// Does the next step, and describes it.
    pub(super) fn step(&mut self, memory: &mut Memory, cpu: &mut Cpu) -> String {
        let (page, access) = self.script[self.next];
        let request = Request::by_user(access);
        match std::mem::replace(&mut self.phase, Phase::Begin) {
            Phase::Begin if cpu.known(address(page), request).is_some() => self.touch(page, access),
            Phase::Begin => match Walk::load(memory, cpu.root, address(page), request) {
                Ok(walk) => {
                    self.phase = Phase::Walked(walk);
                    format!("its walk for page {page} reads the entries")
                }
                Err(_) => {
                    self.next += 1;
                    format!("its access to page {page} faults: too late")
                }
            },
            Phase::Walked(walk) => match walk.commit(memory) {
                Some(translation) => {
                    cpu.tlb.fill(cpu.pcid, address(page), translation);
                    self.phase = Phase::Translated;
                    let bits = if access == Access::Write {
                        "A and D"
                    } else {
                        "A"
                    };
                    format!("its walk sets {bits} in entry {page}")
                }
                None => format!("entry {page} has changed: its walk begins again"),
            },
            Phase::Translated => self.touch(page, access),
        }
    }

    fn touch(&mut self, page: usize, access: Access) -> String {
        self.next += 1;
        self.touches[page] += 1;
        if access == Access::Write {
            self.written[page] = true;
            return format!("it writes to page {page}");
        }
        format!("it reads page {page}")
    }
}
