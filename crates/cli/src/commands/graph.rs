//! `pagetoll bill --flamegraph`: who called what, in a file of its own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use pagetoll_backend::Stacks;
use pagetoll_bill::Bill;
use pagetoll_render::flamegraph::{OfKernel, difference, flame_graph, folded};
use pagetoll_render::harmless;
use pagetoll_timeline::perfetto::write_stacks;

use crate::failure::Failure;
use crate::output;

const FLAG: &str = "--flamegraph";

/// A file that stacks are written to.
pub(crate) struct Graph {
    file: PathBuf,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Svg,
    Folded,
    Perfetto,
}

/// Kernels that one drawing can compare.
const MOST_KERNELS: usize = 2;

impl Graph {
    /// The form follows from the name.
    pub(crate) fn new(file: &Path, kernels: usize) -> Result<Self, Failure> {
        let refuse = |problem| Err(output::bad(FLAG, file, problem));
        let form = match file.extension().and_then(|extension| extension.to_str()) {
            Some("svg") if kernels > MOST_KERNELS => {
                return refuse(
                    "draws two kernels at most; expected fewer --kernel, or another form",
                );
            }
            Some("svg") => Form::Svg,
            Some("folded") => Form::Folded,
            Some("pftrace") => Form::Perfetto,
            _ => {
                return refuse(
                    "its name says no form; expected FILE.svg, FILE.folded or FILE.pftrace",
                );
            }
        };
        output::check(FLAG, Some(file))?;
        Ok(Self {
            file: file.to_owned(),
            form,
        })
    }

    /// Writes what a bill's rows have executed.
    pub(crate) fn write(&self, stacks: &Stacks, bill: &Bill) -> Result<()> {
        let title = format!("pagetoll bill {}", bill.route);
        let bytes = match (self.form, kernels(bill).as_slice()) {
            (Form::Folded, _) => folded(stacks).into_bytes(),
            (Form::Perfetto, _) => perfetto(stacks, &title)?,
            (Form::Svg, &[first, second]) => {
                let below = [first, second].map(|kernel| of_kernel(stacks, kernel));
                let [first, second] = [(first, &below[0]), (second, &below[1])]
                    .map(|(name, stacks)| OfKernel { name, stacks });
                difference(first, second, &title)?.into_bytes()
            }
            (Form::Svg, _) => flame_graph(stacks, &title)?.into_bytes(),
        };
        Ok(output::write(&bytes, Some(&self.file))?)
    }
}

fn perfetto(stacks: &Stacks, title: &str) -> Result<Vec<u8>> {
    let safe = |frames: &Vec<String>| frames.iter().map(|frame| harmless(frame)).collect();
    let stacks: Vec<(Vec<_>, _)> = stacks
        .iter()
        .map(|(frames, count)| (safe(frames), *count))
        .collect();
    let stacks = stacks
        .iter()
        .map(|(frames, count)| (frames.as_slice(), *count));
    let mut bytes = Vec::new();
    write_stacks(&mut bytes, title, stacks)?;
    Ok(bytes)
}

/// In the order in which they were billed.
fn kernels(bill: &Bill) -> Vec<&str> {
    let mut kernels: Vec<&str> = Vec::new();
    for kernel in bill.rows.iter().filter_map(|row| row.key.kernel.as_deref()) {
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
    }
    kernels
}

/// The stacks below a kernel's frame, without it.
fn of_kernel(stacks: &Stacks, kernel: &str) -> Stacks {
    let of = stacks
        .iter()
        .filter_map(|(frames, count)| match frames.split_first() {
            Some((first, rest)) if first == kernel => Some((rest.to_vec(), *count)),
            _ => None,
        });
    of.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_no_name_that_deceives() {
        let stacks = Stacks::from([(vec!["a\u{202e}b".to_owned()], 1)]);
        let trace = perfetto(&stacks, "title").unwrap();
        let has = |name: &str| {
            trace
                .windows(name.len())
                .any(|bytes| bytes == name.as_bytes())
        };
        assert!(has("a\u{fffd}b") && !has("\u{202e}"));
    }

    #[test]
    fn a_name_without_a_form_is_refused() {
        for (name, problem) in [
            ("x.svg", "--flamegraph x.svg: draws two kernels at most"),
            ("x.png", "--flamegraph x.png: its name says no form"),
            (
                "/nowhere/x.folded",
                "--flamegraph /nowhere/x.folded: its folder does not exist",
            ),
        ] {
            let error = Graph::new(Path::new(name), 3).err().unwrap().to_string();
            assert!(error.contains(problem), "{error}");
        }
        for name in ["x.folded", "x.pftrace"] {
            assert!(Graph::new(Path::new(name), 3).is_ok());
        }
    }
}
