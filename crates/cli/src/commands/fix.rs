//! `pagetoll fix`: the patches that pagetoll carries, listed, shown, exported, built and checked.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use pagetoll_backend::Error;
use pagetoll_bill::{Arch, Verdict};
use pagetoll_fix::build::{KernelBuild, Order, build};
use pagetoll_fix::catalogue::{self, Bench, Fix, Program};
use pagetoll_fix::check::{CheckOrder, CheckResult, Control, Proof, Subject, check};
use pagetoll_fix::spec::{PREFIX, Spec};
use pagetoll_fix::{Devices, Flavour, cover, hypervisor};
use pagetoll_host::capacity;
use pagetoll_images::apt::Freshness;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::{XenImage, XenSource};
use serde::Serialize;

use super::watched::in_lab;
use super::write_list;
use crate::args::{
    BuildArgs, FixBuildArgs, FixCheckArgs, FixCommand, FixExportArgs, FixShowArgs, ListOutputArgs,
    Verbosity,
};
use crate::failure::{self, Failure, Outcome};
use crate::output::{self, Destination};
use crate::terminal;
use pagetoll_render::document::{Document, Fact, Section};
use pagetoll_render::table::{Column, Table};
use pagetoll_render::text;

/// Does what was asked.
pub(crate) fn run(command: FixCommand, verbosity: Verbosity) -> Result<Outcome> {
    match command {
        FixCommand::List(args) => list(&args),
        FixCommand::Show(args) => show(&args),
        FixCommand::Export(args) => export(&args),
        FixCommand::Build(args) => build_one(args, verbosity),
        FixCommand::Check(args) => check_one(args, verbosity),
    }
}

/// A fix as it is listed.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    summary: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    after: &'static [String],
    program: String,
    series: Vec<ListedSeries>,
    checks: Vec<&'static str>,
}

#[derive(Serialize)]
struct ListedSeries {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suite: Option<&'static str>,
    archs: Vec<Arch>,
    patches: usize,
    broken_variants: usize,
}

impl Listed {
    fn new(fix: &'static Fix) -> Self {
        let series = fix.series.iter().map(|series| ListedSeries {
            version: &series.version,
            suite: series.suite.as_deref(),
            archs: series.archs().collect(),
            patches: fix.patches(series).len(),
            broken_variants: fix.variants(series).count(),
        });
        Self {
            name: &fix.name,
            summary: &fix.summary,
            after: &fix.after,
            program: fix.program.to_string(),
            series: series.collect(),
            checks: fix.checks.iter().map(|check| check.name.as_str()).collect(),
        }
    }
}

fn list(args: &ListOutputArgs) -> Result<Outcome> {
    let destination = Destination::of_list(args)?;
    let listed: Vec<_> = catalogue::all().iter().map(Listed::new).collect();
    write_list(listing(&listed), &listed, &destination)?;
    Ok(Outcome::Success)
}

fn listing(listed: &[Listed]) -> Document {
    let mut table = Table::new([
        Column::left("fix"),
        Column::left("of"),
        Column::left("for"),
        Column::left("source from"),
        Column::right("patches"),
        Column::left("after those of"),
        Column::right("checks"),
        Column::right("broken variants"),
    ]);
    for fix in listed {
        for series in &fix.series {
            table.row([
                format!("{}@{}", fix.name, series.version),
                format!("{} {}", fix.program, series.version),
                joined(&series.archs),
                series.suite.unwrap_or("this system's suite").to_owned(),
                series.patches.to_string(),
                fix.after.join(", "),
                fix.checks.len().to_string(),
                series.broken_variants.to_string(),
            ]);
        }
    }
    let summaries = listed.iter().map(|fix| Fact::new(fix.name, fix.summary));
    Document {
        title: "fixes: patches of Linux and Xen that cut tolls".to_owned(),
        sections: vec![
            Section::facts("", summaries.collect()),
            Section::table("Series", table),
        ],
    }
}

fn joined(archs: &[Arch]) -> String {
    let names: Vec<_> = archs.iter().map(|arch| arch.name()).collect();
    names.join(", ")
}

fn show(args: &FixShowArgs) -> Result<Outcome> {
    let spec = spec(&args.name)?;
    let fix = named(&spec)?;
    let patches = || -> String {
        fix.stack(spec.series)
            .iter()
            .map(|patch| patch.text)
            .collect()
    };
    output::print(&if args.patches {
        patches()
    } else {
        fix.readme.to_owned()
    })?;
    Ok(Outcome::Success)
}

