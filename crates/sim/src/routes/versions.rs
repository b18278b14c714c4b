//! Versions that a cost table was counted on, beside those that the models are of.
//!
//! A model does what one version does; a table of another version prices steps that its kernel may not take.

use pagetoll_bill::RouteMechanism;
use pagetoll_bill::route::sim::Pin;
use pagetoll_cost::CostTable;

/// The Linux whose lazy MMU mode, `set_pte` and context switch the models are of.
const LINUX: &str = "6.1";
/// The Xen whose conformance cases the models answer alike.
const XEN: &str = "4.17";

/// A warning for each component of which the table was counted on another version than the models of Xen PV are of.
pub(crate) fn warnings(costs: &CostTable) -> Vec<String> {
    let of = |component, name, modelled: &str, consequence: &str| {
        let counted = costs.stack.get(component)?;
        (!is_release_of(counted, modelled)).then(|| {
            format!(
                "warning: cost table {} was counted on {name} {counted}, the model does what {name} {modelled} does: \
                 {consequence}",
                costs.name
            )
        })
    };
    let linux = of(
        "linux",
        "Linux",
        LINUX,
        "what a mechanism gathers or reads may differ (row lazy most of all)",
    );
    let xen = of("xen", "Xen", XEN, "what a hypercall does may differ");
    linux.into_iter().chain(xen).collect()
}

/// The first Linux that pins folio by folio.
const PER_FOLIO: (u32, u32) = (6, 18);

/// A warning where a mechanism of the order is not what the table's kernel does.
pub(crate) fn pin_warning(costs: &CostTable, mechanism: Pin) -> Option<String> {
    let counted = costs.stack.get("linux")?;
    let release = release(counted)?;
    let (by_page, since) = if release < PER_FOLIO {
        (true, "before")
    } else {
        (false, "from")
    };
    let takes = match mechanism {
        Pin::PerFolio if by_page => "per-page",
        Pin::PerPage if !by_page => "per-folio",
        Pin::PerFolio | Pin::PerPage | Pin::PerBatch | Pin::Range => return None,
    };
    Some(format!(
        "warning: cost table {} was counted on Linux {counted}, which pins {takes} (as all {since} 6.18): row {} is \
         priced by steps of that kernel and by figures that it assumes",
        costs.name,
        mechanism.properties().name
    ))
}

/// Returns whether a version is of a release: `6.1.192` of `6.1`, `6.18.15` not.
fn is_release_of(version: &str, of: &str) -> bool {
    release(version).is_some() && release(version) == release(of)
}

fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-', '+']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(linux: &str) -> CostTable {
        let text = format!(
            "name = \"t\"\nsummary = \"t\"\nunit = \"instructions\"\n[stack]\nlinux = \"{linux}\"\nxen = \"4.17.7\"\n[figure]\n"
        );
        CostTable::parse("t", &text).unwrap()
    }

    #[test]
    fn a_table_of_another_kernel_is_warned_of() {
        assert_eq!(warnings(&table("6.1.192")), Vec::<String>::new());
        let [warning] = &warnings(&table("7.3.4"))[..] else {
            panic!("expected one warning");
        };
        assert!(warning.contains("counted on Linux 7.3.4") && warning.contains("lazy"));
        assert_eq!(warnings(&table("6.18.15")).len(), 1, "6.18 is not 6.1");
    }

    #[test]
    fn a_mechanism_that_the_tables_kernel_lacks_is_warned_of() {
        let warned = |linux, mechanism| pin_warning(&table(linux), mechanism).is_some();
        assert!(warned("6.18.15", Pin::PerPage) && warned("6.17.13", Pin::PerFolio));
        assert!(!warned("6.18.15", Pin::PerFolio) && !warned("6.17.13", Pin::PerPage));
        assert!(!warned("6.18.15", Pin::PerBatch), "no kernel does that");
    }
}
