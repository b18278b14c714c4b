//! What this host is, as rules of advice ask for it. Looks at files alone: nothing is opened that does something.

use std::fs;
use std::path::{Path, PathBuf};

use pagetoll_advice::{Facts, Kernel, KvmMode, ThpMode, XenGuest};
use pagetoll_bill::Arch;
use pagetoll_live::host::recording::has_vmx_or_svm;
use pagetoll_live::routes::pv::{Guest, Surroundings};

/// Vendors of machines that hypervisors show (`/sys/class/dmi/id/sys_vendor`), by which a guest of Xen knows that Xen runs
/// below another. Assumed: others do not nest Xen.
const VIRTUAL: [&str; 5] = [
    "QEMU",
    "Amazon EC2",
    "Google",
    "Microsoft Corporation",
    "VMware, Inc.",
];

/// This host's facts.
pub(crate) fn of_this_host() -> Facts {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    Files("/".into()).facts(Kernel(release), Arch::of_machine(std::env::consts::ARCH))
}

/// The files in which a kernel says what it is, below a root of their own in tests.
struct Files(PathBuf);

impl Files {
    fn facts(&self, kernel: Kernel, arch: Option<Arch>) -> Facts {
        let xen = self.xen();
        Facts {
            kernel: Some(kernel),
            arch,
            xen: Some(xen),
            nested: Some(self.is_nested(xen)),
            kvm: Some(self.kvm(arch)),
            thp: self.thp(),
            free_hugepages: self
                .line("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
                .and_then(|line| line.parse().ok()),
            nx_huge_pages: self.line("sys/module/kvm/parameters/nx_huge_pages"),
            itlb_multihit: self.line("sys/devices/system/cpu/vulnerabilities/itlb_multihit"),
            iommu_groups: Some(self.iommu_groups()),
            iommufd: Some(self.has("dev/iommu")),
            userfaultfd: Some(
                self.has("dev/userfaultfd") || self.has("proc/sys/vm/unprivileged_userfaultfd"),
            ),
        }
    }

    fn xen(&self) -> XenGuest {
        match Surroundings::below(&self.0).guest() {
            Ok(Guest::Dom0) => XenGuest::Dom0,
            Ok(Guest::DomU) => XenGuest::Domu,
            Err(_) if self.line("sys/hypervisor/type").as_deref() == Some("xen") => XenGuest::Hvm,
            Err(_) => XenGuest::None,
        }
    }

    /// Xen shows its PV guests no hypervisor flag but its own.
    fn is_nested(&self, xen: XenGuest) -> bool {
        if xen == XenGuest::None {
            let cpuinfo = fs::read_to_string(self.0.join("proc/cpuinfo")).unwrap_or_default();
            let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
            return flags.is_some_and(|line| line.split(' ').any(|word| word == "hypervisor"));
        }
        let vendor = self.line("sys/class/dmi/id/sys_vendor");
        vendor.is_some_and(|vendor| VIRTUAL.contains(&vendor.as_str()))
    }

    fn kvm(&self, arch: Option<Arch>) -> KvmMode {
        if !self.has("dev/kvm") {
            return KvmMode::Absent;
        }
        let command_line = self.line("proc/cmdline").unwrap_or_default();
        let mode = command_line
            .split(' ')
            .rev()
            .find_map(|word| word.strip_prefix("kvm-arm.mode="));
        match mode.filter(|_| arch == Some(Arch::Arm64)) {
            Some("nvhe") => KvmMode::Nvhe,
            Some("protected") => KvmMode::Protected,
            _ if arch == Some(Arch::X86_64) && !has_vmx_or_svm(&self.0) => KvmMode::Shadow,
            _ => KvmMode::Present,
        }
    }

    fn thp(&self) -> Option<ThpMode> {
        let line = self.line("sys/kernel/mm/transparent_hugepage/enabled")?;
        match line.split(['[', ']']).nth(1)? {
            "always" => Some(ThpMode::Always),
            "madvise" => Some(ThpMode::Madvise),
            "never" => Some(ThpMode::Never),
            _ => None,
        }
    }

    fn iommu_groups(&self) -> u64 {
        let groups = fs::read_dir(self.0.join("sys/kernel/iommu_groups"));
        groups.into_iter().flatten().flatten().count() as u64
    }

    fn has(&self, name: impl AsRef<Path>) -> bool {
        self.0.join(name).exists()
    }

    /// The first line of a file; `None` where it cannot be read.
    fn line(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.0.join(name)).ok()?;
        Some(text.lines().next()?.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(arch: Arch, files: &[(&str, &str)]) -> Facts {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Files(folder.path().to_owned()).facts(Kernel("6.18.1".into()), Some(arch))
    }

    const NVHE: (&str, &str) = ("proc/cmdline", "console=ttyAMA0 kvm-arm.mode=nvhe ro\n");
    const KVM: (&str, &str) = ("dev/kvm", "");
    const SVM: (&str, &str) = ("sys/module/kvm_amd/initstate", "live\n");

    #[test]
    fn a_bare_machine_has_nothing() {
        let bare = facts(Arch::X86_64, &[("proc/cpuinfo", "flags\t\t: fpu vme\n")]);
        assert_eq!(bare.xen, Some(XenGuest::None));
        assert_eq!(bare.nested, Some(false));
        assert_eq!(bare.kvm, Some(KvmMode::Absent));
        assert_eq!((bare.thp, bare.iommu_groups), (None, Some(0)));
    }

    #[test]
    fn the_mode_of_kvm_is_that_of_arm64_alone() {
        assert_eq!(facts(Arch::Arm64, &[KVM, NVHE]).kvm, Some(KvmMode::Nvhe));
        assert_eq!(facts(Arch::Arm64, &[KVM]).kvm, Some(KvmMode::Present));
        assert_eq!(
            facts(Arch::X86_64, &[KVM, SVM, NVHE]).kvm,
            Some(KvmMode::Present)
        );
        assert_eq!(facts(Arch::Arm64, &[NVHE]).kvm, Some(KvmMode::Absent));
    }

    #[test]
    fn kvm_of_x86_without_vmx_and_svm_shadows_page_tables() {
        assert_eq!(facts(Arch::X86_64, &[KVM]).kvm, Some(KvmMode::Shadow));
        assert_eq!(facts(Arch::X86_64, &[]).kvm, Some(KvmMode::Absent));
    }

    #[test]
    fn what_is_chosen_and_counted_is_read() {
        let read = facts(
            Arch::X86_64,
            &[
                (
                    "sys/kernel/mm/transparent_hugepage/enabled",
                    "always madvise [never]\n",
                ),
                ("sys/kernel/iommu_groups/0/type", "DMA\n"),
                ("sys/kernel/iommu_groups/1/type", "DMA\n"),
                ("sys/module/kvm/parameters/nx_huge_pages", "Y\n"),
                ("proc/cpuinfo", "flags\t\t: fpu hypervisor\n"),
            ],
        );
        assert_eq!(
            (read.thp, read.iommu_groups),
            (Some(ThpMode::Never), Some(2))
        );
        assert_eq!(read.nx_huge_pages.as_deref(), Some("Y"));
        assert_eq!(read.nested, Some(true));
    }

    #[test]
    fn a_nested_xen_is_known_by_its_machine() {
        let xen = ("sys/hypervisor/type", "xen\n");
        let hvm = ("sys/hypervisor/guest_type", "HVM\n");
        let vendor = ("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(facts(Arch::X86_64, &[xen, hvm, vendor]).nested, Some(true));
        assert_eq!(facts(Arch::X86_64, &[xen, hvm]).nested, Some(false));
        assert_eq!(facts(Arch::X86_64, &[xen, hvm]).xen, Some(XenGuest::Hvm));
    }
}
