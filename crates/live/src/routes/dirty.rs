//! The `dirty` route on this host: pages that a guest writes are found by each mechanism, and none may be lost.

mod request;

use pagetoll_backend::{Billed, Context};

use crate::LiveError;
use crate::host;

pub(crate) use request::Request;

/// Bills the route on this host.
///
/// # Errors
/// Something missing on the host that every row needs, a failed guest, or a stop.
pub(crate) fn bill(_request: &Request, _context: &Context<'_>) -> Result<Billed, LiveError> {
    host::check_kvm()?;
    Err(LiveError::environment(
        "route dirty: not measured on this host yet",
        "order another route",
    ))
}
