//! Rows of a program from its runs: the cost of an operation, its spread, and failures of the program.

use pagetoll_backend::Stacks;
use pagetoll_bill::route::Count;
use pagetoll_bill::spec::Wanted;
use pagetoll_bill::{Arch, Figures, Operation, Row, RowKey, System};
use pagetoll_pv::rows::tolls_beside;
use pagetoll_units::Pages;
use regex::Regex;

use super::boots::ProgramBoot;
use super::{Asked, Measure, Program};
use crate::kvm_host;
use crate::profile::{Profiling, Sample};
use pagetoll_lab_vm::LabError;

/// Part of the shortest run, one in so many, by which the longest has to be longer.
const LEAST_GROWTH: u64 = 100;

/// A run, or a difference of two, and how many operations it is.
#[derive(Clone, Copy)]
struct Slope {
    run: usize,
    /// The run that is taken off.
    less: Option<usize>,
    operations: u64,
}

/// The slopes of a boot; the first is the cost.
fn slopes(asked: &Asked, boot: &ProgramBoot) -> Result<Vec<Slope>, LabError> {
    let whole = |operations| {
        vec![Slope {
            run: 0,
            less: None,
            operations,
        }]
    };
    Ok(match &asked.measure {
        Measure::Vary(count) => vec![
            Slope {
                run: 2,
                less: Some(1),
                operations: 2 * count,
            },
            Slope {
                run: 1,
                less: Some(0),
                operations: *count,
            },
        ],
        Measure::Whole(count) => whole(*count),
        Measure::Printed(expression) => {
            let found = printed(expression, &boot.output).filter(|&count| count > 0);
            whole(found.ok_or_else(|| LabError::Program {
                boot: boot.system.to_string(),
                problem: format!(
                    "--ops-from '{expression}': its output has no such number; it wrote: {}",
                    boot.output.chars().take(200).collect::<String>().trim()
                ),
            })?)
        }
        Measure::Marks => match boot.executed[0].begins {
            0 => {
                return Err(LabError::Program {
                        boot: boot.system.to_string(),
                        problem: "--marks: it executed no PAGETOLL_BEGIN; expected the marks of pagetoll.h in it".to_owned(),
                    });
            }
            begins => whole(begins),
        },
    })
}

/// The number that an output has in the first group of an expression, or after its match.
fn printed(expression: &Regex, output: &str) -> Option<u64> {
    let captures = expression.captures(output)?;
    let text = match captures.get(1) {
        Some(group) => group.as_str(),
        None => output.get(captures.get(0)?.end()..)?,
    };
    let mut words = text.split(|c: char| !c.is_ascii_digit());
    words.find(|digits| !digits.is_empty())?.parse().ok()
}

impl ProgramBoot {
    /// Code that was executed for a slope.
    fn sample<'a>(&'a self, slope: Slope, under: &'a [String]) -> Sample<'a> {
        Sample {
            executed: &self.executed[slope.run],
            less: slope.less.map(|less| &self.executed[less]),
            names: &self.names,
            under,
            pages: slope.operations,
        }
    }

    /// Code that was executed for the slope that is the cost.
    fn billed<'a>(&'a self, asked: &'a Asked) -> Option<Sample<'a>> {
        let slope = *slopes(asked, self).ok()?.first()?;
        Some(self.sample(slope, &asked.under))
    }
}

/// A row of each system.
///
/// # Errors
/// [`LabError::Program`]: the cost of the program does not grow with {n}.
pub(super) fn rows(program: &Program, boots: &[ProgramBoot]) -> Result<Vec<Row>, LabError> {
    let systems = program.asked.systems.iter();
    let mut rows: Vec<_> = systems
        .map(|&system| row(program, system, boots))
        .collect::<Result<_, _>>()?;
    let native = rows.iter().find(|row| row.key.system == System::Native);
    let native = native.and_then(Row::cost);
    let xen = rows
        .iter_mut()
        .find(|row| row.key.system == System::XenPvDom0);
    if let Some((native, figures)) = native.zip(xen.and_then(Row::figures_mut)) {
        figures.tolls = tolls_beside(native, figures.cost_per_page);
    }
    Ok(rows)
}

