//! Boots of the sessions of an order, side by side, and what they found.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use pagetoll_backend::Stop;
use pagetoll_bill::{Arch, Available, Order, Row, Unavailable};
use pagetoll_host::{Error, Surroundings};
use pagetoll_images::kernel::modules::Part;
use pagetoll_protocol::report::Hello;
use pagetoll_protocol::step::{self, Step};
use pagetoll_pv::findings::{Findings, Reports};
use pagetoll_pv::session::{Kind, Session};
use pagetoll_pv::{plan, pv32};
use pagetoll_xentrace::Windows;
use pagetoll_xentrace::symbols::Symbols;

use crate::dom0::materials::Materials;
use crate::draft::Clock;
use crate::profile::{KALLSYMS, Names, Profiling, Sample, symbols_of, symbols_of_xen};
use crate::request::{KernelRequest, STEADY_MIB, pages_mib};
use pagetoll_lab_vm::LabError;
use pagetoll_lab_vm::boot;
use pagetoll_lab_vm::cores::{Cores, side_by_side};
use pagetoll_lab_vm::counter::{Counter, Detail, Execution};
use pagetoll_lab_vm::files::GuestFiles;
use pagetoll_lab_vm::guest_run::GuestRun;
use pagetoll_lab_vm::machine::{Firmware, Machine, Mode, Variant};
use pagetoll_lab_vm::options::Boot;

/// A session after its boot.
pub(crate) struct SessionRun {
    session: Session,
    reports: Reports,
    /// Code that was executed, by step.
    executed: BTreeMap<u16, Execution>,
    /// Names of functions, for the first session of each guest whose code was counted.
    names: Option<Names>,
}

impl SessionRun {
    /// Code that the session executed for a row, where it counted the row.
    pub(crate) fn sample(&self, row: &Row) -> Option<Sample<'_>> {
        let step = self.session.step_of(&row.key)?;
        let executed = self.executed.get(&step)?;
        Some(Sample::new(executed, self.names.as_ref()?, row.pages.get()))
    }
}

/// Boots of one order on one kernel.
pub(crate) struct Boots<'a> {
    pub(crate) request: &'a KernelRequest<'a>,
    pub(crate) materials: &'a Materials,
    pub(crate) surroundings: Surroundings<'a>,
    pub(crate) clock: &'a Clock,
    pub(crate) cores: Cores,
}

