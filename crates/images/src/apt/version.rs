//! The order of Debian versions, as deb-version(7) defines it.
//!
//! It compares any two strings; it does not check that they are valid versions.

use std::cmp::Ordering;

/// Compares two Debian versions: epoch, upstream version, revision.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    let ((epoch_a, upstream_a, revision_a), (epoch_b, upstream_b, revision_b)) =
        (split(a), split(b));
    compare_part(epoch_a, epoch_b)
        .then_with(|| compare_part(upstream_a, upstream_b))
        .then_with(|| compare_part(revision_a, revision_b))
}

fn split(version: &str) -> (&str, &str, &str) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
    (epoch, upstream, revision)
}

/// Alternates between a part without digits and a number, until they differ.
fn compare_part(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let (text_a, text_b) = (
            take(&mut a, |c| !c.is_ascii_digit()),
            take(&mut b, |c| !c.is_ascii_digit()),
        );
        let (number_a, number_b) = (
            take(&mut a, |c| c.is_ascii_digit()),
            take(&mut b, |c| c.is_ascii_digit()),
        );
        let order = compare_text(text_a, text_b).then_with(|| compare_number(number_a, number_b));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

fn take<'a>(text: &mut &'a str, belongs: impl Fn(char) -> bool) -> &'a str {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    let (head, tail) = text.split_at(end);
    *text = tail;
    head
}

fn compare_text(a: &str, b: &str) -> Ordering {
    // The end of a text weighs 0: above a tilde, below everything else.
    let weight = |c: char| match c {
        '~' => -1,
        c if c.is_ascii_alphabetic() => i64::from(u32::from(c)),
        c => i64::from(u32::from(c)) + 0x0011_0000,
    };
    let weights = |text: &str| text.chars().map(weight).chain([0]).collect::<Vec<_>>();
    let (a, b) = (weights(a), weights(b));
    let longest = a.len().max(b.len());
    let at = |weights: &[i64], i: usize| weights.get(i).copied().unwrap_or(0);
    (0..longest)
        .map(|i| at(&a, i).cmp(&at(&b, i)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Numbers may be longer than any machine word.
fn compare_number(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In ascending order; the first rows are deb-version(7)'s own examples.
    const ASCENDING: &[&str] = &[
        "~~",
        "~",
        "",
        "1.0~rc1-1",
        "1.0-1~bpo13+1",
        "1.0-1",
        "1.0-1+b1",
        "1.0-2",
        "1.0a-1",
        "1.0+x-1",
        "6.1.99-1",
        "6.1.176-1",
        "6.1.192-2",
        "6.18.15-1~bpo13+1",
        "7.2.9-1",
        "7.2.12-1~bpo13+1",
        "7.2.12-1",
        "1:0.1",
    ];

    #[test]
    fn orders_versions() {
        for (i, a) in ASCENDING.iter().enumerate() {
            for (j, b) in ASCENDING.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} against {b}");
            }
        }
    }

    #[test]
    fn leading_zeros_do_not_count() {
        assert_eq!(compare("1.002-01", "1.2-1"), Ordering::Equal);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_dpkg(a in "[0-9][0-9a-c.+~]{0,6}(-[0-9a~]{1,3})?", b in "[0-9][0-9a-c.+~]{0,6}(-[0-9a~]{1,3})?") {
            let dpkg = |operator| {
                std::process::Command::new("dpkg").args(["--compare-versions", &a, operator, &b]).status()
            };
            if let (Ok(less), Ok(equal)) = (dpkg("lt"), dpkg("eq")) {
                let expected = match (less.success(), equal.success()) {
                    (true, _) => Ordering::Less,
                    (_, true) => Ordering::Equal,
                    _ => Ordering::Greater,
                };
                proptest::prop_assert_eq!(compare(&a, &b), expected);
            }
        }
    }
}
