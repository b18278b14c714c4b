//! bcc's `kvmexit`: exits by reason, of each thread, of some, or of a process or a vCPU together.
//!
//! Columns are those of the heading: `PID TID KVM_EXIT_REASON COUNT`, `TID ..`, `TIDS ..`, or no thread. Reasons that the
//! tool has no name for are all `N/A`. Its seconds are the interval that was ordered, not one that was measured.
//!
//! Source: `tools/kvmexit.py` of bcc 0.21 to 0.35.

use std::collections::BTreeMap;

use pagetoll_observation::{Capture, Group, Item, Observation, Tally};
use pagetoll_text::{Line, Position, ReadError, Stop, each_line, first_lines};
use pagetoll_units::budget::in_tree;

/// Lines above which the table begins at the latest.
const LINES: usize = 64;

const TITLE: &str = "Display kvm exit reasons and statistics for ";
const REASON: &str = "KVM_EXIT_REASON";

/// Recognises the heading.
#[must_use]
pub fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).take(LINES);
    lines.any(|line| ids(line).is_some())
}

/// Reads a table, or several. Each thread is a party.
///
/// # Errors
/// [`ReadError`] with line and field.
pub fn observe(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let mut reader = Reader {
        tally: Tally::new(bytes.len()),
        name: None,
        seconds: None,
        ids: None,
        threads: BTreeMap::new(),
    };
    let ended = each_line(bytes, is_padded, |line| reader.line(line));
    let ended = reader.end(Position::Line(1)).and(ended);
    reader
        .tally
        .finish(ended, is(bytes), "a table of kvmexit", capture)
}

/// The columns before the reason, by the heading.
fn ids(line: &str) -> Option<usize> {
    let words: Vec<_> = line.split_whitespace().take(5).collect();
    match words.as_slice() {
        ["PID", "TID", REASON, "COUNT"] => Some(2),
        ["TID" | "TIDS", REASON, "COUNT"] => Some(1),
        [REASON, "COUNT"] => Some(0),
        _ => None,
    }
}

/// A row whose count is whole: `%-8u` puts spaces behind it.
fn is_padded(line: &str) -> bool {
    let mut words = line.split_whitespace().rev();
    let is_count = words
        .next()
        .is_some_and(|count| count.parse::<u64>().is_ok());
    let has_reason = words
        .next()
        .is_some_and(|word| word.parse::<u64>().is_err());
    line.ends_with(' ') && is_count && has_reason
}

/// Exits by reason, with the line of the first.
type Exits = BTreeMap<String, (Position, u64)>;

struct Reader {
    tally: Tally,
    /// Whose exits are counted, as the tool says above the table.
    name: Option<String>,
    seconds: Option<f64>,
    /// Columns before the reason; `None` above a table.
    ids: Option<usize>,
    /// By process and thread, as far as there are columns.
    threads: BTreeMap<Vec<u64>, Exits>,
}

impl Reader {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let text = line.text.trim();
        if let Some((_, title)) = text.split_once(TITLE) {
            self.end(line.place)?;
            self.title(title);
        } else if let Some(ids) = ids(text) {
            let is_next = self.ids.is_some();
            if is_next {
                self.end(line.place)?;
            }
            self.ids = Some(ids);
        } else if !text.is_empty() && !text.starts_with("^C") {
            match self.ids.and_then(|ids| row(text, ids)) {
                Some((thread, reason, count)) => self.row(line.place, thread, reason, count)?,
                None => self.tally.pass_over(line.place, line.text),
            }
        }
        Ok(())
    }

    /// `PID 4711 VCPU 0 after sleeping 20 secs.`, `all threads... Hit Ctrl-C to end.`
    fn title(&mut self, title: &str) {
        let (whose, slept) = match title.split_once(" after sleeping ") {
            Some((whose, slept)) => (whose, slept.split(' ').next()),
            None => (title.split("...").next().unwrap_or(title), None),
        };
        self.name = Some(whose.trim().to_owned());
        self.seconds = slept
            .and_then(|seconds| seconds.parse::<u32>().ok())
            .map(f64::from);
    }

    fn row(
        &mut self,
        place: Position,
        thread: Vec<u64>,
        reason: &str,
        count: u64,
    ) -> Result<(), Stop> {
        if !self.threads.contains_key(&thread) {
            self.tally.keep(place, in_tree::<Vec<u64>, Exits>() + 16)?;
        }
        let exits = self.threads.entry(thread).or_default();
        if !exits.contains_key(reason) {
            self.tally
                .keep(place, in_tree::<String, (Position, u64)>() + reason.len())?;
        }
        let (_, sum) = exits.entry(reason.to_owned()).or_insert((place, 0));
        *sum = sum.saturating_add(count);
        Ok(())
    }

    fn end(&mut self, place: Position) -> Result<(), Stop> {
        self.ids = None;
        let name = self.name.take().unwrap_or_else(|| "a process".to_owned());
        let seconds = self.seconds.take();
        for (thread, exits) in std::mem::take(&mut self.threads) {
            let name = match thread.as_slice() {
                [process, thread] => format!("process {process}, thread {thread}"),
                [thread] => format!("thread {thread}"),
                _ => name.clone(),
            };
            self.tally.begin(place, name)?;
            if let Some(party) = self.tally.party() {
                party.seconds = seconds;
            }
            for (reason, (place, count)) in exits {
                self.tally
                    .add(place, Item::counted(Group::Exits, reason, count))?;
            }
        }
        Ok(())
    }
}

