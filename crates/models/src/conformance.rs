//! Runs conformance cases on the simulated Xen, as the lab's probe runs them on the real one
//! (`guests/xen-probe/conformance.c`).

use pagetoll_conformance::{
    Answer, Case, CaseAnswers, Ext, ExtArgument, Flush, Frames, Native, Operation, Place, Step,
    Symbol, Target, Value,
};
use pagetoll_units::{Mfn, VirtualAddress};

use crate::x86::{Flags, PageTableEntry};
use crate::xen::{
    self, Argument, Batch, Call, Command, DomainId, FlushTargets, FlushType, ForeignDomain, Layout,
    MmuExtOp, MmuUpdate, Outcome, VaMapping, VcpuId, VcpuMask, Write, Xen,
};

/// A frame of RAM without an owner, within the default layout.
const FOREIGN: Mfn = Mfn(0x180);
/// The page of Xen's heap that dom0 shares.
const SHARED: Mfn = Mfn(0x181);
/// Frames that the probe finds as well.
const FIXED: [(Symbol, Mfn); 8] = [
    (Symbol::Foreign, FOREIGN),
    (Symbol::Io, Mfn(0xb8)),
    (Symbol::ReadOnlyIo, Mfn(0xf_ec00)),
    (Symbol::DeniedIo, Mfn(0xf_ee00)),
    (Symbol::Absent, Mfn(0x800_0000)),
    (Symbol::Beyond, Mfn(1 << 28)),
    (Symbol::AllOnes, Mfn((1 << 40) - 1)),
    (Symbol::Shared, SHARED),
];
/// The lab's dom0 has one vCPU.
const CPU: VcpuId = VcpuId(0);
/// `EFAULT`: how the probe reports a page fault of the guest.
const FAULT: i64 = -14;

/// Runs a case on a machine of its own.
///
/// # Panics
/// When a page cannot be made writable again after it, which is a bug in this crate.
#[must_use]
pub fn run(case: &Case) -> CaseAnswers {
    let mut bench = Bench::new(case);
    let mut answers = Vec::with_capacity(case.steps.len());
    while answers.len() < case.steps.len() {
        let rest = &case.steps[answers.len()..];
        bench.run(rest, &mut answers);
    }
    bench.give_back();
    let number = |(symbol, mfn): &(Symbol, Mfn)| (*symbol, mfn.0);
    CaseAnswers {
        frames: Frames(bench.frames.iter().map(number).collect()),
        answers,
    }
}

struct Bench {
    xen: Xen,
    frames: Vec<(Symbol, Mfn)>,
    pages: usize,
}

/// A hypercall of a step with its arrays.
enum Prepared {
    Update(Array<MmuUpdate>, ForeignDomain),
    Ext(Array<MmuExtOp>, DomainId),
    Va(VaMapping),
}

/// The arguments of a hypercall on an array.
struct Array<R> {
    requests: Vec<R>,
    count: u32,
    done: u32,
}

impl<R> Array<R> {
    fn batch(&self) -> Batch<'_, R> {
        Batch {
            requests: &self.requests,
            count: self.count,
            done: self.done,
        }
    }
}

/// The array of a case with these requests.
fn array<R, A, D>(
    batch: &pagetoll_conformance::Batch<A, D>,
    requests: impl Iterator<Item = R>,
) -> Array<R> {
    Array {
        requests: requests.collect(),
        count: batch.count,
        done: batch.done,
    }
}

impl Bench {
    fn new(case: &Case) -> Self {
        let mut xen = Xen::boot(Layout::default());
        xen.share_heap_page(SHARED);
        let own = (0..).map(Symbol::Page).zip(&case.pages);
        let mut frames: Vec<_> = own.map(|(symbol, _)| (symbol, xen.allocate())).collect();
        frames.extend(FIXED);
        Self {
            xen,
            frames,
            pages: case.pages.len(),
        }
    }

