//! Bills that somebody wrote to deceive: whatever is accepted of them, every form of it is plain.

use pagetoll_bill::Bill;
use pagetoll_compare::curves::{Axis, Curves, NamedBill};
use pagetoll_compare::diff::{Diff, MissingRows};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

use super::{samples, well_formed};
use crate::{Format, Kind, RenderError, Width};

/// All numbers of a JSON value that are not whole.
fn figures(json: &mut Value) -> Vec<&mut Value> {
    match json {
        Value::Number(number) if number.is_f64() => vec![json],
        Value::Array(items) => items.iter_mut().flat_map(figures).collect(),
        Value::Object(fields) => fields.values_mut().flat_map(figures).collect(),
        _ => Vec::new(),
    }
}

/// Every form of a kind; of what has no picture, all others.
fn forms(
    kind: Kind,
    write: impl Fn(Format) -> Result<String, RenderError>,
) -> impl Iterator<Item = (Format, String)> {
    let written = move |format| match write(format) {
        Err(RenderError::NoPicture) => None,
        written => Some((format, written.unwrap())),
    };
    Format::for_kind(kind).filter_map(written)
}

fn of_bill(bill: &Bill) -> impl Iterator<Item = (Format, String)> {
    forms(Kind::Bill, |format| {
        crate::bill(bill, format, Width::Unlimited)
    })
}

/// Compared with another and with itself on an older kernel.
fn of_several(old: &Bill, new: &Bill) -> Vec<(Format, String)> {
    let (width, missing) = (Width::Unlimited, MissingRows::Refused);
    let compared = |(old, new)| {
        let diff = Diff::new(old, new, 0.005).unwrap();
        forms(Kind::Diff, move |format| {
            crate::diff(old, new, &diff, missing, format, width)
        })
    };
    let mut older = old.clone();
    older.stack.insert("linux".to_owned(), "2.6.32".to_owned());
    let bills = [&older, new].map(|bill| NamedBill {
        name: String::new(),
        bill: bill.clone(),
    });
    let curves = Curves::new(&bills, Some(Axis::Kernel), 0.005);
    let drawn = curves
        .iter()
        .flat_map(|curves| forms(Kind::Curves, |format| crate::curves(curves, format, width)));
    [(old, new), (new, old)]
        .into_iter()
        .flat_map(compared)
        .chain(drawn)
        .collect()
}

/// True of a line with a word for what is no number, with or without a prefix of the SI.
fn has_no_number(line: &str) -> bool {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let mut digits = words.map(|word| word.trim_end_matches(['x', 'k', 'M', 'G']));
    digits.any(|digits| ["nan", "inf"].contains(&digits.to_lowercase().as_str()))
}

proptest! {
    /// Figures that a bill may have, at the ends of their range: no sum, difference or ratio of them is out of it.
    #[test]
    fn no_form_of_an_accepted_bill_has_a_figure_that_is_no_number(
        sample in 0..10usize,
        changes in prop::collection::vec(
            (any::<Index>(), select(vec![0.0, 1e30, -1e30, 1e-100, -1e-100, 1.0, 1.7e308, 1e-300])),
            1..6,
        ),
    ) {
        let old = &samples::all()[sample];
        let mut json = serde_json::to_value(old).unwrap();
        let mut all = figures(&mut json);
        for (at, figure) in changes {
            **at.get_mut(&mut all) = figure.into();
        }
        if let Ok(bill) = serde_json::from_value::<Bill>(json) {
            for (format, text) in of_bill(&bill).chain(of_several(old, &bill)) {
                prop_assert_eq!(text.lines().find(|line| has_no_number(line)), None, "{}", format);
            }
        }
    }
}

#[test]
fn no_name_of_a_bill_deceives_or_ends_a_picture() {
    let hostile = "a\u{202e}b\u{3164}c\u{ffff}<d>&\"'\u{1b}";
    for mut bill in samples::all() {
        bill.stack.insert(hostile.to_owned(), hostile.to_owned());
        for row in &mut bill.rows {
            row.key.kernel = Some(hostile.to_owned());
            for toll in row
                .figures_mut()
                .into_iter()
                .flat_map(|figures| &mut figures.tolls)
            {
                toll.name += hostile;
            }
        }
        for (format, text) in of_bill(&bill) {
            let deceives = |c| "\u{202e}\u{3164}\u{ffff}\u{1b}".contains(c);
            assert!(!text.contains(deceives), "{format}: {text}");
            if format == Format::Svg {
                well_formed(&text);
            }
        }
    }
}