impl Boots<'_> {
    /// Boots all sessions; the first error ends the others. A profile takes one boot more of each guest.
    ///
    /// # Errors
    /// Those of the boots; a guest that contradicts its order.
    pub(crate) fn run(
        &self,
        sessions: &[Session],
    ) -> Result<(Findings, Vec<SessionRun>), LabError> {
        let symbols = match self.request.common.profiling {
            Profiling::No => Vec::new(),
            Profiling::Functions | Profiling::Stacks => symbol_sessions(sessions),
        };
        let all: Vec<_> = sessions.iter().chain(&symbols).collect();
        let boot = |session: &&Session, stop: &Stop| self.boot(session, stop);
        let mut results = side_by_side(&all, self.surroundings.stop, boot)?.into_iter();
        let mut findings = Findings {
            no_probe: self.materials.probe.as_ref().err().cloned(),
            ..Findings::default()
        };
        let mut runs = Vec::new();
        for result in results.by_ref().take(sessions.len()) {
            match result {
                Ok(run) => runs.push(run),
                Err(reason) => findings.no_pv32 = Some(reason),
            }
        }
        for run in &runs {
            findings.add(run.session.kind, run.reports.clone());
        }
        for symbols in results.flatten() {
            let first = runs
                .iter_mut()
                .find(|run| is_same_guest(&run.session, &symbols.session));
            if let Some(first) = first {
                first.names = symbols.names;
            }
        }
        Ok((findings, runs))
    }

    /// Boots one session, when as many of the host's CPUs are free as its machine has.
    fn boot(&self, session: &Session, stop: &Stop) -> Result<Available<SessionRun>, LabError> {
        let (xen, linux) = match images(session.kind, self.materials) {
            Ok(images) => images,
            Err(reason) => return Ok(Err(reason)),
        };
        let machine = machine(session, &self.request.common.order);
        // A 32-bit guest has no file system: its second module is its order.
        let (initramfs, delivery) = if session.kind == Kind::Pv32 {
            (step::order(&session.steps).into_bytes(), None)
        } else {
            let files = self.files(session, machine.firmware)?;
            (files.initramfs()?, files.delivery()?)
        };
        let _cores = self.cores.take(machine.mode.cpus(), stop)?;
        let steps = u64::try_from(session.steps.len()).unwrap_or(u64::MAX);
        let mut phase = self.surroundings.progress.begin(&session.name, steps);
        let options = match asks_names(session) {
            true => self.request.options.for_names(),
            false => self.request.options.clone(),
        };
        let boot = Boot {
            name: &session.name,
            machine,
            xen,
            linux,
            initramfs: &initramfs,
            delivery: delivery.as_deref(),
            counter: self.counter(session),
            options: &options,
        };
        let work = || boot::run(boot, self.surroundings.cache, stop, phase.as_mut());
        match self.clock.time(&format!("boot {}", session.name), work) {
            Ok(run) => self.session_run(session, machine, &run).map(Ok),
            Err(error) => refusal(session, error),
        }
    }

    fn files(&self, session: &Session, firmware: Firmware) -> Result<GuestFiles<'_>, Error> {
        let materials = self.materials;
        let mut files = GuestFiles::new(firmware);
        files.program("init", &materials.init)?;
        files.steps(&session.steps);
        if firmware == Firmware::Xen {
            if let Ok(probe) = &materials.probe {
                let bytes = fs::read(probe).map_err(Error::io("read", probe))?;
                files.file(plan::PROBE_MODULE, bytes);
            }
            if let Part::Module(bytes) = &materials.privcmd {
                files.file(plan::PRIVCMD_MODULE, bytes.as_slice());
            }
        }
        Ok(files)
    }

    fn counter(&self, session: &Session) -> Option<&Counter> {
        let counter = self.materials.counter.as_ref().ok();
        counter.filter(|counter| match counter.detail {
            Detail::Flushes => true,
            Detail::Stacks => counts_code(session.kind) && !asks_names(session),
        })
    }

    fn session_run(
        &self,
        session: &Session,
        machine: Machine,
        run: &GuestRun,
    ) -> Result<SessionRun, LabError> {
        if !asks_names(session) {
            self.clock.counted_before(run.counted);
        }
        let executed = run.executed()?;
        let reports = Reports::new(&run.reports);
        let mut reports = reports.ok_or_else(|| run.malformed("it never said hello"))?;
        reports.xen = session.xen;
        reports.kept = run.counted.map(day);
        let flushes = executed.iter().map(|(&step, all)| (step, all.flushes));
        reports.flushes = flushes.collect();
        let mut names = None;
        for (name, bytes) in run.blobs()? {
            if name == KALLSYMS {
                names = Some(self.names(machine, &String::from_utf8_lossy(&bytes))?);
                continue;
            }
            self.keep_trace(session, &bytes)?;
            let crossings = Windows::read(&*bytes);
            reports.crossings =
                crossings.map_err(|error| run.malformed(format!("its trace: {error}")))?;
        }
        check_system(machine, &reports.hello, run)?;
        Ok(SessionRun {
            session: session.clone(),
            reports,
            executed,
            names,
        })
    }

    fn names(&self, machine: Machine, kallsyms: &str) -> Result<Names, Error> {
        let xen = (machine.firmware == Firmware::Xen).then_some(&self.materials.xen);
        let hypervisor = xen.map(|xen| symbols_of_xen(xen.symbols.as_deref()));
        Ok(Names {
            hypervisor: hypervisor.transpose()?,
            kernel: Symbols::from_kallsyms(kallsyms),
            program: symbols_of(&self.materials.init)?,
            objects: Vec::new(),
        })
    }

    fn keep_trace(&self, session: &Session, bytes: &[u8]) -> Result<(), Error> {
        let Some(folder) = self.request.options.logs() else {
            return Ok(());
        };
        let path = folder.join(format!("{}.xentrace", session.name));
        fs::write(&path, bytes).map_err(Error::io("write", &path))
    }
}

/// Day in UTC, such as `2026-11-26`.
fn day(time: SystemTime) -> String {
    let mut text = humantime::format_rfc3339_seconds(time).to_string();
    text.truncate("2026-11-26".len());
    text
}

/// A session more of each guest among these whose code is counted, which gives the names of its kernel's functions. Asked
/// of a boot of its own, so that nothing is counted that is not without a profile.
fn symbol_sessions(sessions: &[Session]) -> Vec<Session> {
    let is_first = |(index, session): &(usize, &Session)| {
        let mut before = sessions[..*index].iter();
        !before.any(|other| is_same_guest(session, other))
    };
    let guests = sessions.iter().enumerate().filter(is_first);
    let guests = guests.map(|(_, session)| session);
    guests
        .filter(|session| counts_code(session.kind))
        .map(|session| {
            let (preparation, _) = step::divided(&session.steps);
            let publish = Step::Publish(KALLSYMS.to_owned());
            Session {
                name: format!("symbols-{}", session.name),
                steps: preparation.iter().cloned().chain([publish]).collect(),
                ..session.clone()
            }
        })
        .collect()
}

fn asks_names(session: &Session) -> bool {
    let publishes = |step: &Step| matches!(step, Step::Publish(file) if file == KALLSYMS);
    session.steps.iter().any(publishes)
}

