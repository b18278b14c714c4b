//! Names of a processor in kbuild and Debian, and its kernel configuration for the lab.

use pagetoll_bill::Arch;

/// Parameters of a kernel build that depend on the processor.
pub(crate) struct Target {
    /// kbuild's `ARCH`.
    pub(crate) kbuild: &'static str,
    /// kbuild's target for the boot image.
    pub(crate) image: &'static str,
    /// Folder of the boot image, relative to the output.
    pub(crate) boot: &'static str,
    /// Debian's configuration for ordinary machines, without `.xz`.
    pub(crate) debian: &'static str,
    /// Settings beside `fixes/kernel.config`.
    pub(crate) config: &'static str,
    /// Settings beside `fixes/vfio.config`.
    pub(crate) vfio: &'static str,
}

const X86_64: Target = Target {
    kbuild: "x86_64",
    image: "bzImage",
    boot: "arch/x86/boot",
    debian: "config.amd64_none_amd64",
    config: include_str!("../../../fixes/kernel.x86-64.config"),
    vfio: include_str!("../../../fixes/vfio.x86-64.config"),
};

const ARM64: Target = Target {
    kbuild: "arm64",
    image: "Image",
    boot: "arch/arm64/boot",
    debian: "config.arm64_none_arm64",
    config: include_str!("../../../fixes/kernel.arm64.config"),
    vfio: include_str!("../../../fixes/vfio.arm64.config"),
};

impl Target {
    pub(crate) const fn for_arch(arch: Arch) -> &'static Self {
        match arch {
            Arch::X86_64 => &X86_64,
            Arch::Arm64 => &ARM64,
        }
    }
}
