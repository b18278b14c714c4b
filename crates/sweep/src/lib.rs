//! Many bills from one plan: a matrix of orders becomes jobs, each with an id that follows from all that its bill follows
//! from, and a folder keeps their bills. Also the search for the first bad one of a range. Runs nothing itself.

#![forbid(unsafe_code)]

pub mod bisect;
pub mod job;
pub mod plan;
pub mod store;

pub use job::{Input, Job, JobId};
pub use plan::{Plan, PlanError, Settings};
pub use store::{Store, StoreError};