/// Writes the cover letter and the fix's own patches; of no fix, the prerequisites, each of which is sent by itself.
fn export(args: &FixExportArgs) -> Result<Outcome> {
    let spec = spec(&args.name)?;
    let (patches, letter) = match spec.fix {
        Some(fix) => (
            fix.patches(spec.series),
            Some(cover::letter(fix, spec.series)),
        ),
        None => (catalogue::prerequisites(spec.series), None),
    };
    if patches.is_empty() {
        return Err(Failure::BadInput(format!(
            "fix {spec}: has no patches; expected a fix's name"
        ))
        .into());
    }
    let folder = &args.folder;
    let refused = |problem: &str| {
        let folder = folder.display();
        Failure::BadInput(format!(
            "{folder}: {problem}; expected an empty folder, or none"
        ))
    };
    let failed = |error: std::io::Error| refused(&error.to_string());
    fs::create_dir_all(folder).map_err(failed)?;
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(refused("holds files").into());
    }
    for patch in &patches {
        let name = Path::new(patch.file).file_name().unwrap_or_default();
        output::write(patch.text, Some(&folder.join(name)))?;
    }
    let along = match &letter {
        Some(_) => "patches and a cover letter, none signed off",
        None => "patches, each a bug fix to be sent by itself, none signed off",
    };
    if let Some(letter) = letter {
        output::write(&letter, Some(&folder.join("0000-cover-letter.patch")))?;
    }
    let (count, folder) = (patches.len(), folder.display());
    let base = &spec.series.base;
    output::print(&format!(
        "{folder}: {count} {along}\n\
         to apply them, to {} {base}: git am {folder}/000[1-9]*\n\
         to send them: sign each off (DCO), and write them anew with --from and --base\n",
        spec.program()
    ))?;
    Ok(Outcome::Success)
}

fn named(spec: &Spec) -> Result<&'static Fix, Failure> {
    spec.fix.ok_or_else(|| {
        Failure::BadInput(format!(
            "fix {spec}: is a kernel without a fix; expected a fix's name"
        ))
    })
}

fn spec(name: &str) -> Result<Spec> {
    Ok(name.parse::<Spec>().map_err(Error::from)?)
}

fn order(name: &str, args: BuildArgs) -> Result<Order> {
    let arch = args.arch.unwrap_or_default();
    order_of(Spec::for_arch(name, arch).map_err(Error::from)?, args)
}

fn order_of(spec: Spec, args: BuildArgs) -> Result<Order> {
    if spec.program() == Program::Xen {
        refuse("--arch", args.arch.is_some(), &spec)?;
        refuse("--source", args.source.is_some(), &spec)?;
        refuse("--jobs", args.jobs.is_some(), &spec)?;
    }
    let (flavour, _) = args.flavour();
    Ok(Order {
        devices: spec.devices(),
        spec,
        source: args.source,
        freshness: if args.refresh {
            Freshness::Refresh
        } else {
            Freshness::Cached
        },
        jobs: args.jobs.unwrap_or_else(capacity::cpus),
        flavour,
    })
}

/// An option that only kernels have a use for.
fn refuse(option: &str, given: bool, spec: &Spec) -> Result<(), Failure> {
    match given {
        false => Ok(()),
        true => Err(Failure::BadInput(format!(
            "{option}: not supported by {PREFIX}{spec} of Xen, which is built from Debian's source"
        ))),
    }
}

fn build_one(args: FixBuildArgs, verbosity: Verbosity) -> Result<Outcome> {
    let (_, flavour_option) = args.build.flavour();
    let vfio = args.vfio;
    let mut order = match args.lock_profile {
        true => order_of(Spec::xen(&args.name).map_err(Error::from)?, args.build)?,
        false => order(&args.name, args.build)?,
    };
    if let (Program::Xen, Some(option)) = (order.spec.program(), flavour_option) {
        refuse(option, true, &order.spec)?;
    }
    if vfio {
        refuse("--vfio", order.spec.program() == Program::Xen, &order.spec)?;
        order.devices = Devices::Vfio;
    }
    let began = Instant::now();
    let document = match order.spec.program() {
        Program::Linux => {
            let built = in_lab(verbosity, |here| build(&order, here))?;
            built_document(&order, &built, began.elapsed())
        }
        Program::Xen => {
            let (spec, freshness) = (&order.spec, order.freshness);
            let flavour = match args.lock_profile {
                true => hypervisor::Flavour::LockProfile,
                false => hypervisor::Flavour::Lab,
            };
            let built = in_lab(verbosity, |here| {
                hypervisor::build(spec, flavour, freshness, here)
            })?;
            xen_document(spec, flavour, &built)
        }
    };
    output::print(&text::document(&document, terminal::width()))?;
    Ok(Outcome::Success)
}

