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
    /// Settings beside `fixes/rt.config`.
    pub(crate) rt: &'static str,
}

/// Target by the names of the processor: `$kbuild` is kbuild's `ARCH`, `$folder` is below `arch/`, `$debian` is Debian's,
/// and `$name` is that of the files in `fixes/`.
macro_rules! target {
    ($kbuild:literal, $image:literal, $folder:literal, $debian:literal, $name:literal) => {
        Target {
            kbuild: $kbuild,
            image: $image,
            boot: concat!("arch/", $folder, "/boot"),
            debian: concat!("config.", $debian, "_none_", $debian),
            config: include_str!(concat!("../../../fixes/kernel.", $name, ".config")),
            vfio: include_str!(concat!("../../../fixes/vfio.", $name, ".config")),
            rt: include_str!(concat!("../../../fixes/rt.", $name, ".config")),
        }
    };
}

const X86_64: Target = target!("x86_64", "bzImage", "x86", "amd64", "x86-64");
const ARM64: Target = target!("arm64", "Image", "arm64", "arm64", "arm64");

impl Target {
    pub(crate) const fn for_arch(arch: Arch) -> &'static Self {
        match arch {
            Arch::X86_64 => &X86_64,
            Arch::Arm64 => &ARM64,
        }
    }
}
