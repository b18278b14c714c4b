//! The missing page of a fault that KVM said nothing of.
//!
//! Up to Linux 6.18 a fault on an unreadable host address says nothing (`arch/x86/kvm/mmu/mmu.c`,
//! `kvm_handle_error_pfn`), but RIP stays on the instruction. So it is decoded, and whatever it may touch is looked up in
//! the guest's page tables: its own bytes, its operands, its stack, the tables themselves; where all that is there, what
//! the delivery of an interrupt needs.
//!
//! The answer may name a page that was not the one, but that is missing too: populating it does no harm. It does not
//! find the operands of gathers and scatters.

use iced_x86::{Decoder, DecoderError, DecoderOptions, InstructionInfoFactory};
use kvm_bindings::kvm_run;
use vm_memory::GuestAddress;

use super::operands::{CpuState, Touched};
use super::run::synced;
use super::walk::{Stop, walk};
use crate::guest_pages::{GuestPages, PageState};
use crate::resolver::{Access, ExitResolver, MissingPage, Origin};

/// The longest instruction (Intel SDM volume 2, 2.3.11).
const LONGEST: usize = 15;
const PAGE: u64 = 4096;
/// The last byte of a task state segment that the CPU reads, whatever its limit: its I/O permission map begins within
/// 64 KiB and has 8 KiB and one byte (Intel SDM volume 1, 20.5.2).
const LAST_OF_TASK: u32 = 0xffff + 0x2000;

/// The decoder's buffers.
#[derive(Debug)]
pub(crate) struct Decoding {
    factory: InstructionInfoFactory,
}

impl Decoding {
    pub(crate) fn new() -> Self {
        Self {
            factory: InstructionInfoFactory::new(),
        }
    }

    /// The missing page that the synced registers lead to.
    pub(crate) fn missing_page_of_run(
        &mut self,
        run: &kvm_run,
        memory: &impl GuestPages,
    ) -> Option<MissingPage> {
        let regs = synced(run);
        let state = CpuState {
            regs: &regs.regs,
            sregs: &regs.sregs,
        };
        self.missing_page(state, memory)
    }

    fn missing_page(&mut self, cpu: CpuState<'_>, memory: &impl GuestPages) -> Option<MissingPage> {
        let search = Search { cpu, memory };
        match search.code(&mut self.factory) {
            Err(missing) => Some(missing),
            Ok(touched) => {
                let operands = touched
                    .into_iter()
                    .find_map(|touched| search.range(touched, Origin::Operand));
                operands.or_else(|| search.delivery())
            }
        }
    }
}

impl ExitResolver {
    /// The page that a vCPU in this state wants and does not have; `None` when it has all that it may touch.
    pub fn missing_page(
        &mut self,
        cpu: CpuState<'_>,
        memory: &impl GuestPages,
    ) -> Option<MissingPage> {
        self.decoding.missing_page(cpu, memory)
    }
}

/// A missing page that the delivery of an interrupt needs, wherever the vCPU stands.
pub(super) fn missing_for_delivery(
    cpu: CpuState<'_>,
    memory: &impl GuestPages,
) -> Option<MissingPage> {
    Search { cpu, memory }.delivery()
}

/// One search for what is missing.
struct Search<'a, M> {
    cpu: CpuState<'a>,
    memory: &'a M,
}

