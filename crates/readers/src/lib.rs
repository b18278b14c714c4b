//! Every reader of files that pagetoll did not write, each as a function of bytes that must return.
//!
//! For tests alone: `fuzz/` drives these functions by coverage, `tests/hostile.rs` with a few thousand inputs. An input is
//! the file itself, or a script of changes to a valid one ([`Reader::expand`]), so that what is read is mostly valid. Texts
//! are also read joined, as a mail has several: libFuzzer takes 0.2 ms around each call, however short its file is.

mod captures;
mod edit;
mod images;
mod seeds;
mod text;
mod values;

use std::sync::LazyLock;

use edit::Shape;
use pagetoll_captures::{FORMATS, Format};
use pagetoll_units::budget::most_memory;

/// A reader, and how to make inputs for it.
pub struct Reader {
    /// Its name in corpus folders and on command lines.
    pub name: String,
    /// Valid files.
    pub seeds: Vec<Vec<u8>>,
    /// The shape of each.
    shapes: Vec<Shape>,
    /// The texts among them below each other, up to [`JOINED`] bytes; empty where there is none.
    joined: Vec<u8>,
    content: Content,
}

/// Bytes of the joined seeds: some tables of a mail.
const JOINED: usize = 16 << 10;
/// First byte of an input that changes the joined seeds.
const OF_JOINED: u8 = 254;
/// First byte of an input that is the file itself.
const OF_FILE: u8 = 255;

/// Content that is read.
#[derive(Clone, Copy)]
enum Content {
    /// A file by a reader of its own.
    Own(fn(&[u8])),
    /// A capture, whatever its content looks like, or of a format that is to be recognised.
    Capture(Option<&'static Format>),
}

/// All readers: one for each format of captures, one that recognises them, and those of other files.
pub static ALL: LazyLock<Vec<Reader>> = LazyLock::new(|| {
    let of_captures = |name, format| {
        let seeds = captures::seeds(format);
        Reader {
            name,
            shapes: seeds.iter().map(|seed| Shape::guess(seed)).collect(),
            joined: joined(&seeds),
            seeds,
            content: Content::Capture(format),
        }
    };
    let formats = FORMATS.iter();
    let formats = formats.map(|format| of_captures(captures::slug(format.name), Some(format)));
    let recognised = of_captures("capture".to_owned(), None);
    let others = OTHERS.iter().map(|other| {
        let seeds = (other.seeds)();
        Reader {
            name: other.name.to_owned(),
            shapes: vec![other.shape; seeds.len()],
            joined: Vec::new(),
            seeds,
            content: Content::Own(other.read),
        }
    });
    formats.chain([recognised]).chain(others).collect()
});

/// The texts among files below each other, again and again.
fn joined(files: &[Vec<u8>]) -> Vec<u8> {
    let texts = files.iter().filter(|file| str::from_utf8(file).is_ok());
    let lines: Vec<_> = texts
        .flat_map(|text| text.split(|&byte| byte == b'\n'))
        .collect();
    let mut joined = Vec::new();
    for line in lines.iter().cycle() {
        if joined.len() + line.len() >= JOINED {
            break;
        }
        joined.extend(*line);
        joined.push(b'\n');
    }
    joined
}

struct Other {
    name: &'static str,
    shape: Shape,
    seeds: fn() -> Vec<Vec<u8>>,
    read: fn(&[u8]),
}

const fn other(
    name: &'static str,
    shape: Shape,
    seeds: fn() -> Vec<Vec<u8>>,
    read: fn(&[u8]),
) -> Other {
    Other {
        name,
        shape,
        seeds,
        read,
    }
}

#[rustfmt::skip]
static OTHERS: [Other; 12] = [
    other("windows", Shape::Bytes, seeds::traces, text::windows),
    other("lock-profile", Shape::Text, seeds::lock_profiles, text::lock_profile),
    other("bill", Shape::Json, seeds::bills, values::bill),
    other("diff", Shape::Json, seeds::pairs_of_bills, values::diff),
    other("cost-table", Shape::Toml, seeds::cost_tables, values::cost_table),
    other("published", Shape::Toml, seeds::published, values::published),
    other("kernel", Shape::Bytes, seeds::kernels, images::kernel),
    other("xen", Shape::Bytes, seeds::xens, images::xen),
    other("mapped-ram", Shape::Bytes, seeds::mapped_rams, images::mapped_ram),
    other("console", Shape::Text, seeds::consoles, text::console),
    other("script", Shape::Text, seeds::scripts, text::script),
    other("patch", Shape::Text, seeds::patches, text::patch),
];

impl Reader {
    /// The reader of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|reader| reader.name == name)
    }

