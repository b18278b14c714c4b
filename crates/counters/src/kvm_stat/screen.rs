//! The screen of kvm_stat, as people copy it from the terminal, and `kvm_stat -1`: a row for each counter, with its total
//! since kvm_stat began (with `-i`, since the VM began) and what it grew by in a second.
//!
//! | since | columns |
//! |---|---|
//! | 2008, in QEMU | name, total, a second; no heading |
//! | Linux 4.5 | the same below `Event Total Current` |
//! | 4.12, 4.14 | with `%Total`; `Current` is called `CurAvg/s` |
//! | 4.18 | children indented below the event that they are part of, and a last row `Total`, which is without them |
//!
//! A rate is empty where nothing grew. The row `Total` tells that rows are missing: the screen ends where the terminal does.
//!
//! Source: the class `Tui` and the function `batch` of `tools/kvm/kvm_stat/kvm_stat`, Linux 4.5 to 7.3.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pagetoll_observation::{Capture, Group, Item, Observation, Tally};
use pagetoll_text::{Line, Position, ReadError, Stop, each_line, first_lines};

use super::{is_name, is_of_kvm};

/// Lines above which a screen begins at the latest: prompts and prose are passed over.
const LINES: usize = 64;
/// Digits of a number of `%10d`: with more, it touches the next, or that covers its end.
const MOST_DIGITS: usize = 10;

const TITLE: &str = "kvm statistics";
const TOTAL: &str = "Total";
const ALL: &str = "all VMs";

/// Recognises a title, a heading, a row with a share, or a first line of a name and two numbers.
pub(super) fn is(bytes: &[u8]) -> bool {
    let mut lines = first_lines(bytes).take(LINES).map(without_bar);
    let first = lines.next().unwrap_or_default();
    let is_named = |line: &str| line.starts_with(TITLE) || Heading::read(line).is_some();
    let is_row = |line| Row::with_share(line).is_some_and(|row| is_of_kvm(&row.name));
    Row::pair(first).is_some_and(|row| is_of_kvm(&row.name) && row.rate.is_some())
        || std::iter::once(first)
            .chain(lines)
            .any(|line| is_named(line) || is_row(line))
}

/// Reads the screens of a file, each a party.
///
/// # Errors
/// [`ReadError`], where there is no row, or where two numbers of one touch.
pub(crate) fn read(bytes: &[u8], capture: Capture) -> Result<Observation, ReadError> {
    let mut screens = Screens {
        tally: Tally::new(bytes.len()),
        name: ALL.to_owned(),
        heading: None,
        screen: None,
        begun: 0,
    };
    let ended = each_line(bytes, is_total, |line| screens.line(line));
    let ended = screens.end().map_err(Stop::from).and(ended);
    let expected = "rows NAME TOTAL [SHARE] [A SECOND] of kvm_stat";
    screens.tally.finish(ended, is(bytes), expected, capture)
}

/// The last row of a screen, of which the total is whole, and the rate is not read.
fn is_total(line: &str) -> bool {
    Row::total(without_bar(line)).is_some_and(|row| row.rate.is_some())
}

/// The group and the name of a counter: a child says its value, `kvm_exit(EPT_VIOLATION)`.
pub(crate) fn event(name: &str) -> (Group, Cow<'_, str>) {
    let value = |event| {
        name.strip_prefix(event)?
            .strip_prefix('(')?
            .strip_suffix(')')
    };
    if let Some(reason) = value("kvm_exit") {
        return (Group::Exits, reason.into());
    }
    if let Some(reason) = value("kvm_userspace_exit") {
        return (Group::ToUserSpace, format!("KVM_EXIT_{reason}").into());
    }
    (Group::Counters, name.into())
}

/// Columns below a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heading {
    has_shares: bool,
    /// Rows are VMs with the sum of their counters, by the key `b`.
    of_guests: bool,
}

