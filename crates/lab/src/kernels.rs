//! Kernels and hypervisors of an order, by the names that it has for them, and where they come from.

use pagetoll_backend::Error;
use pagetoll_bill::spec::{LabSpec, Wanted};
use pagetoll_bill::{Arch, Draft};
use pagetoll_host::Surroundings;
use pagetoll_images::kernel::{KernelImage, KernelSource};
use pagetoll_images::xen::{XenImage, XenSource};

/// Prefix of the names of kernels and Xens that are built from a fix.
pub(crate) const BUILT: &str = "fix:";
/// The kernel of an order that names none.
const DEFAULT: &str = "debian";

/// Builds kernels and hypervisors for the lab, whose names begin with `fix:`.
pub trait Builder: Sync {
    /// Checks that there is such a kernel for this processor.
    ///
    /// # Errors
    /// [`Class::BadInput`](pagetoll_backend::Class::BadInput).
    fn check_kernel(&self, name: &str, arch: Arch) -> Result<(), Error>;

    /// Builds a kernel, or finds it in the cache.
    ///
    /// # Errors
    /// A source that cannot be had or does not build, a machine that lacks something.
    fn kernel(
        &self,
        name: &str,
        arch: Arch,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<KernelImage, Error>;

    /// Checks that there is such a Xen.
    ///
    /// # Errors
    /// [`Class::BadInput`](pagetoll_backend::Class::BadInput).
    fn check_xen(&self, name: &str) -> Result<(), Error>;

    /// Builds a Xen, or finds it in the cache.
    ///
    /// # Errors
    /// As [`Builder::kernel`].
    fn xen(
        &self,
        name: &str,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<XenImage, Error>;
}

/// A kernel by the name that the order has for it.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    origin: Origin,
}

#[derive(Clone)]
enum Origin {
    Images(KernelSource),
    Built(Arch, &'static dyn Builder),
}

impl Kernel {
    /// Its source, built where that is needed.
    ///
    /// # Errors
    /// Those of [`Builder::kernel`].
    pub(crate) fn source(
        &self,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<KernelSource, Error> {
        match &self.origin {
            Origin::Images(source) => Ok(source.clone()),
            Origin::Built(arch, builder) => {
                let built = builder.kernel(&self.name, *arch, refresh, surroundings)?;
                Ok(KernelSource::Built(Box::new(built)))
            }
        }
    }

    /// A draft that was billed on this kernel alone. Rows name only kernels that were built.
    pub(crate) fn alone(&self, draft: Draft) -> Draft {
        match self.origin {
            Origin::Images(_) => draft,
            Origin::Built(..) => draft.on_kernel(&self.name),
        }
    }

    /// The name as that of a folder.
    pub(crate) fn folder(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
        self.name.replace(|c| !plain(c), "_")
    }
}

/// A Xen by the name that the order has for it.
#[derive(Clone)]
pub(crate) struct Hypervisor {
    name: String,
    origin: XenOrigin,
}

#[derive(Clone)]
enum XenOrigin {
    Images(XenSource),
    Built(&'static dyn Builder),
}

impl Hypervisor {
    /// The hypervisor of an order; nothing is built.
    ///
    /// # Errors
    /// The name is none; nothing builds it.
    pub(crate) fn new(lab: &LabSpec, builder: Option<&'static dyn Builder>) -> Result<Self, Error> {
        let name = lab.xen.as_deref().unwrap_or("debian");
        let origin = if name.starts_with(BUILT) {
            let builder = required("--xen", name, builder)?;
            builder.check_xen(name)?;
            XenOrigin::Built(builder)
        } else {
            XenOrigin::Images(name.parse()?)
        };
        Ok(Self {
            name: name.to_owned(),
            origin,
        })
    }

