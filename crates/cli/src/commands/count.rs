//! `pagetoll count`: a bill of the route `count`, in a built tree of its kernel, and again whenever what it counts changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Spec};

use super::bill;
use super::watched::{attended, is_stopped};
use crate::args::{CountArgs, Verbosity};
use crate::failure::{self, Outcome};

/// Time between two looks. A file that was written between them is still being written.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// The kernel of a built tree, below it.
const fn built_image(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "arch/x86/boot/bzImage",
        Arch::Arm64 => "arch/arm64/boot/Image",
    }
}

/// Counts once; with `--watch`, again on every change, until a signal. A failure of the first count ends the command. Later failures
/// are printed and the watch goes on, since a build may be half done.
pub(crate) fn run(args: &mut CountArgs, verbosity: Verbosity) -> Result<Outcome> {
    let lab = &mut args.bill.spec.lab;
    let (built, kernels) = (built_image(lab.arch.unwrap_or_default()), &mut lab.kernels);
    if kernels.is_empty() && Path::new(built).is_file() {
        failure::note(&format!(
            "the kernel is {built} of this folder; --kernel names another"
        ));
        kernels.push(built.to_owned());
    }
    let mut seen = Look::new(&args.bill.spec);
    let outcome = bill::run(&args.bill, verbosity)?;
    if !args.watch {
        return Ok(outcome);
    }
    loop {
        seen = attended(verbosity, |context| {
            seen.changed(&args.bill.spec, context.stop)
        })?;
        if let Err(error) = bill::run(&args.bill, verbosity) {
            if is_stopped(&error) {
                return Err(error);
            }
            failure::print(&error);
        }
    }
}

/// Files of an order, each with its size and the time when it was written; none where it is not there.
#[derive(PartialEq, Eq)]
struct Look(Vec<(PathBuf, Option<(u64, SystemTime)>)>);

impl Look {
    fn new(spec: &Spec) -> Self {
        let kernels = spec.lab.kernels.iter().map(Path::new);
        let command = spec.count.program.iter();
        let command = command.flat_map(|command| command.split_whitespace());
        let words = spec.count.words.iter().map(String::as_str);
        let words = words.chain(command).map(Path::new);
        let files = spec.count.files.iter().map(PathBuf::as_path);
        let all = kernels.chain(words).chain(files);
        let state = |path: &Path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        Self(all.map(|path| (path.to_owned(), state(path))).collect())
    }

    /// The next state that lasts.
    fn changed(&self, spec: &Spec, stop: &Stop) -> Result<Self> {
        let mut last = Self::new(spec);
        loop {
            stop.check().map_err(pagetoll_backend::Error::from)?;
            thread::sleep(BETWEEN_LOOKS);
            let now = Self::new(spec);
            if now == last && now != *self {
                return Ok(now);
            }
            last = now;
        }
    }
}
