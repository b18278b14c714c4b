//! One boot of a guest that pins memory.

use std::fs;

use super::materials::{Kernel, Programs};
use super::plan;
use crate::error::LabError;
use crate::guest::initramfs::{self, Member};
use crate::vm::boot::{self, Boot, Harvest};
use crate::vm::machine::Machine;
use pagetoll_backend::Phase;
use pagetoll_images::Error;
use pagetoll_images::Surroundings;

/// What a guest is to do.
pub(super) struct Job<'a> {
    /// Its name, for progress and logs.
    pub(super) name: String,
    pub(super) kernel: &'a Kernel,
    pub(super) machine: Machine,
    /// The order of the probe.
    pub(super) order: String,
    /// One more file that the order names.
    pub(super) file: Option<(&'static str, String)>,
}

/// How long a boot may be silent, and where its console goes.
#[derive(Clone, Copy)]
pub(super) struct Manner<'a> {
    pub(super) silence: std::time::Duration,
    pub(super) keep_logs: Option<&'a std::path::Path>,
}

/// Boots and gives what the guest reported.
pub(super) fn run(
    job: &Job<'_>,
    programs: &Programs,
    manner: Manner<'_>,
    (surroundings, phase): (Surroundings<'_>, &mut dyn Phase),
) -> Result<Harvest, LabError> {
    let initramfs = initramfs(job, programs, surroundings)?;
    let boot = Boot {
        name: &job.name,
        machine: job.machine,
        xen: None,
        counter: None,
        linux: &job.kernel.image.image,
        initramfs: &initramfs,
        silence: manner.silence,
        keep_logs: manner.keep_logs,
    };
    boot::run(boot, surroundings.cache, surroundings.stop, phase)
}

fn initramfs(
    job: &Job<'_>,
    programs: &Programs,
    surroundings: Surroundings<'_>,
) -> Result<Vec<u8>, Error> {
    let read = |path: &std::path::Path| fs::read(path).map_err(Error::io("read", path));
    let (init, probe) = (read(&programs.init)?, read(&programs.probe)?);
    let modules = &job.kernel.modules;
    let order = plan::init(modules.iter().map(|module| module.name.as_str()));
    let names: Vec<_> = modules
        .iter()
        .map(|module| format!("modules/{}.ko", module.name))
        .collect();
    let member = |name, mode, bytes| Member { name, mode, bytes };
    let mut members = vec![
        member("init", 0o755, init.as_slice()),
        member("pin-probe", 0o755, probe.as_slice()),
        member("order", 0o644, order.as_bytes()),
        member("pin-order", 0o644, job.order.as_bytes()),
    ];
    if let Some((name, text)) = &job.file {
        members.push(member(name, 0o644, text.as_bytes()));
    }
    for (name, module) in names.iter().zip(modules) {
        members.push(member(name, 0o644, &module.bytes));
    }
    let place = surroundings.cache.root();
    initramfs::assemble(&members).map_err(Error::io("assemble an initramfs in", place))
}
