//! Every reader of files that pagetoll did not write, each as a function of bytes that must return.
//!
//! For tests alone: `fuzz/` drives these functions by coverage, `tests/hostile.rs` with a few thousand inputs. An input is
//! the file itself, or a script of changes to a valid one ([`Reader::expand`]), so that what is read is mostly valid.

mod captures;
mod counters;
mod edit;
mod images;
mod seeds;
mod text;
mod values;

use edit::Shape;
use pagetoll_units::budget::most_memory;

/// A reader, and how to make inputs for it.
pub struct Reader {
    /// Its name in corpus folders and on command lines.
    pub name: &'static str,
    shape: Shape,
    seeds: fn() -> Vec<Vec<u8>>,
    read: fn(&[u8]),
    /// A capture is compared with itself: two files are read.
    is_compared: bool,
}

/// All of them.
pub static ALL: [Reader; 23] = [
    reader("trace", Shape::Bytes, seeds::traces, text::trace),
    compared(reader(
        "capture",
        Shape::Bytes,
        captures::binary,
        captures::read,
    )),
    compared(reader(
        "capture-text",
        Shape::Text,
        captures::text,
        captures::read,
    )),
    reader("ftrace", Shape::Text, seeds::ftrace, text::ftrace),
    reader("perf-data", Shape::Bytes, seeds::perf_data, text::perf_data),
    reader(
        "trace-text",
        Shape::Text,
        seeds::trace_texts,
        text::trace_text,
    ),
    reader(
        "lock-profile",
        Shape::Text,
        seeds::lock_profiles,
        text::lock_profile,
    ),
    reader("bill", Shape::Json, seeds::bills, values::bill),
    reader("diff", Shape::Json, seeds::pairs_of_bills, values::diff),
    reader(
        "cost-table",
        Shape::Toml,
        seeds::cost_tables,
        values::cost_table,
    ),
    reader(
        "published",
        Shape::Toml,
        seeds::published,
        values::published,
    ),
    reader("kernel", Shape::Bytes, seeds::kernels, images::kernel),
    reader("xen", Shape::Bytes, seeds::xens, images::xen),
    reader("console", Shape::Text, seeds::consoles, text::console),
    reader("script", Shape::Text, seeds::scripts, text::script),
    reader("patch", Shape::Text, seeds::patches, text::patch),
    reader(
        "stats-fd",
        Shape::Bytes,
        counters::stats_fds,
        counters::stats_fd,
    ),
    reader(
        "kvm-stat",
        Shape::Text,
        counters::kvm_stats,
        counters::kvm_stat,
    ),
    reader(
        "query-stats",
        Shape::Json,
        counters::query_stats,
        counters::qmp,
    ),
    reader(
        "kvm-debugfs",
        Shape::Text,
        counters::debugfs_dumps,
        counters::debugfs,
    ),
    reader(
        "domstats",
        Shape::Text,
        counters::domstats_dumps,
        counters::domstats,
    ),
    reader(
        "perf-kvm",
        Shape::Text,
        counters::perf_kvm_reports,
        counters::perf_kvm,
    ),
    reader(
        "bpftrace",
        Shape::Text,
        counters::bpftrace_outputs,
        counters::bpftrace,
    ),
];

const fn reader(
    name: &'static str,
    shape: Shape,
    seeds: fn() -> Vec<Vec<u8>>,
    read: fn(&[u8]),
) -> Reader {
    Reader {
        name,
        shape,
        seeds,
        read,
        is_compared: false,
    }
}

const fn compared(reader: Reader) -> Reader {
    Reader {
        is_compared: true,
        ..reader
    }
}

impl Reader {
    /// The reader of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|reader| reader.name == name)
    }

    /// Valid files.
    #[must_use]
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }

    /// The file that an input stands for. Its first byte chooses: the seed that the rest changes, or the rest itself.
    #[must_use]
    pub fn expand(&self, seeds: &[Vec<u8>], input: &[u8]) -> Vec<u8> {
        let Some((&choice, rest)) = input.split_first() else {
            return Vec::new();
        };
        match seeds.get(usize::from(choice) % (seeds.len() + 1)) {
            Some(seed) => self.shape.edited(seed, rest),
            None => rest.to_vec(),
        }
    }

    /// Reads a file to its end and does with it what the commands do. Errors are answers; a panic is a defect.
    pub fn read(&self, file: &[u8]) {
        (self.read)(file);
    }
    /// The memory that [`read`](Self::read) takes at most of a file of so many bytes, without the file.
    #[must_use]
    pub const fn most_memory(&self, bytes: usize) -> usize {
        most_memory(bytes << self.is_compared as usize)
    }
}
