//! Gains of mechanisms over the one that the fix replaces, at the same batch; gains of batches; and how sure they are.

use pagetoll_bill::row::{Interval, median};
use pagetoll_bill::{Bill, Evidence, Figures, HostLoad, Role, Row};
use pagetoll_compare::diff::LEAST_RUNS;

use super::rows::pages_per_second;
use crate::figure;
use crate::setting;
use crate::table::NONE;
use crate::unique::unique;

/// Rows that are compared with one another.
pub(super) struct Gains<'a> {
    pub(super) rows: Vec<&'a Row>,
    spread: Spread,
}

/// The spread of ratios of a bill's figures.
#[derive(Clone, Copy, PartialEq)]
enum Spread {
    /// Not known: figures are counted or modelled.
    Unknown,
    /// By that of the runs.
    OfRuns,
    /// By an amount that runs do not show: others had the CPUs.
    Disturbed(HostLoad),
}

/// A ratio of two rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    value: f64,
    certainty: Certainty,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Certainty {
    Exact,
    /// Another bill's ratio is between these nine times in ten, and not 1.
    Between(f64, f64),
    Undecided,
}

/// A figure, and the factors by which another bill's may be less and more.
#[derive(Clone, Copy)]
struct Figure {
    value: f64,
    less: f64,
    more: f64,
    runs: usize,
}

impl<'a> Gains<'a> {
    /// The gains of these rows of the bill; rows without figures have none.
    pub(super) fn new(bill: &Bill, rows: Vec<&'a Row>) -> Self {
        let spread = match (bill.evidence, setting::busy(bill)) {
            (Evidence::Exact | Evidence::Modelled, _) => Spread::Unknown,
            (Evidence::Measured, Some(load)) => Spread::Disturbed(load),
            (Evidence::Measured, None) => Spread::OfRuns,
        };
        Self { rows, spread }
    }

