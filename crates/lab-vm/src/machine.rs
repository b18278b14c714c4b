//! The machine that a guest boots on: one QEMU, without network, in the folder of its boot.
//!
//! Two modes. *Counting*: one vCPU, `-icount shift=0`, so that the time-stamp counter is the number of instructions
//! retired and the run repeats to the bit. *Race*: two vCPUs that run in parallel (multi-threaded TCG), for what only
//! happens between CPUs; its times are not used.
//!
//! All files are named relative to the folder, so that the command is the same on every machine.

use pagetoll_bill::Arch;
use pagetoll_bill::spec::{Cpu, Iommu, KvmMode};
use pagetoll_host::process::Run;
use pagetoll_host::tools::Tool;
use pagetoll_protocol::step::Step;
use pagetoll_pv::session::XenOptions;

use crate::control::Control;

/// File names in a boot's folder.
pub(crate) const XEN: &str = "xen";
pub(crate) const LINUX: &str = "linux";
pub(crate) const INITRAMFS: &str = "initramfs";
pub(crate) const CONSOLE: &str = "console.log";
pub(crate) const SHARED: &str = "shared";
pub(crate) const COUNTER: &str = "counter.so";
pub(crate) const COUNTS: &str = "counts";

/// Size of the device that carries bulk data out, in MiB. A traced run of 4096 pages leaves about 5 MiB.
pub(crate) const SHARED_MIB: u64 = 64;
/// The largest file that QEMU writes: counts by stack. Of four threads of a Go program they take some 100 MB.
pub(crate) const COUNTS_MIB: u64 = 512;
/// Memory of kernel, initramfs, page tables and a trace, beside the pages that are billed.
pub const GUEST_BASE_MIB: u64 = 448;
/// Memory of Xen itself: 256 MiB leaves room for trace buffers and heap.
const XEN_BASE_MIB: u64 = 256;

/// Memory of a q35 below its devices, when it has more than that.
pub const LOW_MIB: u64 = 2048;
/// Address of the device behind the IOMMU, QEMU's `edu`.
pub const DMA_DEVICE: &str = "0000:00:05.0";
const EDU: &str = "edu,addr=5,dma_mask=0xffffffffffffffff";
/// By its ids, as docs/specs/edu.txt of QEMU has them.
const UNPLUG_EDU: Step = Step::Unplug {
    vendor: 0x1234,
    device: 0x11e8,
};

/// The mode of a machine: instructions are counted, or CPUs race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One vCPU, every instruction counted.
    Counting,
    /// So many vCPUs in parallel.
    Race {
        /// At least two.
        cpus: usize,
    },
}

/// The system that a machine boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// Xen with Linux as its PV dom0.
    Xen,
    /// Linux alone, on a processor.
    Linux(Arch),
    /// Linux on a machine with an IOMMU and a device behind it whose DMA user space can ask for.
    LinuxWithIommu(HugePages, Iommu),
    /// Linux alone, with a processor that can have guests.
    LinuxAsHost(Host),
}

/// The virtualisation that a host's KVM works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// AMD's SVM.
    Svm,
    /// ARM's exception levels.
    El2(KvmMode),
}

impl Host {
    /// That of a processor, whose kernel is at EL2 unless something else is wanted.
    pub fn new(arch: Arch, mode: Option<KvmMode>) -> Self {
        match arch {
            Arch::X86_64 => Self::Svm,
            Arch::Arm64 => Self::El2(mode.unwrap_or(KvmMode::Vhe)),
        }
    }

    const fn arch(self) -> Arch {
        match self {
            Self::Svm => Arch::X86_64,
            Self::El2(_) => Arch::Arm64,
        }
    }
}

impl Firmware {
    /// The processor.
    pub const fn arch(self) -> Arch {
        match self {
            Self::Xen => Arch::X86_64,
            Self::Linux(arch) => arch,
            Self::LinuxWithIommu(_, iommu) => iommu.arch(),
            Self::LinuxAsHost(host) => host.arch(),
        }
    }

    /// Returns whether a guest of it stops until it gets its order. QEMU hands over no state of `amd-iommu`, and none of
    /// the timers of EL2, by which a kernel that is a host there wakes up (`vmstate_arm_cpu` in target/arm/machine.c).
    /// Other guests of arm64, restored, were seen to count five instructions in 10,000,000 less than booted ones, and
    /// behind an SMMUv3 up to five in 100,000.
    pub const fn stops(self) -> bool {
        !matches!(
            self,
            Self::Linux(Arch::Arm64)
                | Self::LinuxWithIommu(_, Iommu::AmdVi | Iommu::SmmuV3)
                | Self::LinuxAsHost(Host::El2(_))
        )
    }

