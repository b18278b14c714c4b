//! Folded stacks: a line `payer;toll sum` for each pair, as flamegraph tools read it.
//!
//! The format is that of Brendan Gregg's `stackcollapse-*.pl`, which inferno, speedscope and
//! flamegraph.pl read: frames from the outermost one on, separated by semicolons, then a space and a
//! whole number. Lines come in the order of payers and tolls; sums of zero are left out, as those tools
//! drop them.

use std::collections::BTreeMap;
use std::io::Write;

use crate::{Legend, Span, SpanError};

/// Writes spans summed by payer and toll, in the spans' unit.
///
/// In names, a semicolon becomes a colon and white space a plain space: the format has no quoting.
///
/// # Errors
///
/// A payer or toll without a name, or what the sink reports.
pub fn write_folded<W: Write>(
    mut sink: W,
    legend: &Legend,
    spans: impl IntoIterator<Item = Span>,
) -> Result<(), SpanError> {
    let mut sums: BTreeMap<_, u128> = BTreeMap::new();
    for span in spans {
        *sums.entry((span.payer, span.toll)).or_default() += u128::from(span.length);
    }
    for ((payer, toll), sum) in sums {
        let (payer, toll) = (frame(legend.payer(payer)?), frame(legend.toll(toll)?));
        if sum > 0 {
            writeln!(sink, "{payer};{toll} {sum}")?;
        }
    }
    Ok(())
}

fn frame(name: &str) -> String {
    let plain = |letter: char| match letter {
        ';' => ':',
        letter if letter.is_whitespace() => ' ',
        letter => letter,
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A panic is how a test fails.

    use proptest::prelude::*;

    use super::*;
    use crate::{PayerId, TollId};

    fn legend() -> Legend {
        let payers = [(PayerId(0), "vcpu 0".into()), (PayerId(9), "a;b\nc".into())];
        Legend::new(payers, (0..3).map(|i| (TollId(i), format!("toll {i}")))).unwrap()
    }

    fn span(length: u64, payer: u32, toll: u16) -> Span {
        let (payer, toll) = (PayerId(payer), TollId(toll));
        Span {
            end: length,
            length,
            payer,
            toll,
        }
    }

    fn folded(spans: &[Span]) -> String {
        let mut text = Vec::new();
        write_folded(&mut text, &legend(), spans.iter().copied()).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn pairs_are_summed_and_names_cannot_break_lines() {
        let spans = [span(5, 9, 1), span(3, 0, 2), span(4, 9, 1), span(0, 0, 0)];
        assert_eq!(folded(&spans), "vcpu 0;toll 2 3\na:b c;toll 1 9\n");
    }

    #[test]
    fn sums_do_not_wrap() {
        let spans = [span(u64::MAX, 0, 0), span(u64::MAX, 0, 0)];
        assert_eq!(folded(&spans), "vcpu 0;toll 0 36893488147419103230\n");
    }

    #[test]
    fn a_nameless_toll_is_an_error() {
        let error = write_folded(Vec::new(), &legend(), [span(1, 0, 3)]).unwrap_err();
        assert_eq!(error.to_string(), "toll 3 has no name in the legend");
    }

    proptest! {
        /// Reads lines as flamegraph tools do: the number behind the last space, frames between
        /// semicolons.
        #[test]
        fn what_is_read_back_is_what_was_paid(
            paid in prop::collection::vec((0..1u64 << 40, any::<bool>(), 0..3u16), 0..60)
        ) {
            let spans: Vec<_> =
                paid.iter().map(|&(length, one, toll)| span(length, if one { 9 } else { 0 }, toll)).collect();
            let text = folded(&spans);
            for (payer, name) in [(0, "vcpu 0"), (9, "a:b c")] {
                for toll in 0..3 {
                    let of_pair = |span: &&Span| (span.payer, span.toll) == (PayerId(payer), TollId(toll));
                    let expected: u64 = spans.iter().filter(of_pair).map(|span| span.length).sum();
                    let stack = format!("{name};toll {toll}");
                    let found = text.lines().filter_map(|line| line.rsplit_once(' ')).find(|line| line.0 == stack);
                    let found = found.map_or(0, |line| line.1.parse::<u64>().unwrap());
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
