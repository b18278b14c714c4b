//! Saved bills in bounded memory.

use pagetoll_units::budget::check_json;
use serde::de::{DeserializeOwned, Error as _};

/// Reads a bill, or what holds bills, from JSON that anybody may have written.
///
/// # Errors
/// No JSON, another form, or more values than a document of its size may have.
pub fn from_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    check_json(json).map_err(serde_json::Error::custom)?;
    serde_json::from_slice(json)
}