    fn mfn(&self, symbol: Symbol) -> Mfn {
        let found = self.frames.iter().find(|(known, _)| *known == symbol);
        found.map_or(Mfn(0), |(_, mfn)| *mfn)
    }

    fn word(&self, value: Value) -> u64 {
        let frame = value
            .frame
            .map_or(0, |symbol| self.mfn(symbol).address(0).0);
        frame | value.bits
    }

    fn address(&self, place: Place) -> VirtualAddress {
        VirtualAddress(self.xen.direct(self.mfn(place.frame)).0 + place.offset)
    }

    /// Runs the first of these steps, or those that go as one.
    fn run(&mut self, steps: &[Step], answers: &mut Vec<Answer>) {
        match &steps[0].operation {
            Operation::Multicall(count) => self.multicall(&steps[1..=*count], answers),
            Operation::Native {
                native,
                place,
                bytes,
            } => answers.push(self.native(*native, *place, *bytes)),
            Operation::MachineToPhys(symbol) => answers.push(Answer {
                value: self
                    .xen
                    .machine_to_phys(self.mfn(*symbol))
                    .unwrap_or(u64::MAX),
                ..Answer::default()
            }),
            operation => {
                let prepared = self.prepare(operation);
                let outcome = prepared.map(|prepared| self.xen.call(CPU, call(&prepared)));
                answers.extend(outcome.as_ref().map(answer));
            }
        }
    }

    fn multicall(&mut self, steps: &[Step], answers: &mut Vec<Answer>) {
        let prepared: Vec<_> = steps
            .iter()
            .filter_map(|step| self.prepare(&step.operation))
            .collect();
        let calls: Vec<Call<'_>> = prepared.iter().map(call).collect();
        let (whole, outcomes) = self.xen.multicall(CPU, &calls);
        answers.push(answer(&whole));
        answers.extend(outcomes.iter().map(answer));
    }

    fn prepare(&self, operation: &Operation) -> Option<Prepared> {
        Some(match operation {
            Operation::MmuUpdate(batch) => {
                let request = |update: &pagetoll_conformance::Update| MmuUpdate {
                    ptr: self.mfn(update.place.frame).address(update.place.offset).0
                        | u64::from(update.command),
                    val: self.word(update.value),
                };
                // The probe puts a request without meaning after the array.
                let end = MmuUpdate { ptr: 7, val: 0 };
                let requests = batch.requests.iter().map(request).chain([end]);
                Prepared::Update(array(batch, requests), ForeignDomain(batch.domain))
            }
            Operation::MmuExtOp(batch) => {
                let end = MmuExtOp {
                    command: Command::from(u32::MAX),
                    first: 0,
                    second: Argument::Number(0),
                };
                let requests = batch.requests.iter().map(|ext| self.ext(ext)).chain([end]);
                Prepared::Ext(array(batch, requests), DomainId(batch.domain))
            }
            Operation::UpdateVaMapping(update) => Prepared::Va(VaMapping {
                address: match update.at {
                    Target::Page(symbol) => self.xen.direct(self.mfn(symbol)),
                    Target::Address(address) => VirtualAddress(address),
                },
                value: PageTableEntry(self.word(update.value)),
                flush: (flush_kind(update.flush_type), targets(update.flush)),
                domain: update.domain.map(DomainId),
            }),
            Operation::Multicall(_) | Operation::Native { .. } | Operation::MachineToPhys(_) => {
                return None;
            }
        })
    }

    fn ext(&self, ext: &Ext) -> MmuExtOp {
        let number = |argument| match argument {
            ExtArgument::Number(number) => number,
            ExtArgument::Frame(symbol) => self.mfn(symbol).0,
            ExtArgument::Address(symbol) => self.xen.direct(self.mfn(symbol)).0,
            ExtArgument::Mask(_) | ExtArgument::ReadError => 0,
        };
        MmuExtOp {
            command: Command::from(ext.command),
            first: number(ext.first),
            second: match ext.second {
                ExtArgument::Mask(bits) => Argument::Vcpus(VcpuMask::Bits(bits)),
                ExtArgument::ReadError => Argument::Vcpus(VcpuMask::ReadError),
                other => Argument::Number(number(other)),
            },
        }
    }

