//! A title and sections: what text and Markdown have in common.

use crate::table::Table;

/// What is printed.
#[derive(Clone, Debug)]
pub struct Document {
    /// One line.
    pub title: String,
    /// Empty ones are not printed.
    pub sections: Vec<Section>,
}

/// A part of a document.
#[derive(Clone, Debug)]
pub struct Section {
    /// Empty for a part that follows the title.
    pub title: String,
    /// The content.
    pub body: Body,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Such as `evidence`.
    pub name: String,
    /// Such as `exact`.
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
    /// Names and values.
    Facts(Vec<Fact>),
    /// A table.
    Table(Table),
    /// Sentences; wrapped where they are wider than the terminal.
    List(Vec<String>),
    /// Lines that are never wrapped, such as a command.
    Lines(Vec<String>),
}

impl Section {
    /// Names and values.
    pub fn facts(title: impl Into<String>, facts: Vec<Fact>) -> Self {
        Self::new(title, Body::Facts(facts))
    }

    /// A table.
    pub fn table(title: impl Into<String>, table: Table) -> Self {
        Self::new(title, Body::Table(table))
    }

    /// Sentences.
    pub fn list(title: impl Into<String>, items: Vec<String>) -> Self {
        Self::new(title, Body::List(items))
    }

    /// Lines that are never wrapped.
    pub fn lines(title: impl Into<String>, lines: Vec<String>) -> Self {
        Self::new(title, Body::Lines(lines))
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
        }
    }
}
