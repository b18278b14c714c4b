//! A title and sections: what text and Markdown have in common.

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

    fn new(title: impl Into<String>, body: Body) -> Self {
        Self {
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
        }
    }
}
