//! The heading of a table: its columns, from the name of the event on.

use pagetoll_units::Nanos;

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Samples,
    SamplesShare,
    TimeShare,
    Time,
    Shortest,
    Longest,
    Mean,
}

/// The words of headings, longer ones before those that they begin with: `print_result`, and the table of `dimensions`.
const WORDS: [(&str, Column); 12] = [
    ("Samples%", Column::SamplesShare),
    ("Sample%", Column::SamplesShare),
    ("Samples", Column::Samples),
    ("Time%", Column::TimeShare),
    ("Time (ns)", Column::Time),
    ("Min Time (ns)", Column::Shortest),
    ("Min Time", Column::Shortest),
    ("Max Time (ns)", Column::Longest),
    ("Max Time", Column::Longest),
    ("Mean Time (ns)", Column::Mean),
    ("Avg time", Column::Mean),
    ("Avg Time", Column::Mean),
];

/// A heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heading {
    /// Event that is counted.
    pub(super) event: String,
    /// The columns behind the name, with the words above them.
    pub(super) columns: Vec<(&'static str, Column)>,
    /// It is not in the text: the columns are those that perf prints.
    pub(super) is_assumed: bool,
}

impl Heading {
    /// Reads a heading: a name, and columns of which one has samples and one their time or its mean. The browser shows the
    /// columns for which the window is wide enough.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line = &line.replace("Time(ns)", "Time (ns)");
        let at = WORDS.iter().filter_map(|(word, _)| line.find(word)).min()?;
        let (event, mut rest) = (line[..at].trim(), line[at..].trim());
        let mut columns = Vec::new();
        while !rest.is_empty() && columns.len() <= WORDS.len() {
            let (word, column) = WORDS.iter().find(|(word, _)| rest.starts_with(word))?;
            columns.push((*word, *column));
            rest = rest[word.len()..].trim_start();
        }
        let has = |column| columns.iter().any(|of| of.1 == column);
        let has_time = has(Column::Mean) || has(Column::Time);
        let sound = !event.is_empty() && has(Column::Samples) && has_time;
        sound.then(|| Self {
            event: event.to_owned(),
            columns,
            is_assumed: false,
        })
    }

    /// The heading of a row that was copied without it: a count, two shares, and the shortest, the longest and the mean time;
    /// in old ones, the mean alone.
    pub(super) fn of_row(line: &str) -> Option<Self> {
        let (figures, deviation) = match line.split_once("( +-") {
            Some((figures, _)) => (figures, true),
            None => (line, false),
        };
        let mut words = figures.split_whitespace().rev().peekable();
        let mut count = |is: fn(&str) -> bool| {
            std::iter::from_fn(|| words.next_if(|word| is(word)))
                .take(4)
                .count()
        };
        let times = count(|word| time(word).is_some());
        let shares = count(|word| word.len() > 1 && word.ends_with('%'));
        let counts = count(|word| word.parse::<u64>().is_ok());
        let has_name = words.next().is_some();
        let of_times: &[_] = match times {
            3 => &[
                ("Min Time", Column::Shortest),
                ("Max Time", Column::Longest),
            ],
            1 if deviation => &[],
            _ => return None,
        };
        let mut columns = vec![
            ("Samples", Column::Samples),
            ("Samples%", Column::SamplesShare),
            ("Time%", Column::TimeShare),
        ];
        columns.extend(of_times);
        columns.push(("Avg time", Column::Mean));
        (shares == 2 && counts == 1 && has_name).then(|| Self {
            event: "VM-EXIT".to_owned(),
            columns,
            is_assumed: true,
        })
    }

    /// Tells a whole row, at least half of whose columns have a digit, from a message, prose, or a part of a row.
    pub(super) fn is_row(&self, line: &str) -> bool {
        let figures = line.split("( +-").next().unwrap_or_default();
        let words = figures.split_whitespace().rev().take(self.len());
        let has_digit = |word: &&str| word.contains(|c: char| c.is_ascii_digit());
        words.filter(has_digit).count() * 2 >= self.len()
            && figures.split_whitespace().count() > self.len()
    }

    /// The columns that stand between the name and the mean, and the mean.
    pub(super) fn len(&self) -> usize {
        self.columns.len()
    }
}

/// `185.72us`, `185ns`.
pub(super) fn time(text: &str) -> Option<Nanos> {
    if let Some(micros) = text.strip_suffix("us") {
        return hundredths(micros)?.checked_mul(10).map(Nanos);
    }
    text.strip_suffix("ns")?.parse().ok().map(Nanos)
}

/// A number with two decimals, behind a point, or a comma in some languages.
pub(super) fn hundredths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once(['.', ','])?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if part.len() != 2 || !digits(part) || !digits(whole) {
        return None;
    }
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(100)?
        .checked_add(part.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_the_text_and_of_the_browser_are_read() {
        let text = "   IO Port Access    Samples  Samples%     Time%    Min Time    Max Time         Avg time ";
        let heading = Heading::read(text).unwrap();
        assert_eq!(
            (heading.event.as_str(), heading.len()),
            ("IO Port Access", 6)
        );
        let browser = "Event name   Samples   Sample%   Time (ns)   Time%   Max Time (ns)   Min Time (ns)   Mean Time (ns)";
        let columns: Vec<_> = Heading::read(browser)
            .unwrap()
            .columns
            .iter()
            .map(|column| column.1)
            .collect();
        let expected = [
            Column::Samples,
            Column::SamplesShare,
            Column::Time,
            Column::TimeShare,
            Column::Longest,
            Column::Shortest,
            Column::Mean,
        ];
        assert_eq!(columns, expected);
    }

    #[test]
    fn a_row_without_its_heading_has_the_columns_of_perf() {
        let of = |row| Heading::of_row(row).map(|heading| heading.len());
        assert_eq!(
            of("EPT_VIOLATION 100 50.00% 60.00% 1.00us 9.00us 3.00us ( +- 1.00% )"),
            Some(6)
        );
        assert_eq!(
            of("External interrupt 100 50.00% 60.00% 1.00us 9.00us 3.00us"),
            Some(6)
        );
        assert_eq!(of("HLT 100 50.00% 60.00% 3.00us ( +- 1.00% )"), Some(4));
        for line in [
            "EPT_VIOLATION 100 50.00% 60.00% 1.00us",
            "100 50.00% 60.00% 1.00us 9.00us 3.00us",
            "it took 3.00us of 5% and 7%",
            "HLT 1 2 50.00% 60.00% 1.00us 2.00us 3.00us",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "Total Samples:1913, Total events handled time:1723075.60us.",
            "Samples Avg time",
            "x Samples",
            "x Samples Max Time",
            "Samples Time (ns)",
            "Time%",
        ] {
            assert_eq!(Heading::read(line), None, "{line}");
        }
    }
}