    /// The device that is unplugged while the machine stops: QEMU hands over no state of `edu`, so that a
    /// restored guest has one that was just switched on.
    pub const fn unplugs(self) -> Option<Step> {
        let has_edu = matches!(self, Self::LinuxWithIommu(_, Iommu::VtD | Iommu::VtD48));
        if has_edu { Some(UNPLUG_EDU) } else { None }
    }
}

/// With SVM, by which a Xen has domains that are not PV: with `EPYC` and `max`, which have it too, dom0 crashes on QEMU 7.2.
const OPTERON: &str = "Opteron_G3,+svm,+npt";
/// With pages of 1 GiB.
const NEHALEM: &str = "Nehalem,+pdpe1gb";
/// A tick of the generic timer is a nanosecond, and so an instruction. Emulating pointer authentication takes four fifths
/// of a boot. Without LPA2 the tables of all kernels are alike: some take it into use from 6.8 on.
const ARMV8: &str = "max,cntfrq=1000000000,pauth=off,lpa2=off";

/// Board, processor and IOMMU. q35 is the one of x86's that has any.
const fn board_with(iommu: Iommu) -> &'static [&'static str] {
    const fn q35(iommu: &'static str) -> [&'static str; 6] {
        ["-machine", "q35", "-cpu", NEHALEM, "-device", iommu]
    }
    match iommu {
        Iommu::VtD => &const { q35("intel-iommu,aw-bits=39") },
        Iommu::VtD48 => &const { q35("intel-iommu,aw-bits=48") },
        Iommu::AmdVi => &const { q35("amd-iommu") },
        Iommu::SmmuV3 => &["-machine", "virt,gic-version=3,iommu=smmuv3", "-cpu", ARMV8],
    }
}

/// Linux leaves Intel's off where its configuration does not say otherwise, and AMD's on.
const fn switched_on(iommu: Iommu) -> &'static str {
    match iommu {
        Iommu::VtD | Iommu::VtD48 => " intel_iommu=on",
        Iommu::AmdVi | Iommu::SmmuV3 => "",
    }
}

/// Pages that the kernel sets aside at boot, when memory is not yet in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Pages of 2 MiB.
    pub two_mib: u64,
    /// Pages of 1 GiB.
    pub one_gib: u64,
}

/// Words on Xen's command line: docs/misc/xen-command-line.pandoc. With XPTI no page is global in any case.
const fn words(options: XenOptions) -> &'static str {
    match options {
        XenOptions::Default => "",
        XenOptions::GlobalPages => " xpti=off global-pages=1",
        XenOptions::NoGlobalPages => " xpti=off global-pages=0",
    }
}

/// A machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Counting, and the number of CPUs.
    pub mode: Mode,
    /// System that it boots.
    pub firmware: Firmware,
    /// Memory that the guest needs for the pages of its order.
    pub pages_mib: u64,
    /// Options of its Xen.
    pub xen: XenOptions,
    /// Differences from other machines of the firmware.
    pub variant: Variant,
}

/// Differences of a machine without an IOMMU from others.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The processor, in place of Nehalem.
    pub cpu: Option<Cpu>,
    /// A word more on the kernel's command line, where this is not 0.
    pub shake: u32,
}

impl Variant {
    /// No difference.
    pub const NONE: Self = Self {
        cpu: None,
        shake: 0,
    };
}

impl Mode {
    /// Two CPUs, the fewest that race.
    pub const PAIR: Self = Self::Race { cpus: 2 };

    /// A single CPU is counted.
    pub const fn new(cpus: usize) -> Self {
        match cpus {
            0 | 1 => Self::Counting,
            cpus => Self::Race { cpus },
        }
    }

    /// vCPUs, and so the host's CPUs that it keeps busy.
    pub const fn cpus(self) -> usize {
        match self {
            Self::Counting => 1,
            Self::Race { cpus } => cpus,
        }
    }
}

impl Machine {
    /// Memory of the guest in MiB.
    const fn guest_mib(self) -> u64 {
        GUEST_BASE_MIB + self.pages_mib
    }

