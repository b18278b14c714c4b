//! Who called what, as boxes: a flame graph that hangs from its root.

use pagetoll_bill::profile::Part;
use serde::Serialize;

use crate::document::Frame;
use crate::harmless;

/// In units of the drawing; its text is as large as that of tables.
const WIDTH: f64 = 1000.0;
const HEIGHT: u32 = 18;
/// Of a letter, about.
const LETTER: f64 = 6.6;
/// Names of fewer letters say nothing.
const LEAST_LETTERS: usize = 4;

/// The boxes of one row, as the template wants them.
#[derive(Serialize)]
pub(super) struct Boxes {
    height: u32,
    frames: Vec<Drawn>,
    /// Names and colours of the parts that are there.
    parts: Vec<Legend>,
}

#[derive(Serialize)]
struct Legend {
    name: &'static str,
    colour: usize,
}

#[derive(Serialize)]
struct Drawn {
    x: String,
    y: u32,
    width: String,
    colour: usize,
    title: String,
    /// As much of the name as there is room for.
    text: String,
}

pub(super) fn boxes(frames: &[Frame]) -> Boxes {
    let deepest = frames.iter().map(|frame| frame.depth).max();
    let parts = Part::ALL
        .iter()
        .filter(|part| frames.iter().any(|frame| frame.part == **part));
    Boxes {
        height: (deepest.unwrap_or_default() + 1) * HEIGHT,
        frames: frames.iter().map(drawn).collect(),
        parts: parts
            .map(|part| Legend {
                name: part.name(),
                colour: colour(*part),
            })
            .collect(),
    }
}

/// As the flame graphs in files of their own have them.
const fn colour(part: Part) -> usize {
    match part {
        Part::Probe => 0,
        Part::Kernel => 1,
        Part::Hypervisor => 2,
        Part::UserSpace => 3,
    }
}

fn drawn(frame: &Frame) -> Drawn {
    let width = frame.share * WIDTH;
    let title = harmless(&frame.label);
    Drawn {
        x: format!("{:.2}", frame.from * WIDTH),
        y: frame.depth * HEIGHT,
        width: format!("{width:.2}"),
        colour: colour(frame.part),
        text: fitting(title.split(':').next().unwrap_or_default(), width),
        title,
    }
}

fn fitting(name: &str, width: f64) -> String {
    let letters = (0..name.chars().count()).take_while(|count| {
        u32::try_from(count + 1).is_ok_and(|count| f64::from(count) * LETTER + 6.0 <= width)
    });
    match letters.count() {
        room if room >= name.chars().count() => name.to_owned(),
        room if room >= LEAST_LETTERS => name.chars().take(room - 1).chain(['…']).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_their_boxes() {
        assert_eq!(fitting("do_munmap", 100.0), "do_munmap");
        assert_eq!(fitting("do_munmap", 50.0), "do_mu…");
        assert_eq!(fitting("do_munmap", 20.0), "");
    }
}
