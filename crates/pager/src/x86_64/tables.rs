//! All system tables of a guest at once, for hosts whose KVM reads them itself.

use vm_memory::{Bytes, GuestAddress};

use super::decoding::missing_for_delivery;
use super::operands::CpuState;
use super::walk::Paging;
use crate::error::PagerError;
use crate::guest_pages::{GuestPages, PageState};
use crate::handler::FaultHandler;
use crate::source::PageSource;
use crate::userfaultfd::Wake;

impl<S: PageSource> FaultHandler<'_, S> {
    /// Populates the page tables that a vCPU uses now, its descriptor tables, its task state and its stacks.
    ///
    /// Needed where KVM has no hardware virtualisation, before the guest is entered for the first time. There, KVM
    /// walks tables and emulates instructions itself. It takes what it cannot read for what the guest has not mapped
    /// or does not allow, and injects a fault instead of exiting: a port access reads the task state.
    ///
    /// # Errors
    /// A page could not be populated.
    pub fn populate_tables(&mut self, cpu: CpuState<'_>) -> Result<(), PagerError> {
        let paging = Paging::of(cpu.sregs);
        let mut level_tables = vec![paging.root(cpu.sregs.cr3)];
        for level in (1..=paging.levels()).rev() {
            let mut below = Vec::new();
            for table in level_tables {
                for entry in self.read_table(table, paging, level)? {
                    if !paging.is_leaf(level, entry, cpu.sregs.cr4) {
                        below.push(paging.table(entry));
                    }
                }
            }
            below.sort_unstable();
            below.dedup();
            level_tables = below;
        }
        while let Some(missing) = missing_for_delivery(cpu, &self.pager.paged) {
            self.populate(missing.address, Wake::None)?;
        }
        Ok(())
    }

    /// The entries of a table that map anything, after its page has been populated.
    fn read_table(
        &mut self,
        table: u64,
        paging: Paging,
        level: u32,
    ) -> Result<Vec<u64>, PagerError> {
        const PRESENT: u64 = 1;
        let address = GuestAddress(table);
        let memory = &self.pager.paged;
        match memory.state(address) {
            PageState::Outside => return Ok(Vec::new()),
            PageState::Missing => self.populate(address, Wake::None)?,
            PageState::Present => {}
        }
        let mut bytes = vec![0; paging.table_bytes(level)];
        self.pager
            .paged
            .memory
            .read_slice(&mut bytes, address)
            .map_err(|_| PagerError::Elsewhere(table))?;
        let size = if paging == Paging::Legacy { 4 } else { 8 };
        let entries = bytes.chunks_exact(size).map(|entry| {
            entry
                .iter()
                .rev()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        });
        Ok(entries.filter(|entry| entry & PRESENT != 0).collect())
    }
}
