//! Kernel configurations for the lab: Debian's, without its modules, and the settings of `fixes/kernel.config` and of
//! the processor's file beside it; a debug kernel also has those of `fixes/debug.config`, a PREEMPT_RT kernel those of
//! `fixes/rt.config`, one with VFIO those of `fixes/vfio.config`.
//!
//! Pure text; the kernel's own `olddefconfig` resolves dependencies, and [`lacking`] finds the settings that it dropped.

use pagetoll_bill::Arch;

use crate::target::Target;

const LAB: &str = include_str!("../../../fixes/kernel.config");
const DEBUG: &str = include_str!("../../../fixes/debug.config");
const RT: &str = include_str!("../../../fixes/rt.config");
const VFIO: &str = include_str!("../../../fixes/vfio.config");

/// Settings over Debian's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Debian's, without modules.
    Lab,
    /// With the kernel's own checks of page tables, pages and locks.
    Debug,
    /// With PREEMPT_RT: page-table locks sleep, and their holders may be preempted.
    Rt,
}

/// Devices that a kernel hands to user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// None: the kernel has no driver of an IOMMU.
    #[default]
    Absent,
    /// VFIO and the drivers of IOMMUs, which `pin` needs and which take longer to build.
    Vfio,
}

impl Flavour {
    /// Lines of a `.config`.
    pub(crate) fn wanted(self, arch: Arch, devices: Devices) -> String {
        let target = Target::for_arch(arch);
        let lab = [LAB, target.config].concat();
        let lab = match devices {
            Devices::Absent => lab,
            Devices::Vfio => trimmed(&lab, &[VFIO, target.vfio].concat()),
        };
        match self {
            Self::Lab => lab,
            Self::Debug => lab + DEBUG,
            Self::Rt => trimmed(&lab, &[RT, target.rt].concat()),
        }
    }
}

/// One setting of a `.config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting<'a> {
    option: &'a str,
    value: &'a str,
}

impl Setting<'_> {
    /// Parses `CONFIG_A=y`, or `# CONFIG_A is not set`, which equals n.
    fn parse(line: &str) -> Option<Setting<'_>> {
        let not_set = || {
            let option = line.strip_prefix("# ")?.strip_suffix(" is not set")?;
            Some((option, "n"))
        };
        let (option, value) = not_set().or_else(|| line.split_once('='))?;
        option
            .starts_with("CONFIG_")
            .then_some(Setting { option, value })
    }

    fn is_off(self) -> bool {
        self.value == "n"
    }

    /// True if a whole configuration has it: absent or `n` where it is off, else with the same value.
    fn is_in(self, config: &str) -> bool {
        let found = config
            .lines()
            .filter_map(Setting::parse)
            .find(|found| found.option == self.option);
        match found {
            None => self.is_off(),
            Some(found) => found.value == self.value,
        }
    }
}

fn settings(text: &str) -> impl Iterator<Item = Setting<'_>> {
    text.lines().filter_map(Setting::parse)
}

/// Drops modules from a configuration and overrides its settings by the wanted ones.
pub(crate) fn trimmed(config: &str, wanted: &str) -> String {
    let overridden = |option| settings(wanted).any(|setting| setting.option == option);
    let kept =
        settings(config).filter(|setting| setting.value != "m" && !overridden(setting.option));
    let line = |setting: Setting<'_>| {
        if setting.is_off() {
            format!("# {} is not set\n", setting.option)
        } else {
            format!("{}={}\n", setting.option, setting.value)
        }
    };
    kept.chain(settings(wanted)).map(line).collect()
}

/// Wanted settings that a finished configuration is missing.
pub(crate) fn lacking(config: &str, wanted: &str) -> Vec<String> {
    let absent = settings(wanted).filter(|setting| !setting.is_in(config));
    absent
        .map(|setting| format!("{}={}", setting.option, setting.value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "# comment\nCONFIG_A=y\nCONFIG_B=m\nCONFIG_C=y\nCONFIG_S=\"x\"\n# CONFIG_D is not set\n# CONFIG_E is not set\n";

    #[test]
    fn modules_go_and_wishes_win() {
        let trimmed = trimmed(DEBIAN, "# why\nCONFIG_C=n\nCONFIG_D=y\n");
        assert_eq!(
            trimmed,
            "CONFIG_A=y\nCONFIG_S=\"x\"\n# CONFIG_E is not set\n# CONFIG_C is not set\nCONFIG_D=y\n"
        );
    }

    #[test]
    fn settings_that_were_dropped_are_named() {
        let wanted = "CONFIG_A=y\nCONFIG_C=n\nCONFIG_S=\"y\"\nCONFIG_E=y\nCONFIG_F=n\n";
        assert_eq!(
            lacking(DEBIAN, wanted),
            ["CONFIG_C=n", "CONFIG_S=\"y\"", "CONFIG_E=y"]
        );
    }

    #[test]
    fn no_wish_is_made_twice() {
        for arch in Arch::ALL {
            for flavour in [Flavour::Lab, Flavour::Debug, Flavour::Rt] {
                for devices in [Devices::Absent, Devices::Vfio] {
                    let wanted = flavour.wanted(*arch, devices);
                    let settings = settings(&wanted).map(|setting| setting.option);
                    let mut options: Vec<_> = settings.collect();
                    let all = options.len();
                    options.sort_unstable();
                    options.dedup();
                    assert_eq!(options.len(), all, "{arch}, {flavour:?}, {devices:?}");
                }
            }
        }
    }

    #[test]
    fn a_kernel_with_vfio_has_the_iommu_that_others_lack() {
        for flavour in [Flavour::Lab, Flavour::Debug, Flavour::Rt] {
            let absent = flavour.wanted(Arch::X86_64, Devices::Absent);
            let vfio = flavour.wanted(Arch::X86_64, Devices::Vfio);
            let off = |wanted: &str| {
                settings(wanted)
                    .any(|setting| setting.option == "CONFIG_IOMMU_SUPPORT" && setting.is_off())
            };
            assert!(off(&absent), "{flavour:?}");
            assert!(!off(&vfio), "{flavour:?}");
            assert!(vfio.contains("CONFIG_IOMMU_SUPPORT=y"), "{flavour:?}");
            assert!(vfio.contains("CONFIG_INTEL_IOMMU=y"), "{flavour:?}");
        }
    }
}
