//! The cases of `conformance/vfio` on a real kernel: one boot, each case a process and a container of its own.

use pagetoll_backend::Error;
use pagetoll_bill::Arch;
use pagetoll_bill::spec::{Iommu, LabSpec};
use pagetoll_conformance::vfio::{self, Answer, Call, Case, Shape as MemoryShape};
use pagetoll_host::{Surroundings, capacity};
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_protocol::report::{Hello, PinCase, Report};
use pagetoll_protocol::step;
use pagetoll_pv::session::XenOptions;

use super::materials::Materials;
use super::plan;
use crate::conformance::{Answers, Next, TIMEOUT};
use crate::kernels;
use crate::linux::{NamedText, NativeBoot, check_tools};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::machine::{Firmware, HugePages, Machine, Mode, Variant};
use pagetoll_lab_vm::options::BootOptions;

const NAME: &str = "conformance";
const CASES: &str = "cases";

/// On what the cases are run.
#[derive(Clone, Debug)]
pub struct Request {
    arch: Arch,
    kernel: KernelSource,
    freshness: Freshness,
    options: BootOptions,
}

impl Request {
    /// Resolves the options of the lab.
    ///
    /// # Errors
    /// An unknown kernel, several kernels or one that is built from a fix, a file in place of a folder.
    pub fn new(lab: &LabSpec) -> Result<Self, Error> {
        Ok(Self {
            arch: lab.arch.unwrap_or_default(),
            kernel: kernels::one(lab)?,
            freshness: Freshness::from(lab.refresh),
            options: BootOptions::new(lab, TIMEOUT)?.without_counts(),
        })
    }
}

/// Runs the cases.
///
/// # Errors
/// A machine that lacks something, a kernel without VFIO, a guest that fails.
pub fn run(
    request: &Request,
    cases: &[Case],
    surroundings: &Surroundings<'_>,
) -> Result<Answers<vfio::Answers>, LabError> {
    check_tools(request.arch, std::slice::from_ref(&request.kernel))?;
    let machine = machine(cases, request.arch);
    capacity::require_memory(machine.memory_mib(), NAME)?;
    let sources = std::slice::from_ref(&request.kernel);
    let materials = Materials::obtain(request.arch, sources, request.freshness, *surroundings)?;
    let boot = NativeBoot {
        name: NAME,
        kernel: &materials.kernels[0],
        programs: &materials.programs,
        machine,
        counter: None,
        probe_order: step::order(&plan::conformance(CASES)),
        last: &[],
        file: Some(NamedText {
            name: CASES,
            text: &encoded(cases),
        }),
        options: &request.options,
    };
    let guest_run = boot.run(cases.len() + 1, *surroundings)?;
    let reports = &guest_run.reports;
    Answers::new(cases, reports, Hello::linux_version, |report, next| {
        let Report::PinCase(ran) = report else {
            return None;
        };
        Some(answered(next, ran))
    })
}

fn machine(cases: &[Case], arch: Arch) -> Machine {
    let large = |shape| matches!(shape, MemoryShape::Huge | MemoryShape::HugeSplit);
    let pages = |case: &Case| -> u64 {
        let memories = case.memories.iter().filter(|memory| large(memory.shape));
        memories.map(|memory| memory.pages.div_ceil(512)).sum()
    };
    Machine {
        mode: Mode::Counting,
        firmware: Firmware::LinuxWithIommu(
            HugePages {
                two_mib: cases.iter().map(pages).max().unwrap_or(0),
                one_gib: 0,
            },
            Iommu::default_of(arch),
        ),
        pages_mib: 0,
        xen: XenOptions::Default,
        variant: Variant::NONE,
    }
}

/// The cases as `guests/pin-probe/conformance.c` reads them.
fn encoded(cases: &[Case]) -> String {
    let mut text = String::new();
    for (index, case) in cases.iter().enumerate() {
        text += &format!("case {index}\n");
        for memory in &case.memories {
            text += &format!("memory {} {}\n", memory.shape.name(), memory.pages);
        }
        if let Some(pages) = case.limit {
            text += &format!("limit {pages}\n");
        }
        text.extend(case.steps.iter().map(|step| line(step.call)));
    }
    text
}

/// A memory's number that no case has stands for an address.
const NO_MEMORY: usize = 99;

fn line(call: Call) -> String {
    match call {
        Call::Map(map) => format!(
            "map {} {:x} {:x} {:x} {:x} {:x}\n",
            map.memory.unwrap_or(NO_MEMORY),
            map.offset,
            map.iova,
            map.size,
            map.argument.flags,
            map.argument.argsz
        ),
        Call::Unmap(unmap) => format!(
            "unmap {:x} {:x} {:x} {:x}\n",
            unmap.iova, unmap.size, unmap.argument.flags, unmap.argument.argsz
        ),
        Call::Read { iova } => format!("read {iova:x}\n"),
        Call::Write {
            iova,
            memory,
            offset,
        } => format!("write {iova:x} {memory} {offset:x}\n"),
    }
}

fn answered(next: Next<'_, Case>, ran: &PinCase) -> Result<vfio::Answers, LabError> {
    next.answered_by(ran.index, ran.answers.len())?;
    let answer = |&(errno, value, locked): &(i32, u64, u64)| Answer {
        errno,
        value,
        locked,
    };
    Ok(ran.answers.iter().map(answer).collect())
}
