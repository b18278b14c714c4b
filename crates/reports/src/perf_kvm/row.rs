//! A line of a table.

use pagetoll_text::{Line, Position, ReadError};
use pagetoll_units::Nanos;

use super::column::{self, Column, Heading, hundredths};

/// Counts and times of one reason to leave the guest, until the vCPU entered it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reason {
    /// Name by perf: `npf`, `EPT_VIOLATION`, `0x3f8:POUT`.
    pub(crate) name: String,
    /// Occurrences.
    pub(crate) samples: u64,
    /// Share of all samples, in hundredths of a percent.
    pub(crate) samples_share: Option<u32>,
    /// Share of the time of all samples, in hundredths of a percent.
    pub(crate) time_share: Option<u32>,
    /// All its samples together; the text does not have it.
    pub(crate) time: Option<Nanos>,
    /// The shortest.
    pub(crate) shortest: Option<Nanos>,
    /// The longest.
    pub(crate) longest: Option<Nanos>,
    /// The mean.
    pub(crate) mean: Option<Nanos>,
    /// Standard error of the mean, in hundredths of a percent of it; none of a single sample.
    pub(crate) error: Option<u32>,
}

impl Reason {
    /// The time of all its samples, by their mean where the table has no sum.
    pub(crate) fn whole_time(&self) -> Option<Nanos> {
        let of_mean = || self.mean?.0.checked_mul(self.samples).map(Nanos);
        self.time.or_else(of_mean)
    }

    /// Reads a line by the heading above it. Names may have spaces, figures have none.
    pub(super) fn read(line: &Line<'_>, heading: &Heading) -> Result<Self, ReadError> {
        let (text, error) = deviation(line.text.trim());
        let mut words = text.split_whitespace();
        let count = words.clone().count();
        let Some(of_name) = count.checked_sub(heading.len()).filter(|&at| at > 0) else {
            let expected = format!("{} and {} figures", heading.event, heading.len());
            return Err(ReadError::expected(
                line.place,
                "line",
                &expected,
                line.text.trim(),
            ));
        };
        let mut name = words.next().unwrap_or_default().to_owned();
        for word in words.by_ref().take(of_name - 1) {
            name.push(' ');
            name.push_str(word);
        }
        let mut reason = Self {
            name,
            error,
            ..Self::default()
        };
        for ((name, column), word) in heading.columns.iter().zip(words) {
            reason.figure(line.place, name, *column, word)?;
        }
        Ok(reason)
    }

    fn figure(
        &mut self,
        place: Position,
        name: &str,
        column: Column,
        word: &str,
    ) -> Result<(), ReadError> {
        let expected = |expected| ReadError::expected(place, name, expected, word);
        let share = || percent(word).ok_or_else(|| expected("a percentage"));
        let time = || column::time(word).ok_or_else(|| expected("a time in us or ns"));
        // Columns that say so in the heading count nanoseconds.
        let time = || {
            if name.ends_with("(ns)") {
                word.parse().map(Nanos).map_err(|_| expected("nanoseconds"))
            } else {
                time()
            }
        };
        match column {
            Column::Samples => self.samples = word.parse().map_err(|_| expected("a number"))?,
            Column::SamplesShare => self.samples_share = Some(share()?),
            Column::TimeShare => self.time_share = Some(share()?),
            Column::Time => self.time = Some(time()?),
            Column::Shortest => self.shortest = Some(time()?),
            Column::Longest => self.longest = Some(time()?),
            Column::Mean => self.mean = Some(time()?),
        }
        Ok(())
    }
}

/// True of the end of a row that a mailer wrapped: `( +-  17.04% )`, `17.04% )`.
pub(super) fn is_deviation(text: &str) -> bool {
    let text = text.trim();
    let end = text.strip_prefix("( +-").unwrap_or(text);
    let share = end.strip_suffix(')').map(str::trim);
    share.is_some_and(|share| percent(share).is_some() || share == "-nan%")
}

/// A line without the `( +-  17.04% )` at its end, and this.
fn deviation(text: &str) -> (&str, Option<u32>) {
    let Some((before, rest)) = text.rsplit_once("( +-") else {
        return (text, None);
    };
    (before, percent(rest.trim_end_matches(')').trim()))
}

/// `77.52%` in hundredths.
fn percent(text: &str) -> Option<u32> {
    u32::try_from(hundredths(text.strip_suffix('%')?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_kvm::column::time;

    #[test]
    fn figures_are_exact() {
        assert_eq!(time("16029.99us"), Some(Nanos(16_029_990)));
        assert_eq!(time("17ns"), Some(Nanos(17)));
        assert_eq!((percent("0.99%"), percent("0,99%")), (Some(99), Some(99)));
        for text in [
            "",
            "us",
            "1us",
            "1.5us",
            "-1.00us",
            "1.+1us",
            "nanus",
            "184467440737095516.16us",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
        assert_eq!(deviation("a ( +-  17.04% )"), ("a ", Some(1704)));
        assert_eq!(deviation("a ( +-   -nan% )"), ("a ", None));
    }

    #[test]
    fn the_browsers_columns_are_nanoseconds() {
        let heading = Heading::read(
            "Event name Samples Sample% Time (ns) Time% Max Time (ns) Min Time (ns) Mean Time (ns)",
        );
        let text = "npf 3 60.00% 900 80.00% 500 100 300";
        let line = Line {
            place: Position::Line(1),
            text,
        };
        let reason = Reason::read(&line, &heading.unwrap()).unwrap();
        assert_eq!((reason.samples, reason.samples_share), (3, Some(6000)));
        assert_eq!(
            (reason.time, reason.longest, reason.mean),
            (Some(Nanos(900)), Some(Nanos(500)), Some(Nanos(300)))
        );
    }
}
