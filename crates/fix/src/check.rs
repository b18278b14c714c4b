//! Proves a fix: its checks must pass on the fixed kernel, and fail on kernels that are broken on purpose.
//!
//! A check that its negative control survives proves nothing: it is inconclusive, whatever it found on the fixed kernel.

use std::path::PathBuf;
use std::time::Duration;

use pagetoll_bill::{self as bill, Verdict};
use pagetoll_lab::LabError;
use pagetoll_lab::Surroundings;
use pagetoll_lab::checks::{self, Cpus, Ran, Request, Step};
use pagetoll_lab::demand;
use pagetoll_lab::kernel::{KernelImage, KernelSource};
use pagetoll_lab::xen::XenSource;

use crate::build::{Order, Plan};
use crate::catalogue::{self, Check, Fix, Series};
use crate::error::FixError;

/// A guest is given up when a check takes longer. Assumed: the longest takes two minutes on a busy machine.
const SILENCE: Duration = Duration::from_secs(15 * 60);

/// What is to be proved, and on what.
#[derive(Clone, Debug)]
pub struct CheckOrder {
    /// The kernel.
    pub build: Order,
    /// The hypervisor.
    pub xen: XenSource,
    /// Where consoles are kept; `None` keeps them only when something fails.
    pub keep_logs: Option<PathBuf>,
}

/// A check on the fixed kernel, beside its negative control.
#[derive(Clone, Debug, PartialEq)]
pub struct Proved {
    /// What was tried, what failed, and the verdict.
    pub check: bill::Check,
    /// CPUs of the guest.
    pub cpus: usize,
    /// The broken variant.
    pub control: String,
    /// How that was caught, or that it was not.
    pub control_found: String,
}

/// All that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// The kernel's release.
    pub linux: String,
    /// Xen's version.
    pub xen: String,
    /// Check by check.
    pub proved: Vec<Proved>,
    /// Warnings in the logs of the fixed kernel, by CPUs: how many, and the first.
    pub warnings: Vec<(usize, u64, String)>,
}

impl Proof {
    /// Whether a check failed or a kernel warned.
    #[must_use]
    pub fn failed(&self) -> bool {
        let warned = self.warnings.iter().any(|(_, count, _)| *count > 0);
        warned
            || self
                .proved
                .iter()
                .any(|proved| proved.check.verdict == Verdict::Fail)
    }
}

/// What a check found on its broken variant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Control {
    failed: u64,
    how: String,
}

/// Builds the kernel and its broken variants, and runs the checks on them.
///
/// # Errors
/// Those of [`build`](crate::build::build); a guest with the *fixed* kernel that does not come to its end.
pub fn check(order: &CheckOrder, surroundings: &Surroundings<'_>) -> Result<Proof, FixError> {
    let spec = &order.build.spec;
    let fix = spec.fix.ok_or_else(|| FixError::BadInput {
        what: "fix",
        value: spec.to_string(),
        problem: "there is nothing to be checked".into(),
        expected: "the name of a fix".into(),
    })?;
    let plan = Plan::new(&order.build, *surroundings)?;
    let kernel = plan.base()?.kernel;
    let bench = Bench {
        order,
        fix,
        series: spec.series,
        surroundings,
    };
    let one = bench.fixed(&kernel, Cpus::One)?;
    let two = bench.fixed(&kernel, Cpus::Two)?;
    let controls = bench.controls(&plan)?;
    plan.clear_work()?;
    Ok(proof(fix, (&one, &two), &controls))
}

/// Where checks are run.
struct Bench<'a> {
    order: &'a CheckOrder,
    fix: &'static Fix,
    series: &'static Series,
    surroundings: &'a Surroundings<'a>,
}

