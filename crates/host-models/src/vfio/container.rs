//! The container: what `VFIO_IOMMU_MAP_DMA` and `VFIO_IOMMU_UNMAP_DMA` accept, do and refuse.
//!
//! Source: `vfio_dma_do_map`, `vfio_dma_do_unmap`, `vfio_pin_map_dma`, `vfio_unmap_unpin`.

use std::ops::RangeInclusive;

use super::batch::Batch;
use super::pin::{Pinner, Run, unpin_pages_remote};
use super::{Access, Dma, DmaTree, Domain, Errno, Frames, Mechanism, PAGE, Process, Tolls};

/// `VFIO_DMA_MAP_FLAG_READ` and `_WRITE`, and the flags that type1 v2 knows besides.
const MAP_READ: u32 = 1;
const MAP_WRITE: u32 = 2;
const MAP_VADDR: u32 = 4;
/// `VFIO_DMA_UNMAP_FLAG_GET_DIRTY_BITMAP`, `_ALL`, `_VADDR`.
const UNMAP_DIRTY: u32 = 1;
const UNMAP_ALL: u32 = 2;
const UNMAP_VADDR: u32 = 4;
/// `offsetofend(struct vfio_iommu_type1_dma_map, size)` and `..._unmap, size)`.
const MAP_MIN_ARGSZ: u32 = 32;
const UNMAP_MIN_ARGSZ: u32 = 24;
/// `dma_entry_limit`: U16_MAX.
const DMA_ENTRY_LIMIT: u32 = 65_535;

/// Head of every argument.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// `argsz`, in bytes.
    pub argsz: u32,
    /// `flags`.
    pub flags: u32,
}

impl Argument {
    /// Head for a mapping that the device may read and write.
    pub const MAP: Self = Self {
        argsz: MAP_MIN_ARGSZ,
        flags: MAP_READ | MAP_WRITE,
    };
    /// Head for an unmapping.
    pub const UNMAP: Self = Self {
        argsz: UNMAP_MIN_ARGSZ,
        flags: 0,
    };
}

/// `struct vfio_iommu_type1_dma_map`.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// Length and flags.
    pub argument: Argument,
    /// Address of the memory in the process.
    pub vaddr: u64,
    /// First address of the mapping on the device side.
    pub iova: u64,
    /// Bytes.
    pub size: u64,
}

/// `struct vfio_iommu_type1_dma_unmap`.
#[derive(Clone, Copy, Debug)]
pub struct Unmapping {
    /// Length and flags.
    pub argument: Argument,
    /// First address of the range.
    pub iova: u64,
    /// Bytes.
    pub size: u64,
}

/// A type1 v2 container with one device in it, and the process that uses it.
#[derive(Clone, Debug)]
pub struct Container {
    mechanism: Mechanism,
    mappings: DmaTree,
    available: u32,
    /// First and last address of each range that devices may use.
    iova_ranges: Vec<RangeInclusive<u64>>,
    /// The translations.
    pub domain: Domain,
    /// The process.
    pub process: Process,
    /// Physical memory.
    pub frames: Frames,
    /// Tolls so far.
    pub tolls: Tolls,
}

impl Container {
    /// A container for a device that may use these addresses: each range from its first to its last.
    #[must_use]
    pub fn new(mechanism: Mechanism, iova_ranges: Vec<RangeInclusive<u64>>) -> Self {
        Self {
            mechanism,
            mappings: DmaTree::default(),
            available: DMA_ENTRY_LIMIT,
            iova_ranges,
            domain: Domain::default(),
            process: Process::default(),
            frames: Frames::default(),
            tolls: Tolls::default(),
        }
    }

    /// The mappings.
    #[must_use]
    pub const fn mappings(&self) -> &DmaTree {
        &self.mappings
    }

    /// `VFIO_IOMMU_MAP_DMA`.
    ///
    /// # Errors
    /// What the kernel answers with; nothing stays mapped, pinned or accounted then.
    pub fn map_dma(&mut self, map: Mapping) -> Result<(), Errno> {
        self.tolls.ioctls += 1;
        self.check_map(map)?;
        let dma = Dma {
            iova: map.iova,
            vaddr: map.vaddr,
            size: 0,
            access: Access {
                read: map.argument.flags & MAP_READ != 0,
                write: map.argument.flags & MAP_WRITE != 0,
            },
            ..Dma::default()
        };
        self.available -= 1;
        self.pin_map_dma(dma, map.size)
    }

    fn check_map(&self, map: Mapping) -> Result<(), Errno> {
        let Argument { argsz, flags } = map.argument;
        let access = flags & (MAP_READ | MAP_WRITE);
        let set_vaddr = flags & MAP_VADDR != 0;
        if argsz < MAP_MIN_ARGSZ || flags & !(MAP_READ | MAP_WRITE | MAP_VADDR) != 0 {
            return Err(Errno::Inval);
        }
        if (access == 0) != set_vaddr {
            return Err(Errno::Inval);
        }
        if map.size == 0 || (map.size | map.iova | map.vaddr) & (PAGE - 1) != 0 {
            return Err(Errno::Inval);
        }
        let last = map.iova.checked_add(map.size - 1).ok_or(Errno::Inval)?;
        map.vaddr.checked_add(map.size - 1).ok_or(Errno::Inval)?;
        let found = self.mappings.find(map.iova, map.size);
        if set_vaddr {
            return Err(found.map_or(Errno::NoEnt, |_| Errno::Inval));
        }
        if found.is_some() {
            return Err(Errno::Exist);
        }
        if self.available == 0 {
            return Err(Errno::NoSpc);
        }
        let valid =
            |range: &RangeInclusive<u64>| range.contains(&map.iova) && range.contains(&last);
        if !self.iova_ranges.iter().any(valid) {
            return Err(Errno::Inval);
        }
        Ok(())
    }

