//! Reasons why the engine did not run a scenario.

use pagetoll_engine::{RunError, SetupError, SpawnError};
use thiserror::Error;

/// Reason why the engine did not run a scenario.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EngineError {
    /// The engine cannot be built so.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A thread or vCPU cannot be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The threads wait for each other for ever, or the model misuses the engine.
    #[error(transparent)]
    Run(#[from] RunError),
}
