//! Proves a fix: its checks must pass on the fixed kernel, and fail on kernels that are broken on purpose.
//!
//! A check that its negative control survives proves nothing: it is inconclusive, even if it passed on the fixed
//! kernel.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use pagetoll_backend::{Stopped, join};
use pagetoll_bill::spec::Wanted;
use pagetoll_bill::{self as bill, Verdict};
use pagetoll_host::Surroundings;
use pagetoll_host::capacity;
use pagetoll_images::kernel::KernelSource;
use pagetoll_images::xen::XenSource;
use pagetoll_lab::checks::{self, CheckRun, Findings, Purpose, Request, Step};
use pagetoll_lab::guest::Guest;
use pagetoll_lab::routes::{demand, pin};
use pagetoll_lab::vm::cores::Cores;
use pagetoll_lab::{BootOptions, LabError, Reuse};

use crate::build::{self, Order, Plan};
use crate::catalogue::{self, Check, Fix, Patch, Program, Series, Variant};
use crate::config::Flavour;
use crate::error::{FixError, refused};
use crate::hypervisor;
use crate::spec::{self, Spec};

/// CPU time of a guest's QEMU for one check that races. Assumed: six times what the longest took.
const RACE_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// CPU time of a guest's QEMU for a check that does not race: a broken kernel may loop until then.
const TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// CPUs of the guests that prove a fix, a boot each.
const CPUS: [usize; 3] = [1, 2, 4];
/// CPUs of a broken kernel's guest where its check races: the fewest.
const PAIR: usize = 2;

/// Input of `fix check`: a fix on a kernel, and a hypervisor.
#[derive(Clone, Debug)]
pub struct CheckOrder {
    /// The fix and the source that it is applied to.
    pub build: Order,
    /// The hypervisor; without it Debian's, or a build that the fix needs. Unused for a fix of Xen and where the
    /// [bench](catalogue::Bench) has none.
    pub xen: Option<XenSource>,
    /// System under check.
    pub subject: Subject,
    /// Names of the fix's checks; all where this is empty.
    pub only: Vec<String>,
    /// Folder for consoles; `None` keeps them only after a failure.
    pub keep_logs: Option<PathBuf>,
}

/// System under check.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A build with the fix. Broken builds run beside the flavours for which checks name them: `Check::control_in`.
    Fixed {
        /// Build every kernel that has only the first of the patches, too; not for a fix of Xen.
        bisect: bool,
    },
    /// A kernel that is built already, with the fix or without; not for a fix of Xen.
    Given(KernelSource),
}

impl CheckOrder {
    /// Checks of a fix that were asked for.
    ///
    /// # Errors
    /// [`BadInput`](pagetoll_host::Error::BadInput) for a name that is none of them.
    pub fn checks(&self, fix: &'static Fix) -> Result<Vec<&'static Check>, FixError> {
        let is_known = |name: &&String| fix.checks.iter().any(|check| check.name == **name);
        if let Some(unknown) = self.only.iter().find(|name| !is_known(name)) {
            let names: Vec<_> = fix.checks.iter().map(|check| &*check.name).collect();
            let problem = format!("has no check '{unknown}'");
            let expected = format!("some of: {}", names.join(", "));
            return Err(refused(&self.build.spec, problem, expected).into());
        }
        let wanted = |check: &&Check| self.only.is_empty() || self.only.contains(&check.name);
        Ok(fix.checks.iter().filter(wanted).collect())
    }

    /// True where the fix is compiled in its other configurations, too.
    fn compiles_elsewhere(&self) -> bool {
        matches!(self.subject, Subject::Fixed { .. }) && self.build.flavour == Flavour::Lab
    }

    /// The variant that a check must fail on in this order; `None` where none is built.
    fn control<'c>(&self, check: &'c Check) -> Option<&'c str> {
        match self.subject {
            Subject::Fixed { .. } => check.control_in(self.build.flavour),
            Subject::Given(_) => None,
        }
    }
}

