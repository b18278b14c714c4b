//! Who called what: stacks of functions with the instructions that each executed, folded or drawn.

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use pagetoll_bill::profile::Stacks;
use thiserror::Error;

/// Stacks that cannot be drawn.
#[derive(Debug, Error)]
#[error("cannot draw a flame graph: {0}")]
pub struct FlameGraphError(String);

/// A line for each stack, as flame graph tools read them: frames from the outermost on, separated by semicolons, then a
/// space and a whole number. The format has no quoting: in names, a semicolon becomes a colon and white space an underscore.
#[must_use]
pub fn folded(stacks: &Stacks) -> String {
    let line = |(frames, count): (&Vec<String>, &u64)| format!("{} {count}\n", joined(frames));
    stacks.iter().map(line).collect()
}

fn joined(frames: &[String]) -> String {
    let frames: Vec<_> = frames.iter().map(|frame| plain(frame)).collect();
    frames.join(";")
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
    let subtitle = "hypervisor green, kernel orange, probe blue, user space red";
    draw(folded(stacks).lines(), title, subtitle)
}

/// Two kernels' stacks as one SVG: widths are those of `after`, colours say what it executes more and less often.
///
/// # Errors
/// No stack of `after` has executed anything.
pub fn difference(
    before: &Stacks,
    after: &Stacks,
    title: &str,
    subtitle: &str,
) -> Result<String, FlameGraphError> {
    let only_before = before.keys().filter(|frames| !after.contains_key(*frames));
    let line = |frames: &Vec<String>| {
        let count = |stacks: &Stacks| stacks.get(frames).copied().unwrap_or(0);
        let (before, after) = (count(before), count(after));
        format!("{} {before} {after}", joined(frames))
    };
    let mut lines: Vec<_> = after.keys().chain(only_before).map(line).collect();
    lines.sort();
    draw(lines.iter().map(String::as_str), title, subtitle)
}

fn draw<'a>(
    lines: impl Iterator<Item = &'a str>,
    title: &str,
    subtitle: &str,
) -> Result<String, FlameGraphError> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    options.subtitle = Some(subtitle.to_owned());
    "instructions".clone_into(&mut options.count_name);
    // By annotations: _[k] is a kernel's function, _[j] and _[i] are free for others.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.text_truncate_direction = TextTruncateDirection::Right;
    // The same stacks are drawn the same.
    options.deterministic = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines, &mut svg)
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
    fn a_difference_names_what_there_is_of_both() {
        let before = stacks();
        let mut after = stacks();
        after.pop_first();
        after.values_mut().for_each(|count| *count += 8);
        let svg = difference(&before, &after, "unmap", "b against a").unwrap();
        assert!(svg.contains("x86_emulate (20 instructions"), "{svg}");
        assert!(svg.contains("b against a"), "{svg}");
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