impl Heading {
    /// `Event Total %Total CurAvg/s`.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().take(6).collect();
        let (of_guests, columns) = match words.as_slice() {
            ["Event", columns @ ..] => (false, columns),
            ["Guest", "Name", columns @ ..] => (true, columns),
            _ => return None,
        };
        let has_shares = match columns {
            [TOTAL, "%Total", "Current" | "CurAvg/s"] => true,
            [TOTAL, "Current" | "CurAvg/s"] => false,
            _ => return None,
        };
        Some(Self {
            has_shares,
            of_guests,
        })
    }
}

/// A row.
struct Row<'a> {
    name: Cow<'a, str>,
    total: i64,
    /// In a second.
    rate: Option<i64>,
}

impl<'a> Row<'a> {
    fn new(name: &[&'a str], total: &str, rate: Option<&str>) -> Option<Self> {
        let rate = rate.map(str::parse).transpose().ok()?;
        let name = match name {
            [] => return None,
            [name] => Cow::Borrowed(*name),
            words => words.join(" ").into(),
        };
        let total = total.parse().ok()?;
        Some(Self { name, total, rate })
    }

    fn with_share(line: &'a str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_share = |word: &str| word.contains('.') && word.parse::<f64>().is_ok();
        match words.as_slice() {
            [name @ .., total, share, rate] if is_share(share) => {
                Self::new(name, total, Some(rate))
            }
            [name @ .., total, share] if is_share(share) => Self::new(name, total, None),
            _ => None,
        }
    }

    /// Name, total, and a rate where something grew.
    fn pair(line: &'a str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [name @ .., total, rate] if total.parse::<i64>().is_ok() => {
                Self::new(name, total, Some(rate))
            }
            [name @ .., total] => Self::new(name, total, None),
            [] => None,
        }
    }

    fn total(line: &'a str) -> Option<Self> {
        Self::pair(line).filter(|row| row.name == TOTAL)
    }
}

/// A line without what a page has put before and behind it.
fn without_bar(line: &str) -> &str {
    let line = line.trim_start();
    line.strip_prefix('|')
        .map_or(line, |line| line.trim_end().trim_end_matches('|'))
}

/// The screen that is being read.
#[derive(Default)]
struct Screen {
    /// Rows by name.
    known: BTreeMap<String, (i64, Option<i64>)>,
    /// The last row that is no child, and its indentation.
    parent: (String, usize),
    /// Sum of the rows that are no children.
    sum: i64,
    /// The row `Total`.
    total: Option<(Position, i64)>,
}

struct Screens {
    tally: Tally,
    /// Whose the next screen is.
    name: String,
    heading: Option<Heading>,
    screen: Option<Screen>,
    begun: usize,
}