    /// Memory of the Linux that is counted, as bills have it: under Xen, dom0's.
    pub fn ram(self) -> String {
        let mib = match self.firmware {
            Firmware::Xen => self.guest_mib(),
            Firmware::Linux(_) | Firmware::LinuxAsHost(_) | Firmware::LinuxWithIommu(..) => {
                self.memory_mib()
            }
        };
        format!("{mib} MiB")
    }

    /// Memory of the whole machine in MiB.
    pub const fn memory_mib(self) -> u64 {
        match self.firmware {
            Firmware::Xen => self.guest_mib() + XEN_BASE_MIB,
            Firmware::Linux(_) | Firmware::LinuxAsHost(_) => self.guest_mib(),
            // QEMU's q35 has its first 2 GiB below the devices, and whole gigabytes from 4 GiB on; of the last of them
            // the kernel takes the end for itself.
            Firmware::LinuxWithIommu(huge, _) if huge.one_gib > 0 => {
                LOW_MIB + 1024 * (huge.one_gib + 1)
            }
            Firmware::LinuxWithIommu(..) => LOW_MIB,
        }
    }

    /// The command that starts it, to be run in the folder that holds its files.
    ///
    /// Nehalem: with the models `max` and `EPYC` dom0 crashes on QEMU 7.2. The clock of the machine begins at a
    /// fixed time and follows the instructions, so that two runs are the same to a guest.
    pub fn command(self) -> Run {
        let run = Run::new(Tool::emulator(self.firmware.arch()).program())
            .args([
                "-nodefaults",
                "-no-user-config",
                "-display",
                "none",
                "-no-reboot",
            ])
            .args(self.board())
            .arg("-m")
            .arg(format!("{}M", self.memory_mib()))
            .args(self.accelerator())
            .arg("-smp")
            .arg(self.mode.cpus().to_string())
            // A guest that is restored goes on with its console.
            .args([
                "-chardev",
                "file,id=console,path=console.log,append=on",
                "-serial",
                "chardev:console",
            ])
            .arg("-object")
            .arg(format!(
                "memory-backend-file,id=shared,share=on,mem-path={SHARED},size={SHARED_MIB}M"
            ))
            // Of a device without a master, QEMU hands over no state.
            .args(["-device", "ivshmem-plain,memdev=shared,master=on"])
            .args(Control::ARGUMENTS)
            // How a guest says that it is ready.
            .args(["-device", "i6300esb", "-action", "watchdog=pause"]);
        self.boot(run)
    }

