//! The journal: what is remembered, and what a crash, a full disk or a flipped bit can do to it.

mod crashes;
mod damage;
mod directories;
mod durability;
mod files;
mod golden;
mod ledger;
mod simulation;
mod snapshots;
mod space;
