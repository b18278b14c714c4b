//! The kernels of an order: how they were named, and where they come from.

use anyhow::Result;
use pagetoll_fix::spec::{PREFIX, Spec};
use pagetoll_images::kernel::KernelSource;

use crate::args::ImageArgs;
use crate::failure::Failure;

/// A kernel, and how it was named.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// As --kernel has it.
    pub(crate) name: String,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// Where a kernel comes from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The lab obtains it.
    Lab(KernelSource),
    /// It is to be built.
    Fix(Box<Spec>),
}

/// The kernels, in the order in which they were named.
pub(super) fn kernels(images: &ImageArgs) -> Result<Vec<Kernel>> {
    let names = &images.kernel;
    let twice = names
        .iter()
        .enumerate()
        .find(|(index, name)| names[..*index].contains(name));
    if let Some((_, name)) = twice {
        let problem = format!("--kernel {name}: was named before; expected each kernel once");
        return Err(Failure::BadInput(problem).into());
    }
    names.iter().map(|name| named(name, images)).collect()
}

fn named(name: &str, images: &ImageArgs) -> Result<Kernel> {
    let origin = match (name.strip_prefix(PREFIX), &images.headers) {
        (Some(spec), None) => Origin::Fix(Box::new(spec.parse::<Spec>()?)),
        (Some(_), Some(folder)) => {
            let problem = format!(
                "--headers {}: there are none for a kernel that pagetoll builds; expected --kernel FILE beside it",
                folder.display()
            );
            return Err(Failure::BadInput(problem).into());
        }
        (None, headers) => {
            let kernel = name.parse::<KernelSource>()?;
            Origin::Lab(match headers {
                Some(folder) => kernel.with_headers(folder.clone())?,
                None => kernel,
            })
        }
    };
    Ok(Kernel {
        name: name.to_owned(),
        origin,
    })
}

/// The kernels of what takes several, but none that pagetoll builds: those are for dom0 alone (`fixes/kernel.config`).
pub(super) fn of_lab(images: &ImageArgs) -> Result<Vec<KernelSource>> {
    let source = |kernel: Kernel| match kernel.origin {
        Origin::Lab(source) => Ok(source),
        Origin::Fix(_) => {
            let problem = format!(
                "--kernel {}: is built for a dom0 and cannot be used here; expected one of Debian or a file",
                kernel.name
            );
            Err(Failure::BadInput(problem).into())
        }
    };
    kernels(images)?.into_iter().map(source).collect()
}

/// The one kernel of a command that takes no other.
pub(crate) fn kernel(images: &ImageArgs) -> Result<KernelSource> {
    let several = images.kernel.len() > 1;
    match of_lab(images)?.pop().filter(|_| !several) {
        Some(kernel) => Ok(kernel),
        None => {
            let given = images.kernel.join(", ");
            let problem = format!("--kernel {given}: expected one kernel here");
            Err(Failure::BadInput(problem).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn images(kernels: &[&str], headers: Option<&str>) -> ImageArgs {
        ImageArgs {
            kernel: kernels.iter().map(|&name| name.to_owned()).collect(),
            headers: headers.map(PathBuf::from),
            xen: "debian".to_owned(),
        }
    }

    #[test]
    fn kernels_keep_their_order_and_fixes_are_built() {
        let kernels = kernels(&images(&["fix:none", "debian"], None)).unwrap();
        assert!(
            matches!(&kernels[0], Kernel { name, origin: Origin::Fix(_) } if name == "fix:none")
        );
        assert!(matches!(&kernels[1].origin, Origin::Lab(_)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_kernels_name() {
        let refusal = |result: Result<()>| result.unwrap_err().to_string();
        let twice = refusal(kernels(&images(&["debian", "debian"], None)).map(drop));
        assert!(
            twice.starts_with("--kernel debian: was named before"),
            "{twice}"
        );
        let headers = refusal(kernels(&images(&["fix:none"], Some("h"))).map(drop));
        assert!(headers.starts_with("--headers h: "), "{headers}");
        let fix = refusal(of_lab(&images(&["fix:none"], None)).map(drop));
        assert!(
            fix.starts_with("--kernel fix:none: is built for a dom0"),
            "{fix}"
        );
        let two = refusal(kernel(&images(&["debian", "debian:trixie"], None)).map(drop));
        assert_eq!(
            two,
            "--kernel debian, debian:trixie: expected one kernel here"
        );
    }
}
