//! The VMs of each process, told apart by the descriptors that KVM hands out.
//!
//! No tracepoint names its VM: `kvm_entry` has the number of a vCPU, which every VM counts from 0. But a vCPU runs within
//! ioctl(2) on its descriptor, which came from a call on the descriptor of its VM, and a fault is answered within that call.
//!
//! Number 0 is the VM of a thread of which no such call is known: one that is older than the capture, or any where the calls
//! are not recorded. A descriptor that was closed unseen comes back from another call, which replaces it. Where that call is
//! among lost records, all pages are unknown in any case.
//!
//! Source: `kvm_dev_ioctl_create_vm`, `kvm_vm_ioctl_create_vcpu` and `kvm_vcpu_ioctl` of `virt/kvm/kvm_main.c`, Linux 6.18.

use std::collections::BTreeMap;

use pagetoll_ftrace::tracepoint::{Event, Payload};

use super::survey::{MOST_THREADS, MOST_VMS, Process};
use super::thread::ioctl;

/// Most VMs of a process that are followed one by one; assumed: each invalidation is looked up in every one.
const MOST_OF_PROCESS: u32 = 64;

/// A VM: its process, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VmId {
    pub(super) process: Process,
    /// From 1 on in the order of their `KVM_CREATE_VM`; 0 where that is not known.
    pub(super) number: u32,
}

impl VmId {
    /// All VMs of a process, as keys of a map.
    pub(super) fn all_of(process: Process) -> std::ops::RangeInclusive<Self> {
        let id = |number| Self { process, number };
        id(0)..=id(u32::MAX)
    }
}

/// Descriptors of a process.
#[derive(Debug, Default)]
struct Descriptors {
    /// VMs that were made.
    made: u32,
    /// A vCPU of a known VM ran.
    has_run: bool,
    /// Numbers of VMs by their descriptors, and by those of their vCPUs.
    vms: BTreeMap<u32, u32>,
    vcpus: BTreeMap<u32, u32>,
}

/// Call of ioctl(2) that a thread is in, with the number of its VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    CreateVm(u32),
    CreateVcpu(u32),
    Run(u32),
    /// Another, on the descriptor of a VM.
    Vm(u32),
}

/// A thread that calls KVM.
#[derive(Debug, Default)]
struct Caller {
    call: Option<Call>,
    /// VM of the vCPU that it ran last.
    ran: u32,
}

/// Growing knowledge of all VMs.
#[derive(Debug, Default)]
pub(super) struct Machines {
    processes: BTreeMap<Process, Descriptors>,
    callers: BTreeMap<(Process, Option<u32>), Caller>,
}

impl Machines {
    /// Takes in that a thread enters a call, before what is done in it.
    pub(super) fn begin(&mut self, event: &Event) {
        if let Payload::IoctlEnter { fd, cmd, .. } = event.payload {
            self.enter(event, fd, cmd);
        }
    }

    /// Takes in that a thread leaves a call, after what was done in it.
    pub(super) fn end(&mut self, event: &Event) {
        if let Payload::IoctlExit { ret } = event.payload {
            self.exit(event, ret);
        }
    }

    fn enter(&mut self, event: &Event, fd: u32, cmd: u32) {
        let process = event.task.pid;
        if self.processes.len() >= MOST_VMS && !self.processes.contains_key(&process) {
            return;
        }
        let descriptors = self.processes.entry(process).or_default();
        let number = |fds: &BTreeMap<u32, u32>| fds.get(&fd).copied().unwrap_or(0);
        let call = match cmd {
            ioctl::CREATE_VM => {
                descriptors.made = descriptors.made.saturating_add(1);
                Call::CreateVm(descriptors.made)
            }
            ioctl::CREATE_VCPU => Call::CreateVcpu(number(&descriptors.vms)),
            ioctl::RUN => Call::Run(number(&descriptors.vcpus)),
            _ => Call::Vm(number(&descriptors.vms)),
        };
        descriptors.has_run |= matches!(call, Call::Run(1..));
        let key = (process, event.task.tid);
        if self.callers.len() >= MOST_THREADS && !self.callers.contains_key(&key) {
            return;
        }
        let caller = self.callers.entry(key).or_default();
        caller.call = Some(call);
        if let Call::Run(number) = call {
            caller.ran = number;
        }
    }