/// Thread, reason and count of a row.
fn row(line: &str, ids: usize) -> Option<(Vec<u64>, &str, u64)> {
    let words: Vec<_> = line.split_whitespace().take(ids + 3).collect();
    let (thread, row) = words.split_at_checked(ids)?;
    let [reason, count] = row else {
        return None;
    };
    let thread: Result<Vec<u64>, _> = thread.iter().map(|id| id.parse()).collect();
    let is_reason = reason.starts_with(|c: char| c.is_ascii_uppercase());
    let reason = reason.strip_prefix("EXIT_REASON_").unwrap_or(reason);
    Some((thread.ok()?, reason, count.parse().ok()?)).filter(|_| is_reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(text: &str) -> Vec<(String, String, u64)> {
        let read = observe(text.as_bytes(), Capture::default()).unwrap();
        let parties = read.parties.into_iter();
        let rows = parties.flat_map(|party| {
            let name = party.name;
            let items = party.items.into_iter();
            items.map(move |item| (name.clone(), item.name, item.count))
        });
        rows.collect()
    }

    #[test]
    fn each_table_has_the_columns_of_its_heading() {
        let all = "\
Display kvm exit reasons and statistics for all threads... Hit Ctrl-C to end.
^C
PID      TID      KVM_EXIT_REASON                     COUNT
4711     4720     EXIT_REASON_MSR_WRITE               6       
4711     4721     HLT                                 12      
4711     4721     N/A                                 1       
4711     4721     N/A                                 2       
";
        assert!(is(all.as_bytes()));
        let row = |name: &str, reason: &str, count| (name.to_owned(), reason.to_owned(), count);
        let expected = [
            row("process 4711, thread 4720", "MSR_WRITE", 6),
            row("process 4711, thread 4721", "HLT", 12),
            row("process 4711, thread 4721", "N/A", 3),
        ];
        assert_eq!(rows(all), expected);
        let vcpu = "\
Display kvm exit reasons and statistics for PID 4711 VCPU 0 after sleeping 20 secs.
KVM_EXIT_REASON                     COUNT
MSR_WRITE                           80
";
        assert_eq!(rows(vcpu), [row("PID 4711 VCPU 0", "MSR_WRITE", 80)]);
        let seconds = observe(vcpu.as_bytes(), Capture::default())
            .unwrap()
            .parties[0]
            .seconds;
        assert_eq!(seconds, Some(20.0));
        assert_eq!(
            rows("TIDS     KVM_EXIT_REASON    COUNT\n7 HLT 5\n8 HLT 6 \n"),
            [row("thread 7", "HLT", 5), row("thread 8", "HLT", 6)]
        );
    }

    proptest! {
        /// Text as the tool prints it, cut anywhere: whole rows, or a word.
        #[test]
        fn what_is_printed_is_read(
            truth in prop::collection::btree_map((1..9_u64, 1..9_u64, "[A-Z][A-Z_]{1,8}"), 1..1_u64 << 40, 1..9),
            cut in any::<usize>(),
            returns: bool,
        ) {
            let mut text = format!("PID      TID      {:<35} COUNT\n", REASON);
            for ((process, thread, reason), count) in &truth {
                text += &format!("{process:<8} {thread:<8} {reason:<35} {count:<8}\n");
            }
            if returns {
                text = text.replace('\n', "\r\n");
            }
            let cut = &text[..cut % (text.len() + 1)];
            let Ok(read) = observe(cut.as_bytes(), Capture::default()) else {
                return Ok(());
            };
            let mut found = 0;
            for party in &read.parties {
                for item in &party.items {
                    let of_item = truth.iter().find(|((process, thread, reason), _)| {
                        *reason == item.name && party.name == format!("process {process}, thread {thread}")
                    });
                    prop_assert_eq!(of_item.map(|row| *row.1), Some(item.count), "{}", cut);
                    found += 1;
                }
            }
            let said = read.capture.truncated.is_some() || !read.capture.unknown.is_empty();
            let is_whole = found + 1 == cut.lines().filter(|line| !line.trim().is_empty()).count();
            prop_assert!(said || is_whole, "{}", cut);
        }
    }
}