/// The route that shows what a fix gives.
fn billed_by(order: &Order) -> &'static str {
    let spec = &order.spec;
    match (order.devices, spec.fix.map(|fix| fix.bench), spec.arch()) {
        (Devices::Vfio, ..) => "pin --on lab",
        (_, Some(Bench::KvmHost), _) | (_, None, Arch::Arm64) => "demand --on lab",
        _ => "unmap",
    }
}

fn built_document(order: &Order, built: &KernelBuild, taken: Duration) -> Document {
    let how = if built.cached {
        "found in the cache"
    } else {
        "built"
    };
    let packages = built.kernel.packages.iter();
    let route = billed_by(order);
    // With --kernel fix:NAME, a bill builds the lab's flavour from Debian's source; pin takes files alone.
    let kernel = match (&order.source, order.flavour, order.devices) {
        (None, Flavour::Lab, Devices::Absent) => format!("{PREFIX}{}", order.spec),
        _ => built.kernel.image.display().to_string(),
    };
    let mut facts = vec![
        Fact::new("image", built.kernel.image.display().to_string()),
        Fact::new(how, format!("in {:.1} s", taken.as_secs_f64())),
        Fact::new(
            "to bill it",
            format!("pagetoll bill {route} --kernel {kernel}{}", of_arch(order)),
        ),
    ];
    facts.extend(packages.map(|package| Fact::new(&package.name, &package.version)));
    Document {
        title: format!("{PREFIX}{}: Linux {}", order.spec, built.kernel.release),
        sections: vec![Section::facts("", facts)],
    }
}

/// The option that names the processor, where that is not the default.
fn of_arch(order: &Order) -> String {
    match order.spec.arch() {
        arch if arch == Arch::default() => String::new(),
        arch => format!(" --arch {arch}"),
    }
}

fn xen_document(spec: &Spec, flavour: hypervisor::Flavour, built: &XenImage) -> Document {
    let image = built.elf.display().to_string();
    let bill = match flavour {
        hypervisor::Flavour::Lab | hypervisor::Flavour::Refusing => {
            format!("pagetoll bill unmap --xen {PREFIX}{spec}")
        }
        hypervisor::Flavour::LockProfile => "pagetoll bill flush --on live, in its dom0".to_owned(),
    };
    let mut facts = vec![Fact::new("image", image), Fact::new("to bill it", bill)];
    let packages = built.packages.iter();
    facts.extend(packages.map(|package| Fact::new(&package.name, &package.version)));
    Document {
        title: format!("{PREFIX}{spec}: Xen {}", spec.series.version),
        sections: vec![Section::facts("", facts)],
    }
}

fn check_one(args: FixCheckArgs, verbosity: Verbosity) -> Result<Outcome> {
    let destination = Destination::of_list(&args.output)?;
    output::check_folder("--keep-logs", args.keep_logs.as_deref())?;
    let xen = args.xen.as_deref().map(str::parse::<XenSource>);
    let order = CheckOrder {
        subject: subject(&args)?,
        only: args.check,
        build: order(&args.name, args.build)?,
        xen: xen.transpose().map_err(Error::from)?,
        keep_logs: args.keep_logs,
    };
    let fix = named(&order.build.spec)?;
    order.checks(fix).map_err(Error::from)?;
    if order.xen.is_some() && fix.bench != Bench::XenDom0 {
        return Err(Failure::BadInput(format!(
            "--xen: not supported by {PREFIX}{}, whose checks boot none",
            order.build.spec
        ))
        .into());
    }
    if order.build.spec.program() == Program::Xen {
        refuse("--xen", order.xen.is_some(), &order.build.spec)?;
        refuse("--bisect", args.bisect, &order.build.spec)?;
        refuse("--kernel", args.kernel.is_some(), &order.build.spec)?;
    }
    let proof = in_lab(verbosity, |here| check(&order, here))?;
    write_list(
        proven(&order, &proof),
        &ProofJson::new(&order, &proof),
        &destination,
    )?;
    Ok(deliver(&proof))
}

fn subject(args: &FixCheckArgs) -> Result<Subject> {
    let kernel = args.kernel.as_deref().map(str::parse::<KernelSource>);
    Ok(match kernel.transpose().map_err(Error::from)? {
        Some(kernel) => Subject::Given(kernel),
        None => Subject::Fixed {
            bisect: args.bisect,
        },
    })
}

