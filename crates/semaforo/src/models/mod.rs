//! Models of the kernel, for two checkers that decide what runs when.
//!
//! A model is a small program: some objects, and a few sides that use them at the same time. Loom
//! runs it in every order that can make a difference (if there are too many, in all those with no
//! more preemptions than the model says) and follows the memory orders and every [`TrackedCell`].
//! Shuttle runs it, and the larger [crowds], in orders drawn at random. Both find deadlocks, hence
//! lost wake-ups.
//!
//! ```text
//! RUSTFLAGS="--cfg loom"    cargo test -p semaforo --lib --release models
//! RUSTFLAGS="--cfg shuttle" cargo test -p semaforo --lib --release models
//! ```
//!
//! There is no time in a model, but there is the timer: what is in it is due when the model says so
//! ([`time_passes`]). A thread that would sleep until a deadline finds that it has come.
//!
//! Every model ends with the accounts: nobody waits, and nothing is lost or gained.
//!
//! [`TrackedCell`]: crate::primitive::TrackedCell

mod accounts;
mod barging;
mod barging_conditions;
mod barriers;
mod cancellation;
mod checker;
mod choices;
mod closing;
mod conditions;
mod deferring;
mod dormancy;
mod exchanges;
mod grants;
mod hand_offs;
mod joining;
mod lanes;
mod levels;
mod meetings;
mod phasers;
mod pools;
mod queues;
mod race;
mod ring;
mod rules;
mod scopes;
mod side;
mod suspending;
mod task;
mod time_limits;
mod timer;
mod transfers;
mod tray;
mod witness;

#[cfg(shuttle)]
mod crowds;
