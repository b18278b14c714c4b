//! Some of a bill's rows, in few words.

use pagetoll_bill::Method;
use pagetoll_bill::row::RowKey;

use crate::unique::unique;

/// Rows of a mechanism that are written out before the others are a number.
const MOST: usize = 3;

/// `all 16 rows`, or `emulate, preserve-ad at 32 512`: which rows `some` of `all` are, kernel by kernel where there are
/// several.
pub(crate) fn named(all: &[&RowKey], some: &[&RowKey]) -> String {
    if some.len() == all.len() {
        return whole(all);
    }
    let kernels = unique(all.iter().map(|key| key.kernel.as_deref()));
    if kernels.len() < 2 {
        return by_method(all, some);
    }
    let parts = kernels.into_iter().filter_map(|kernel| {
        let (all, some) = (on(kernel, all), on(kernel, some));
        let name = kernel.unwrap_or("no kernel of its own");
        match some.len() {
            0 => None,
            every if every == all.len() => Some(format!("{} of {name}", whole(&all))),
            _ => Some(format!("{} of {name}", by_method(&all, &some))),
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn whole(all: &[&RowKey]) -> String {
    match all.len() {
        1 => "the only row".to_owned(),
        rows => format!("all {rows} rows"),
    }
}

fn on<'a>(kernel: Option<&str>, keys: &[&'a RowKey]) -> Vec<&'a RowKey> {
    let on_it = keys.iter().filter(|key| key.kernel.as_deref() == kernel);
    on_it.copied().collect()
}

fn by_method(all: &[&RowKey], some: &[&RowKey]) -> String {
    let mut methods = unique(some.iter().map(|key| key.method));
    methods.sort_by_key(|method| method.name());
    let places = methods.iter().map(|method| {
        let by_it = |keys: &[&RowKey]| -> Vec<RowKey> {
            let keys = keys.iter().filter(|key| key.method == *method);
            keys.map(|key| key.on_any_kernel()).collect()
        };
        rows_of_method(*method, &by_it(all), &by_it(some))
    });
    let places: Vec<_> = places.collect();
    // A row in words has commas.
    let has_commas = places.iter().any(|place| place.contains(','));
    places.join(if has_commas { "; " } else { ", " })
}

/// `preserve-ad`, `preserve-ad at 32 512`, or the rows in words where they differ in more than their batches.
fn rows_of_method(method: Method, all: &[RowKey], some: &[RowKey]) -> String {
    if all.len() == some.len() {
        return method.to_string();
    }
    if unique(all.iter().map(|key| key.clone().at_batch(1))).len() == 1 {
        let batches: Vec<_> = some.iter().map(|key| key.batch.to_string()).collect();
        return format!("{method} at {}", batches.join(" "));
    }
    let keys = some.iter().take(MOST).map(ToString::to_string);
    let keys = keys.collect::<Vec<_>>().join("; ");
    match some.len().saturating_sub(MOST) {
        0 => keys,
        more => format!("{keys}; and {more} more of {method}"),
    }
}

#[cfg(test)]
mod tests {
    use pagetoll_bill::route::Unmap;
    use pagetoll_bill::{Operation, System};

    use super::*;

    fn key(method: Unmap, batch: u32, kernel: Option<&str>) -> RowKey {
        RowKey {
            batch,
            kernel: kernel.map(str::to_owned),
            ..RowKey::new(Operation::Clear, method, System::XenPvDom0)
        }
    }

    fn said(all: &[RowKey], some: &[usize]) -> String {
        let some: Vec<_> = some.iter().map(|index| &all[*index]).collect();
        named(&all.iter().collect::<Vec<_>>(), &some)
    }

    #[test]
    fn mechanisms_are_named_and_batches_where_not_all_are_meant() {
        let all = [(Unmap::Emulate, 1), (Unmap::Lazy, 1), (Unmap::Lazy, 32)];
        let all = all.map(|(method, batch)| key(method, batch, None));
        assert_eq!(said(&all, &[0, 1, 2]), "all 3 rows");
        assert_eq!(said(&all, &[0, 2]), "emulate, lazy at 32");
        assert_eq!(said(&all, &[1, 2]), "lazy");
    }

    #[test]
    fn kernels_are_named_where_there_are_several() {
        let all = [
            key(Unmap::Emulate, 1, Some("6.17")),
            key(Unmap::Lazy, 1, Some("6.17")),
            key(Unmap::Emulate, 1, Some("6.18")),
            key(Unmap::Lazy, 1, Some("6.18")),
        ];
        assert_eq!(said(&all, &[0, 1]), "all 2 rows of 6.17");
        assert_eq!(said(&all, &[0, 1, 3]), "all 2 rows of 6.17; lazy of 6.18");
    }
}