/// A check on the fixed kernel, beside its negative control.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckResult {
    /// Counts and verdict.
    pub check: bill::Check,
    /// CPUs of the guest.
    pub cpus: usize,
    /// Result on the broken variant, where one was built.
    pub control: Option<Control>,
    /// Feature that the kernel lacks, where nothing was tried.
    pub lacks: Option<String>,
}

/// The result of all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// Output of `uname -r` in the guest.
    pub linux: String,
    /// Version that Xen reports; empty without Xen.
    pub xen: String,
    /// By check, then by CPUs.
    pub results: Vec<CheckResult>,
    /// Warnings in the logs of the fixed kernel, by CPUs: how many, and the first.
    pub warnings: Vec<(usize, u64, String)>,
}

impl Proof {
    /// True if a check failed or a kernel warned.
    #[must_use]
    pub fn failed(&self) -> bool {
        let warned = self.warnings.iter().any(|(_, count, _)| *count > 0);
        warned
            || self
                .results
                .iter()
                .any(|result| result.check.verdict == Verdict::Fail)
    }
}

/// Result of a check on its broken variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Name of the variant.
    pub name: String,
    /// Failures found, or that there were none.
    pub found: String,
    failed: u64,
}

/// Result of one boot.
enum BootResult {
    /// Checks on the fixed kernel, with the number of CPUs.
    Fixed(usize, Findings),
    /// The check that must fail on a broken kernel, and its result there.
    Broken(&'static Check, Control),
}

/// Builds the kernel, compiles the fix in its other configurations, builds the broken variants, and runs the checks on
/// all, or on what else is the [`Subject`]: as many guests at a time as this machine has CPUs for, while the next variant
/// is built.
///
/// # Errors
/// Those of [`build`](crate::build::build); a guest with the *fixed* kernel that does not come to its end. The first
/// error ends everything.
pub fn check(order: &CheckOrder, surroundings: &Surroundings<'_>) -> Result<Proof, FixError> {
    let spec = &order.build.spec;
    let fix = spec.fix.ok_or_else(|| {
        let problem = "there is nothing to check";
        refused(spec, problem.into(), "the name of a fix".into())
    })?;
    let checks = order.checks(fix)?;
    if order.compiles_elsewhere() {
        fix.check_compilers(spec.series)?;
    }
    let stop = surroundings.stop.for_part();
    let surroundings = Surroundings {
        stop: &stop,
        ..*surroundings
    };
    let maker = Maker::new(order, fix, surroundings)?;
    let fixed = maker.stack(None)?;
    if order.compiles_elsewhere() {
        maker.compile_configurations(&order.subject)?;
    }
    let bench = Bench {
        order,
        fix,
        series: spec.series,
        checks: &checks,
        cores: Cores::new(capacity::cpus()),
        surroundings,
    };
    let made = all_or_first_error(bench.all(&maker, &fixed))?;
    if let Maker::Linux { plan, .. } = &maker {
        plan.clear_work()?;
    }
    proof(&checks, |check| order.control(check), &made).ok_or_else(|| Stopped.into())
}

/// Kernel and hypervisor of a guest.
#[derive(Clone)]
struct Stack {
    kernel: KernelSource,
    xen: XenSource,
}

/// Source of the stacks: the program that the fix changes is built, with the fix and broken; the other one is the same
/// in all.
enum Maker<'a> {
    Given(Stack),
    Linux {
        fix: &'static Fix,
        plan: Box<Plan<'a>>,
        xen: XenSource,
    },
    Xen {
        build: &'a Order,
        kernel: KernelSource,
        surroundings: Surroundings<'a>,
    },
}

impl<'a> Maker<'a> {
    fn new(
        order: &'a CheckOrder,
        fix: &'static Fix,
        surroundings: Surroundings<'a>,
    ) -> Result<Self, FixError> {
        if let Subject::Given(kernel) = &order.subject {
            return Ok(Self::Given(Stack {
                kernel: kernel.clone(),
                xen: xen_for(fix, order, &surroundings)?,
            }));
        }
        let build = &order.build;
        Ok(match fix.program {
            Program::Linux => Self::Linux {
                fix,
                plan: Box::new(Plan::new(build, surroundings)?),
                xen: xen_for(fix, order, &surroundings)?,
            },
            Program::Xen => Self::Xen {
                build,
                kernel: kernel_for(fix, build, &surroundings)?,
                surroundings,
            },
        })
    }