/// Reports failed and inconclusive checks on stderr.
fn deliver(proof: &Proof) -> Outcome {
    for proved in &proof.results {
        let row = format!("{} on {} CPUs", proved.check.name, proved.cpus);
        match proved.check.verdict {
            Verdict::Pass => {}
            Verdict::Inconclusive => failure::note(&match &proved.lacks {
                Some(lacks) => format!("{row} was not tried: the kernel has no {lacks}"),
                None => format!("{row} is inconclusive, not passed"),
            }),
            Verdict::Fail => {
                failure::failed_check(&format!(
                    "{row}: {} of {}",
                    proved.check.failed, proved.check.tried
                ));
            }
        }
    }
    for (cpus, count, first) in proof.warnings.iter().filter(|(_, count, _)| *count > 0) {
        failure::failed_check(&format!(
            "{count} warnings in the kernel's log on {cpus} CPUs: {first}"
        ));
    }
    if proof.failed() {
        Outcome::CheckFailed
    } else {
        Outcome::Success
    }
}

fn proven(order: &CheckOrder, proof: &Proof) -> Document {
    let mut table = Table::new([
        Column::left("check"),
        Column::right("CPUs"),
        Column::left("verdict"),
        Column::right("failed"),
        Column::right("tried"),
        Column::left("negative control"),
        Column::left("failed there, guest time"),
    ]);
    for proved in &proof.results {
        table.row([
            proved.check.name.clone(),
            proved.cpus.to_string(),
            proved.check.verdict.to_string(),
            proved.check.failed.to_string(),
            proved.check.tried.to_string(),
            of_control(proved, |control| &control.name).to_owned(),
            of_control(proved, |control| &control.found).to_owned(),
        ]);
    }
    let log = |(cpus, count, _): &(usize, u64, String)| {
        Fact::new(format!("log on {cpus} CPUs"), format!("{count} warnings"))
    };
    let xen = match proof.xen.as_str() {
        "" => "no xen".to_owned(),
        version => format!("xen {version}"),
    };
    let mut facts = vec![Fact::new("stack", format!("linux {}, {xen}", proof.linux))];
    facts.extend(proof.warnings.iter().map(log));
    Document {
        title: format!(
            "{PREFIX}{}{}: {}",
            order.build.spec,
            of_arch(&order.build),
            how(order).1
        ),
        sections: vec![Section::facts("", facts), Section::table("Checks", table)],
    }
}

/// Subject of a check, for programs and in words.
const fn how(order: &CheckOrder) -> (&'static str, &'static str) {
    match (&order.subject, order.build.flavour) {
        (Subject::Given(_), _) => ("given", "its checks on a kernel that was built elsewhere"),
        (Subject::Fixed { .. }, Flavour::Debug) => ("debug-kernel", "checks on a debug kernel"),
        (Subject::Fixed { .. }, Flavour::Rt) => ("rt-kernel", "checks on a PREEMPT_RT kernel"),
        (Subject::Fixed { .. }, Flavour::Lab) => (
            "fixed",
            "checks, each beside a kernel broken so that it must fail",
        ),
    }
}

fn of_control(proved: &CheckResult, text: fn(&Control) -> &String) -> &str {
    proved.control.as_ref().map_or("", |control| text(control))
}

/// A proof as programs read it.
#[derive(Serialize)]
struct ProofJson<'a> {
    fix: String,
    arch: Arch,
    subject: &'static str,
    linux: &'a str,
    xen: &'a str,
    checks: Vec<ProvedJson<'a>>,
    kernel_warnings: u64,
}

#[derive(Serialize)]
struct ProvedJson<'a> {
    #[serde(flatten)]
    check: &'a pagetoll_bill::Check,
    cpus: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control_found: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lacks: Option<&'a str>,
}

impl<'a> ProofJson<'a> {
    fn new(order: &CheckOrder, proof: &'a Proof) -> Self {
        let proved = proof.results.iter().map(|proved| ProvedJson {
            check: &proved.check,
            cpus: proved.cpus,
            control: proved.control.as_ref().map(|control| &*control.name),
            control_found: proved.control.as_ref().map(|control| &*control.found),
            lacks: proved.lacks.as_deref(),
        });
        Self {
            fix: order.build.spec.to_string(),
            arch: order.build.spec.arch(),
            subject: how(order).0,
            linux: &proof.linux,
            xen: &proof.xen,
            checks: proved.collect(),
            kernel_warnings: proof.warnings.iter().map(|(_, count, _)| count).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_render::Width;

    use super::*;

    #[test]
    fn every_fix_is_listed_with_its_series() {
        let listed: Vec<_> = catalogue::all().iter().map(Listed::new).collect();
        let text = text::document(&listing(&listed), Width::Unlimited);
        assert!(text.contains("xen-pv-get-and-clear@6.1"), "{text}");
    }

    #[test]
    fn none_has_nothing_to_show() {
        let error = show(&FixShowArgs {
            name: "none".into(),
            patches: false,
        })
        .unwrap_err();
        assert!(
            error.to_string().contains("expected a fix's name"),
            "{error}"
        );
    }
}