fn row(program: &Program, system: System, boots: &[ProgramBoot]) -> Result<Row, LabError> {
    let asked = &program.asked;
    let of_system = || boots.iter().filter(|boot| boot.system == system);
    let first = of_system().find(|boot| boot.shake == 0);
    let key = RowKey::new(Operation::Run, Count::Program, system);
    let Some(first) = first else {
        return Ok(Row::unavailable(key, Pages(1), "nothing was reported"));
    };
    let [slope, ..] = slopes(asked, first)?[..] else {
        return Ok(Row::unavailable(key, Pages(1), "nothing was reported"));
    };
    check_growth(asked, first)?;
    let sample = first.sample(slope, &asked.under);
    if let Some(shared) = sample.shared().filter(|_| !asked.under.is_empty()) {
        return Err(LabError::Program {
            boot: system.to_string(),
            problem: format!(
                "{shared}; expected a program that makes one of them, or --under {} for both",
                shared.function
            ),
        });
    }
    let cost = sample.cost();
    let mut furthest = 0.0_f64;
    let mut compared = 0;
    for boot in of_system() {
        for other in slopes(asked, boot)? {
            let other = boot.sample(other, &asked.under).cost();
            tracing::debug!("{system} {}: {other} an operation", boot.shake);
            furthest = furthest.max((other - cost).abs());
            compared += 1;
        }
    }
    if cost == 0.0 && !asked.under.is_empty() {
        return Err(LabError::Program {
            boot: system.to_string(),
            problem: format!(
                "it executes nothing below {}; expected a function that the profile of a bill without this option names",
                asked.under.join(" or ")
            ),
        });
    }
    let mut figures = Figures::of_runs(vec![cost]);
    if let Ok(figures) = &mut figures {
        figures.spread = (compared > 1 && cost != 0.0).then(|| furthest / cost.abs());
    }
    let mut row = Row::new(key, Pages(slope.operations), figures);
    row.profile = Some(first.sample(slope, &asked.under).profile_by_entry());
    Ok(row)
}

/// Refuses a program whose runs take no longer when they are to do more.
fn check_growth(asked: &Asked, boot: &ProgramBoot) -> Result<(), LabError> {
    let Measure::Vary(count) = asked.measure else {
        return Ok(());
    };
    let (least, most) = (
        boot.executed[0].instructions(),
        boot.executed[2].instructions(),
    );
    if most > least && most - least >= least / LEAST_GROWTH {
        return Ok(());
    }
    Err(LabError::Program {
        boot: boot.system.to_string(),
        problem: format!(
            "--vary {count}: it executed {least} instructions for {{n}} = {count} and {most} for {}; expected at least a \
             hundredth more: give a larger N, or a program that does {{n}} operations and does not run for a time",
            4 * count
        ),
    })
}

/// Stacks of all rows, where they are wanted.
pub(super) fn stacks(program: &Program, boots: &[ProgramBoot], profiling: Profiling) -> Stacks {
    let mut stacks = Stacks::new();
    if profiling != Profiling::Stacks {
        return stacks;
    }
    for boot in boots.iter().filter(|boot| boot.shake == 0) {
        if let Some(sample) = boot.billed(&program.asked) {
            let key = RowKey::new(Operation::Run, Count::Program, boot.system);
            sample.fold(&[key.to_string()], &mut stacks);
        }
    }
    stacks
}

/// Notes of the bill.
pub(super) fn notes(program: &Program, boots: &[ProgramBoot], rows: &[Row]) -> Vec<String> {
    let asked = &program.asked;
    let mut notes = vec![match &asked.measure {
        Measure::Vary(count) => format!(
            "one operation: the difference between runs of {} and {}, divided by {}, after two runs that are not counted",
            2 * count,
            4 * count,
            2 * count
        ),
        Measure::Whole(count) => {
            format!("one operation: a whole run, with its start and its end, divided by {count}")
        }
        Measure::Printed(expression) => {
            format!(
                "one operation: a whole run, with its start and its end, divided by the number after '{expression}'"
            )
        }
        Measure::Marks => {
            "one operation: what lies between a PAGETOLL_BEGIN and a PAGETOLL_END of the program"
                .to_owned()
        }
    }];
    if !asked.under.is_empty() {
        notes.push(format!("counted below {} alone", asked.under.join(" or ")));
    }
    notes.push(format!(
        "spread: the largest difference from the cost in {} boots that differ in a word of the command line and a file{}",
        asked.shakes + 1,
        match asked.measure {
            Measure::Vary(_) => ", and between the slopes of N to 2N and 2N to 4N",
            Measure::Whole(_) | Measure::Printed(_) | Measure::Marks => "",
        }
    ));
    for boot in boots.iter().filter(|boot| boot.shake == 0) {
        if let Some(shared) = boot.billed(asked).and_then(|sample| sample.shared()) {
            notes.push(format!(
                "{}: {shared}: it is among (others), by way into the kernel",
                boot.system
            ));
        }
    }
    if asked.kvm == Wanted::Yes || asked.arch != Arch::default() {
        notes.push(kvm_host::note(asked.arch).to_owned());
    }
    notes.push("one vCPU: nothing waits for another CPU, and no instruction is a time".to_owned());
    for row in rows {
        let unsteady = row.figures().filter(|figures| figures.is_unsteady());
        if let Some(spread) = unsteady.and_then(|figures| figures.spread) {
            notes.push(format!(
                "{}: unsteady, it spreads by {:.1} %: no change of it can be told, and diff fails",
                row.key,
                spread * 100.0
            ));
        }
    }
    notes
}