    /// Its source, built where that is needed.
    ///
    /// # Errors
    /// Those of [`Builder::xen`].
    pub(crate) fn source(
        &self,
        refresh: Wanted,
        surroundings: &Surroundings<'_>,
    ) -> Result<XenSource, Error> {
        match &self.origin {
            XenOrigin::Images(source) => Ok(source.clone()),
            XenOrigin::Built(builder) => {
                let built = builder.xen(&self.name, refresh, surroundings)?;
                Ok(XenSource::Built(Box::new(built)))
            }
        }
    }
}

/// The kernels, in the order in which they were named; at least one.
///
/// # Errors
/// A name that is none, or is there twice; folders for a kernel that brings its own.
pub(crate) fn all(
    lab: &LabSpec,
    builder: Option<&'static dyn Builder>,
) -> Result<Vec<Kernel>, Error> {
    let names = names(lab);
    let mut numbered = names.iter().enumerate();
    if let Some((_, name)) = numbered.find(|(index, name)| names[..*index].contains(name)) {
        let problem = format!("--kernel {name}: was named before; expected each kernel once");
        return Err(Error::bad_input(problem));
    }
    names.iter().map(|name| named(name, lab, builder)).collect()
}

/// The kernels of what boots none that is built from a fix: those lack drivers (`fixes/kernel.config`).
///
/// # Errors
/// Those of [`all`]; a kernel that is built from a fix.
pub(crate) fn sources(lab: &LabSpec) -> Result<Vec<KernelSource>, Error> {
    let names = names(lab);
    if let Some(name) = names.iter().find(|name| name.starts_with(BUILT)) {
        return Err(Error::bad_input(format!(
            "--kernel {name}: is built on order for dom0s and hosts of KVM alone; expected one of Debian, or a file as `pagetoll fix build` makes it"
        )));
    }
    let images = |kernel: Kernel| match kernel.origin {
        Origin::Images(source) => Some(source),
        Origin::Built(..) => None,
    };
    Ok(all(lab, None)?.into_iter().filter_map(images).collect())
}

/// The kernel of what takes no other beside it.
///
/// # Errors
/// Those of [`sources`]; several kernels.
pub(crate) fn one(lab: &LabSpec) -> Result<KernelSource, Error> {
    let several = || {
        let given = lab.kernels.join(", ");
        Error::bad_input(format!("--kernel {given}: expected one kernel here"))
    };
    let [kernel] = <[KernelSource; 1]>::try_from(sources(lab)?).map_err(|_| several())?;
    Ok(kernel)
}

fn names(lab: &LabSpec) -> Vec<String> {
    match lab.kernels.as_slice() {
        [] => vec![DEFAULT.to_owned()],
        names => names.to_vec(),
    }
}

fn named(
    name: &str,
    lab: &LabSpec,
    builder: Option<&'static dyn Builder>,
) -> Result<Kernel, Error> {
    let origin = if name.starts_with(BUILT) {
        Origin::Built(lab.arch.unwrap_or_default(), built(name, lab, builder)?)
    } else {
        Origin::Images(source(name, lab)?)
    };
    Ok(Kernel {
        name: name.to_owned(),
        origin,
    })
}

fn built(
    name: &str,
    lab: &LabSpec,
    builder: Option<&'static dyn Builder>,
) -> Result<&'static dyn Builder, Error> {
    for (option, folder) in [("--headers", &lab.headers), ("--modules", &lab.modules)] {
        if let Some(folder) = folder {
            return Err(Error::bad_input(format!(
                "{option} {}: there are none for a kernel that pagetoll builds; expected --kernel FILE beside it",
                folder.display()
            )));
        }
    }
    let builder = required("--kernel", name, builder)?;
    builder.check_kernel(name, lab.arch.unwrap_or_default())?;
    Ok(builder)
}

/// The builder of the kernel or the Xen of this name.
///
/// # Errors
/// There is nothing that does.
pub(crate) fn required(
    option: &str,
    name: &str,
    builder: Option<&'static dyn Builder>,
) -> Result<&'static dyn Builder, Error> {
    builder.ok_or_else(|| {
        let expected = "expected one of Debian or a file";
        Error::bad_input(format!(
            "{option} {name}: there is nothing to build it with; {expected}"
        ))
    })
}

fn source(name: &str, lab: &LabSpec) -> Result<KernelSource, Error> {
    let mut source = name.parse::<KernelSource>()?;
    if let Some(folder) = &lab.headers {
        source = source.with_headers(folder.clone())?;
    }
    if let Some(folder) = &lab.modules {
        source = source.with_modules(folder.clone())?;
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has one kernel and builds none.
    struct OneFix;

    impl Builder for OneFix {
        fn check_kernel(&self, name: &str, _: Arch) -> Result<(), Error> {
            match name {
                "fix:none" => Ok(()),
                _ => Err(Error::bad_input(format!("{name}: unknown"))),
            }
        }

        fn kernel(
            &self,
            name: &str,
            _: Arch,
            _: Wanted,
            _: &Surroundings<'_>,
        ) -> Result<KernelImage, Error> {
            Err(Error::bad_input(format!("{name}: not built in this test")))
        }

        fn check_xen(&self, name: &str) -> Result<(), Error> {
            self.check_kernel(name, Arch::default())
        }

        fn xen(&self, name: &str, _: Wanted, _: &Surroundings<'_>) -> Result<XenImage, Error> {
            Err(Error::bad_input(format!("{name}: not built in this test")))
        }
    }

    fn spec(names: &[&str]) -> LabSpec {
        LabSpec {
            kernels: names.iter().map(|&name| name.to_owned()).collect(),
            ..LabSpec::default()
        }
    }

    fn refusal<T>(result: Result<T, Error>) -> String {
        result.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn kernels_keep_their_order_and_fixes_are_built() {
        let kernels = all(&spec(&["fix:none", "debian"]), Some(&OneFix)).unwrap();
        assert!(matches!(kernels[0].origin, Origin::Built(..)));
        assert!(matches!(kernels[1].origin, Origin::Images(_)));
        assert_eq!(
            [kernels[0].folder(), kernels[1].folder()],
            ["fix_none", "debian"]
        );
        assert_eq!(all(&spec(&[]), None).unwrap()[0].name, "debian");
    }

    #[test]
    fn what_cannot_be_combined_is_refused_with_the_kernels_name() {
        let twice = refusal(all(&spec(&["debian", "debian"]), None));
        assert!(
            twice.starts_with("--kernel debian: was named before"),
            "{twice}"
        );
        let with_headers = LabSpec {
            headers: Some("h".into()),
            ..spec(&["fix:none"])
        };
        let headers = refusal(all(&with_headers, Some(&OneFix)));
        assert!(headers.starts_with("--headers h: "), "{headers}");
        let fix = refusal(sources(&spec(&["fix:none"])));
        assert!(
            fix.starts_with(
                "--kernel fix:none: is built on order for dom0s and hosts of KVM alone"
            ),
            "{fix}"
        );
        let two = refusal(one(&spec(&["debian", "debian:trixie"])));
        assert_eq!(
            two,
            "--kernel debian, debian:trixie: expected one kernel here"
        );
        assert_eq!(
            refusal(all(&spec(&["fix:x"]), Some(&OneFix))),
            "fix:x: unknown"
        );
        assert!(refusal(all(&spec(&["fix:none"]), None)).starts_with("--kernel fix:none: "));
    }

    #[test]
    fn a_fix_is_never_taken_for_a_path() {
        let named = |xen: &str| {
            let lab = LabSpec {
                xen: Some(xen.to_owned()),
                ..LabSpec::default()
            };
            Hypervisor::new(&lab, None).map(drop)
        };
        let refused = named("fix:none").unwrap_err().to_string();
        assert!(
            refused.starts_with("--xen fix:none: there is nothing to build it with"),
            "{refused}"
        );
        assert!(named("debian").is_ok());
    }
}
