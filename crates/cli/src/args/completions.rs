//! Arguments of `completions`.

use clap::Args;
use clap_complete::Shell;

pub(super) const EXAMPLES: &str = "\
Examples:
  source <(pagetoll completions bash)
      Complete in this shell
  pagetoll completions bash > ~/.local/share/bash-completion/completions/pagetoll
  pagetoll completions zsh > ~/.zfunc/_pagetoll
  pagetoll completions fish > ~/.config/fish/completions/pagetoll.fish
      Complete in every new shell";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    pub(crate) shell: Shell,
}
