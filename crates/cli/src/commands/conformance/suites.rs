//! The suites: PV paging of Xen, VFIO type1, and KVM with userfaultfd.

use pagetoll_bill::route::sim::Pin;
use pagetoll_bill::{Arch, RouteMechanism};
use pagetoll_conformance as xen;
use pagetoll_conformance::kvm::Outcome;
use pagetoll_conformance::{kvm, vfio};
use pagetoll_fix::Fixes;
use pagetoll_host_models::kvm::Processor;
use pagetoll_host_models::vfio::{Iommu, Mechanism};
use pagetoll_host_models::{kvm as kvm_model, vfio as vfio_model};
use pagetoll_lab::conformance as xen_lab;
use pagetoll_lab::routes::demand::conformance as kvm_lab;
use pagetoll_lab::routes::pin::conformance as vfio_lab;
use pagetoll_live::conformance as live;
use pagetoll_models::conformance as xen_model;
use pagetoll_sim::routes::pin::model;

use super::suite::{Answers, Given, Suite};
use crate::args::ConformanceSystems;
use crate::commands::watched::{in_lab, watched};

const NOT_RECORDED: &str = "the recorded host lacks a feature that the case needs";

/// Updates of a PV guest's page tables.
pub(super) const XEN: Suite<xen::Case> = Suite {
    all: xen::all,
    recorded: |case| Given::Answers(xen::recorded(case).unwrap_or_default()),
    recorded_on: "Xen 4.17, recorded",
    model_name: "simulated Xen",
    model: |case, _| xen::describe(case, &xen_model::run(case)),
    wrong_by: |_, _| Vec::new(),
    real_on: &[ConformanceSystems::Lab],
    real: |cases, args, verbosity| {
        let request = xen_lab::Request::new(&args.lab(), Some(&Fixes))?;
        let ran = in_lab(verbosity, |lab| xen_lab::run(&request, cases, lab))?;
        let pairs = cases.iter().zip(&ran.answered);
        Ok(Answers {
            system: format!("Xen {} under Linux {}", ran.xen, ran.linux),
            given: pairs
                .map(|(case, answered)| Given::Answers(xen::describe(case, answered)))
                .collect(),
        })
    },
};

/// Mapping memory for DMA. The model pins per folio.
pub(super) const VFIO: Suite<vfio::Case> = Suite {
    all: vfio::all,
    recorded: |case| Given::Answers(vfio::recorded(case).unwrap_or_default()),
    recorded_on: "Linux, recorded",
    model_name: "model of VFIO type1, per-folio",
    model: |case, arch| {
        let answered = vfio_model::run(case, Mechanism::PerFolio, iommu(arch));
        vfio::describe(case, &answered)
    },
    wrong_by: wrong_mechanisms,
    real_on: &[ConformanceSystems::Lab],
    real: |cases, args, verbosity| {
        let request = vfio_lab::Request::new(&args.lab())?;
        let ran = in_lab(verbosity, |lab| vfio_lab::run(&request, cases, lab))?;
        let pairs = cases.iter().zip(&ran.answered);
        Ok(Answers {
            system: format!("Linux {}", ran.linux),
            given: pairs
                .map(|(case, answered)| Given::Answers(vfio::describe(case, answered)))
                .collect(),
        })
    },
};

/// Memslots and userfaultfds.
pub(super) const KVM: Suite<kvm::Case> = Suite {
    all: kvm::all,
    recorded: |case| {
        kvm::recorded(case).map_or_else(|| Given::Skipped(NOT_RECORDED.to_owned()), Given::Answers)
    },
    recorded_on: "Linux 6.18, recorded",
    model_name: "model of KVM and userfaultfd",
    model: |case, arch| kvm::describe(case, &kvm_model::run(case, processor(arch))),
    wrong_by: |_, _| Vec::new(),
    real_on: &[ConformanceSystems::Live, ConformanceSystems::Lab],
    real: |cases, args, verbosity| match args.wants_lab() {
        true => {
            let request = kvm_lab::Request::new(&args.lab())?;
            let ran = in_lab(verbosity, |lab| kvm_lab::run(&request, cases, lab))?;
            Ok(Answers {
                system: format!("Linux {}", ran.linux),
                given: given(cases, ran.answered),
            })
        }
        false => {
            let ran = watched(verbosity, |context| Ok(live::run(cases, context.stop)?))?;
            Ok(Answers {
                system: format!("Linux {}, this host", ran.linux),
                given: given(cases, ran.outcomes),
            })
        }
    },
};

fn given(cases: &[kvm::Case], outcomes: Vec<Outcome>) -> Vec<Given> {
    let pairs = cases.iter().zip(outcomes);
    let given = pairs.map(|(case, outcome)| match outcome {
        Outcome::Answers(answered) => Given::Answers(kvm::describe(case, &answered)),
        Outcome::Skipped(why) => Given::Skipped(why),
    });
    given.collect()
}

/// The processor of the machine that the suite runs on.
const fn processor(arch: Arch) -> Processor {
    match arch {
        Arch::X86_64 => Processor::X86_64,
        Arch::Arm64 => Processor::Arm64,
    }
}

/// The IOMMU of the machine that the suite runs on.
const fn iommu(arch: Arch) -> Iommu {
    match arch {
        Arch::X86_64 => Iommu::VtD,
        Arch::Arm64 => Iommu::SmmuV3,
    }
}

/// Mechanisms whose pin loop, run by a kernel of today, would lose or leak a pin.
fn wrong_mechanisms(case: &vfio::Case, arch: Arch) -> Vec<&'static str> {
    let run = |mechanism| vfio_model::run(case, mechanism, iommu(arch));
    let right = run(Mechanism::PerFolio);
    let is_wrong = |pin: &Pin| run(model(*pin)) != right;
    let wrong = Pin::ALL.iter().filter(|pin| is_wrong(pin));
    wrong.map(|pin| pin.properties().name).collect()
}
