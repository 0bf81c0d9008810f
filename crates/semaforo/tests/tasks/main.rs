//! Tasks: pools, handles, scopes, schedulers.

mod bombs;
mod builder;
mod cancel;
mod chains;
mod concurrency;
mod current_thread;
mod handles;
mod limited;
mod listing;
mod own_scheduler;
mod panics;
mod scopes;
mod shutdown;
mod sleeping;
mod stealing_order;
mod storms;
mod strict_order;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
mod waiting;