    /// Compiles the fix in its other configurations, and builds it patch by patch where that is wanted.
    fn compile_configurations(&self, subject: &Subject) -> Result<(), FixError> {
        if let (Self::Linux { fix, plan, .. }, Subject::Fixed { bisect }) = (self, subject) {
            plan.compile_configurations(fix)?;
            if *bisect {
                plan.bisect(fix)?;
            }
        }
        Ok(())
    }

    /// Stack with the fix, and with a patch that breaks it.
    fn stack(&self, broken: Option<Patch>) -> Result<Stack, FixError> {
        match self {
            Self::Given(stack) => Ok(stack.clone()),
            Self::Linux { plan, xen, .. } => {
                let built = match broken {
                    Some(patch) => plan.variant(patch)?,
                    None => plan.base()?,
                };
                Ok(Stack {
                    kernel: KernelSource::Built(Box::new(built.kernel)),
                    xen: xen.clone(),
                })
            }
            Self::Xen {
                build,
                kernel,
                surroundings,
            } => {
                let built =
                    hypervisor::patched(&build.spec, broken, build.freshness, surroundings)?;
                Ok(Stack {
                    kernel: kernel.clone(),
                    xen: XenSource::Built(Box::new(built)),
                })
            }
        }
    }
}

/// Kernel for the checks of a fix of Xen: built with a fix that updates tables as the checks need it.
fn kernel_for(
    fix: &Fix,
    build: &Order,
    surroundings: &Surroundings<'_>,
) -> Result<KernelSource, FixError> {
    let Some(name) = &fix.kernel else {
        return Ok(KernelSource::default());
    };
    let order = Order {
        spec: Spec::linux(name, build.spec.arch())?,
        ..build.clone()
    };
    let built = build::build(&order, surroundings)?;
    Ok(KernelSource::Built(Box::new(built.kernel)))
}

/// Hypervisor for the checks of a fix of Linux: the one that was given, or built with the fix that the kernel asks for and
/// so that it refuses what a check asks it to.
fn xen_for(
    fix: &Fix,
    order: &CheckOrder,
    surroundings: &Surroundings<'_>,
) -> Result<XenSource, FixError> {
    if let Some(given) = &order.xen {
        return Ok(given.clone());
    }
    let (name, flavour) = match (&fix.xen, fix.refusals) {
        (None, false) => return Ok(XenSource::Debian { suite: None }),
        (name, true) => (
            name.as_deref().unwrap_or(spec::NONE),
            hypervisor::Flavour::Refusing,
        ),
        (Some(name), false) => (name.as_str(), hypervisor::Flavour::Lab),
    };
    let spec = Spec::xen(name)?;
    let built = hypervisor::build(&spec, flavour, order.build.freshness, surroundings)?;
    Ok(XenSource::Built(Box::new(built)))
}

/// Data that all boots of a check share.
struct Bench<'a> {
    order: &'a CheckOrder,
    fix: &'static Fix,
    series: &'static Series,
    checks: &'a [&'static Check],
    cores: Cores,
    surroundings: Surroundings<'a>,
}