    fn exit(&mut self, event: &Event, ret: i64) {
        let key = (event.task.pid, event.task.tid);
        let call = self
            .callers
            .get_mut(&key)
            .and_then(|caller| caller.call.take());
        let Some(descriptors) = self.processes.get_mut(&event.task.pid) else {
            return;
        };
        match (call, u32::try_from(ret)) {
            (Some(Call::CreateVm(number)), Err(_)) if number == descriptors.made => {
                descriptors.made -= 1;
            }
            (Some(Call::CreateVm(number)), Ok(fd)) => {
                // Of a text without processes, descriptors may be those of any.
                let is_told = number <= MOST_OF_PROCESS && event.task.pid.is_some();
                descriptors.vms.insert(fd, if is_told { number } else { 0 });
            }
            (Some(Call::CreateVcpu(number)), Ok(fd)) if descriptors.vcpus.len() < MOST_THREADS => {
                descriptors.vcpus.insert(fd, number);
            }
            _ => {}
        }
    }

    fn caller(&self, event: &Event) -> Option<&Caller> {
        self.callers.get(&(event.task.pid, event.task.tid))
    }

    /// The VM whose fault a thread answers.
    pub(super) fn of_fault(&self, event: &Event) -> VmId {
        VmId {
            process: event.task.pid,
            number: self.caller(event).map_or(0, |caller| caller.ran),
        }
    }

    /// The VM that a thread works on: the one on whose descriptor, or on whose vCPU's, it is in a call, else the only known VM
    /// of its process.
    pub(super) fn of_work<V>(&self, event: &Event, known: &BTreeMap<VmId, V>) -> Option<VmId> {
        let process = event.task.pid;
        let number = match self.caller(event).and_then(|caller| caller.call) {
            Some(Call::Run(number) | Call::Vm(number)) => Some(number),
            Some(Call::CreateVm(_) | Call::CreateVcpu(_)) | None => None,
        };
        let named = number.map(|number| VmId { process, number });
        if let Some(vm) = named.filter(|vm| vm.number > 0) {
            return Some(vm);
        }
        let mut own = known.range(VmId::all_of(process)).map(|(vm, _)| *vm);
        let first = own.next()?;
        match own.next() {
            None => Some(first),
            Some(_) => named.filter(|vm| known.contains_key(vm)),
        }
    }

    /// Returns whether the capture has the VM's beginning. That of number 0 is the one that was made where no vCPU is known to run.
    pub(super) fn has_beginning(&self, vm: VmId) -> bool {
        let Some(descriptors) = self.processes.get(&vm.process) else {
            return false;
        };
        match vm.number {
            0 => descriptors.made > 0 && !descriptors.has_run,
            number => number <= descriptors.made,
        }
    }

    /// Returns whether a VM may still be there: its descriptor is no other's.
    pub(super) fn is_open(&self, vm: VmId) -> bool {
        let descriptors = self.processes.get(&vm.process);
        let is_its = |descriptors: &Descriptors| {
            let mut numbers = descriptors.vms.values();
            numbers.any(|number| *number == vm.number)
        };
        vm.number == 0 || descriptors.is_some_and(is_its)
    }

    /// VMs that a process made.
    pub(super) fn made(&self, process: Process) -> u32 {
        self.processes
            .get(&process)
            .map_or(0, |descriptors| descriptors.made)
    }

    /// Returns whether vCPUs of a process are known to run on VMs that it made.
    pub(super) fn are_told_apart(&self, process: Process) -> bool {
        self.processes
            .get(&process)
            .is_some_and(|descriptors| descriptors.has_run)
    }
}
