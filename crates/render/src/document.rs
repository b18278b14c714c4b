//! A title and sections: what text and Markdown have in common.

use super::table::Table;

/// Something to be read.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// What it is.
    pub(crate) title: String,
    /// Its parts.
    pub(crate) sections: Vec<Section>,
}

/// A part of a document.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    /// What it is; empty for facts that follow the title.
    pub(crate) title: String,
    /// What it says.
    pub(crate) body: Body,
}

/// What a section says.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Table),
    /// Sentences.
    List(Vec<String>),
}

impl Section {
    /// A section of names and values.
    pub(crate) fn facts(title: impl Into<String>, facts: Vec<(String, String)>) -> Self {
        Self {
            title: title.into(),
            body: Body::Facts(facts),
        }
    }

    /// A section with a table.
    pub(crate) fn table(title: impl Into<String>, table: Table) -> Self {
        Self {
            title: title.into(),
            body: Body::Table(table),
        }
    }

    /// A section of sentences.
    pub(crate) fn list(title: impl Into<String>, items: Vec<String>) -> Self {
        Self {
            title: title.into(),
            body: Body::List(items),
        }
    }

    /// Whether it says nothing.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.body {
            Body::Facts(facts) => facts.is_empty(),
            Body::Table(table) => table.rows.is_empty(),
            Body::List(items) => items.is_empty(),
        }
    }
}
