//! A title and sections: what text and Markdown have in common.

use pagetoll_bill::profile::Part;

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
    /// Whether it is read by few: Markdown and pages show its title alone until it is opened.
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
    /// What sums are made of; only pages draw them.
    Bars(Bars),
    /// Lines over an axis; only pages draw them.
    Plot(Plot),
    /// Who called what; only pages draw it.
    Calls(Vec<Frame>),
}

/// A function on a stack of calls, drawn as wide as what was paid in it.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its name and figures.
    pub label: String,
    /// Whose it is, which gives it a colour.
    pub part: Part,
    /// How many call it from the outermost on.
    pub depth: u32,
    /// Where it begins: a share of the whole.
    pub from: f64,
    /// How wide it is: a share of the whole.
    pub share: f64,
}

/// Lines over one axis.
#[derive(Clone, Debug)]
pub struct Plot {
    /// In which values are.
    pub unit: String,
    /// What the axis is.
    pub axis: String,
    /// Every place on the axis, from left to right.
    pub marks: Vec<Mark>,
    /// How places are numbers.
    pub scale: Scale,
    /// At most as many as there are colours.
    pub lines: Vec<Line>,
}

/// A place on an axis.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where it is.
    pub at: f64,
    /// What is written there.
    pub name: String,
}

/// How distances on an axis are to be read.
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
    pub fn of(least: f64, most: f64, linear_up_to: f64) -> Self {
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
    /// What tells it from the others.
    pub label: String,
    /// From left to right.
    pub spots: Vec<Spot>,
}

/// A point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// On the axis.
    pub at: f64,
    /// What is drawn.
    pub value: f64,
    /// Between which values it lies.
    pub band: Option<(f64, f64)>,
    /// What others published in its place.
    pub published: Option<f64>,
    /// Whether its cost is not that of the spot before.
    pub steps: bool,
}

/// Bars of parts, one below the other, on one scale.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// In which amounts are.
    pub unit: String,
    /// The names of the parts.
    pub parts: Vec<String>,
    /// From the top.
    pub rows: Vec<Bar>,
}

/// A sum and its parts.
#[derive(Clone, Debug)]
pub struct Bar {
    /// What it is of.
    pub label: String,
    /// An amount for each part.
    pub amounts: Vec<f64>,
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

    /// Who called what.
    pub fn calls(title: impl Into<String>, frames: Vec<Frame>) -> Self {
        Self::new(title, Body::Calls(frames))
    }

    /// Lines over an axis.
    pub fn plot(title: impl Into<String>, plot: Plot) -> Self {
        Self::new(title, Body::Plot(plot))
    }

    /// The same section, behind its title until a reader wants it: where the format can do that.
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

    /// Whether there is nothing to print.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Facts(facts) => facts.is_empty(),
            Body::Table(table) => table.rows.is_empty(),
            Body::List(items) | Body::Lines(items) => items.is_empty(),
            Body::Bars(bars) => bars.rows.is_empty(),
            Body::Plot(plot) => plot.lines.is_empty(),
            Body::Calls(frames) => frames.is_empty(),
        }
    }
}
