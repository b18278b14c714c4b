//! `pagetoll bill --flamegraph`: who called what, in a file of its own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use pagetoll_backend::Stacks;
use pagetoll_bill::Bill;
use pagetoll_render::flamegraph::{flame_graph, folded};

use crate::failure::Failure;
use crate::output;

/// A file that stacks are written to.
pub(crate) struct Graph {
    file: PathBuf,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Svg,
    Folded,
}

impl Graph {
    /// The form follows from the name.
    pub(crate) fn new(file: &Path) -> Result<Self, Failure> {
        let form = match file.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => Form::Svg,
            Some("folded") => Form::Folded,
            _ => {
                let problem = "its name tells no form; expected FILE.svg or FILE.folded";
                return Err(output::bad("--flamegraph", file, problem));
            }
        };
        output::check("--flamegraph", Some(file))?;
        Ok(Self {
            file: file.to_owned(),
            form,
        })
    }

    /// Writes what a bill's rows have executed.
    pub(crate) fn write(&self, stacks: &Stacks, bill: &Bill) -> Result<()> {
        let text = match self.form {
            Form::Svg => flame_graph(stacks, &format!("pagetoll bill {}", bill.route))?,
            Form::Folded => folded(stacks),
        };
        Ok(output::write(&text, Some(&self.file))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_form_is_refused() {
        for (name, problem) in [
            ("x.png", "--flamegraph x.png: its name tells no form"),
            (
                "/nowhere/x.svg",
                "--flamegraph /nowhere/x.svg: its folder does not exist",
            ),
        ] {
            let error = Graph::new(Path::new(name)).err().unwrap().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(Graph::new(Path::new("x.folded")).is_ok());
    }
}