    /// Board and processor; edu is a device that does DMA on request.
    fn board(self) -> Vec<&'static str> {
        match self.firmware {
            Firmware::Linux(Arch::Arm64) => vec!["-machine", "virt,gic-version=3", "-cpu", ARMV8],
            Firmware::Xen | Firmware::Linux(Arch::X86_64) => {
                let cpu = self.variant.cpu.unwrap_or(Cpu::Nehalem);
                match cpu {
                    Cpu::Opteron => vec!["-cpu", OPTERON],
                    Cpu::Nehalem | Cpu::Haswell | Cpu::Skylake | Cpu::Epyc | Cpu::Max => {
                        vec!["-cpu", cpu.name()]
                    }
                }
            }
            // The nearest to a server of AMD's that QEMU emulates; Nehalem has no virtualisation there.
            Firmware::LinuxAsHost(Host::Svm) => vec!["-cpu", "EPYC,+svm"],
            Firmware::LinuxAsHost(Host::El2(_)) => vec![
                "-machine",
                "virt,gic-version=3,virtualization=on",
                "-cpu",
                ARMV8,
            ],
            Firmware::LinuxWithIommu(_, iommu) => [board_with(iommu), &["-device", EDU]].concat(),
        }
    }

    fn accelerator(self) -> &'static [&'static str] {
        match self.mode {
            Mode::Counting => &[
                "-accel",
                "tcg",
                "-icount",
                "shift=0,sleep=off",
                "-rtc",
                "base=2026-01-01,clock=vm",
                // Of RDRAND, which AMD's processor has, and of the seed that a kernel is given.
                "-seed",
                "1",
            ],
            Mode::Race { .. } => &["-accel", "tcg,thread=multi"],
        }
    }

    fn boot(self, run: Run) -> Run {
        match self.firmware {
            Firmware::Xen => run
                .args(["-kernel", XEN, "-append"])
                .arg(self.xen_command_line())
                .arg("-initrd")
                .arg(format!("{LINUX} {},{INITRAMFS}", self.linux_command_line())),
            Firmware::Linux(_) | Firmware::LinuxWithIommu(..) | Firmware::LinuxAsHost(_) => run
                .args(["-kernel", LINUX, "-initrd", INITRAMFS, "-append"])
                .arg(self.linux_command_line()),
        }
    }

    fn xen_command_line(self) -> String {
        format!(
            "console=com1 com1=115200 loglvl=all noreboot=0 dom0_max_vcpus={} dom0_vcpus_pin dom0_mem={mib}M,max:{mib}M{options}",
            self.mode.cpus(),
            options = words(self.xen),
            mib = self.guest_mib(),
        )
    }

    /// Several vCPUs go by the host's time, in which a busy host stalls them; a guest that makes no progress is given up
    /// by the CPU time of its QEMU.
    const fn watchdogs(self) -> &'static str {
        match self.mode {
            Mode::Counting => "",
            Mode::Race { .. } => " rcupdate.rcu_cpu_stall_suppress=1 nosoftlockup",
        }
    }

    /// A parameter of a module that no kernel has.
    fn shaken(self) -> String {
        match self.variant.shake {
            0 => String::new(),
            shake => format!(" pagetoll.shake={shake}"),
        }
    }

    fn linux_command_line(self) -> String {
        let console = match (self.firmware, self.firmware.arch()) {
            (Firmware::Xen, _) => "hvc0",
            (_, Arch::X86_64) => "ttyS0",
            (_, Arch::Arm64) => "ttyAMA0",
        };
        // Errors and panics reach the console; -1 ends the machine at once after a panic.
        let common = format!(
            "console={console} panic=-1 loglevel=4{}{}",
            self.watchdogs(),
            self.shaken()
        );
        match self.firmware {
            Firmware::LinuxAsHost(Host::El2(KvmMode::Nvhe)) => {
                format!("{common} kvm-arm.mode=nvhe")
            }
            Firmware::Linux(Arch::Arm64) => format!("{common} norandmaps"),
            Firmware::Xen | Firmware::Linux(Arch::X86_64) => {
                format!("{common} norandmaps indirect_target_selection=off")
            }
            Firmware::LinuxAsHost(_) => common,
            Firmware::LinuxWithIommu(HugePages { two_mib, one_gib }, iommu) => format!(
                "{common}{} hugepagesz=1G hugepages={one_gib} hugepagesz=2M hugepages={two_mib}",
                switched_on(iommu)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(mode: Mode, firmware: Firmware) -> String {
        let machine = Machine {
            mode,
            firmware,
            pages_mib: 64,
            xen: XenOptions::Default,
            variant: Variant::NONE,
        };
        machine.command().to_string()
    }

    #[test]
    fn a_counting_machine_has_one_cpu_and_no_clock_of_its_own() {
        let command = command(Mode::Counting, Firmware::Xen);
        for part in [
            "-icount shift=0,sleep=off",
            "-smp 1",
            "clock=vm",
            "dom0_max_vcpus=1",
            "-m 768M",
        ] {
            assert!(command.contains(part), "{part} not in {command}");
        }
    }

    #[test]
    fn a_racing_machine_has_its_cpus_in_parallel() {
        for cpus in [2, 4] {
            let command = command(Mode::new(cpus), Firmware::Xen);
            let (smp, dom0) = (format!("-smp {cpus}"), format!("dom0_max_vcpus={cpus}"));
            for part in ["thread=multi", &smp, &dom0] {
                assert!(command.contains(part), "{part} not in {command}");
            }
            assert!(!command.contains("icount"));
        }
    }

    #[test]
    fn no_machine_has_a_network_or_names_a_folder() {
        let hosts = [Host::Svm, Host::El2(KvmMode::Vhe)].map(Firmware::LinuxAsHost);
        let linux = [Arch::X86_64, Arch::Arm64].map(Firmware::Linux);
        for firmware in hosts.into_iter().chain(linux).chain([Firmware::Xen]) {
            let command = command(Mode::Counting, firmware);
            assert!(
                command.contains("-nodefaults") && !command.contains("-net"),
                "{command}"
            );
            assert!(!command.contains('/'), "{command}");
        }
    }
}
