//! Gains of mechanisms over the one that the fix replaces, at the same batch; gains of batches; and how sure they are.

use pagetoll_bill::{Bill, Evidence, Figures, HostLoad, Role, Row};
use pagetoll_compare::diff::LEAST_RUNS;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::rows::pages_per_second;
use crate::figure;
use crate::setting;
use crate::table::NONE;
use crate::unique::unique;

/// The share of bills in which the interval of a measured ratio holds the true one.
const CONFIDENCE: f64 = 0.95;

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
    /// The true ratio is between these, and not 1.
    Between(f64, f64),
    Undecided,
}

/// The mean of some runs.
#[derive(Clone, Copy)]
struct Mean {
    value: f64,
    stddev: f64,
    runs: u32,
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

    /// The gain of `row` over the same mechanism at its smallest batch, if that is another.
    pub(super) fn batch(&self, row: &Row) -> Option<Ratio> {
        let at_any_batch = row.key.clone().at_batch(1);
        let same = self.rows.iter().filter(|other| {
            other.key.batch < row.key.batch && other.key.clone().at_batch(1) == at_any_batch
        });
        let smallest = same.min_by_key(|other| other.key.batch)?;
        self.between(row, smallest)
    }

    /// The gain of `row` over another: how many times less it costs, or, of rows with rates, how many times its rate is more.
    pub(super) fn between(&self, row: &Row, other: &Row) -> Option<Ratio> {
        let by_rate = pages_per_second(row).is_some() && pages_per_second(other).is_some();
        let (row, other) = (row.figures()?, other.figures()?);
        if by_rate {
            self.ratio(Mean::from_rate(row)?, Mean::from_rate(other)?)
        } else {
            self.ratio(Mean::from_cost(other), Mean::from_cost(row))
        }
    }

    fn ratio(&self, over: Mean, under: Mean) -> Option<Ratio> {
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

impl Mean {
    fn from_cost(figures: &Figures) -> Self {
        Self {
            value: figures.cost_per_page,
            stddev: figures.stddev.unwrap_or(0.0),
            runs: runs(figures),
        }
    }

    fn from_rate(figures: &Figures) -> Option<Self> {
        let rate = figures.rate?;
        Some(Self {
            value: rate.pages_per_second,
            stddev: rate.stddev.unwrap_or(0.0),
            runs: runs(figures),
        })
    }

    /// The square of the relative standard error.
    fn relative_variance(self) -> f64 {
        (self.stddev / self.value).powi(2) / f64::from(self.runs)
    }
}

fn runs(figures: &Figures) -> u32 {
    u32::try_from(figures.runs.len()).unwrap_or(u32::MAX)
}

/// Student's t on the logarithm of the ratio, whose variance is the sum of the relative ones (the delta method), with the
/// degrees of freedom of B. L. Welch, Biometrika 34 (1947). A ratio is undecided where its interval has 1, or where either
/// side has too few runs for `diff` to compare them.
fn certainty(ratio: f64, over: Mean, under: Mean) -> Certainty {
    let has_few = |of: Mean| usize::try_from(of.runs).is_ok_and(|runs| runs < LEAST_RUNS);
    if has_few(over) || has_few(under) {
        return Certainty::Undecided;
    }
    let variance = over.relative_variance() + under.relative_variance();
    let half = match variance {
        0.0 => 0.0,
        _ => {
            let term =
                |of: Mean| (of.relative_variance() / variance).powi(2) / f64::from(of.runs - 1);
            let freedom = 1.0 / (term(over) + term(under));
            let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else {
                return Certainty::Undecided;
            };
            student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * variance.sqrt()
        }
    };
    let (low, high) = (ratio * (-half).exp(), ratio * half.exp());
    if high.is_finite() && (low > 1.0 || high < 1.0) {
        Certainty::Between(low, high)
    } else {
        Certainty::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(runs: &[f64]) -> Mean {
        Mean::from_cost(&Figures::of_runs(runs.to_vec()).unwrap())
    }

    fn judged(over: &[f64], under: &[f64]) -> Certainty {
        let (over, under) = (mean(over), mean(under));
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
        assert_eq!(judged(&[20.0; 4], &[10.0; 4]), Certainty::Between(2.0, 2.0));
        assert!(
            matches!(judged(&steady.map(|run| run * 1.8), &steady), Certainty::Between(low, high)
            if 1.7 < low && low < 1.8 && 1.8 < high && high < 1.9)
        );
    }

    #[test]
    fn the_interval_is_that_of_students_t() {
        let over = [18.0, 20.0, 22.0, 20.0];
        let under = [9.5, 10.0, 10.5, 10.0];
        let Certainty::Between(low, high) = judged(&over, &under) else {
            panic!("undecided");
        };
        // By hand: a standard error of 0.04564, 4.412 degrees of freedom, t = 2.677; 2 * exp(-+ 2.677 * 0.04564).
        assert!(
            (low - 1.77).abs() < 0.005 && (high - 2.26).abs() < 0.005,
            "{low} {high}"
        );
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