fn is_same_guest(one: &Session, other: &Session) -> bool {
    (one.kind, one.xen) == (other.kind, other.xen)
}

/// Returns whether it has one vCPU, as the counter expects, and 64-bit code, which it reads.
const fn counts_code(kind: Kind) -> bool {
    match kind {
        Kind::Dom0 | Kind::Foreign | Kind::Native => true,
        Kind::Pv32 | Kind::Race => false,
    }
}

/// The machine of a session.
pub(crate) fn machine(session: &Session, order: &Order) -> Machine {
    Machine {
        mode: match session.kind {
            Kind::Dom0 | Kind::Foreign | Kind::Native | Kind::Pv32 => Mode::Counting,
            Kind::Race => Mode::PAIR,
        },
        firmware: match session.kind {
            Kind::Dom0 | Kind::Foreign | Kind::Race | Kind::Pv32 => Firmware::Xen,
            Kind::Native => Firmware::Linux(Arch::X86_64),
        },
        pages_mib: pages_mib(order.pages)
            + match session.kind {
                Kind::Dom0 | Kind::Foreign | Kind::Native => STEADY_MIB,
                Kind::Race | Kind::Pv32 => 0,
            },
        xen: session.xen,
        variant: Variant::NONE,
    }
}

/// The hypervisor, where there is one, and the kernel that it starts.
fn images(kind: Kind, materials: &Materials) -> Available<(Option<&Path>, &Path)> {
    let xen = &materials.xen;
    let (xen, kernel) = match (kind, &materials.pv32) {
        (Kind::Native, _) => return Ok((None, &materials.kernel.image)),
        (Kind::Pv32, Some(pv32)) => (pv32.xen.as_ref().map_err(Clone::clone)?, &pv32.kernel),
        (_, _) => (xen, &materials.vmlinux),
    };
    Ok((Some(&xen.elf), kernel))
}

/// A native boot must not be under Xen, a dom0 must be, and a race needs two CPUs.
fn check_system(machine: Machine, hello: &Hello, run: &GuestRun) -> Result<(), LabError> {
    let under_xen = !hello.xen.is_empty();
    let cpus = usize::try_from(hello.cpus).unwrap_or(0);
    if under_xen != (machine.firmware == Firmware::Xen) || cpus != machine.mode.cpus() {
        return Err(run.malformed(format!("it is not the system that was ordered: {hello:?}")));
    }
    Ok(())
}

/// A Xen that starts no 32-bit guest is a reason; all else that goes wrong is an error.
fn refusal(session: &Session, error: LabError) -> Result<Available<SessionRun>, LabError> {
    let LabError::Guest { problem, .. } = &error else {
        return Err(error);
    };
    let reason = pv32::refusal(problem).filter(|_| session.kind == Kind::Pv32);
    match reason {
        Some(reason) => Ok(Err(Unavailable::from(reason))),
        None => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::Unmap;
    use pagetoll_bill::{Figures, Operation, RowKey, System};
    use pagetoll_pv::session::XenOptions;
    use pagetoll_units::Pages;

    use super::*;

    /// A dom0 that cleared four entries, twice, of which the second time is traced.
    fn session() -> Session {
        let clear = Step::Clear {
            method: Unmap::Emulate.into(),
            batch: 1,
        };
        let trace = Step::TraceBegin { buffer_pages: 1 };
        Session {
            name: "dom0".to_owned(),
            kind: Kind::Dom0,
            xen: XenOptions::Default,
            steps: vec![
                Step::Settle,
                Step::Pages(Pages(4)),
                clear.clone(),
                trace,
                clear,
            ],
        }
    }

    #[test]
    fn a_row_has_the_sample_of_its_untraced_step_and_of_its_system() {
        let untraced = Execution {
            exceptions: 4,
            ..Execution::default()
        };
        let run = SessionRun {
            session: session(),
            reports: Reports::default(),
            executed: BTreeMap::from([(2, untraced), (4, Execution::default())]),
            names: Some(Names::default()),
        };
        let key = |system| RowKey::new(Operation::Clear, Unmap::Emulate, system);
        let row = |system| Row::new(key(system), Pages(4), Figures::of_runs(vec![2000.0]));
        let sample = row(System::XenPvDom0);
        assert_eq!(run.sample(&sample).unwrap().executed.exceptions, 4);
        assert!(run.sample(&row(System::Native)).is_none());
    }

    #[test]
    fn each_guest_whose_code_is_counted_is_asked_for_names_once() {
        let race = Session {
            kind: Kind::Race,
            ..session()
        };
        let symbols = symbol_sessions(&[session(), session(), race]);
        let [symbols] = &symbols[..] else {
            panic!("{symbols:?}");
        };
        assert_eq!(symbols.name, "symbols-dom0");
        assert!(asks_names(symbols) && !asks_names(&session()));
        assert_eq!(symbols.steps.len(), 2, "{symbols:?}");
    }
}
