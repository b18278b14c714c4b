//! What the bills of all routes have in common: one draft of several kernels, and what exactly was booted.

use std::collections::BTreeMap;
use std::path::Path;

use pagetoll_backend::{Billed, Error, Stacks, Stopped};
use pagetoll_bill::{Arch, Backend, Draft, Evidence, Image, Inputs, OnKernel, Order, Route, Unit};
use pagetoll_host::{Surroundings, digest};

use crate::error::LabError;
use crate::request::{Bench, Request};
use crate::vm::confine::Confinement;

/// Bills the same order on one kernel after the other.
///
/// # Errors
/// The first kernel that cannot be built or billed ends the others.
pub(crate) fn on_kernels(
    request: &Request,
    surroundings: &Surroundings<'_>,
    bill: impl Fn(&Bench<'_>, &Surroundings<'_>) -> Result<Billed, LabError>,
) -> Result<Billed, Error> {
    let mut drafts = Vec::new();
    let mut timings = Vec::new();
    let mut stacks = Stacks::new();
    for kernel in &request.kernels {
        let billed = bill(&request.on(kernel, surroundings)?, surroundings)?;
        timings.extend(billed.timings);
        let several = request.kernels.len() > 1;
        stacks.extend(billed.stacks.into_iter().map(|(frames, count)| {
            let kernel = several.then(|| kernel.name.clone());
            (kernel.into_iter().chain(frames).collect(), count)
        }));
        drafts.push(OnKernel {
            kernel: kernel.name.clone(),
            draft: billed.draft,
        });
    }
    let draft = match request.kernels.as_slice() {
        [kernel] => drafts.pop().map(|of| kernel.alone(of.draft)),
        _ => Draft::side_by_side(drafts),
    };
    // There is at least one kernel.
    let mut draft = draft.ok_or(Stopped)?;
    draft
        .notes
        .extend(Confinement::here(request.arch, surroundings.stop)?.notes());
    Ok(Billed {
        draft,
        timings,
        stacks,
    })
}

/// A draft of what the lab counts, still without what it found.
pub(crate) fn counted(route: Route, order: &Order) -> Draft {
    Draft {
        backend: Backend::Lab,
        route,
        unit: Unit::Instructions,
        evidence: Evidence::Exact,
        stack: BTreeMap::new(),
        order: order.clone(),
        rows: Vec::new(),
        notes: Vec::new(),
        inputs: Inputs::default(),
    }
}

/// What a stack says of the processor; nothing of the default one.
pub(crate) fn part_of_stack(arch: Arch) -> Option<(&'static str, String)> {
    (arch != Arch::default()).then(|| ("arch", arch.to_string()))
}

/// A file that was booted.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn image(name: impl Into<String>, file: &Path) -> Result<Image, LabError> {
    Ok(Image {
        name: name.into(),
        sha256: digest::sha256_of_file(file)?,
    })
}