    /// The file that an input stands for. Its first byte chooses: the seed that the rest changes, or the rest itself, which
    /// 255 always stands for; 254 stands for the joined seeds, where there are some.
    #[must_use]
    pub fn expand(&self, input: &[u8]) -> Vec<u8> {
        let Some((&choice, rest)) = input.split_first() else {
            return Vec::new();
        };
        if choice == OF_JOINED && !self.joined.is_empty() {
            return Shape::Text.edited(&self.joined, rest);
        }
        let mut seeds = self.seeds.iter().zip(&self.shapes);
        match seeds.nth(usize::from(choice) % (self.seeds.len() + 1)) {
            Some((seed, shape)) if choice != OF_FILE => shape.edited(seed, rest),
            _ => rest.to_vec(),
        }
    }

    /// Inputs to begin with: each seed and the joined ones, as scripts without a change and as files.
    #[must_use]
    pub fn inputs(&self) -> Vec<Vec<u8>> {
        let scripts = (0..OF_JOINED).take(self.seeds.len()).chain([OF_JOINED]);
        let files = self.seeds.iter().chain([&self.joined]);
        let files = files.map(|file| [&[OF_FILE], file.as_slice()].concat());
        scripts.map(|choice| vec![choice]).chain(files).collect()
    }

    /// Reads a file to its end and does with it what the commands do. Errors are answers; a panic is a defect. False for a
    /// capture that is refused.
    pub fn read(&self, file: &[u8]) -> bool {
        match self.content {
            Content::Own(read) => {
                read(file);
                true
            }
            Content::Capture(format) => captures::read(format, file),
        }
    }

    /// Reads a file to its end; false for a capture that is refused. What [`read`](Self::read) does with a capture afterwards
    /// takes several times as long as a table of some hundred bytes, and is the same for all formats.
    pub fn observe(&self, file: &[u8]) -> bool {
        match self.content {
            Content::Own(_) => self.read(file),
            Content::Capture(format) => captures::observed(format, file).is_some(),
        }
    }

    /// The memory that [`read`](Self::read) takes at most of a file of so many bytes, without the file. A capture is
    /// compared with itself: two files are read.
    #[must_use]
    pub const fn most_memory(&self, bytes: usize) -> usize {
        match self.content {
            Content::Own(_) => most_memory(bytes),
            Content::Capture(_) => most_memory(2 * bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined_line_by_line_and_files_are_not() {
        let files = [b"a\nbc".to_vec(), vec![0xff], b"d\n".to_vec()];
        let text = joined(&files);
        assert!(text.starts_with(b"a\nbc\nd\n\na\n"));
        assert_eq!(text.len(), JOINED);
        assert!(joined(&files[1..2]).is_empty() && joined(&[vec![]]).len() == JOINED);
    }

    #[test]
    fn the_first_byte_of_an_input_chooses_its_file() {
        let reader = Reader::named("perf-stat").unwrap();
        let inputs = reader.inputs();
        assert_eq!(inputs.len(), 2 * (reader.seeds.len() + 1));
        let (scripts, files) = inputs.split_at(inputs.len() / 2);
        for (script, file) in scripts.iter().zip(files) {
            assert_eq!(reader.expand(script), file[1..]);
            assert!(reader.observe(&file[1..]));
        }
        assert_eq!(reader.expand(&[OF_FILE, b'x']), b"x");
        assert!(!reader.observe(b"x"));
    }
}
