//! Options of the pin route.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use pagetoll_lab::routes::pin::AddressWidth;

/// Which memory is pinned, and whether the kernel's functions are traced.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// With route pin: the shapes of memory: 4K, THP, 2M, 1G, and in the lab 64K, file, 2M-halves, 2M-again, 2M-entries, 2M-single; without this, all. For calibrate also 2M-shifted, 2M-first, 2M-pairs, 2M-straddle, 2M-apart, 2M-each
    #[arg(long, value_name = "F,..", value_delimiter = ',')]
    pub(crate) folio: Vec<String>,
    /// With route pin in the lab: itemises the costs by function, from boots of their own under function_graph
    #[arg(long)]
    pub(crate) trace: bool,
    /// With route pin in the lab: what the IOMMU translates, in bits; 48 are one table more on the way to an entry than 39
    #[arg(long, value_name = "BITS", value_parser = width(), default_value = "39")]
    pub(crate) address_width: AddressWidth,
}

fn width() -> impl TypedValueParser<Value = AddressWidth> {
    PossibleValuesParser::new(["39", "48"]).map(|bits| match bits.as_str() {
        "48" => AddressWidth::Bits48,
        _ => AddressWidth::Bits39,
    })
}
