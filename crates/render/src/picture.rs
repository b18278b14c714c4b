//! Bars and plots, as pages and pictures draw them.

pub(crate) mod bars;
pub(crate) mod palette;
pub(crate) mod plot;