impl Screens {
    fn line(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        let text = without_bar(line.text);
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Ok(());
        }
        if let Some(title) = trimmed.strip_prefix(TITLE) {
            self.title(title)
        } else if let Some(heading) = Heading::read(trimmed) {
            self.end()?;
            self.heading = Some(heading);
            Ok(())
        } else if let Some(filter) = trimmed.strip_prefix("regex filter: ") {
            let what = format!("(rows that the filter {filter} leaves out)");
            Ok(self.tally.note(line.place, &what, 1)?)
        } else if let (Some(row), Some(screen)) = (Row::total(trimmed), &mut self.screen) {
            screen.total = Some((line.place, row.total));
            Ok(())
        } else {
            let bare = line.text.trim_start_matches('|');
            let indent = bare.len() - bare.trim_start().len();
            self.row(line.place, trimmed, indent)
        }
    }

    /// `kvm statistics - pid 4711 (guest)`.
    fn title(&mut self, title: &str) -> Result<(), Stop> {
        self.end()?;
        let title = title.replace("Guest is DEAD", "");
        let pid = title.trim().trim_start_matches("- ").strip_prefix("pid ");
        self.name = pid.map_or_else(|| ALL.to_owned(), |pid| format!("VM {}", pid.trim()));
        Ok(())
    }

    /// Takes in a row. One that is there again in another state is of the next screen.
    fn row(&mut self, place: Position, text: &str, indent: usize) -> Result<(), Stop> {
        let Some(row) = self.parsed(place, text)? else {
            self.tally.pass_over(place, text);
            return Ok(());
        };
        let figures = (row.total, row.rate);
        let known = self
            .screen
            .as_ref()
            .and_then(|screen| screen.known.get(&*row.name));
        match known {
            Some(known) if *known == figures => return Ok(()),
            Some(_) => self.end()?,
            None => {}
        }
        self.begin(place)?;
        let Some(screen) = &mut self.screen else {
            return Ok(());
        };
        self.tally.keep(place, row.name.len())?;
        screen.known.insert(row.name.to_string(), figures);
        let (mut group, mut name) = event(&row.name);
        let is_child =
            row.name.ends_with(')') || !screen.parent.0.is_empty() && indent > screen.parent.1 + 1;
        if is_child && group == Group::Counters && !row.name.starts_with(&screen.parent.0) {
            name = format!("{}: {}", screen.parent.0, row.name).into();
        }
        if self.heading.is_some_and(|heading| heading.of_guests) {
            (group, name) = (
                Group::Counters,
                format!("{}, all counters", row.name).into(),
            );
        } else if !is_child {
            screen.parent = (row.name.to_string(), indent);
        }
        if !is_child {
            screen.sum = screen.sum.saturating_add(row.total);
        }
        self.add(place, Item::counted(group, name, 0), &row)
    }

    /// A row by the heading; without one, of the kind that it looks like.
    fn parsed<'a>(&self, place: Position, text: &'a str) -> Result<Option<Row<'a>>, ReadError> {
        let row = match self.heading {
            Some(heading) if heading.has_shares => Row::with_share(text),
            Some(_) => Row::pair(text),
            None => Row::with_share(text).or_else(|| Row::pair(text)),
        };
        let of_guests = self.heading.is_some_and(|heading| heading.of_guests);
        if let (false, Some((name, number))) = (of_guests, text.split_once(char::is_whitespace))
            && is_name(name)
            && number.trim().len() > MOST_DIGITS
            && number.trim().bytes().all(|byte| byte.is_ascii_digit())
        {
            let expected = "NAME TOTAL CHANGE, two numbers that do not touch";
            return Err(ReadError::expected(place, "line", expected, text));
        }
        Ok(row.filter(|row| of_guests || is_name(&row.name)))
    }

    fn begin(&mut self, place: Position) -> Result<(), Stop> {
        if self.screen.is_some() {
            return Ok(());
        }
        self.begun += 1;
        let name = match self.begun {
            1 => self.name.clone(),
            number => format!("{}, screen {number}", self.name),
        };
        self.tally.begin(place, name)?;
        self.screen = Some(Screen::default());
        Ok(())
    }

    fn add(&mut self, place: Position, item: Item, row: &Row<'_>) -> Result<(), Stop> {
        let Ok(count) = u64::try_from(row.total) else {
            self.tally
                .note(place, "(counters that went backwards)", 1)?;
            return Ok(());
        };
        let per_second = row.rate.map(rate);
        if count > 0 || row.rate.is_some_and(|rate| rate != 0) {
            let item = Item {
                count,
                per_second,
                ..item
            };
            self.tally.add(place, item)?;
        }
        Ok(())
    }

    /// Ends a screen, and notes what its last row counts and no other.
    fn end(&mut self) -> Result<(), pagetoll_text::Truncated> {
        let Some(Screen { sum, total, .. }) = self.screen.take() else {
            return Ok(());
        };
        let Some((place, total)) = total else {
            return Ok(());
        };
        let (what, difference) = match total > sum {
            true => ("(counted in Total and in no row)", total.abs_diff(sum)),
            false => ("(counted in rows and not in Total)", sum.abs_diff(total)),
        };
        match difference {
            0 => Ok(()),
            difference => self.tally.note(place, what, difference),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^53")]
const fn rate(rate: i64) -> f64 {
    rate as f64
}

#[cfg(test)]
mod tests;