    fn native(&mut self, native: Native, place: Place, bytes: u32) -> Answer {
        let address = self.address(place);
        let low = if bytes == 4 { 0xffff_ffff } else { u64::MAX };
        let write = match native {
            Native::Load => None,
            Native::Store(value) => Some(Write::Move(self.word(value))),
            Native::Exchange(value) => Some(Write::Exchange(self.word(value))),
            Native::CompareExchange { old, new } => Some(Write::CompareExchange {
                old: self.word(old) & low,
                new: self.word(new),
            }),
        };
        let ended = match write {
            None => self.xen.load(CPU, address, bytes),
            Some(write) => self.xen.write(CPU, address, bytes, write).0,
        };
        let is_store = matches!(native, Native::Store(_));
        match ended {
            xen::Native::Done(found) => Answer {
                value: if is_store { 0 } else { found },
                ..Answer::default()
            },
            xen::Native::Fault(_) => Answer {
                code: FAULT,
                ..Answer::default()
            },
        }
    }

    /// Maps every page writable again, as the probe does.
    fn give_back(&mut self) {
        let pages: Vec<Mfn> = self.frames[..self.pages]
            .iter()
            .map(|(_, mfn)| *mfn)
            .collect();
        for mfn in &pages {
            let unpin = MmuExtOp {
                command: Command::UnpinTable,
                first: mfn.0,
                second: Argument::Number(0),
            };
            // Refused for a page that is not pinned.
            let _ = self
                .xen
                .mmuext_op(CPU, Batch::all(&[unpin]), DomainId::SELF);
        }
        for mfn in pages {
            let writable = VaMapping {
                address: self.xen.direct(mfn),
                value: PageTableEntry::new(mfn, Flags::PRESENT | Flags::WRITABLE),
                flush: (FlushType::Invlpg, FlushTargets::All),
                domain: None,
            };
            let outcome = self.xen.update_va_mapping(CPU, writable);
            assert!(
                outcome.result.is_ok(),
                "{mfn} cannot be mapped writable again: {outcome:?}"
            );
        }
    }
}

fn call(prepared: &Prepared) -> Call<'_> {
    match prepared {
        Prepared::Update(array, foreign) => Call::MmuUpdate(array.batch(), *foreign),
        Prepared::Ext(array, domain) => Call::MmuExtOp(array.batch(), *domain),
        Prepared::Va(asked) => Call::UpdateVaMapping(*asked),
    }
}

fn answer(outcome: &Outcome) -> Answer {
    Answer {
        code: outcome.code(),
        done: outcome.done,
        value: 0,
    }
}

const fn flush_kind(number: u32) -> FlushType {
    match number {
        0 => FlushType::None,
        1 => FlushType::Tlb,
        2 => FlushType::Invlpg,
        _ => FlushType::Undefined,
    }
}

const fn targets(flush: Flush) -> FlushTargets {
    match flush {
        Flush::Local => FlushTargets::Local,
        Flush::All => FlushTargets::All,
        Flush::Mask(bits) => FlushTargets::Multi(VcpuMask::Bits(bits)),
        Flush::ReadError => FlushTargets::Multi(VcpuMask::ReadError),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_conformance::{all, describe, recorded};

    use super::*;

    /// Compares with the answers that a real Xen gave when they were recorded; needs no QEMU.
    #[test]
    fn every_case_is_answered_as_the_real_xen_answered_it() {
        let mut wrong = Vec::new();
        for case in all().unwrap() {
            let simulated = describe(&case, &run(&case));
            let real = recorded(&case.name).unwrap_or_default();
            if simulated != real {
                wrong.push(format!(
                    "{}\n  sim  {simulated:?}\n  real {real:?}",
                    case.name
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
