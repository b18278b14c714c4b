//! What this host's KVM and userfaultfd can do.

use crate::LiveError;
/// Whether anything can be billed here at all.
///
/// # Errors
/// What is missing, and what to do about it.
pub fn check() -> Result<(), LiveError> { Ok(()) }