    /// The row that another is compared with: of the mechanism that the fix replaces, in the same setting and at the same
    /// batch, or at its smallest where it has no such batch; by the number of readers that costs least.
    pub(super) fn reference(&self, row: &Row) -> Option<&'a Row> {
        let before =
            self.rows.iter().copied().filter(|other| {
                other.role() == Role::Before && other.key.does_the_work_of(&row.key)
            });
        let costs = before.filter_map(|other| Some((other, other.cost()?)));
        let least = costs.min_by(|(a, of_a), (b, of_b)| {
            let place = |of: &Row| (of.key.batch != row.key.batch, of.key.batch);
            place(a).cmp(&place(b)).then(of_a.total_cmp(of_b))
        });
        least.map(|(reference, _)| reference)
    }

    /// References that have no smaller batch: one for each setting.
    pub(super) fn settings(&self) -> Vec<&'a Row> {
        let smallest = |row: &&Row| {
            let same = self.rows.iter().filter(|other| {
                other.role() == Role::Before && other.key.does_the_work_of(&row.key)
            });
            let least = same.map(|other| other.key.batch).min();
            least == Some(row.key.batch) && self.is_reference(row)
        };
        self.rows.iter().copied().filter(smallest).collect()
    }

    pub(super) fn is_reference(&self, row: &Row) -> bool {
        let reference = self.reference(row);
        reference.is_some_and(|reference| reference.key == row.key)
    }

    /// The gain of `row` over its reference.
    pub(super) fn over_reference(&self, row: &Row) -> Option<Ratio> {
        self.between(row, self.reference(row)?)
    }

    /// The gain of `row` over the same mechanism at its smallest batch, if that is another, by the number of readers that
    /// costs least there.
    pub(super) fn batch(&self, row: &Row) -> Option<Ratio> {
        let batches = self.same(row).map(|other| other.key.batch);
        let smallest = batches.filter(|batch| *batch < row.key.batch).min()?;
        self.between(row, self.by_best_readers(row, smallest)?)
    }

    /// True where no other number of readers costs less.
    pub(super) fn has_best_readers(&self, row: &Row) -> bool {
        let best = self.by_best_readers(row, row.key.batch);
        best.is_some_and(|best| best.key == row.key)
    }

    /// The mechanism of `row` at this batch, by the number of readers that costs least.
    fn by_best_readers(&self, row: &Row, batch: u32) -> Option<&'a Row> {
        let at_batch = self.same(row).filter(|other| other.key.batch == batch);
        let costs = at_batch.filter_map(|other| Some((other, other.cost()?)));
        let least = costs.min_by(|(_, a), (_, b)| a.total_cmp(b));
        least.map(|(best, _)| best)
    }

    /// Rows of the mechanism of `row` in its setting, by any batch and number of readers.
    fn same(&self, row: &Row) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().copied().filter(|other| {
            other.key.method == row.key.method && other.key.does_the_work_of(&row.key)
        })
    }

    /// The gain of `row` over another: how many times less it costs, or, of rows with rates, how many times its rate is more.
    pub(super) fn between(&self, row: &Row, other: &Row) -> Option<Ratio> {
        let by_rate = pages_per_second(row).is_some() && pages_per_second(other).is_some();
        let (row, other) = (row.figures()?, other.figures()?);
        if by_rate {
            self.ratio(Figure::from_rate(row)?, Figure::from_rate(other)?)
        } else {
            self.ratio(Figure::from_cost(other), Figure::from_cost(row))
        }
    }

    fn ratio(&self, over: Figure, under: Figure) -> Option<Ratio> {
        let value = over.value / under.value;
        let is_ratio = over.value > 0.0 && under.value > 0.0;
        is_ratio.then(|| Ratio {
            value,
            certainty: match self.spread {
                Spread::Unknown => Certainty::Exact,
                Spread::Disturbed(_) => Certainty::Undecided,
                Spread::OfRuns => certainty(value, over, under),
            },
        })
    }

    /// A gain in a sentence that ends with [`Gains::doubt`].
    pub(super) fn said(&self, ratio: Ratio) -> String {
        match self.spread {
            Spread::Disturbed(_) => ratio.plain(),
            Spread::Unknown | Spread::OfRuns => ratio.as_gain(),
        }
    }

    /// The reason for which no gain is decided, where it is one for all.
    pub(super) fn doubt(&self) -> Option<String> {
        match self.spread {
            Spread::Disturbed(load) => {
                let shares = setting::shares(load);
                Some(format!("all undecided: the host was busy ({shares})"))
            }
            Spread::Unknown | Spread::OfRuns => None,
        }
    }

    /// The cell of a row's gain over what the fix replaces.
    pub(super) fn cell(&self, row: &Row) -> String {
        if self.is_reference(row) {
            return "reference".to_owned();
        }
        text(self.over_reference(row))
    }

    /// True where what the fix replaces has several batches; else batches are not compared.
    pub(super) fn has_batches(&self) -> bool {
        let before = self.rows.iter().filter(|row| row.role() == Role::Before);
        unique(before.map(|row| row.key.batch)).len() > 1
    }

    /// The title of the column of [`Gains::cell`]: `gain over emulate`.
    pub(super) fn title(&self) -> String {
        let before = self.rows.iter().filter(|row| row.role() == Role::Before);
        match unique(before.map(|row| row.key.method)).as_slice() {
            [] => "gain".to_owned(),
            [one] => format!("gain over {one}"),
            _ => "gain over before".to_owned(),
        }
    }
}

/// A ratio in a cell.
pub(super) fn text(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(|| NONE.to_owned(), Ratio::as_gain)
}

impl Ratio {
    /// `3.59x`, `1.81x (1.62 to 2.02)`, or `1.07x (undecided)`.
    pub(super) fn as_gain(self) -> String {
        let value = self.plain();
        match self.certainty {
            Certainty::Exact => value,
            Certainty::Between(low, high) => {
                let (low, high) = (figure::fixed(low, 2), figure::fixed(high, 2));
                format!("{value} ({low} to {high})")
            }
            Certainty::Undecided => format!("{value} (undecided)"),
        }
    }

    fn plain(self) -> String {
        figure::fixed(self.value, 2) + "x"
    }

    /// By how much more the one that gains less costs: `+9.75 %`, `+9.75 % (+7.10 to +12.40)`, or `+0.78 % (undecided)`.
    pub(super) fn as_change(self) -> String {
        let percent = |ratio: f64| figure::signed(100.0 * (1.0 / ratio - 1.0), 2);
        let value = percent(self.value);
        match self.certainty {
            Certainty::Exact => format!("{value} %"),
            Certainty::Between(low, high) => {
                format!("{value} % ({} to {})", percent(high), percent(low))
            }
            Certainty::Undecided => format!("{value} % (undecided)"),
        }
    }

    pub(super) fn value(self) -> f64 {
        self.value
    }
}

impl Figure {
    fn from_cost(figures: &Figures) -> Self {
        let (less, more) = factors(figures).unwrap_or((f64::INFINITY, f64::INFINITY));
        Self {
            value: figures.cost_per_page,
            less,
            more,
            runs: figures.runs.len(),
        }
    }