impl Bench<'_> {
    /// Results of all boots.
    fn all(&self, maker: &Maker<'_>, fixed: &Stack) -> Vec<Result<BootResult, FixError>> {
        thread::scope(|scope| {
            let fixed = |cpus| scope.spawn(move || self.stop_on_error(self.fixed(fixed, cpus)));
            let with_checks = CPUS
                .into_iter()
                .filter(|cpus| self.on(*cpus).next().is_some());
            let mut boots: Vec<_> = with_checks.map(fixed).collect();
            for variant in self.variants() {
                match self.stop_on_error(self.build(maker, variant)) {
                    Ok(stack) => boots.extend(self.must_catch(variant.name).map(|check| {
                        let stack = stack.clone();
                        let name = variant.name;
                        scope.spawn(move || self.stop_on_error(self.control(&stack, name, check)))
                    })),
                    Err(error) => {
                        boots.push(scope.spawn(|| Err(error)));
                        break;
                    }
                }
            }
            boots.into_iter().map(join).collect()
        })
    }

    /// Requests a stop of all other boots after an error.
    fn stop_on_error<T>(&self, result: Result<T, FixError>) -> Result<T, FixError> {
        result.inspect_err(|_| self.surroundings.stop.request())
    }

    fn variants(&self) -> Vec<Variant> {
        let variants = self.fix.variants(self.series);
        let needed = |variant: &Variant| self.must_catch(variant.name).next().is_some();
        variants.filter(needed).collect()
    }

    /// Checks that prove something on so many CPUs.
    fn on(&self, cpus: usize) -> impl Iterator<Item = &'static Check> {
        let checks = self.checks.iter().copied();
        checks.filter(move |check| cpus > 1 || !check.races)
    }

    fn must_catch(&self, variant: &'static str) -> impl Iterator<Item = &'static Check> {
        let checks = self.checks.iter().copied();
        checks.filter(move |check| self.order.control(check) == Some(variant))
    }

    /// Builds a broken kernel or Xen, on a CPU that no guest has.
    fn build(&self, maker: &Maker<'_>, variant: Variant) -> Result<Stack, FixError> {
        let _core = self.cores.take(1, self.surroundings.stop)?;
        maker.stack(Some(variant.patch))
    }

    fn run(
        &self,
        stack: &Stack,
        name: String,
        cpus: usize,
        planned: &[(&Check, Purpose)],
    ) -> Result<Findings, LabError> {
        let step = |(check, purpose): &(&Check, Purpose)| Step {
            name: check.name.clone(),
            pages: check.pages,
            purpose: *purpose,
        };
        let races = planned.iter().any(|(check, _)| check.races);
        let guest = Guest {
            name,
            arch: self.order.build.spec.arch(),
            kernel: stack.kernel.clone(),
            xen: stack.xen.clone(),
            cpus,
            options: BootOptions {
                reuse: Reuse::Snapshot,
                keep_counts: Wanted::No,
                timeout: if races { RACE_TIMEOUT } else { TIMEOUT },
                keep_logs: self.order.keep_logs.clone(),
            },
        };
        let steps = planned.iter().map(step).collect();
        let request = Request { guest, steps };
        let run = match self.fix.bench {
            catalogue::Bench::XenDom0 => checks::run,
            catalogue::Bench::KvmHost => demand::check,
            catalogue::Bench::VfioHost => pin::check,
        };
        run(&request, &self.cores, &self.surroundings)
    }

    /// Runs all checks that prove something on so many CPUs.
    fn fixed(&self, stack: &Stack, cpus: usize) -> Result<BootResult, FixError> {
        let planned: Vec<_> = self.on(cpus).map(|check| (check, Purpose::Prove)).collect();
        let name = format!("{}-{cpus}", self.fix.name);
        let ran = self.run(stack, name, cpus, &planned)?;
        Ok(BootResult::Fixed(cpus, ran))
    }

    /// Runs a check against a broken kernel, in a boot of its own: it may take the guest down, which counts as caught.
    fn control(
        &self,
        stack: &Stack,
        variant: &'static str,
        check: &'static Check,
    ) -> Result<BootResult, FixError> {
        let cpus = if check.races { PAIR } else { 1 };
        let name = format!("{variant}-{}", check.name);
        let found = match self.run(stack, name, cpus, &[(check, Purpose::Catch)]) {
            Ok(ran) => control(variant, &ran),
            Err(LabError::Guest { problem, .. }) => Control {
                name: variant.to_owned(),
                found: format!("the guest failed: {problem}"),
                failed: 1,
            },
            Err(error) => return Err(error.into()),
        };
        Ok(BootResult::Broken(check, found))
    }
}

