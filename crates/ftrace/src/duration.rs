//! Durations as function_graph prints them: `0.762 us`, `+ 17.969 us`, `* 14824.24 us`: long ones have fewer decimals, those of a
//! second and more none (`trace_print_graph_duration` in kernel/trace/trace_functions_graph.c).

use pagetoll_units::Nanos;

/// Marks before a duration that is longer than 10 us, 100 us, 1 ms, 10 ms, 100 ms, 1 s.
pub(super) const MARKS: [char; 6] = ['+', '!', '#', '*', '@', '$'];

/// Reads a duration, with or without its mark; nothing where there is none.
pub(super) fn read(text: &str) -> Option<Nanos> {
    let text = text.trim().trim_start_matches(MARKS).trim();
    let number = text.strip_suffix("us")?.trim();
    let (whole, nanos) = match number.split_once('.') {
        None => (number, 0),
        Some((whole, fraction)) => {
            let unit = [100, 10, 1].get(fraction.len().checked_sub(1)?)?;
            (whole, fraction.parse::<u64>().ok()? * unit)
        }
    };
    let micros: u64 = whole.parse().ok()?;
    micros.checked_mul(1000)?.checked_add(nanos).map(Nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_changes_nothing_and_words_are_no_duration() {
        for (text, nanos) in [
            ("0.762 us", 762),
            ("+ 17.969 us  ", 17_969),
            (" # 6219.500 us", 6_219_500),
            ("* 14824.24 us", 14_824_240),
            ("$ 2000000.001 us", 2_000_000_001),
            ("$ 3389981 us", 3_389_981_000),
        ] {
            assert_eq!(read(text), Some(Nanos(nanos)), "{text}");
        }
        for text in [
            "",
            "us",
            "1. us",
            "1.5555 us",
            "18446744073709551615.000 us",
            "x.000 us",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
