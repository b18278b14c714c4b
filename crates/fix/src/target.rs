//! What kbuild and Debian call a processor, and what kernels of the lab are configured with for it.

use pagetoll_bill::Arch;

/// All that differs between kernels for two processors.
pub(crate) struct Target {
    /// As kbuild's `ARCH`.
    pub(crate) kbuild: &'static str,
    /// Its target for the boot image,
    pub(crate) image: &'static str,
    /// which it makes below this folder.
    pub(crate) boot: &'static str,
    /// Debian's configuration for ordinary machines, without `.xz`.
    pub(crate) debian: &'static str,
    /// What is set beside `fixes/kernel.config`.
    pub(crate) config: &'static str,
    /// and beside `fixes/vfio.config`.
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
    pub(crate) const fn of(arch: Arch) -> &'static Self {
        match arch {
            Arch::X86_64 => &X86_64,
            Arch::Arm64 => &ARM64,
        }
    }
}