/// Results of all boots, or the error that ended the others.
fn all_or_first_error(
    results: Vec<Result<BootResult, FixError>>,
) -> Result<Vec<BootResult>, FixError> {
    let mut made = Vec::with_capacity(results.len());
    let mut stopped = None;
    for result in results {
        match result {
            Ok(one) => made.push(one),
            Err(error) if error.is_stopped() => stopped = Some(Stopped.into()),
            Err(error) => return Err(error),
        }
    }
    stopped.map_or(Ok(made), Err)
}

fn control(variant: &str, ran: &Findings) -> Control {
    let failed: u64 = ran.checks.iter().map(|finding| finding.failed).sum();
    let tried: u64 = ran.checks.iter().map(|finding| finding.tried).sum();
    let milliseconds: u64 = ran.checks.iter().map(|finding| finding.milliseconds).sum();
    Control {
        name: variant.to_owned(),
        found: match failed {
            0 => format!("survived {tried}"),
            failed => format!("{failed} of {tried} in {:.1} s", milliseconds as f64 / 1e3),
        },
        failed,
    }
}

/// `None` without a boot of the fixed kernel. `variant` names the broken variant of a check.
fn proof(
    checks: &[&'static Check],
    variant: impl Fn(&'static Check) -> Option<&'static str>,
    made: &[BootResult],
) -> Option<Proof> {
    let fixed: Vec<_> = made.iter().filter_map(BootResult::fixed).collect();
    let results = |check: &'static Check| {
        let control = variant(check).map(|name| control_of(check, name, made));
        let result = move |(cpus, ran): &(usize, &Findings)| {
            let mut findings = ran.checks.iter();
            let finding = findings.find(|finding| finding.name == check.name)?;
            Some(check_result(*cpus, finding, control.clone()))
        };
        fixed.iter().filter_map(result).collect::<Vec<_>>()
    };
    let (_, first) = fixed.first()?;
    Some(Proof {
        linux: first.linux.clone(),
        xen: first.xen.clone(),
        results: checks.iter().copied().flat_map(results).collect(),
        warnings: fixed
            .iter()
            .map(|(cpus, ran)| (*cpus, ran.warnings, ran.first_warning.clone()))
            .collect(),
    })
}

impl BootResult {
    fn fixed(&self) -> Option<(usize, &Findings)> {
        match self {
            Self::Fixed(cpus, ran) => Some((*cpus, ran)),
            Self::Broken(..) => None,
        }
    }
}

/// Result of the broken variant of a check; without it in this series the check is inconclusive.
fn control_of(check: &Check, variant: &str, made: &[BootResult]) -> Control {
    let mut controls = made.iter().filter_map(|made| match made {
        BootResult::Broken(broken, control) if broken.name == check.name => Some(control.clone()),
        _ => None,
    });
    controls.next().unwrap_or_else(|| Control {
        name: variant.to_owned(),
        found: "this series has no such variant".to_owned(),
        failed: 0,
    })
}

fn check_result(cpus: usize, finding: &CheckRun, control: Option<Control>) -> CheckResult {
    let CheckRun {
        name,
        tried,
        failed,
        lacks,
        ..
    } = finding;
    let check = match &control {
        Some(control) => bill::Check::against_control(name, *tried, *failed, control.failed),
        None => bill::Check::against_known(name, *tried, *failed),
    };
    CheckResult {
        check,
        cpus,
        control,
        lacks: lacks.clone(),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_host::Error;

    use pagetoll_backend::{Class, Classified};

    use super::*;

    fn fix() -> &'static Fix {
        catalogue::find("xen-pv-get-and-clear").unwrap()
    }

    fn all() -> Vec<&'static Check> {
        fix().checks.iter().collect()
    }

    fn ran(failed: u64, warnings: u64) -> Findings {
        let finding = |check: &Check| CheckRun {
            name: check.name.clone(),
            tried: 10,
            failed,
            milliseconds: 1500,
            lacks: None,
        };
        Findings {
            xen: "4.17".into(),
            linux: "6.1".into(),
            checks: fix().checks.iter().map(finding).collect(),
            warnings,
            first_warning: String::new(),
        }
    }

    fn proof_of(failed: u64, caught: u64, warnings: u64) -> Proof {
        let found = ran(caught, 0);
        let controls = fix().checks.iter();
        let mut made: Vec<_> = controls
            .map(|check| BootResult::Broken(check, control(&check.control, &found)))
            .collect();
        made.push(BootResult::Fixed(1, ran(0, 0)));
        made.push(BootResult::Fixed(2, ran(failed, warnings)));
        proof(&all(), broken, &made).unwrap()
    }

    fn broken(check: &'static Check) -> Option<&'static str> {
        check.control_in(Flavour::Lab)
    }

    fn found(result: &CheckResult) -> &str {
        &result.control.as_ref().unwrap().found
    }

    fn verdicts(proof: &Proof) -> Vec<Verdict> {
        let all = proof.results.iter();
        all.map(|result| result.check.verdict).collect()
    }

    #[test]
    fn a_check_passes_only_beside_a_control_that_was_caught() {
        let passed = proof_of(0, 3, 0);
        assert!(!passed.failed());
        assert_eq!(passed.results.len(), 2 * fix().checks.len());
        assert!(verdicts(&passed).iter().all(|v| *v == Verdict::Pass));
        let survived = proof_of(0, 0, 0);
        let inconclusive = |v: &Verdict| *v == Verdict::Inconclusive;
        assert!(verdicts(&survived).iter().all(inconclusive));
        assert!(found(&survived.results[0]).starts_with("survived"));
    }

    #[test]
    fn a_fix_without_broken_variants_passes_without_them() {
        let made = [
            BootResult::Fixed(1, ran(0, 0)),
            BootResult::Fixed(2, ran(0, 0)),
        ];
        let proof = proof(&all(), |_| None, &made).unwrap();
        assert!(verdicts(&proof).iter().all(|v| *v == Verdict::Pass));
        assert!(proof.results.iter().all(|result| result.control.is_none()));
    }

    #[test]
    fn a_check_has_the_control_of_the_kernels_configuration() {
        let variant = |check: &'static Check| check.control_in(Flavour::Rt);
        let broken = all().into_iter().find(|check| variant(check).is_some());
        let broken = broken.unwrap();
        let made = [
            BootResult::Broken(broken, control(variant(broken).unwrap(), &ran(1, 0))),
            BootResult::Fixed(1, ran(0, 0)),
        ];
        let proof = proof(&all(), variant, &made).unwrap();
        for result in &proof.results {
            let name = result.control.as_ref().map(|control| &*control.name);
            let check = fix()
                .checks
                .iter()
                .find(|check| check.name == result.check.name);
            assert_eq!(name, variant(check.unwrap()));
        }
        assert!(verdicts(&proof).contains(&Verdict::Pass));
    }

    #[test]
    fn a_failure_or_a_warning_on_either_boot_fails_the_fix() {
        assert!(proof_of(1, 3, 0).failed());
        assert!(proof_of(0, 3, 1).failed());
    }

    #[test]
    fn a_series_without_a_variant_leaves_its_check_inconclusive() {
        let first = &fix().checks[0];
        let control = control(&first.control, &ran(3, 0));
        let made = [
            BootResult::Broken(first, control),
            BootResult::Fixed(1, ran(0, 0)),
        ];
        let proof = proof(&all(), broken, &made).unwrap();
        assert_eq!(
            verdicts(&proof)[..2],
            [Verdict::Pass, Verdict::Inconclusive]
        );
        assert_eq!(found(&proof.results[1]), "this series has no such variant");
    }

    #[test]
    fn the_error_that_stopped_the_others_is_reported() {
        let stopped = || Err(Stopped.into());
        let reason = || {
            Err(FixError::Config {
                release: "6.1".into(),
                lacking: Vec::new(),
            })
        };
        let class = |results| all_or_first_error(results).err().unwrap().class();
        assert_eq!(
            class(vec![stopped(), reason(), stopped()]),
            Class::Environment
        );
        assert!(matches!(
            all_or_first_error(vec![Ok(BootResult::Fixed(1, ran(0, 0))), stopped()]),
            Err(FixError::Images(Error::Stopped))
        ));
    }
}