impl Bench<'_> {
    fn run(
        &self,
        kernel: &KernelImage,
        (name, cpus): (String, Cpus),
        checks: &[&Check],
    ) -> Result<Ran, LabError> {
        let step = |check: &&Check| Step {
            name: check.name.clone(),
            pages: check.pages,
        };
        let request = Request {
            name,
            kernel: KernelSource::Built(Box::new(kernel.clone())),
            xen: self.order.xen.clone(),
            cpus,
            steps: checks.iter().map(step).collect(),
            keep_logs: self.order.keep_logs.clone(),
            silence: SILENCE,
        };
        match self.fix.bench {
            catalogue::Bench::XenDom0 => checks::run(&request, self.surroundings),
            catalogue::Bench::KvmHost => demand::check(&request, self.surroundings),
        }
    }

    /// All checks that prove something on so many CPUs.
    fn fixed(&self, kernel: &KernelImage, cpus: Cpus) -> Result<Ran, LabError> {
        let checks: Vec<_> = self
            .fix
            .checks
            .iter()
            .filter(|check| cpus == Cpus::Two || !check.races)
            .collect();
        let name = format!("{}-{}", self.fix.name, count(cpus));
        self.run(kernel, (name, cpus), &checks)
    }

    /// Each check on the variant that must fail it, in the order of the checks.
    fn controls(&self, plan: &Plan<'_>) -> Result<Vec<Control>, FixError> {
        let mut found: Vec<(&str, Control)> = Vec::new();
        for variant in &self.series.broken {
            let checks: Vec<_> = self
                .fix
                .checks
                .iter()
                .filter(|check| check.control == *variant)
                .collect();
            let Some(patch) = self
                .fix
                .broken(self.series, variant)
                .filter(|_| !checks.is_empty())
            else {
                continue;
            };
            let kernel = plan.variant(patch)?.kernel;
            for check in checks {
                found.push((&check.name, self.control(&kernel, check)?));
            }
        }
        let of = |check: &Check| found.iter().find(|(name, _)| *name == check.name);
        let controls = self.fix.checks.iter().filter_map(of);
        Ok(controls.map(|(_, control)| control.clone()).collect())
    }

    /// A boot of its own: a broken kernel may take the guest down with it, which is a way to be caught.
    fn control(&self, kernel: &KernelImage, check: &Check) -> Result<Control, LabError> {
        let cpus = if check.races { Cpus::Two } else { Cpus::One };
        let name = format!("{}-{}", check.control, check.name);
        match self.run(kernel, (name, cpus), &[check]) {
            Ok(ran) => Ok(control(&ran)),
            Err(LabError::Guest { problem, .. }) => Ok(Control {
                failed: 1,
                how: format!("the guest failed: {problem}"),
            }),
            Err(error) => Err(error),
        }
    }
}

fn control(ran: &Ran) -> Control {
    let failed: u64 = ran.findings.iter().map(|finding| finding.failed).sum();
    let tried: u64 = ran.findings.iter().map(|finding| finding.tried).sum();
    Control {
        failed,
        how: match failed {
            0 => "survived".to_owned(),
            failed => format!("{failed} of {tried}"),
        },
    }
}

const fn count(cpus: Cpus) -> usize {
    match cpus {
        Cpus::One => 1,
        Cpus::Two => 2,
    }
}

fn proof(fix: &Fix, (one, two): (&Ran, &Ran), controls: &[Control]) -> Proof {
    let mut proved = Vec::new();
    for (check, control) in fix.checks.iter().zip(controls) {
        for (cpus, ran) in [(1, one), (2, two)] {
            let of_check = ran
                .findings
                .iter()
                .find(|finding| finding.name == check.name);
            proved.extend(of_check.map(|finding| Proved {
                check: bill::Check::against_control(
                    &check.name,
                    finding.tried,
                    finding.failed,
                    control.failed,
                ),
                cpus,
                control: check.control.clone(),
                control_found: control.how.clone(),
            }));
        }
    }
    Proof {
        linux: one.linux.clone(),
        xen: one.xen.clone(),
        proved,
        warnings: [(1, one), (2, two)]
            .map(|(cpus, ran)| (cpus, ran.warnings, ran.first_warning.clone()))
            .to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_lab::checks::Finding;

    use super::*;

    fn ran(failed: u64, warnings: u64) -> Ran {
        let fix = catalogue::find("xen-pv-get-and-clear").unwrap();
        let finding = |check: &Check| Finding {
            name: check.name.clone(),
            tried: 10,
            failed,
        };
        Ran {
            xen: "4.17".into(),
            linux: "6.1".into(),
            findings: fix.checks.iter().map(finding).collect(),
            warnings,
            first_warning: String::new(),
        }
    }

    fn proof_of(failed: u64, caught: u64, warnings: u64) -> Proof {
        let fix = catalogue::find("xen-pv-get-and-clear").unwrap();
        let found = control(&ran(caught, 0));
        let controls = vec![found; fix.checks.len()];
        proof(fix, (&ran(0, 0), &ran(failed, warnings)), &controls)
    }

    #[test]
    fn a_check_passes_only_beside_a_control_that_was_caught() {
        let passed = proof_of(0, 3, 0);
        assert!(!passed.failed());
        assert!(
            passed
                .proved
                .iter()
                .all(|proved| proved.check.verdict == Verdict::Pass)
        );
        let survived = proof_of(0, 0, 0);
        assert!(
            survived
                .proved
                .iter()
                .all(|proved| proved.check.verdict == Verdict::Inconclusive)
        );
        assert_eq!(survived.proved[0].control_found, "survived");
    }

    #[test]
    fn a_failure_or_a_warning_on_either_boot_fails_the_fix() {
        assert!(proof_of(1, 3, 0).failed());
        assert!(proof_of(0, 3, 1).failed());
    }
}
