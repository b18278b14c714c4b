//! Options of the pin route.

use clap::Args;

/// Which memory is pinned, and whether the kernel's functions are traced.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// With route pin: the shapes of memory: 4K, THP, 2M, 1G, and in the lab 64K, file, 2M-halves, 2M-again, 2M-entries, 2M-single; without this, all
    #[arg(long, value_name = "F,..", value_delimiter = ',')]
    pub(crate) folio: Vec<String>,
    /// With route pin in the lab: itemises the costs by function, from boots of their own under function_graph
    #[arg(long)]
    pub(crate) trace: bool,
}