    /// A rate is less as its cost is more.
    fn from_rate(figures: &Figures) -> Option<Self> {
        let of_cost = Self::from_cost(figures);
        Some(Self {
            value: figures.rate?.pages_per_second,
            less: of_cost.more,
            more: of_cost.less,
            ..of_cost
        })
    }
}

/// Factors from a figure down and up to the ends of its interval; in bills of earlier versions from the runs' median.
fn factors(figures: &Figures) -> Option<(f64, f64)> {
    let (middle, interval) = match figures.interval {
        Some(interval) => (figures.cost_per_page, interval),
        None => (
            median(&figures.runs)?,
            Interval::of_another_bill(&figures.runs)?,
        ),
    };
    (interval.low > 0.0).then(|| (middle / interval.low, interval.high / middle))
}

/// The interval of another bill's ratio, whose sides differ independently of each other from those of this one. A ratio is
/// undecided where its interval has 1, or where either side has too few runs for `diff` to compare them.
fn certainty(ratio: f64, over: Figure, under: Figure) -> Certainty {
    if over.runs < LEAST_RUNS || under.runs < LEAST_RUNS {
        return Certainty::Undecided;
    }
    let both = |over: f64, under: f64| over.ln().hypot(under.ln()).exp();
    let low = ratio / both(over.less, under.more);
    let high = ratio * both(over.more, under.less);
    if high.is_finite() && (low > 1.0 || high < 1.0) {
        Certainty::Between(low, high)
    } else {
        Certainty::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(runs: &[f64]) -> Figure {
        Figure::from_cost(&Figures::of_runs(runs.to_vec()).unwrap())
    }

    fn judged(over: &[f64], under: &[f64]) -> Certainty {
        let (over, under) = (figure(over), figure(under));
        certainty(over.value / under.value, over, under)
    }

    #[test]
    fn a_ratio_is_undecided_where_its_interval_has_1_or_runs_are_few() {
        let steady = [10.0, 10.2, 9.8, 10.0];
        let noisy = [22_267.0, 17_300.0, 27_200.0, 21_000.0, 26_000.0];
        assert_eq!(
            judged(&noisy, &noisy.map(|run| run * 1.07)),
            Certainty::Undecided
        );
        assert_eq!(judged(&steady, &steady[..3]), Certainty::Undecided);
        assert_eq!(judged(&[20.0; 3], &[10.0; 3]), Certainty::Undecided);
        assert!(
            matches!(judged(&[20.0; 4], &[10.0; 4]), Certainty::Between(low, high)
            if (low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9)
        );
        assert!(
            matches!(judged(&steady.map(|run| run * 1.8), &steady), Certainty::Between(low, high)
            if 1.6 < low && low < 1.8 && 1.8 < high && high < 2.0)
        );
    }

    #[test]
    fn the_sides_of_a_ratio_differ_independently() {
        let side = |value, less, more| Figure {
            value,
            less,
            more,
            runs: 5,
        };
        let (over, under) = (side(30.0, 1.3, 1.4), side(10.0, 1.2, 1.1));
        let Certainty::Between(low, high) = certainty(3.0, over, under) else {
            panic!("undecided");
        };
        // By hand: 3 / exp(sqrt(0.26236^2 + 0.09531^2)), and 3 * exp(sqrt(0.33647^2 + 0.18232^2)).
        assert!(
            (low - 2.2694).abs() < 1e-3 && (high - 4.3985).abs() < 1e-3,
            "{low} {high}"
        );
    }

    #[test]
    fn a_bill_of_an_earlier_version_has_the_interval_of_its_runs() {
        let runs = vec![10.0, 11.0, 12.0, 13.0, 40.0];
        let new = Figures::of_runs(runs.clone()).unwrap();
        let old = Figures {
            cost_per_page: 17.2,
            stddev: Some(12.8),
            interval: None,
            ..new.clone()
        };
        assert_eq!(factors(&old), factors(&new));
    }

    #[test]
    fn a_change_is_a_gain_read_backwards() {
        let ratio = |certainty| Ratio {
            value: 0.8,
            certainty,
        };
        assert_eq!(ratio(Certainty::Exact).as_change(), "+25.00 %");
        assert_eq!(ratio(Certainty::Undecided).as_gain(), "0.80x (undecided)");
        let between = ratio(Certainty::Between(0.5, 0.9));
        assert_eq!(between.as_gain(), "0.80x (0.50 to 0.90)");
        assert_eq!(between.as_change(), "+25.00 % (+11.11 to +100.00)");
    }
}
