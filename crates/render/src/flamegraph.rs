//! Flame graphs: stacks of functions with the instructions that each executed, folded or drawn.

mod changes;
mod drawing;
mod inline;

use inferno::flamegraph::color::PaletteMap;
use pagetoll_bill::profile::Stacks;

use self::changes::{Changes, WHITE};
use self::drawing::{draw, options, plain};

pub use drawing::FlameGraphError;
pub(crate) use inline::{inline, part_colour};

/// A line for each stack, as flame graph tools read them: frames from the outermost on, separated by semicolons, then a
/// space and a whole number. The format has no quoting: in names, a semicolon becomes a colon and a space an underscore.
#[must_use]
pub fn folded(stacks: &Stacks) -> String {
    let line = |(frames, count): (&Vec<String>, &u64)| {
        let frames: Vec<_> = frames.iter().map(|frame| plain(frame)).collect();
        format!("{} {count}\n", frames.join(";"))
    };
    stacks.iter().map(line).collect()
}

/// The stacks as an SVG, which opens in a browser without anything else.
///
/// # Errors
/// No stack has executed anything.
pub fn flame_graph(stacks: &Stacks, title: &str) -> Result<String, FlameGraphError> {
    let subtitle = "hypervisor green, kernel orange, probe blue, user space red";
    draw(folded(stacks).lines(), options(title, subtitle))
}

/// Stacks that a kernel has executed, each below a frame with the name of its row.
#[derive(Clone, Copy, Debug)]
pub struct OfKernel<'a> {
    /// The kernel.
    pub name: &'a str,
    /// Its stacks.
    pub stacks: &'a Stacks,
}

/// Two kernels' stacks as one SVG, as wide as those of the kernel that executes more. Colours compare functions, not
/// stacks: compilers inline one function here and another there, and a function whose callers were inlined is the same
/// function. One that a row has on one kernel alone counts as its caller, into which the other kernel inlined it.
///
/// # Errors
/// No stack has executed anything.
pub fn difference(
    first: OfKernel<'_>,
    second: OfKernel<'_>,
    title: &str,
) -> Result<String, FlameGraphError> {
    let total = |kernel: OfKernel<'_>| kernel.stacks.values().sum::<u64>();
    let wide = if total(first) > total(second) {
        first
    } else {
        second
    };
    let changes = Changes::new(first.stacks, second.stacks);
    let mut colours = PaletteMap::default();
    colours.insert("", WHITE);
    let mut lines = Vec::new();
    for (frames, count) in wide.stacks {
        let labels: Vec<_> = (1..=frames.len())
            .map(|depth| {
                let change = changes.innermost_change(&frames[..depth]);
                let label = change.label(&frames[depth - 1]);
                colours.insert(&label, change.colour());
                label
            })
            .collect();
        lines.push(format!("{} {count}", labels.join(";")));
    }
    lines.sort();
    let subtitle = format!(
        "as wide as on {}; red: functions that execute more on {} than on {}, blue: less, white: the same",
        wide.name, second.name, first.name
    );
    let mut options = options(title, &subtitle);
    options.palette_map = Some(&mut colours);
    draw(lines.iter().map(String::as_str), options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::well_formed;

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
    fn no_name_deceives_or_ends_the_document() {
        let hostile = "a\u{202e}b\u{ffff}\n<c>&\"";
        let stacks = Stacks::from([(vec![hostile.to_owned()], 1)]);
        assert_eq!(folded(&stacks), "a\u{fffd}b\u{fffd}\u{fffd}<c>&\" 1\n");
        let kernel = OfKernel {
            name: hostile,
            stacks: &stacks,
        };
        let drawn = [
            flame_graph(&stacks, hostile).unwrap(),
            difference(kernel, kernel, hostile).unwrap(),
        ];
        for svg in drawn {
            well_formed(&svg);
            assert!(svg.contains("a\u{fffd}b"), "{svg}");
        }
    }

    #[test]
    fn a_difference_is_drawn_as_wide_as_the_dearer_kernel() {
        let dear = stacks();
        let mut cheap = stacks();
        cheap.pop_first();
        let [dear, cheap] =
            [("dear", &dear), ("cheap", &cheap)].map(|(name, stacks)| OfKernel { name, stacks });
        for (first, second) in [(dear, cheap), (cheap, dear)] {
            let svg = difference(first, second, "unmap").unwrap();
            // What only the dearer one executes has a place.
            assert!(svg.contains("(30 instructions"), "{svg}");
            let (first, second) = (first.name, second.name);
            let said = format!(
                "as wide as on dear; red: functions that execute more on {second} than on {first}"
            );
            assert!(svg.contains(&said), "{svg}");
        }
    }

    #[test]
    fn functions_that_did_not_change_are_white_though_their_callers_were_inlined() {
        let of = |stacks: &[(&str, u64)]| -> Stacks {
            let stacks = stacks.iter().map(|(frames, count)| {
                let frames = frames.split(';').map(str::to_owned);
                (frames.collect(), *count)
            });
            stacks.collect()
        };
        let fills = |first: &Stacks, second: &Stacks| -> Vec<String> {
            let [first, second] =
                [("a", first), ("b", second)].map(|(name, stacks)| OfKernel { name, stacks });
            let svg = difference(first, second, "unmap").unwrap();
            let frames = svg.split("<svg id=\"frames\"").nth(1).unwrap();
            let fills = frames.split(" fill=\"rgb(").skip(1);
            fills
                .map(|rest| rest.split(')').next().unwrap().to_owned())
                .collect()
        };
        let called = of(&[("r;zap;set;emulate_[j]", 1000), ("r;zap;set_[k]", 50)]);
        let inlined = of(&[("r;zap;emulate_[j]", 1000), ("r;zap", 50)]);
        for (first, second) in [(&called, &inlined), (&inlined, &called)] {
            let fills = fills(first, second);
            assert!(
                fills.len() > 3 && fills.iter().all(|fill| fill == "250,250,250"),
                "{fills:?}"
            );
        }
        let dearer = of(&[("r;zap;emulate_[j]", 1100), ("r;zap", 50)]);
        let fills = fills(&inlined, &dearer);
        let red = fills.iter().filter(|fill| fill.starts_with("255,"));
        // The function, and the sum of its row.
        assert_eq!(red.count(), 2, "{fills:?}");
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
