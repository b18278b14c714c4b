//! Drafts of bills of this host.

use std::collections::BTreeMap;

use pagetoll_bill::{Backend, Bill, Draft, Evidence, HostLoad, Inputs, Order, Route, Row, Unit};

use super::load::busy_note;
use super::{SHADOW_PAGING, recording, stack};

/// Times of this host, with a note where it was busy.
pub fn draft(
    route: Route,
    stack: BTreeMap<String, String>,
    order: &Order,
    rows: Vec<Row>,
    notes: impl IntoIterator<Item = String>,
    load: HostLoad,
) -> Draft {
    Draft {
        backend: Backend::Live,
        route,
        unit: Unit::Nanoseconds,
        evidence: Evidence::Measured,
        stack,
        order: order.clone(),
        rows,
        notes: notes.into_iter().chain(busy_note(load)).collect(),
        inputs: Inputs {
            host_load: Some(load),
            ..Inputs::default()
        },
    }
}

/// Times of guests on this host. Where it has no hardware virtualisation, the stack names the kind of KVM, and a note says
/// its limit.
pub fn guest_draft(
    route: Route,
    order: &Order,
    rows: Vec<Row>,
    notes: impl IntoIterator<Item = String>,
    load: HostLoad,
) -> Draft {
    let mut stack = stack();
    let mut limit = None;
    if !recording::kvm_is_hardware() {
        stack.insert("kvm".to_owned(), Bill::SHADOW_PAGING.to_owned());
        limit = Some(SHADOW_PAGING.to_owned());
    }
    let notes = limit.into_iter().chain(notes);
    draft(route, stack, order, rows, notes, load)
}
