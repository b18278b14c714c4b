//! Who called what: stacks of functions with the instructions that each executed, folded or drawn.

use std::collections::BTreeMap;

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options};
use thiserror::Error;

/// Instructions by stack: functions from the outermost on.
pub type Stacks = BTreeMap<Vec<String>, u64>;

/// Stacks that cannot be drawn.
#[derive(Debug, Error)]
#[error("cannot draw a flame graph: {0}")]
pub struct FlameGraphError(String);

/// A line for each stack, as flame graph tools read them: frames from the outermost on, separated by semicolons, then a
/// space and a whole number. The format has no quoting: in names, a semicolon becomes a colon and white space an underscore.
#[must_use]
pub fn folded(stacks: &Stacks) -> String {
    let line = |(frames, count): (&Vec<String>, &u64)| {
        let frames: Vec<_> = frames.iter().map(|frame| plain(frame)).collect();
        format!("{} {count}\n", frames.join(";"))
    };
    stacks.iter().map(line).collect()
}

fn plain(frame: &str) -> String {
    let plain = |letter: char| match letter {
        ';' => ':',
        letter if letter.is_whitespace() || letter.is_control() => '_',
        letter => letter,
    };
    frame.chars().map(plain).collect()
}

/// The stacks as an SVG, which opens in a browser without anything else.
///
/// # Errors
/// No stack has executed anything.
pub fn flame_graph(stacks: &Stacks, title: &str) -> Result<String, FlameGraphError> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    "Hypervisor green, kernel orange, probe blue, user space red.".clone_into(&mut options.notes);
    options.subtitle = Some(options.notes.clone());
    "instructions".clone_into(&mut options.count_name);
    // By annotations: _[k] is a kernel's function, _[j] and _[i] are free for others.
    options.colors = Palette::Multi(MultiPalette::Java);
    // The same stacks are drawn the same.
    options.deterministic = true;
    let lines = folded(stacks);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.lines(), &mut svg)
        .map_err(|error| FlameGraphError(error.to_string()))?;
    String::from_utf8(svg).map_err(|error| FlameGraphError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> Stacks {
        let stack = |frames: &[&str]| frames.iter().map(|&frame| frame.to_owned()).collect();
        Stacks::from([
            (stack(&["a row", "main", "do_syscall;64_[k]"]), 30),
            (stack(&["a row", "main", "x86_emulate_[j]"]), 12),
        ])
    }

    #[test]
    fn a_frame_with_a_separator_stays_one_frame() {
        assert_eq!(
            folded(&stacks()),
            "a_row;main;do_syscall:64_[k] 30\na_row;main;x86_emulate_[j] 12\n"
        );
    }

    #[test]
    fn a_drawing_names_functions_and_is_the_same_each_time() {
        let svg = flame_graph(&stacks(), "unmap").unwrap();
        assert!(svg.contains("x86_emulate (12 instructions"), "{svg}");
        assert_eq!(svg, flame_graph(&stacks(), "unmap").unwrap());
        let error = flame_graph(&Stacks::new(), "unmap")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot draw a flame graph"), "{error}");
    }
}
