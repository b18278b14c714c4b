//! Carries out conformance cases on the model: `conformance/vfio`.

use std::ops::RangeInclusive;

use pagetoll_conformance::vfio::{Answer, Answers, Call, Case, Memory, SENTINEL, Shape};

use super::{Access, Argument, Container, Errno, Folio, Leaf, Mapping, Mechanism, PAGE, Unmapping};

/// Distance of a case's memories in the process: 16 GiB.
const VADDR: u64 = 1 << 34;
/// Frames of a memory: one memory every 16 GiB, the first not at 0.
const PFN: u64 = 1 << 22;
/// Frames beyond all memory: a device's registers.
const MMIO_PFN: u64 = 1 << 30;
/// The IOMMU of the lab's machine, as QEMU emulates it: all addresses of its width but the interrupt window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iommu {
    /// 39 bits; `IOMMU_RESV_MSI`: include/linux/iommu.h, arch/x86.
    VtD,
    /// 44 bits; `MSI_IOVA_BASE` and `MSI_IOVA_LENGTH` of drivers/iommu/arm/arm-smmu-v3.
    SmmuV3,
}

impl Iommu {
    /// The addresses that memory can be mapped at.
    fn iova_ranges(self) -> Vec<RangeInclusive<u64>> {
        let (window, width) = match self {
            Self::VtD => (0xfee0_0000..0xfef0_0000, 39),
            Self::SmmuV3 => (0x0800_0000..0x0810_0000, 44),
        };
        vec![0..=window.start - 1, window.end..=(1 << width) - 1]
    }
}

const LARGE: u64 = 512;

/// Carries a case out.
#[must_use]
pub fn run(case: &Case, mechanism: Mechanism, iommu: Iommu) -> Answers {
    let mut container = Container::new(mechanism, iommu.iova_ranges());
    container.process.limit = case.limit;
    for (index, memory) in case.memories.iter().enumerate() {
        place(&mut container, index, memory);
    }
    let steps = case.steps.iter();
    steps
        .map(|step| {
            let mut answer = carry_out(&mut container, step.call);
            answer.locked = container.process.locked_vm;
            answer
        })
        .collect()
}

fn wide(index: usize) -> u64 {
    u64::try_from(index).unwrap_or(u64::MAX)
}

fn vaddr_of(memory: usize) -> u64 {
    VADDR * (wide(memory) + 1)
}

/// Lays the pages of a memory out as its shape has them.
fn place(container: &mut Container, index: usize, memory: &Memory) {
    let (vaddr, base) = (vaddr_of(index), PFN * (wide(index) + 1));
    let mut page = 0;
    while page < memory.pages {
        let pages = match memory.shape {
            Shape::Transparent | Shape::Huge | Shape::HugeSplit => LARGE.min(memory.pages - page),
            _ => 1,
        };
        let pfn = match memory.shape {
            Shape::Mmio => MMIO_PFN + page,
            // Every second large page comes from elsewhere, as every third small one does.
            Shape::HugeSplit => base + page + (page / LARGE % 2) * (PFN / 2),
            Shape::Small => base + page + (page / 3) * 2,
            _ => base + page,
        };
        if memory.shape != Shape::None {
            let leaf = Leaf {
                pfn,
                pages,
                writable: memory.shape != Shape::ReadOnly,
                pfnmap: memory.shape == Shape::Mmio,
            };
            container.process.map(vaddr + page * PAGE, leaf);
        }
        if !matches!(memory.shape, Shape::None | Shape::Mmio) {
            container.frames.add(Folio { head: pfn, pages });
            for inside in 0..pages {
                let label = (wide(index) + 1) << 32 | (page + inside + 1);
                container.frames.set_word(pfn + inside, label);
            }
        }
        page += pages;
    }
}

fn carry_out(container: &mut Container, call: Call) -> Answer {
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let argument = |given: pagetoll_conformance::vfio::DmaFlags| Argument {
        argsz: narrow(given.argsz),
        flags: narrow(given.flags),
    };
    match call {
        Call::Map(map) => answer(
            container
                .map_dma(Mapping {
                    argument: argument(map.argument),
                    vaddr: map.memory.map_or(0, vaddr_of) + map.offset,
                    iova: map.iova,
                    size: map.size,
                })
                .map(|()| 0),
        ),
        Call::Unmap(unmap) => answer(container.unmap_dma(Unmapping {
            argument: argument(unmap.argument),
            iova: unmap.iova,
            size: unmap.size,
        })),
        Call::Read { iova } => answer(Ok(read(container, iova))),
        Call::Write {
            iova,
            memory,
            offset,
        } => answer(Ok(write(container, iova, vaddr_of(memory) + offset))),
    }
}

fn answer(result: Result<u64, Errno>) -> Answer {
    Answer {
        errno: result.map_or_else(Errno::number, |_| 0),
        value: result.unwrap_or(0),
        locked: 0,
    }
}

fn read(container: &Container, iova: u64) -> u64 {
    let wanted = Access {
        read: true,
        write: false,
    };
    let pfn = container.domain.translate(iova, wanted);
    pfn.map_or(0, |pfn| container.frames.word(pfn))
}

/// The device writes; the CPU looks; what was there is put back.
fn write(container: &mut Container, iova: u64, vaddr: u64) -> u64 {
    let wanted = Access {
        read: false,
        write: true,
    };
    let written = container.domain.translate(iova, wanted);
    let before = written.map(|pfn| (pfn, container.frames.word(pfn)));
    if let Some((pfn, _)) = before {
        container.frames.set_word(pfn, SENTINEL);
    }
    let found = container
        .process
        .pfn(vaddr)
        .map_or(0, |pfn| container.frames.word(pfn));
    if let Some((pfn, word)) = before {
        container.frames.set_word(pfn, word);
    }
    found
}
