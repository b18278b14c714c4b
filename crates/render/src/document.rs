//! Documents: a title and sections, before they are text, Markdown or a page.

use pagetoll_bill::profile::Call;
use pagetoll_bill::row::Interval;

use crate::table::Table;

/// A title and its sections, in any format that lists have.
#[derive(Clone, Debug)]
pub struct Document {
    /// One line without a full stop.
    pub title: String,
    /// Empty ones are not printed.
    pub sections: Vec<Section>,
}

/// A part of a document.
#[derive(Clone, Debug)]
pub struct Section {
    /// Empty for a part that follows the title.
    pub title: String,
    /// Facts, a table or sentences.
    pub body: Body,
    /// Read by few: Markdown and pages show its title alone until it is opened.
    pub folded: bool,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The left column, such as `evidence`.
    pub name: String,
    /// The right column, such as `exact`.
    pub value: String,
}

impl Fact {
    /// A fact of that name.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// The content of a section.
#[derive(Clone, Debug)]
pub enum Body {
    /// Names and values in two columns.
    Facts(Vec<Fact>),
    /// Columns that give way when the terminal is narrow.
    Table(Table),
    /// Sentences; wrapped where they are wider than the terminal.
    List(Vec<String>),
    /// Lines that are never wrapped, such as a command.
    Lines(Vec<String>),
    /// Sums and their parts; only pages draw them.
    Bars(Bars),
    /// Lines over an axis; only pages draw them.
    Plot(Plot),
    /// A flame graph; only pages draw it.
    Calls(Calls),
}

/// Functions with what they called, as a profile has them.
#[derive(Clone, Debug)]
pub struct Calls {
    /// The unit of costs.
    pub unit: String,
    /// Each before those that it called.
    pub functions: Vec<Call>,
}

impl Calls {
    fn are_empty(&self) -> bool {
        let mut functions = self.functions.iter();
        !functions.any(|call| call.depth == 0 && call.cost_per_page > 0.0)
    }
}

/// Lines over one axis.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The unit of values.
    pub unit: String,
    /// The meaning of the axis.
    pub axis: String,
    /// Every place on the axis, from left to right.
    pub marks: Vec<Mark>,
    /// The distances of places.
    pub scale: Scale,
    /// At most as many as there are colours.
    pub lines: Vec<Line>,
}

/// A place on an axis.
#[derive(Clone, Debug)]
pub struct Mark {
    /// A place on the axis.
    pub at: f64,
    /// The text at the place.
    pub name: String,
}

/// The meaning of distances on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equally far apart.
    Linear,
    /// Equal ratios are equally far apart.
    Logarithmic,
}

impl Scale {
    /// Logarithmic for values above 0 whose largest is more than so many times the least.
    #[must_use]
    pub fn for_range(least: f64, most: f64, linear_up_to: f64) -> Self {
        if least > 0.0 && most > least * linear_up_to {
            Self::Logarithmic
        } else {
            Self::Linear
        }
    }
}

/// A line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name that tells it from the others.
    pub label: String,
    /// From left to right.
    pub spots: Vec<Spot>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// A place on the axis.
    pub at: f64,
    /// The value that is drawn.
    pub value: f64,
    /// The values between which it lies.
    pub band: Option<(f64, f64)>,
    /// A value that others published in its place.
    pub published: Option<f64>,
    /// A cost that is not that of the spot before.
    pub steps: bool,
}

/// Bars of parts, one below the other.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The unit of amounts.
    pub unit: String,
    /// The names of the parts.
    pub parts: Vec<String>,
    /// The meaning of a bar's length.
    pub length: Length,
    /// From the top.
    pub rows: Vec<Bar>,
}

/// The meaning of a bar's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Amounts, on one scale for all bars.
    Amount,
    /// Amounts, on one scale, from a line in the middle: to the left where they are negative.
    Signed,
    /// Shares: all bars are equally long.
    OwnShare,
}

/// A sum and its parts.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The name of the row.
    pub label: String,
    /// The sum, as it is written behind the bar.
    pub sum: String,
    /// An amount for each part.
    pub amounts: Vec<f64>,
    /// Ends of the sum's error bar, where its spread is known.
    pub error: Option<Interval>,
}

impl Section {
    /// A section of names and values.
    pub fn facts(title: impl Into<String>, facts: Vec<Fact>) -> Self {
        Self::new(title, Body::Facts(facts))
    }

    /// A section with a table.
    pub fn table(title: impl Into<String>, table: Table) -> Self {
        Self::new(title, Body::Table(table))
    }

    /// A section of sentences.
    pub fn list(title: impl Into<String>, items: Vec<String>) -> Self {
        Self::new(title, Body::List(items))
    }

    /// Lines that are never wrapped.
    pub fn lines(title: impl Into<String>, lines: Vec<String>) -> Self {
        Self::new(title, Body::Lines(lines))
    }

    /// Bars.
    pub fn bars(title: impl Into<String>, bars: Bars) -> Self {
        Self::new(title, Body::Bars(bars))
    }

    /// A flame graph.
    pub fn calls(title: impl Into<String>, calls: Calls) -> Self {
        Self::new(title, Body::Calls(calls))
    }

    /// Lines over an axis.
    pub fn plot(title: impl Into<String>, plot: Plot) -> Self {
        Self::new(title, Body::Plot(plot))
    }

    /// This section, behind its title until a reader wants it: where the format can do that.
    #[must_use]
    pub fn folded(self) -> Self {
        Self {
            folded: true,
            ..self
        }
    }

    fn new(title: impl Into<String>, body: Body) -> Self {
        Self {
            folded: false,
            title: title.into(),
            body,
        }
    }

    /// True where there is nothing to print.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Facts(facts) => facts.is_empty(),
            Body::Table(table) => table.rows.is_empty(),
            Body::List(items) | Body::Lines(items) => items.is_empty(),
            Body::Bars(bars) => bars.rows.is_empty(),
            Body::Plot(plot) => plot.lines.is_empty(),
            Body::Calls(calls) => calls.are_empty(),
        }
    }
}