impl<M: GuestPages> Search<'_, M> {
    /// Memory that the instruction at RIP touches; an error where a page of its code is missing. Code that cannot be read or
    /// decoded touches nothing: the guest gets a fault from the CPU.
    fn code(&self, factory: &mut InstructionInfoFactory) -> Result<Vec<Touched>, MissingPage> {
        let start = self.cpu.code();
        let on_first = usize::try_from(PAGE - start % PAGE).map_or(LONGEST, |n| n.min(LONGEST));
        let mut bytes = [0; LONGEST];
        for (from, to) in [(0, on_first), (on_first, LONGEST)] {
            let Some(at) = start.checked_add(from as u64) else {
                return Ok(Vec::new());
            };
            let Some(page) = self.lookup(at, Access::Execute, Origin::Code)? else {
                return Ok(Vec::new());
            };
            self.memory.read(page, &mut bytes[from..to]);
            let mut decoder = Decoder::with_ip(
                self.cpu.bitness(),
                &bytes[..to],
                self.cpu.regs.rip,
                DecoderOptions::NONE,
            );
            let instruction = decoder.decode();
            if decoder.last_error() != DecoderError::NoMoreBytes {
                return Ok(self.cpu.touched(&instruction, factory));
            }
        }
        Ok(Vec::new())
    }

    fn range(&self, touched: Touched, origin: Origin) -> Option<MissingPage> {
        let last = touched
            .address
            .wrapping_add(touched.bytes.saturating_sub(1));
        let pages = (touched.address / PAGE..=last / PAGE).map(|page| page * PAGE);
        let starts = pages.map(|page| page.max(touched.address));
        let mut missing = starts.map(|address| self.lookup(address, touched.access, origin));
        missing.find_map(Result::err)
    }

    /// Translates; a missing table or page is an error. `None` where the guest has mapped no memory.
    fn lookup(
        &self,
        address: u64,
        access: Access,
        origin: Origin,
    ) -> Result<Option<GuestAddress>, MissingPage> {
        let missing = |address, access, origin| MissingPage {
            address,
            access,
            origin,
        };
        match walk(self.memory, self.cpu.sregs, address) {
            // The CPU sets A and D in tables.
            Err(Stop::Missing(table)) => Err(missing(table, Access::Write, Origin::PageTable)),
            Err(Stop::Guest) => Ok(None),
            Ok(page) => match self.memory.state(page) {
                PageState::Missing => Err(missing(page, access, origin)),
                PageState::Present => Ok(Some(page)),
                PageState::Outside => Ok(None),
            },
        }
    }

    /// Memory that the CPU touches when it delivers an interrupt or an exception in front of the instruction.
    fn delivery(&self) -> Option<MissingPage> {
        let sregs = self.cpu.sregs;
        let table = |base, limit: u32, access| Touched {
            address: base,
            bytes: u64::from(limit) + 1,
            access,
        };
        let tables = [
            table(sregs.idt.base, sregs.idt.limit.into(), Access::Read),
            // Loading a segment sets its accessed bit.
            table(sregs.gdt.base, sregs.gdt.limit.into(), Access::Write),
            table(
                sregs.tr.base,
                sregs.tr.limit.min(LAST_OF_TASK),
                Access::Read,
            ),
        ];
        let table = tables
            .into_iter()
            .find_map(|table| self.range(table, Origin::Delivery));
        table.or_else(|| {
            let mut stacks = self.stacks().into_iter();
            stacks.find_map(|stack| self.range(stack, Origin::Delivery))
        })
    }

    /// The stacks that a frame may be pushed to: the current one, and in 64-bit mode RSP0 to RSP2 and IST1 to IST7.
    fn stacks(&self) -> Vec<Touched> {
        /// Offset of RSP0, and of the last IST's end, in a task state segment (Intel SDM volume 3, figure 9-11).
        const POINTERS: std::ops::Range<u64> = 4..92;
        /// SS, RSP, RFLAGS, CS, RIP, an error code, and alignment to 16 bytes.
        const FRAME: u64 = 64;
        let mut tops = vec![self.cpu.regs.rsp];
        if self.cpu.bitness() == 64 {
            let base = self.cpu.sregs.tr.base;
            let pointers = POINTERS
                .step_by(8)
                .filter_map(|offset| base.checked_add(offset));
            tops.extend(pointers.filter_map(|pointer| self.read_u64(pointer)));
        }
        let frame = |top: &u64| *top >= FRAME;
        let below = |top: u64| Touched {
            address: top - FRAME,
            bytes: FRAME,
            access: Access::Write,
        };
        tops.into_iter().filter(frame).map(below).collect()
    }

    fn read_u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        for (byte, at) in bytes.iter_mut().zip(address..=address.checked_add(7)?) {
            let page = self.lookup(at, Access::Read, Origin::Delivery).ok()??;
            self.memory.read(page, std::slice::from_mut(byte));
        }
        Some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests;