    /// Pins and maps run by run; undoes everything when one cannot be pinned.
    fn pin_map_dma(&mut self, mut dma: Dma, size: u64) -> Result<(), Errno> {
        let mut pinner = Pinner {
            process: &mut self.process,
            frames: &mut self.frames,
            tolls: &mut self.tolls,
            mechanism: self.mechanism,
            batch: Batch::default(),
        };
        while dma.size < size {
            let left = (size - dma.size) / PAGE;
            let vaddr = dma.vaddr + dma.size;
            match pinner.pin_pages_remote(&dma, vaddr, left) {
                Ok(run) => {
                    let iova = dma.iova + dma.size;
                    let written = self.domain.map(iova, run.pfn, run.pages, dma.access);
                    pinner.tolls.iommu_entries += written;
                    dma.size += run.pages * PAGE;
                }
                Err(errno) => {
                    self.remove(&dma);
                    return Err(errno);
                }
            }
        }
        pinner.batch.unpin(pinner.frames);
        self.mappings.link(dma);
        Ok(())
    }

    /// `VFIO_IOMMU_UNMAP_DMA`: gives the bytes that were unmapped.
    ///
    /// # Errors
    /// What the kernel answers with; nothing is unmapped then.
    pub fn unmap_dma(&mut self, unmap: Unmapping) -> Result<u64, Errno> {
        self.tolls.ioctls += 1;
        let (iova, size) = self.check_unmap(unmap)?;
        let mut unmapped = 0;
        while let Some(first) = self.mappings.find(iova, size).map(|dma| dma.iova) {
            if let Some(dma) = self.mappings.unlink(first) {
                unmapped += dma.size;
                self.remove(&dma);
            }
        }
        Ok(unmapped)
    }

    /// The range, which must not cut a mapping.
    fn check_unmap(&self, unmap: Unmapping) -> Result<(u64, u64), Errno> {
        let Argument { argsz, flags } = unmap.argument;
        let known = UNMAP_DIRTY | UNMAP_ALL | UNMAP_VADDR;
        if argsz < UNMAP_MIN_ARGSZ || flags & !known != 0 || unmap.iova & (PAGE - 1) != 0 {
            return Err(Errno::Inval);
        }
        if flags & UNMAP_ALL != 0 {
            let whole = unmap.iova == 0 && unmap.size == 0;
            return if whole {
                Ok((0, u64::MAX))
            } else {
                Err(Errno::Inval)
            };
        }
        if unmap.size == 0 || unmap.size & (PAGE - 1) != 0 {
            return Err(Errno::Inval);
        }
        let last = unmap.iova.checked_add(unmap.size - 1);
        let last = last.ok_or(Errno::Inval)?;
        let at_head = self.mappings.find(unmap.iova, 1);
        let at_tail = self.mappings.find(last, 1);
        let cuts = at_head.is_some_and(|dma| dma.iova != unmap.iova)
            || at_tail.is_some_and(|dma| dma.iova + (dma.size - 1) != last);
        if cuts {
            return Err(Errno::Inval);
        }
        Ok((unmap.iova, unmap.size))
    }

    /// Unmaps and unpins a mapping as far as it got: `vfio_remove_dma`, `vfio_unmap_unpin`.
    fn remove(&mut self, dma: &Dma) {
        self.available += 1;
        let mut done = 0;
        let mut unlocked = 0;
        while done < dma.size {
            let iova = dma.iova + done;
            let Some(run) = self.contiguous(iova, (dma.size - done) / PAGE) else {
                done += PAGE;
                continue;
            };
            self.tolls.iommu_entries_cleared += self.domain.unmap(iova, run.pages);
            self.tolls.runs_unmapped += 1;
            let (frames, tolls) = (&mut self.frames, &mut self.tolls);
            unlocked += unpin_pages_remote(dma, iova, run, self.mechanism, frames, tolls);
            done += run.pages * PAGE;
        }
        self.process.locked_vm -= unlocked;
    }

    /// The contiguous run that an address begins: a look-up for each page.
    fn contiguous(&mut self, iova: u64, most: u64) -> Option<Run> {
        let pfn = self.look_up(iova)?;
        let mut pages = 1;
        while pages < most {
            if self.look_up(iova + pages * PAGE) != Some(pfn + pages) {
                break;
            }
            pages += 1;
        }
        Some(Run { pfn, pages })
    }

    fn look_up(&mut self, iova: u64) -> Option<u64> {
        self.tolls.translations += 1;
        let walk = self.domain.walk(iova);
        self.tolls.levels += walk.levels;
        self.tolls.small_translations += u64::from(walk.is_small);
        self.domain.iova_to_pfn(iova)
    }

    /// A driver pins a page of a mapping for itself: `vfio_iommu_type1_pin_pages`. It is already accounted.
    ///
    /// # Errors
    /// [`Errno::Inval`] where nothing is mapped, [`Errno::Fault`] where no memory is.
    pub fn pin_external(&mut self, iova: u64) -> Result<u64, Errno> {
        let dma = self.mappings.find_mut(iova).ok_or(Errno::Inval)?;
        let vaddr = dma.vaddr + (iova - dma.iova);
        let pfn = self.process.find(vaddr, dma.access.write)?.pfn;
        if dma.pfn_list.find(iova).is_none() {
            self.frames.pin(pfn, 1);
        }
        dma.pfn_list.get(iova, pfn);
        Ok(pfn)
    }
}
