//! Files that are no bills: what they look like, and the command that reads them.

use std::path::Path;

use pagetoll_captures::Format;
use serde::de::IgnoredAny;

/// Beginnings of files that are neither JSON nor captures.
const BEGINNINGS: [(&[u8], &str); 8] = [
    (b"<!DOCTYPE html", "an HTML page"),
    (b"<svg", "a picture"),
    (b"<?xml", "a picture"),
    (b"route,backend,", "a bill in CSV"),
    (b"schema = ", "a file in TOML"),
    (b"\x1f\x8b", "compressed by gzip"),
    (b"\xfd7zXZ", "compressed by xz"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
];

/// The problem of a file that does not begin as a JSON object does, and so is no bill; or of a capture in JSON.
pub(super) fn problem(file: &Path, head: &[u8]) -> Option<String> {
    let text = head.trim_ascii_start();
    let is_object = text.starts_with(b"{");
    if let Some(format) = Format::recognise(head) {
        return Some(format!(
            "a capture ({}), not a bill; use pagetoll read {}",
            format.name,
            file.display()
        ));
    }
    if is_object {
        return None;
    }
    let begins = |(beginning, _): &&(&[u8], &str)| text.starts_with(beginning);
    let look = match BEGINNINGS.iter().find(begins) {
        Some((_, look)) => look,
        None if head.is_empty() => "empty",
        None if text.starts_with(b"[") && is_json_so_far(text) => "a list in JSON",
        None => "not JSON",
    };
    Some(format!(
        "{look}; expected a bill of schema pagetoll.bill/1, as pagetoll bill -o FILE.json writes"
    ))
}

/// True for JSON, or the beginning of it.
fn is_json_so_far(text: &[u8]) -> bool {
    let read = serde_json::from_slice::<IgnoredAny>(text);
    read.err().is_none_or(|error| error.is_eof())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(head: &[u8]) -> String {
        let problem = problem(Path::new("FILE"), head).unwrap();
        problem.split("; ").next().unwrap().to_owned()
    }

    #[test]
    fn what_a_file_looks_like_is_said_with_the_command_that_reads_it() {
        assert_eq!(look(b""), "empty");
        assert_eq!(look(b"root:x:0:0:root:/root:/bin/bash\n"), "not JSON");
        assert_eq!(look(b"unmap on lab: get and clear page-table"), "not JSON");
        assert_eq!(look(b"[]"), "a list in JSON");
        assert_eq!(look(b"[{\"a\": 1"), "a list in JSON");
        assert_eq!(look(b"[workspace]\nresolver"), "not JSON");
        let html = include_bytes!("../../../../render/tests/data/sample-bill.html");
        assert_eq!(look(html), "an HTML page");
        let svg = include_bytes!("../../../../render/tests/data/sample-bill.svg");
        assert_eq!(look(svg), "a picture");
        let csv = include_bytes!("../../../../render/tests/data/sample-bill.csv");
        assert_eq!(look(csv), "a bill in CSV");
        let perf = problem(Path::new("vm.data"), b"PERFILE2\0\0\0\0").unwrap();
        assert_eq!(
            perf,
            "a capture (perf.data), not a bill; use pagetoll read vm.data"
        );
    }

    #[test]
    fn a_bill_is_not_mistaken() {
        let bill = include_bytes!("../../../../render/tests/data/sample-bill.json");
        let file = Path::new("bill.json");
        assert_eq!(problem(file, bill), None);
        assert_eq!(problem(file, b"\n {\"schema\": 1}"), None);
    }
}
